//! A store that fails in every way that a cache survives, and leaves an image when it crashes.
//!
//! Requests take time, overtake each other, fail, are torn, or are never answered. What finished
//! and was not committed may be gone after a crash, in units of a sector. What is in flight may be
//! done, in part or not at all. The store is used on one thread alone, that of its virtual runtime.

use super::crash::{CrashSwitch, Image, Imaged};
use super::crash_disk::{Act, CrashDisk, Luck};
use super::fault::{Effect, Fault};
use super::io_rules::{sum_of, write_one_place};
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, PAGE_BYTES, Prng, Span};
use forebay_rt::Rt;
use forebay_store::{Durability, Failure, Geometry, Io, IoKind, ObjectId, Request, Store};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// How long requests take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// No time at all: they are finished before `submit` returns.
    Instant,
    /// Each by itself, up to this long.
    Parallel { most_us: u64 },
    /// One after the other.
    Serial { bytes_per_s: u64, seek_us: u64 },
}

/// What a store has done so far, by its own count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) pages_read: u64,
    pub(super) pages_written: u64,
    pub(super) pages_failed: u64,
    pub(super) writes_in_flight: u64,
    /// Writes that began while another write of the same place was under way. Which one is last is
    /// unknown.
    pub(super) writes_that_met: u64,
    /// Writes whose pages changed under way, though the store asks for stable pages.
    pub(super) writes_that_changed: u64,
    /// Requests that a fault struck, by the name of the effect.
    pub(super) struck: BTreeMap<&'static str, u64>,
}

/// Failures of one object that a sync has to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    /// Writes and commits.
    pub(super) surely: u64,
    /// Changes of length, which a sync or another call may have asked for.
    pub(super) perhaps: u64,
}

struct Waiting {
    io: Io,
    sequence: u64,
    effect: Option<Effect>,
    is_held: bool,
    /// A sum of the pages of a write that may not change, taken when the write began.
    sum: Option<u64>,
}

struct State {
    objects: BTreeMap<ObjectId, CrashDisk>,
    faults: Vec<Fault>,
    chance: Prng,
    /// Moments of the store, counted.
    sequence: u64,
    waiting: BTreeMap<u64, Waiting>,
    busy_until: Instant,
    tally: Tally,
    failures: BTreeMap<ObjectId, Failures>,
    /// Pages may not change while they are written.
    stable_pages: bool,
    /// Writes that may be made durable by themselves are, if nothing else waits for a commit.
    makes_durable: bool,
    is_ended: bool,
}

/// A request at its end.
struct CarriedOut {
    io: Io,
    failure: Option<Failure>,
    is_durable: bool,
}

/// See above.
pub(super) struct CrashStore {
    me: Weak<CrashStore>,
    rt: Rt,
    geometry: Geometry,
    pace: Pace,
    switch: Arc<CrashSwitch>,
    is_loud: AtomicBool,
    can_discard: AtomicBool,
    state: Mutex<State>,
}

impl std::fmt::Debug for CrashStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CrashStore")
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

/// How a store answers.
pub(super) struct Behaviour {
    pub(super) geometry: Geometry,
    pub(super) pace: Pace,
    pub(super) faults: Vec<Fault>,
}

impl CrashStore {
    /// A store that holds `image`.
    pub(super) fn new(
        rt: &Rt,
        chance: Prng,
        behaviour: Behaviour,
        switch: &Arc<CrashSwitch>,
        image: Image,
    ) -> Arc<CrashStore> {
        let is_solid = behaviour.geometry.durability == Durability::OnFinish;
        let makes_durable = chance.child("writes made durable").chance(1, 2);
        let hold = |(object, bytes)| (object, CrashDisk::holding(bytes, is_solid));
        let store = Arc::new_cyclic(|me| CrashStore {
            me: me.clone(),
            rt: rt.clone(),
            geometry: behaviour.geometry,
            pace: behaviour.pace,
            switch: switch.clone(),
            is_loud: AtomicBool::new(false),
            can_discard: AtomicBool::new(true),
            state: Mutex::new(State {
                objects: image.into_iter().map(hold).collect(),
                faults: behaviour.faults,
                chance,
                sequence: 0,
                waiting: BTreeMap::new(),
                busy_until: Instant::ZERO,
                tally: Tally::default(),
                failures: BTreeMap::new(),
                stable_pages: behaviour.geometry.stable_pages,
                makes_durable,
                is_ended: false,
            }),
        });
        store.switch.watch(store.me.clone());
        store
    }

    /// Prints each request on standard error from now on.
    pub(super) fn be_loud(&self) {
        self.is_loud.store(true, Ordering::Relaxed);
    }

