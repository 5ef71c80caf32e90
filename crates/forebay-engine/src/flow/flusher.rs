//! A store's writer: it writes when too much is dirty, when something is old, when reclaim asks.
//!
//! Spec/writeback.md 7.3 and 7.4. Objects take turns. A turn is about half a second of the store's
//! bandwidth, so that neither many small files nor one large one delays the others.

use crate::event::{Event, WritebackReason};
use crate::flow::side_by_side::side_by_side;
use crate::flow::turn_commits::{TurnPages, WrittenTurn};
use crate::flow::writeout::Selection;
use crate::marks::Mark;
use crate::parts::Flusher;
use crate::state::activity::Part;
use crate::state::backing::Backing;
use crate::state::dirty_index::Tag;
use crate::state::flusher_requests::AfterRound;
use crate::state::object::{ObjectState, QueuePlace};
use crate::state::stamp::Stamp;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::{Instant, Span};
use forebay_law::chunk::write_chunk;
use forebay_rt::Work;
use forebay_rt::wait::either;
use forebay_store::Durability;
use std::ops::Range;
use std::sync::Arc;

/// How long one look at the lists may take before the thresholds are checked again.
const SLICE: Span = Span::from_millis(100);
/// How long a flusher rests when every page that is left to write is held, is under way or waits
/// for its time, unless a write ends or a caller asks for work. A page that is being copied to is
/// free in a moment, and a guard may be held for a long time.
const REST_MS: Range<u64> = 1..100;
/// Commits at the end of a pass that are under way at a time.
const COMMITS: usize = 16;
/// Commits of an unstable store that begin during a turn.
const COMMITS_OF_A_TURN: u64 = 8;
/// Units of the store that a commit beside the writes covers at least.
const COMMIT_UNITS: u64 = 8;

/// One piece of work.
#[derive(Debug)]
struct Round {
    reason: WritebackReason,
    /// Pages that it may still write.
    pages_left: u64,
    /// Objects that became dirty later are left for another time.
    dirty_since_ms: Option<u64>,
    /// The round is a pass that began then: it writes what was dirty then, and all of that.
    pass: Option<Stamp>,
    /// The last turn of an unstable store, if its commit was not waited for yet.
    owed: Option<WrittenTurn>,
}

/// Rounds since the last one that wrote something.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    in_vain: u32,
}

impl Rounds {
    fn note(&mut self, progress: u64) {
        self.in_vain = if progress > 0 {
            0
        } else {
            self.in_vain.saturating_add(1)
        };
    }

    /// Twice as long after each round that wrote nothing.
    fn rest(self) -> Span {
        // One more than the logarithm, so that the last doubling reaches the end, which need not be
        // a power of two.
        let most = REST_MS.end.ilog2() + 1;
        let doublings = self.in_vain.saturating_sub(1).min(most);
        Span::from_millis((REST_MS.start << doublings).min(REST_MS.end))
    }
}

/// How a turn of one object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Clean,
    /// Dirty pages are left that could be written now.
    More,
    /// Dirty pages are left that are held, or that have to wait.
    Blocked,
}

/// What a turn writes: up to `limit` pages from `first_page` on, and round the end of the object.
struct TurnPlan {
    first_page: u64,
    limit: u64,
    /// After so many pages it looks whether a commit is worth while.
    step_pages: u64,
}

impl Flusher {
    /// The life of the flusher of `backing`.
    pub(crate) async fn flusher(self: Arc<Self>, backing: Arc<Backing>) {
        let mut last_old_flush = self.rt.now();
        let mut rounds = Rounds::default();
        while !self.accounts.is_closing() {
            rounds.note(self.flush_rounds(&backing, &mut last_old_flush).await);
            self.flusher_rests(&backing, last_old_flush, &rounds).await;
        }
    }

