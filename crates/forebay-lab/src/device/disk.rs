//! A rotating disk: one arm, one spindle, a write-back cache (spec/workloads.md 5.1).
//!
//! The medium does one thing at a time and takes `seek + half a turn + bytes / rate` for it, or
//! only `bytes / rate` if the request goes on where the arm is and had come by then; a short gap
//! ahead passes under the head in its own time. A read ends when the medium is done, plus the
//! overhead of a command. A write ends when it is in the cache, which the arm empties in ascending
//! order; when the cache is full, a write waits for room in it, so that in the long run writes are
//! as fast as the medium. What is in the cache when a sweep begins is written in that sweep, and
//! what comes later waits for the next, so a page far from a stream does not wait until the stream
//! ends. The medium prefers reads while the cache has room, and goes only by address when it has
//! none.

use super::drive::{Command, Drive, span_of};
use super::settings::DiskSettings;
use super::transfer::TransferKind;
use forebay_base::{Instant, Prng, Span};
use std::collections::{BTreeMap, VecDeque};

/// A rotating disk.
#[derive(Debug)]
pub(crate) struct Disk {
    settings: DiskSettings,
    chance: Prng,
    /// Where the arm is: the end of what the medium did last.
    arm_bytes: u64,
    doing: Option<Doing>,
    reads: Sweep,
    /// Writes that have ended for their submitter and are not on the medium: those of this sweep,
    /// and those of the next.
    cached: Sweep,
    cached_next: Sweep,
    /// With the one that the medium is writing.
    cached_bytes: u64,
    next_sequence: u64,
    /// Writes that wait for room in the cache.
    writes: VecDeque<Command>,
    flush: VecDeque<Command>,
    /// Commands whose overhead is under way, oldest first.
    answers: VecDeque<(Instant, u32)>,
    /// When the electronics are done with the last answer.
    answered_at: Instant,
}

/// Commands by where they start and then by age.
type Sweep = BTreeMap<(u64, u64), Command>;

/// What the medium is doing, and until when.
#[derive(Clone, Copy, Debug)]
struct Doing {
    until: Instant,
    work: MediumWork,
}

#[derive(Clone, Copy, Debug)]
enum MediumWork {
    Read(Command),
    /// A write that ended for its submitter long ago.
    Drain(Command),
    /// A write to a disk without a cache.
    Write(Command),
    Flush(Command),
}

impl Disk {
    pub(crate) fn new(settings: DiskSettings, chance: Prng) -> Disk {
        Disk {
            settings,
            chance,
            arm_bytes: 0,
            doing: None,
            reads: Sweep::new(),
            cached: Sweep::new(),
            cached_next: Sweep::new(),
            cached_bytes: 0,
            next_sequence: 0,
            writes: VecDeque::new(),
            flush: VecDeque::new(),
            answers: VecDeque::new(),
            answered_at: Instant::ZERO,
        }
    }

    /// Time that the medium takes for `command`, which had or had not come when the medium was last
    /// done.
    fn medium_span(&mut self, command: &Command, was_asked: bool) -> Span {
        let settings = &self.settings;
        let moved = span_of(command.length_bytes, settings.rate_at(command.start_bytes));
        if was_asked && command.start_bytes == self.arm_bytes {
            return moved;
        }
        let distance = command.start_bytes.abs_diff(self.arm_bytes);
        let seek = settings.seek_span(distance);
        let settle = match command.kind {
            TransferKind::Write => Span::from_micros(settings.write_settle_us),
            _ => Span::ZERO,
        };
        let turn = settings.turn_span();
        let rotation = if settings.rotation_is_drawn {
            Span::from_nanos(self.chance.below(turn.as_nanos().max(1)))
        } else {
            Span::from_nanos(turn.as_nanos() / 2)
        };
        let jump = seek + settle + rotation;
        // A short gap ahead is waited out on its track, as fast as it could have been written.
        let is_ahead = was_asked && command.start_bytes > self.arm_bytes;
        let pass = span_of(distance, settings.rate_at(command.start_bytes));
        let arrival = if is_ahead { jump.min(pass) } else { jump };
        arrival + moved
    }

    /// Moves writes into the cache as far as it has room.
    fn fill_cache(&mut self, now: Instant) {
        if self.settings.write_cache_bytes == 0 || !self.flush.is_empty() {
            return;
        }
        while let Some(write) = self.writes.front() {
            let after = self.cached_bytes + write.length_bytes;
            // A write larger than the cache has it to itself.
            if after > self.settings.write_cache_bytes && self.cached_bytes > 0 {
                return;
            }
            let write = self.writes.pop_front().expect("it has a front");
            self.cached_bytes = after;
            self.next_sequence += 1;
            self.cached_next
                .insert((write.start_bytes, self.next_sequence), write);
            self.answer(write.tag, now);
        }
    }

    /// The command ends after its overhead, behind the answers before it.
    fn answer(&mut self, tag: u32, now: Instant) {
        let overhead = Span::from_micros(self.settings.overhead_us);
        self.answered_at = self.answered_at.max(now) + overhead;
        self.answers.push_back((self.answered_at, tag));
    }