    /// Refuses discards from now on, like a store that cannot do them.
    pub(super) fn refuse_discards(&self) {
        self.can_discard.store(false, Ordering::Relaxed);
    }

    fn print(&self, what: &str, request: Request, failure: Option<Failure>) {
        if self.is_loud.load(Ordering::Relaxed) {
            let Request {
                kind,
                object,
                offset_bytes,
                length_bytes,
            } = request;
            let now = Span::from_nanos(self.rt.now().as_nanos());
            let end = offset_bytes + length_bytes;
            let failure = failure.map_or_else(String::new, |failure| format!(": {failure:?}"));
            let object = object.0;
            eprintln!("{now}   {what} {kind:?} of object {object}, {offset_bytes}..{end}{failure}");
        }
    }

    /// Ends all faults, and lets go of what was held.
    pub(super) fn calm(&self) {
        let mut state = lock(&self.state);
        state.faults.clear();
        let held = |(&number, waiting): (&u64, &Waiting)| waiting.is_held.then_some(number);
        let held: Vec<u64> = state.waiting.iter().filter_map(held).collect();
        drop(state);
        for number in held {
            self.carry_out(number);
        }
    }

    /// Fails all requests that are still in flight: the run is over, and no caller waits for them.
    pub(super) fn end(&self) {
        let waiting = {
            let mut state = lock(&self.state);
            state.is_ended = true;
            std::mem::take(&mut state.waiting)
        };
        for waiting in waiting.into_values() {
            waiting.io.fail(Failure::NoAnswer);
        }
    }

    pub(super) fn tally(&self) -> Tally {
        lock(&self.state).tally.clone()
    }

    pub(super) fn failures(&self, object: ObjectId) -> Failures {
        lock(&self.state)
            .failures
            .get(&object)
            .copied()
            .unwrap_or_default()
    }

    /// Requests of `object` that are in flight.
    pub(super) fn in_flight(&self, object: ObjectId) -> usize {
        let of_object = |waiting: &&Waiting| waiting.io.request().object == object;
        lock(&self.state).waiting.values().filter(of_object).count()
    }

    /// Whether nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.state).waiting.is_empty()
    }

    /// What can be read of `object` now.
    pub(super) fn contents(&self, object: ObjectId) -> Vec<u8> {
        let state = lock(&self.state);
        state
            .objects
            .get(&object)
            .map_or_else(Vec::new, |disk| disk.current().to_vec())
    }

    /// Calls `judge` with `object`. It is to judge what is durable now, without what else may land.
    pub(super) fn judge_durable<T>(
        &self,
        object: ObjectId,
        judge: impl FnOnce(&CrashDisk) -> T,
    ) -> T {
        let state = lock(&self.state);
        let nothing = CrashDisk::default();
        judge(state.objects.get(&object).unwrap_or(&nothing))
    }

    fn carry_out(&self, number: u64) {
        self.switch.tick();
        let done = lock(&self.state).carry_out(number, self.geometry.durability);
        let Some(CarriedOut {
            io,
            failure,
            is_durable,
        }) = done
        else {
            return;
        };
        self.print("ends", io.request(), failure);
        self.switch.tick();
        // The engine may submit again at once, so no lock may be held here.
        match failure {
            None if is_durable => io.succeed_durably(),
            None => io.succeed(),
            Some(failure) => io.fail(failure),
        }
        self.switch.tick();
    }
}

impl Imaged for CrashStore {
    fn image(&self, chance: Prng) -> Image {
        let state = lock(&self.state);
        let mut luck = Luck::draw(chance);
        let mut in_flight: BTreeMap<ObjectId, Vec<Act>> = BTreeMap::new();
        for waiting in state.waiting.values() {
            if let Some(act) = act_of(&waiting.io) {
                in_flight
                    .entry(waiting.io.request().object)
                    .or_default()
                    .push(act);
            }
        }
        let nothing = CrashDisk::default();
        let objects = state.objects.keys().chain(in_flight.keys());
        let objects: std::collections::BTreeSet<_> = objects.copied().collect();
        let image = |object: ObjectId| {
            let disk = state.objects.get(&object).unwrap_or(&nothing);
            let acts = in_flight.get(&object).map_or(&[][..], Vec::as_slice);
            (object, disk.image(acts, &mut luck))
        };
        objects.into_iter().map(image).collect()
    }
}

