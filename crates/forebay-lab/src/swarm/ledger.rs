//! The ledger: the model of one range of one object. It knows what the range holds, what a sync has
//! promised of it, and which reads and guards look at it now. It calls no code of the engine.

use super::extent_map::{ExtentMap, PIECE};
use super::pattern;
use super::reader_model::{Change, NewLength, ReaderModel, WrongByte};
use super::unjudged::Unjudged;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The number of a change that is under way, or of a look: a read or a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// A sync that is under way.
#[derive(Clone, Debug)]
pub(super) struct SyncTicket {
    looking: Ticket,
    /// The range, if the sync is of a range alone.
    range: Option<Range<u64>>,
}

/// Most promises of ranges that are kept to be judged.
const PROMISES: usize = 4;

/// See above. Places are offsets in the object.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The range; none if the ledger is of the whole object and so also has its length.
    region: Option<Range<u64>>,
    bytes: ExtentMap,
    next_ticket: u64,
    next_version: u64,
    /// Changes that began, and that were made or not: that is not known yet.
    open: BTreeMap<Ticket, Change>,
    looking: BTreeMap<Ticket, ReaderModel>,
    /// What is durable: the state at the start of a sync that returned, and all changes since.
    durable: ReaderModel,
    durable_since: Ticket,
    /// The same for ranges that were synced alone; the latest ones.
    promises: VecDeque<(Range<u64>, ReaderModel)>,
    /// Counts changes of what has to be durable.
    revision: u64,
    /// The revisions of the store's bytes and of the promises that were judged last.
    judged: Option<(u64, u64)>,
    /// The pieces that have been promised more since they were judged last.
    unjudged: Unjudged,
    /// From the moment of a crash on nothing is noted. What was promised by then is judged.
    crashed: Arc<AtomicBool>,
}

impl Ledger {
    /// The ledger of a whole object, which is empty. `number` makes its versions differ from those
    /// of other ledgers.
    pub(super) fn of_object(number: u64, crashed: Arc<AtomicBool>) -> Ledger {
        Ledger::new(number, None, crashed)
    }

    /// The ledger of a region of an object. The region holds zeros.
    pub(super) fn of_region(number: u64, region: Range<u64>, crashed: Arc<AtomicBool>) -> Ledger {
        Ledger::new(number, Some(region), crashed)
    }

    fn new(number: u64, region: Option<Range<u64>>, crashed: Arc<AtomicBool>) -> Ledger {
        let (start, length) = region
            .as_ref()
            .map_or((0, 0), |r| (r.start, r.end - r.start));
        let bytes = ExtentMap::zeros(length as usize);
        Ledger {
            durable: ReaderModel::new(start, bytes.clone(), length),
            region,
            bytes,
            next_ticket: 1,
            next_version: (number << 32) + 1,
            open: BTreeMap::new(),
            looking: BTreeMap::new(),
            durable_since: Ticket(0),
            promises: VecDeque::new(),
            revision: 0,
            judged: None,
            unjudged: Unjudged::all(),
            crashed,
        }
    }

    /// First place.
    pub(super) fn start(&self) -> u64 {
        self.region.as_ref().map_or(0, |region| region.start)
    }

    /// Bytes of the range as they should be now.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn is_whole_object(&self) -> bool {
        self.region.is_none()
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// A version that no write has had.
    pub(super) fn new_version(&mut self) -> u64 {
        self.next_version += 1;
        self.next_version
    }

    fn is_frozen(&self) -> bool {
        self.crashed.load(Ordering::Relaxed)
    }

    /// Notes that a change begins, before the engine is called.
    pub(super) fn begin(&mut self, change: Change) -> Ticket {
        let ticket = self.ticket();
        if !self.is_frozen() {
            self.open.insert(ticket, change);
            self.revision += 1;
            self.durable.note(change);
            let promised = self.promises.iter_mut().map(|(_, model)| model);
            let models = self.looking.values_mut().chain(promised);
            models.for_each(|model| model.note(change));
        }
        ticket
    }