    async fn flush_rounds(&self, backing: &Arc<Backing>, last_old_flush: &mut Instant) -> u64 {
        let mut progress = self.flush_as_asked(backing).await;
        if let Some(at_risk) = self.knobs.at_risk() {
            return progress + self.flush_by_age(backing, at_risk).await;
        }
        let interval = self.knobs.writeback_interval();
        let now = self.rt.now();
        let is_due = interval != Span::ZERO && now.since(*last_old_flush) >= interval;
        if is_due && !lock(&backing.flushing.lists).is_empty() {
            *last_old_flush = now;
            progress += self
                .flush_round(backing, WritebackReason::Periodic, u64::MAX)
                .await;
        }
        if self.dirty.is_over_background(backing) {
            progress += self
                .flush_round(backing, WritebackReason::Background, u64::MAX)
                .await;
        }
        progress
    }

    /// What callers asked for, and failed writes that are due again.
    async fn flush_as_asked(&self, backing: &Arc<Backing>) -> u64 {
        let mut progress = 0;
        let work = backing.flushing.requests.take();
        if work.all || work.retry || work.pages > 0 {
            let is_all = work.all || work.retry;
            let pages = if is_all { u64::MAX } else { work.pages };
            let reason = WritebackReason::Vmscan;
            progress += self.flush_round(backing, reason, pages).await;
        }
        if self.is_retry_due(backing) {
            progress += self
                .flush_round(backing, WritebackReason::Periodic, u64::MAX)
                .await;
        }
        progress
    }

    /// A pass, if one is due: what is dirty now is written and committed, and nothing that becomes
    /// dirty meanwhile (the law `at_risk`).
    async fn flush_by_age(&self, backing: &Arc<Backing>, at_risk: Span) -> u64 {
        let since = self.dirty.oldest_of(backing).not_durable();
        self.dirty.note_oldest(backing, since, at_risk);
        let is_due = since.is_some_and(|since| self.dirty.is_pass_due(since, at_risk));
        let reason = if is_due {
            WritebackReason::Periodic
        } else if self.dirty.is_over_background(backing) {
            WritebackReason::Background
        } else {
            return 0;
        };
        let progress = self.carry_out(backing, self.pass(reason)).await;
        self.commit_written(backing).await;
        progress
    }