impl Store for CrashStore {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, io: Io) {
        self.switch.tick();
        let now = self.rt.now();
        self.print("begins", io.request(), None);
        if io.request().kind == IoKind::Discard && !self.can_discard.load(Ordering::Relaxed) {
            return io.fail(Failure::Unsupported);
        }
        let admitted = lock(&self.state).admit(io, self.pace, now);
        match admitted {
            Err(io) => io.fail(Failure::NoAnswer),
            Ok((number, Some(at))) if at <= now => self.carry_out(number),
            Ok((number, Some(at))) => {
                let (store, sleep) = (self.me.upgrade(), self.rt.sleep_until(at));
                self.rt.spawn("store request", async move {
                    sleep.await;
                    if let Some(store) = store {
                        store.carry_out(number);
                    }
                });
            }
            Ok((_, None)) => {}
        }
    }
}

impl State {
    /// Takes `io` in. Returns its number and when it will be carried out, if it ever is.
    fn admit(&mut self, io: Io, pace: Pace, now: Instant) -> Result<(u64, Option<Instant>), Io> {
        if self.is_ended {
            return Err(io);
        }
        let request = io.request();
        self.sequence += 1;
        let number = self.sequence;
        self.tally.writes_in_flight += u64::from(request.kind == IoKind::Write);
        let (mut struck, mut late, mut times, mut is_held) = (None, Span::ZERO, 1, false);
        let State {
            faults,
            chance,
            tally,
            busy_until,
            ..
        } = self;
        for fault in faults {
            if !fault.strikes(request.kind, now, chance) {
                continue;
            }
            *tally
                .struck
                .entry(fault.effect.name(request.kind))
                .or_default() += 1;
            match fault.effect {
                Effect::Never => is_held = true,
                Effect::Late(span) => late += span,
                Effect::Stopped => *busy_until = (*busy_until).max(fault.window.end),
                Effect::Slowed(by) => times *= by,
                effect => struck = struck.or(Some(effect)),
            }
        }
        let at = self.time_of(request, pace, now, times) + late;
        let mut others = self.waiting.values();
        let meets = others.any(|other| write_one_place(other.io.request(), request));
        self.tally.writes_that_met += u64::from(meets);
        let is_judged = self.stable_pages && request.kind == IoKind::Write;
        let waiting = Waiting {
            sum: is_judged.then(|| sum_of(&io)),
            io,
            sequence: number,
            effect: struck,
            is_held,
        };
        self.waiting.insert(number, waiting);
        Ok((number, (!is_held).then_some(at)))
    }

    /// When a request that came at `now` ends. It takes `times` as long as usual.
    fn time_of(&mut self, request: Request, pace: Pace, now: Instant, times: u64) -> Instant {
        let begin = self.busy_until.max(now);
        match pace {
            Pace::Instant if times == 1 => begin,
            Pace::Instant => begin + Span::from_micros(100 * times),
            Pace::Parallel { most_us } => {
                begin + Span::from_micros(self.chance.below(most_us + 1) * times)
            }
            Pace::Serial {
                bytes_per_s,
                seek_us,
            } => {
                let moved = match request.kind {
                    IoKind::Read | IoKind::Write => request.length_bytes,
                    IoKind::Commit | IoKind::Discard | IoKind::SetLength => 0,
                };
                let seek = self.chance.below(seek_us + 1);
                let took = seek + moved * 1_000_000 / bytes_per_s;
                self.busy_until = begin + Span::from_micros(took * times);
                self.busy_until
            }
        }
    }

    /// Carries out a request, unless the run is over.
    fn carry_out(&mut self, number: u64, durability: Durability) -> Option<CarriedOut> {
        let Waiting {
            mut io,
            sequence,
            effect,
            sum,
            ..
        } = self.waiting.remove(&number)?;
        let request = io.request();
        let has_changed = sum.is_some_and(|sum| sum != sum_of(&io));
        self.tally.writes_that_changed += u64::from(has_changed);
        if self
            .waiting
            .first_key_value()
            .is_some_and(|(&first, _)| first < number)
        {
            *self.tally.struck.entry("overtook another").or_default() += 1;
        }
        self.sequence += 1;
        let now = self.sequence;
        let is_solid = durability == Durability::OnFinish;
        if effect == Some(Effect::Restart) {
            let mut luck = Luck::draw(self.chance.child(&number.to_string()));
            self.objects
                .values_mut()
                .for_each(|disk| disk.forget(&mut luck));
        }
        let disk = self.objects.entry(request.object);
        let disk = disk.or_insert_with(|| CrashDisk::holding(Vec::new(), is_solid));
        let asks_durable = self.makes_durable && io.asks_durable();
        let mut is_durable = false;
        let failure = match effect {
            None | Some(Effect::Restart) => {
                is_durable = perform(disk, &mut io, now, asks_durable);
                let forgot = request.kind == IoKind::Commit && !disk.commit(sequence);
                forgot.then_some(if request.object.0 % 2 == 0 {
                    Failure::Forgotten
                } else {
                    Failure::Device(116)
                })
            }
            Some(Effect::Fail(failure)) => Some(failure),
            Some(Effect::Torn(failure)) => {
                tear(disk, &io, now, self.chance.child(&number.to_string()));
                Some(failure)
            }
            Some(Effect::Misdirected(failure)) => {
                misdirect(disk, &mut io, now);
                Some(failure)
            }
            Some(_) => None,
        };
        self.count(&io, failure);
        Some(CarriedOut {
            io,
            failure,
            is_durable,
        })
    }