    /// Gives the medium something to do. It has just finished something else, or was idle.
    fn begin(&mut self, now: Instant, was_idle: bool) {
        let Some(work) = self.choose() else {
            return;
        };
        let span = match work {
            MediumWork::Read(command) => {
                let overhead = Span::from_micros(self.settings.overhead_us);
                self.medium_span(&command, !was_idle) + overhead
            }
            MediumWork::Drain(command) | MediumWork::Write(command) => {
                self.medium_span(&command, !was_idle)
            }
            MediumWork::Flush(_) => Span::from_micros(self.settings.flush_us),
        };
        self.doing = Some(Doing {
            until: now + span,
            work,
        });
    }

    fn choose(&mut self) -> Option<MediumWork> {
        if !self.flush.is_empty() {
            if let Some(command) = self.take_cached() {
                return Some(MediumWork::Drain(command));
            }
            return self.flush.pop_front().map(MediumWork::Flush);
        }
        if self.settings.write_cache_bytes == 0 {
            return self.choose_uncached();
        }
        if self.writes.is_empty() {
            // The cache has room.
            if let Some(command) = take_upwards(&mut self.reads, self.arm_bytes) {
                return Some(MediumWork::Read(command));
            }
            return self.take_cached().map(MediumWork::Drain);
        }
        self.begin_sweep();
        if is_nearer(&self.reads, &self.cached, self.arm_bytes) {
            return take_upwards(&mut self.reads, self.arm_bytes).map(MediumWork::Read);
        }
        self.take_cached().map(MediumWork::Drain)
    }

    /// The next sweep begins when this one is over.
    fn begin_sweep(&mut self) {
        if self.cached.is_empty() {
            std::mem::swap(&mut self.cached, &mut self.cached_next);
        }
    }

    fn choose_uncached(&mut self) -> Option<MediumWork> {
        if let Some(command) = take_upwards(&mut self.reads, self.arm_bytes) {
            return Some(MediumWork::Read(command));
        }
        self.writes.pop_front().map(MediumWork::Write)
    }

    fn take_cached(&mut self) -> Option<Command> {
        self.begin_sweep();
        take_upwards(&mut self.cached, self.arm_bytes)
    }

    /// The medium has finished `doing`.
    fn conclude(&mut self, doing: Doing, ended: &mut Vec<u32>) {
        let (MediumWork::Read(command)
        | MediumWork::Drain(command)
        | MediumWork::Write(command)
        | MediumWork::Flush(command)) = doing.work;
        if command.kind != TransferKind::Flush {
            self.arm_bytes = command.end_bytes();
        }
        match doing.work {
            MediumWork::Drain(command) => self.cached_bytes -= command.length_bytes,
            MediumWork::Write(command) => self.answer(command.tag, doing.until),
            MediumWork::Read(command) | MediumWork::Flush(command) => ended.push(command.tag),
        }
    }

    fn report_answered(&mut self, now: Instant, ended: &mut Vec<u32>) {
        while let Some(&(at, tag)) = self.answers.front()
            && at <= now
        {
            self.answers.pop_front();
            ended.push(tag);
        }
    }
}

impl Drive for Disk {
    fn depth(&self) -> usize {
        self.settings.depth as usize
    }

    fn accept(&mut self, command: Command, now: Instant) {
        match command.kind {
            TransferKind::Read => {
                self.next_sequence += 1;
                self.reads
                    .insert((command.start_bytes, self.next_sequence), command);
            }
            TransferKind::Write => self.writes.push_back(command),
            TransferKind::Flush => self.flush.push_back(command),
        }
        self.fill_cache(now);
        if self.doing.is_none() {
            self.begin(now, true);
        }
    }

    fn next_event(&self) -> Instant {
        let medium = self.doing.map_or(Instant::NEVER, |doing| doing.until);
        let answer = self.answers.front().map_or(Instant::NEVER, |&(at, _)| at);
        medium.min(answer)
    }

    fn advance(&mut self, now: Instant, ended: &mut Vec<u32>) {
        while let Some(doing) = self.doing
            && doing.until <= now
        {
            self.doing = None;
            self.conclude(doing, ended);
            self.fill_cache(doing.until);
            self.begin(doing.until, false);
        }
        self.report_answered(now, ended);
    }
}

/// Takes the next command at or above `from`; if there is none, the lowest.
fn take_upwards(queue: &mut Sweep, from: u64) -> Option<Command> {
    let key = next_upwards(queue, from)?;
    queue.remove(&key)
}

fn next_upwards(queue: &Sweep, from: u64) -> Option<(u64, u64)> {
    let above = queue.range((from, 0)..).next();
    let next = above.or_else(|| queue.iter().next())?;
    Some(*next.0)
}

/// Whether a sweep upwards from `from` meets one of `these` before one of `those`.
fn is_nearer(these: &Sweep, those: &Sweep, from: u64) -> bool {
    let swept = |queue| next_upwards(queue, from).map(|(start, _)| start.wrapping_sub(from));
    match (swept(these), swept(those)) {
        (Some(this), Some(that)) => this <= that,
        (this, _) => this.is_some(),
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