    /// The change was made.
    pub(super) fn done(&mut self, ticket: Ticket) {
        let Some(change) = self.open.remove(&ticket) else {
            return;
        };
        self.apply(change);
    }

    fn apply(&mut self, change: Change) {
        let start = self.start();
        match change.length {
            NewLength::Same => {}
            NewLength::AtLeast(length) => {
                self.bytes.resize(length.max(self.len()) as usize);
            }
            NewLength::Exactly(length) => self.bytes.resize(length as usize),
        }
        let end = change.end.min(start + self.len());
        if change.start < end {
            let within = (change.start - start) as usize..(end - start) as usize;
            self.bytes.change(within, |at, bytes| {
                pattern::fill(change.version, start + at as u64, bytes);
            });
        }
    }

    /// The change was not made, and will not be.
    pub(super) fn undone(&mut self, ticket: Ticket) {
        self.open.remove(&ticket);
    }

    /// The range of a change that may have been made or not.
    pub(super) fn uncertain_range(&self) -> Option<Range<u64>> {
        let changes = self.open.values().map(|change| change.start..change.end);
        changes.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end))
    }

    /// It is known what became of uncertain changes: the object has this length, and these bytes
    /// from `offset_bytes` on wherever anything was uncertain.
    pub(super) fn resolve(&mut self, length_bytes: u64, offset_bytes: u64, found: &[u8]) {
        if self.is_frozen() {
            return;
        }
        let at = (offset_bytes - self.start()) as usize;
        let is_whole = self.is_whole_object();
        if is_whole {
            self.bytes.resize(length_bytes as usize);
        }
        self.bytes.change(at..at + found.len(), |place, bytes| {
            bytes.copy_from_slice(&found[place - at..place - at + bytes.len()]);
        });
        self.open.clear();
        self.unjudged = Unjudged::all();
    }

    /// A look at a range begins.
    pub(super) fn look(&mut self, range: Range<u64>) -> Ticket {
        let ticket = self.ticket();
        let (start, end) = (self.start(), self.start() + self.len());
        let first = range.start.clamp(start, end);
        let last = range.end.clamp(first, end);
        let (first, bytes) = if (first, last) == (start, end) {
            (start, self.bytes.clone())
        } else {
            let range = (first - start) as usize..(last - start) as usize;
            let (at, part) = self.bytes.part(range);
            (start + at as u64, part)
        };
        self.looking.insert(ticket, self.model_of(first, bytes));
        ticket
    }

    /// What a look that begins now may see of `bytes`, which lie from `start` on.
    fn model_of(&self, start: u64, bytes: ExtentMap) -> ReaderModel {
        let mut model = ReaderModel::new(start, bytes, self.len());
        self.open.values().for_each(|&change| model.note(change));
        model
    }

    /// Judges what the look with this `ticket` saw.
    pub(super) fn seen(
        &mut self,
        ticket: Ticket,
        offset_bytes: u64,
        found: &[u8],
    ) -> Result<(), WrongByte> {
        let Some(model) = self.looking.remove(&ticket) else {
            return Ok(());
        };
        model.judge(offset_bytes, found)
    }

    /// The lengths that the object may have for the look with this `ticket`.
    pub(super) fn length_seen(&self, ticket: Ticket) -> Option<(u64, u64)> {
        self.looking.get(&ticket).map(|model| model.length_bytes)
    }

    /// The look ends without having seen anything.
    pub(super) fn turned_away(&mut self, ticket: Ticket) {
        self.looking.remove(&ticket);
    }

    /// A sync of the whole, or of a range, begins. If it returns, what is there now is durable.
    pub(super) fn sync_begins(&mut self, range: Option<Range<u64>>) -> SyncTicket {
        SyncTicket {
            looking: self.look(0..u64::MAX),
            range,
        }
    }

    /// A sync has returned without error.
    pub(super) fn sync_returned(&mut self, sync: SyncTicket) {
        let Some(model) = self.looking.remove(&sync.looking) else {
            return;
        };
        if self.is_frozen() {
            return;
        }
        if !model.is_as(&self.durable) {
            self.revision += 1;
            // Of the rest the store had to hold the same before.
            let start = self.start();
            for range in self.durable.changed() {
                self.unjudged.add(range.start - start..range.end - start);
            }
        }
        if let Some(range) = sync.range {
            self.promises.push_back((range, model));
            if self.promises.len() > PROMISES {
                self.promises.pop_front();
            }
        } else if sync.looking >= self.durable_since {
            self.durable = model;
            self.durable_since = sync.looking;
        }
    }

    /// A sync has returned an error, or was given up.
    pub(super) fn sync_failed(&mut self, sync: &SyncTicket) {
        self.looking.remove(&sync.looking);
    }

    /// Whether the durable bytes of a store have to be judged at this revision: they or the
    /// promises have changed since they were judged last.
    pub(super) fn needs_judging(&self, revision: u64) -> bool {
        self.judged != Some((revision, self.revision))
    }

    /// What in the durable bytes of a store, which have this revision, breaks a promise. `image` is
    /// the range, with zeros past its end up to `count` bytes. It judges the pieces that have
    /// changed since the revision that was judged last, as `has_changed` knows, and those that have
    /// been promised more since then.
    pub(super) fn judge_durable(
        &mut self,
        image: &[u8],
        count: usize,
        revision: u64,
        has_changed: impl Fn(Range<u64>, u64) -> bool,
    ) -> Result<(), WrongByte> {
        let nothing_new = Unjudged::none_before(count as u64);
        let unjudged = std::mem::replace(&mut self.unjudged, nothing_new);
        let before = self.judged.replace((revision, self.revision));
        let start = self.start();
        self.judge_pieces(image, count, |at| {
            let place = start + at as u64;
            let has_changed = |since| has_changed(place..place + PIECE as u64, since);
            unjudged.has(at) || before.is_none_or(|(since, _)| has_changed(since))
        })
    }

    /// What in `image`, the bytes of the range after a crash, breaks a promise.
    pub(super) fn judge_image(&self, image: &[u8]) -> Result<(), WrongByte> {
        self.judge_pieces(image, image.len(), |_| true)
    }

    /// Judges the pieces of `image` that `is_judged` wants, with zeros past its end up to `count`.
    ///
    /// What a look that begins now may see keeps every promise: each byte was there when a sync
    /// began, or is of a change since. So only other bytes are put before the promises.
    fn judge_pieces(
        &self,
        image: &[u8],
        count: usize,
        is_judged: impl Fn(usize) -> bool,
    ) -> Result<(), WrongByte> {
        let now = self.model_of(self.start(), self.bytes.clone());
        for at in (0..count).step_by(PIECE).filter(|&at| is_judged(at)) {
            let end = count.min(at + PIECE);
            let there = image.get(at..end.min(image.len())).unwrap_or_default();
            let mut padded = [0; PIECE];
            let piece = if there.len() == end - at {
                there
            } else {
                padded[..there.len()].copy_from_slice(there);
                &padded[..end - at]
            };
            let place = self.start() + at as u64;
            if now.judge(place, piece).is_err() {
                self.judge_promises(place, piece)?;
            }
        }
        Ok(())
    }

    /// What in `piece`, which lies at `place`, breaks a promise.
    fn judge_promises(&self, place: u64, piece: &[u8]) -> Result<(), WrongByte> {
        self.durable.judge(place, piece)?;
        let end = place + piece.len() as u64;
        for (range, model) in &self.promises {
            let first = range.start.clamp(place, end);
            let last = range.end.clamp(first, end);
            model.judge(
                first,
                &piece[(first - place) as usize..(last - place) as usize],
            )?;
        }
        Ok(())
    }

    /// Shortest and longest length that the object may have after a crash.
    pub(super) fn durable_length_bytes(&self) -> (u64, u64) {
        self.durable.length_bytes
    }

    /// What the range should hold at rest.
    pub(super) fn bytes(&self) -> &ExtentMap {
        &self.bytes
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