    /// Asks for commits of all objects of which something was written, and waits for them.
    async fn commit_written(&self, backing: &Arc<Backing>) {
        if backing.geometry.durability != Durability::OnCommit {
            return;
        }
        let sequences = 0..backing.next_sequence();
        let mut objects = self.pages.objects.all();
        objects.retain(|object| {
            let is_own =
                !object.is_anonymous() && self.dirty.backing_of(object).number == backing.number;
            is_own
                && (backing.changes_to_commit(object).is_some()
                    || backing.has_writes(object.number, sequences.clone()))
        });
        let commits = objects.into_iter().map(|object| async {
            let turn = WrittenTurn::of(object, sequences.clone(), u64::MAX);
            self.writeback.commit_turn(backing, turn).await;
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = side_by_side(COMMITS, commits).await;
    }

    /// Whether failed writes are due to be tried again.
    fn is_retry_due(&self, backing: &Backing) -> bool {
        let first = lock(&backing.flushing.lists).first_due_ms();
        first.is_some_and(|due_ms| due_ms <= self.accounts.now_ms())
    }

    /// Sleeps until there may be something to do. A caller that asks for work from now on wakes it.
    async fn flusher_rests(&self, backing: &Backing, last_old_flush: Instant, rounds: &Rounds) {
        let ended = backing.writes.ended.listen();
        let asked = backing.flushing.requests.listen();
        let had_objects = self.drop_written(backing) || rounds.in_vain == 0;
        if self.accounts.is_closing() {
            return;
        }
        match backing.flushing.requests.after_round(rounds.in_vain > 0) {
            AfterRound::Again => return,
            AfterRound::RestInVain => {
                let _ = self.rt.timeout(rounds.rest(), either(asked, ended)).await;
                return;
            }
            AfterRound::Rest => {}
        }
        // If it had objects lately it looks again at the next interval, though it has none now. So
        // the first object of that time need not wake it: the file of a caller that writes and
        // syncs over and over is dirty for the first time each time.
        // Read once, because it may be changed meanwhile: the bound that B3 asks for must be the
        // one that is waited for.
        let next = self.next_look(backing, last_old_flush, *rounds);
        let looks_again = had_objects && next.is_some_and(|next| next > self.rt.now());
        let is_empty = lock(&backing.flushing.lists).arm(looks_again);
        if is_empty && !looks_again {
            asked.await;
        } else if self.dirty.is_over_background(backing) && rounds.in_vain == 0 {
            self.rt.yield_now().await;
        } else if self.dirty.is_over_background(backing) {
            let _ = self.rt.timeout(rounds.rest(), either(asked, ended)).await;
        } else {
            match next.into_iter().chain(first_due(backing)).min() {
                Some(next) => {
                    let _ = self.accounts.until(next, asked).await;
                }
                None => asked.await,
            }
        }
    }

    /// When the flusher looks again by itself, at old dirty pages or at the age of bytes. After a
    /// round in vain it rests first.
    fn next_look(
        &self,
        backing: &Backing,
        last_old_flush: Instant,
        rounds: Rounds,
    ) -> Option<Instant> {
        let Some(at_risk) = self.knobs.at_risk() else {
            let interval = self.knobs.writeback_interval();
            let next = (interval != Span::ZERO).then(|| last_old_flush + interval);
            let early = self.dirty.is_measured_early(backing);
            let early = early.then(|| self.rt.now() + SLICE.max(rounds.rest()));
            return next.into_iter().chain(early).min();
        };
        let now = self.rt.now();
        // What becomes dirty meanwhile is found long before it is due.
        let soon = now + Span::from_millis(at_risk.as_millis() / 4);
        let since = self.dirty.oldest_of(backing).not_durable();
        let due = since.map_or(soon, |since| self.dirty.pass_due(since, at_risk));
        Some(due.max(now + rounds.rest()))
    }

    /// Writes at most `pages` pages for `reason`.
    async fn flush_round(
        &self,
        backing: &Arc<Backing>,
        reason: WritebackReason,
        pages: u64,
    ) -> u64 {
        let now_ms = self.accounts.now_ms();
        let round = Round {
            reason,
            pass: None,
            owed: None,
            pages_left: match reason {
                WritebackReason::Background => u64::MAX,
                _ => self.pages_to_clean(backing).min(pages),
            },
            dirty_since_ms: match reason {
                WritebackReason::Periodic => {
                    now_ms.checked_sub(self.knobs.dirty_expire().as_millis())
                }
                _ => Some(now_ms),
            },
        };
        self.carry_out(backing, round).await
    }

    /// A pass that begins now.
    fn pass(&self, reason: WritebackReason) -> Round {
        let now_ms = self.accounts.now_ms();
        Round {
            reason,
            pages_left: u64::MAX,
            dirty_since_ms: Some(now_ms),
            pass: Some(Stamp::at(now_ms)),
            owed: None,
        }
    }

    async fn carry_out(&self, backing: &Arc<Backing>, mut round: Round) -> u64 {
        let reason = round.reason;
        self.accounts.record(&Event::WritebackStart {
            bdi: backing.number,
            reason,
        });
        self.dirty.skip_idle_gap(backing);
        let at_work = self.dirty.at_work(backing, Part::Round);
        let mut written = 0;
        while round.pages_left > 0 && !self.accounts.is_closing() && self.goes_on(backing, &round) {
            let progress = self.write_objects(backing, &mut round).await;
            written += progress;
            if progress == 0 {
                break;
            }
        }
        self.writeback.commit_owed(backing, &mut round.owed).await;
        drop(at_work);
        self.accounts.record(&Event::WritebackWritten {
            bdi: backing.number,
            reason,
            pages: written,
        });
        written
    }

    /// Pages that a round may deal with: all dirty ones, and those of an unstable store that were
    /// written and wait for a commit. Their writer may have given up before it asked for a commit.
    fn pages_to_clean(&self, backing: &Backing) -> u64 {
        let dirty = self.dirty.global.dirty.load(Ordering::Relaxed);
        match backing.geometry.durability {
            Durability::Unstable => dirty + backing.counts.writeback.load(Ordering::Relaxed),
            Durability::OnFinish | Durability::OnCommit => dirty,
        }
    }

    fn goes_on(&self, backing: &Backing, round: &Round) -> bool {
        match round.reason {
            // A pass has an end, and is whole.
            _ if round.pass.is_some() => true,
            WritebackReason::Background => {
                !backing.flushing.requests.wants_all() && self.dirty.is_over_background(backing)
            }
            WritebackReason::Periodic => !backing.flushing.requests.wants_all(),
            _ => true,
        }
    }

    /// Gives the objects of this round their turns, for a slice of time.
    async fn write_objects(&self, backing: &Arc<Backing>, round: &mut Round) -> u64 {
        let began = self.rt.now();
        let is_new =
            lock(&backing.flushing.lists).fill_round(self.accounts.now_ms(), round.dirty_since_ms);
        if is_new {
            self.charge_steps(backing).await;
        }
        let mut progress = 0;
        while round.pages_left > 0 && !self.accounts.is_closing() {
            let Some(object) = take_object(backing) else {
                break;
            };
            let mut taken = Taken::of(self, backing, object);
            let (written, turn) = self.write_object(backing, &taken.object, round).await;
            taken.turn = turn;
            drop(taken);
            round.pages_left = round.pages_left.saturating_sub(written);
            progress += written + u64::from(turn == Turn::Clean);
            self.dirty.update_bandwidth(backing);
            if written > 0 {
                self.rt.charge(Work::Inode { files: 1 }).await;
            }
            if round.reason == WritebackReason::Foreground {
                self.charge_foreground(backing, written).await;
            }
            if written > 0 && self.rt.now().since(began) > SLICE {
                break;
            }
        }
        progress
    }

    /// Writes about `pages` pages of the store's oldest objects for a throttled writer (Linux
    /// before 3.2). Returns how many.
    pub async fn write_for_writer(&self, backing: &Arc<Backing>, pages: u64) -> u64 {
        let _at_work = self.dirty.at_work(backing, Part::Round);
        let mut round = Round {
            reason: WritebackReason::Foreground,
            pages_left: pages,
            dirty_since_ms: Some(self.accounts.now_ms()),
            pass: None,
            owed: None,
        };
        while round.pages_left > 0 && !self.accounts.is_closing() {
            if self.write_objects(backing, &mut round).await == 0 {
                break;
            }
        }
        self.writeback.commit_owed(backing, &mut round.owed).await;
        pages - round.pages_left
    }

    /// What writing costs a writer on top of the flusher's own cost: half as much again, and its
    /// turn for the lock of the store's dirty files (spec/workloads.md 6).
    async fn charge_foreground(&self, backing: &Backing, pages: u64) {
        let pages = pages / 2;
        let charge = self.rt.charge(Work::Writeback { pages });
        charge.stepping_under(self.lock_of_files(backing), 1).await;
    }

    /// A new round steps over each file that another is writing.
    async fn charge_steps(&self, backing: &Backing) {
        let steps = backing.flushing.taken.load(Ordering::Relaxed);
        if steps > 0 {
            let charge = self.rt.charge(Work::Writeback { pages: 0 });
            let lock = self.lock_of_files(backing);
            charge.stepping_under(lock, steps).await;
        }
    }

    /// The lock of a store's dirty files.
    fn lock_of_files(&self, backing: &Backing) -> u32 {
        let lists = self.memory.nodes.len() + self.memory.zones.len();
        (lists + backing.number) as u32
    }

    async fn write_object(
        &self,
        backing: &Backing,
        object: &Arc<ObjectState>,
        round: &mut Round,
    ) -> (u64, Turn) {
        let Some(next_page) = self.begin_turn(backing, object) else {
            self.accounts.mark(Mark::FlushPutOff);
            return (0, Turn::Blocked);
        };
        if !has_work_left(backing, object) {
            // The object may be forgotten by now, and its number may belong to another object,
            // whose writes this round must not wait for. An object that has work cannot be
            // forgotten, now that it has its turn.
            lock(&object.queueing).next_page = 0;
            return (0, Turn::Clean);
        }
        let limit = self.turn_pages(backing, round.pages_left);
        let first_sequence = backing.next_sequence();
        let step_pages = self.commit_step(backing);
        let plan = TurnPlan {
            first_page: next_page,
            limit,
            step_pages,
        };
        let (written, next) = self.write_turn(backing, object, plan, round).await;
        let wrote = TurnPages { written, limit };
        lock(&object.queueing).next_page = next;
        if backing.geometry.durability == Durability::Unstable {
            let writes = first_sequence..backing.next_sequence();
            let turn = WrittenTurn::of(object.clone(), writes, step_pages);
            self.writeback
                .turn_is_written(backing, &mut round.owed, turn, wrote)
                .await;
        }
        let turn = match (has_work_left(backing, object), wrote.is_full()) {
            (false, _) => Turn::Clean,
            (true, true) => Turn::More,
            (true, false) => Turn::Blocked,
        };
        (written, turn)
    }

    /// Writes the pages of `plan`. Returns how many pages it wrote, and where the next turn starts.
    async fn write_turn(
        &self,
        backing: &Backing,
        object: &Arc<ObjectState>,
        plan: TurnPlan,
        round: &Round,
    ) -> (u64, u64) {
        let TurnPlan {
            first_page,
            limit,
            step_pages,
        } = plan;
        let step = step_pages.min(limit);
        let mut written = 0;
        for pages in [first_page..u64::MAX, 0..first_page] {
            let mut from = pages.start;
            while from < pages.end {
                if written >= limit {
                    return (written, from);
                }
                let left = dirty(from..pages.end, step.min(limit - written), round);
                let (count, next) = self.writeback.writeout(backing, object, left).await;
                written += count;
                from = next;
                if backing.geometry.durability == Durability::Unstable {
                    self.writeback.commit_beside(backing, object, step);
                }
            }
        }
        (written, 0)
    }

    /// How many written pages of an unstable store are worth a commit beside the writes. They
    /// become free by commits, and a writer at the limit waits for as many as that. A commit cuts
    /// the units in which the store keeps its bytes at both ends, so each one gets some whole ones.
    fn commit_step(&self, backing: &Backing) -> u64 {
        if backing.geometry.durability != Durability::Unstable {
            return u64::MAX;
        }
        let units = COMMIT_UNITS * u64::from(backing.geometry.write_unit_pages);
        let turn_pages = self.turn_pages(backing, u64::MAX);
        turn_pages.div_ceil(COMMITS_OF_A_TURN).max(units)
    }

    /// How many pages of this store a turn writes, if the round has `pages_left`.
    pub fn chunk_pages(&self, backing: &Backing, pages_left: u64) -> u64 {
        let average = lock(&backing.rates).bandwidth.average_pages_per_s;
        write_chunk(average, self.dirty.global.smoothed().limit, pages_left)
    }

    /// The page where the turn of an object starts. None if the object has to wait for its next
    /// try. If that try is due, it begins.
    fn begin_turn(&self, backing: &Backing, object: &ObjectState) -> Option<u64> {
        let mut queueing = lock(&object.queueing);
        let mut dirty = lock(&object.dirty);
        let (now_ms, pardons) = (self.accounts.now_ms(), backing.pardons());
        if queueing.retry.waits(now_ms, pardons, dirty.has_untried()) {
            return None;
        }
        if queueing.retry.due_ms(pardons) <= now_ms {
            queueing.retry.begin_try();
            dirty.retry_refused(&self.pages.slab);
        }
        Some(queueing.next_page)
    }

    /// Takes objects that others have written off the lists, so that nobody looks at them again.
    /// True if there were any.
    fn drop_written(&self, backing: &Backing) -> bool {
        let mut has_dropped = false;
        let first = || lock(&backing.flushing.lists).first().cloned();
        while let Some(object) = first() {
            if has_work_left(backing, &object) || !lock(&backing.flushing.lists).take_first(&object)
            {
                break;
            }
            lock(&object.queueing).place = QueuePlace::Taken;
            self.requeue(backing, &object, Turn::Clean);
            has_dropped = true;
        }
        has_dropped
    }

    /// Puts an object back where its turn left it.
    fn requeue(&self, backing: &Backing, object: &Arc<ObjectState>, turn: Turn) {
        let mut queueing = lock(&object.queueing);
        // A writer that dirtied a page meanwhile left the queueing to the flusher: check again.
        if !has_work_left(backing, object) {
            queueing.place = QueuePlace::None;
            return;
        }
        queueing.place = QueuePlace::Queued;
        let was_empty = if turn == Turn::More || queueing.retry.is_on() {
            let added = backing.add_left(&mut queueing, object, self.accounts.now_ms());
            if added.is_put_off {
                self.accounts.mark(Mark::FlushPutOff);
            }
            added.was_idle
        } else {
            let mut lists = lock(&backing.flushing.lists);
            lists.add_dirty(self.accounts.now_ms(), object.clone());
            // One is there now.
            lists.all().nth(1).is_none()
        };
        if was_empty {
            // A writer that had the object may have let the flusher fall asleep for good.
            backing.flushing.requests.wake();
        }
    }
}

/// An object that has its turn. It goes back to its list, however the turn ends.
struct Taken<'a> {
    flusher: &'a Flusher,
    backing: &'a Backing,
    object: Arc<ObjectState>,
    turn: Turn,
}

impl<'a> Taken<'a> {
    fn of(flusher: &'a Flusher, backing: &'a Backing, object: Arc<ObjectState>) -> Taken<'a> {
        // An object with requests is not forgotten. This comes before the look at what the object
        // has to write, because a caller that forgets it looks at that first.
        object.in_flight.changes.fetch_add(1, Ordering::AcqRel);
        backing.flushing.taken.fetch_add(1, Ordering::Relaxed);
        Taken {
            flusher,
            backing,
            object,
            turn: Turn::More,
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.flusher.requeue(self.backing, &self.object, self.turn);
        self.backing.flushing.taken.fetch_sub(1, Ordering::Relaxed);
        self.object.in_flight.changes.fetch_sub(1, Ordering::AcqRel);
    }
}

/// When the first object that was put off is to be tried again. That goes for a flusher without an
/// interval too, which leaves old pages alone.
fn first_due(backing: &Backing) -> Option<Instant> {
    let due_ms = lock(&backing.flushing.lists).first_due_ms()?;
    Some(Instant::ZERO + Span::from_millis(due_ms))
}

/// Whether an object needs another turn: for dirty pages or, in an unstable store, for pages that
/// no commit has covered yet.
fn has_work_left(backing: &Backing, object: &ObjectState) -> bool {
    let dirty = lock(&object.dirty);
    match backing.geometry.durability {
        Durability::Unstable => !dirty.is_clean(),
        Durability::OnFinish | Durability::OnCommit => dirty.dirty_pages() > 0,
    }
}

fn dirty(pages: Range<u64>, limit: u64, round: &Round) -> Selection {
    Selection {
        tag: Tag::Dirty,
        pages,
        limit,
        is_awaited: false,
        is_synced: false,
        pass: round.pass,
    }
}

fn take_object(backing: &Backing) -> Option<Arc<ObjectState>> {
    let object = lock(&backing.flushing.lists).take_of_round()?;
    lock(&object.queueing).place = QueuePlace::Taken;
    Some(object)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_writes_ends_the_rests_of_rounds_in_vain() {
        let mut rounds = Rounds::default();
        let rests: Vec<Span> = (0..9)
            .map(|_| {
                rounds.note(0);
                rounds.rest()
            })
            .collect();
        let expected = [1, 2, 4, 8, 16, 32, 64, 100, 100];
        assert_eq!(rests, expected.map(Span::from_millis));
        rounds.note(1);
        assert_eq!(rounds.in_vain, 0);
        rounds.note(0);
        assert_eq!(rounds.rest(), Span::from_millis(1));
    }
}