    fn count(&mut self, io: &Io, failure: Option<Failure>) {
        let pages = io.page_count() as u64;
        let request = io.request();
        match request.kind {
            IoKind::Read => self.tally.pages_read += pages,
            IoKind::Write => {
                self.tally.pages_written += pages;
                self.tally.writes_in_flight -= 1;
                self.tally.pages_failed += if failure.is_some() { pages } else { 0 };
            }
            IoKind::Commit | IoKind::Discard | IoKind::SetLength => {}
        }
        // No handle reports writes that were forgotten.
        if failure.is_some_and(|failure| failure != Failure::Forgotten) {
            let failures = self.failures.entry(request.object).or_default();
            match request.kind {
                IoKind::Write | IoKind::Commit => failures.surely += 1,
                IoKind::SetLength => failures.perhaps += 1,
                IoKind::Read | IoKind::Discard => {}
            }
        }
    }
}

/// What a request does to its object; none if it changes nothing.
fn act_of(io: &Io) -> Option<Act> {
    let request = io.request();
    let offset = request.offset_bytes as usize;
    match request.kind {
        IoKind::Read | IoKind::Commit => None,
        IoKind::Write => Some(Act::Write {
            offset,
            bytes: bytes_of(io),
        }),
        IoKind::SetLength => Some(Act::SetLength(offset)),
        IoKind::Discard => Some(Act::Zero {
            start: offset,
            end: offset + request.length_bytes as usize,
        }),
    }
}

fn bytes_of(io: &Io) -> Vec<u8> {
    let mut bytes = vec![0; io.request().length_bytes as usize];
    for (page, chunk) in bytes.chunks_mut(PAGE_BYTES).enumerate() {
        io.copy_page(page, 0, chunk);
    }
    bytes
}

/// Carries out any request except a commit. `now` is the moment at which it is finished. True if it
/// is a write that was made durable by itself.
fn perform(disk: &mut CrashDisk, io: &mut Io, now: u64, asks_durable: bool) -> bool {
    if io.request().kind == IoKind::Read {
        read(disk, io, 0);
    } else if let Some(act) = act_of(io) {
        if asks_durable {
            return disk.done_durably(now, act);
        }
        disk.done(now, act);
    }
    false
}

/// Fills the pages of a read, each with the bytes of the page `shift` pages further on.
fn read(disk: &CrashDisk, io: &mut Io, shift: usize) {
    let request = io.request();
    let end = disk
        .current()
        .len()
        .min((request.offset_bytes + request.length_bytes) as usize);
    for page in 0..io.page_count() {
        let from = request.offset_bytes as usize + (page + shift) * PAGE_BYTES;
        let have = disk.current().get(from..end.max(from)).unwrap_or_default();
        let have = &have[..have.len().min(PAGE_BYTES)];
        let mut bytes = [0; PAGE_BYTES];
        bytes[..have.len()].copy_from_slice(have);
        io.fill_page(page, 0, &bytes);
    }
}

/// Writes some sectors.
fn tear(disk: &mut CrashDisk, io: &Io, now: u64, chance: Prng) {
    let Some(act @ Act::Write { .. }) = act_of(io) else {
        return;
    };
    let mut bytes = disk.current().to_vec();
    let before = bytes.len();
    act.apply_in_part(&mut bytes, &mut Luck::draw(chance));
    let Act::Write {
        offset,
        bytes: whole,
    } = act
    else {
        return;
    };
    let start = offset.min(before);
    let end = (offset + whole.len()).min(bytes.len());
    if start < end {
        let bytes = bytes[start..end].to_vec();
        disk.done(
            now,
            Act::Write {
                offset: start,
                bytes,
            },
        );
    }
}

/// Puts the pages of a request in each other's places.
fn misdirect(disk: &mut CrashDisk, io: &mut Io, now: u64) {
    match io.request().kind {
        IoKind::Read => read(disk, io, 1),
        IoKind::Write => {
            let mut bytes = bytes_of(io);
            bytes.rotate_left(PAGE_BYTES.min(io.request().length_bytes as usize));
            let offset = io.request().offset_bytes as usize;
            disk.done(now, Act::Write { offset, bytes });
        }
        IoKind::Commit | IoKind::Discard | IoKind::SetLength => {}
    }
}
