//! The ledger: the model of one range of one object. It knows what the range holds, what a sync has
//! promised of it, and which reads and guards look at it now. It calls no code of the engine.

use super::pattern;
use super::witness::{Change, NewLength, PIECE, Witness, WrongByte};
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
    /// A sync looks at all of the bytes. Looks share them until they change.
    bytes: Arc<Vec<u8>>,
    next_ticket: u64,
    next_version: u64,
    /// Changes that began, and that were made or not: that is not known yet.
    open: BTreeMap<Ticket, Change>,
    looking: BTreeMap<Ticket, Witness>,
    /// What is durable: the state at the start of a sync that returned, and all changes since.
    durable: Witness,
    durable_since: Ticket,
    /// The same for ranges that were synced alone; the latest ones.
    promises: VecDeque<(Range<u64>, Witness)>,
    /// Counts changes of what has to be durable.
    revision: u64,
    /// The revisions of that and of the store's bytes that were judged last.
    judged: Option<(u64, u64)>,
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
        let bytes = Arc::new(vec![0; length as usize]);
        Ledger {
            durable: Witness::new(start, bytes.clone(), length),
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
            let promised = self.promises.iter_mut().map(|(_, witness)| witness);
            let witnesses = self.looking.values_mut().chain(promised);
            witnesses.for_each(|witness| witness.note(change));
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
                let length = length.max(self.len()) as usize;
                Arc::make_mut(&mut self.bytes).resize(length, 0);
            }
            NewLength::Exactly(length) => {
                Arc::make_mut(&mut self.bytes).resize(length as usize, 0);
            }
        }
        let end = change.end.min(start + self.len());
        if change.start < end {
            let within = (change.start - start) as usize..(end - start) as usize;
            let bytes = &mut Arc::make_mut(&mut self.bytes)[within];
            pattern::fill(change.version, change.start, bytes);
        }
    }

    /// The change was not made, and will not be.
    pub(super) fn undone(&mut self, ticket: Ticket) {
        self.open.remove(&ticket);
    }

    /// The range of a change of which it is not known whether it was made.
    pub(super) fn in_doubt(&self) -> Option<Range<u64>> {
        let changes = self.open.values().map(|change| change.start..change.end);
        changes.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end))
    }

    /// The doubt is over: the object has this length, and these bytes from `offset_bytes` on
    /// wherever anything was in doubt.
    pub(super) fn resolve(&mut self, length_bytes: u64, offset_bytes: u64, found: &[u8]) {
        if self.is_frozen() {
            return;
        }
        let at = (offset_bytes - self.start()) as usize;
        let is_whole = self.is_whole_object();
        let bytes = Arc::make_mut(&mut self.bytes);
        if is_whole {
            bytes.resize(length_bytes as usize, 0);
        }
        bytes[at..at + found.len()].copy_from_slice(found);
        self.open.clear();
    }

    /// A look at a range begins.
    pub(super) fn look(&mut self, range: Range<u64>) -> Ticket {
        let ticket = self.ticket();
        let (start, end) = (self.start(), self.start() + self.len());
        let first = range.start.clamp(start, end);
        let last = range.end.clamp(first, end);
        let bytes = if (first, last) == (start, end) {
            self.bytes.clone()
        } else {
            Arc::new(self.bytes[(first - start) as usize..(last - start) as usize].to_vec())
        };
        self.looking.insert(ticket, self.witness_of(first, bytes));
        ticket
    }

    /// What a look that begins now may see of `bytes`, which lie from `start` on.
    fn witness_of(&self, start: u64, bytes: Arc<Vec<u8>>) -> Witness {
        let mut witness = Witness::new(start, bytes, self.len());
        self.open.values().for_each(|&change| witness.note(change));
        witness
    }

    /// Judges what the look with this `ticket` saw.
    pub(super) fn seen(
        &mut self,
        ticket: Ticket,
        offset_bytes: u64,
        found: &[u8],
    ) -> Result<(), WrongByte> {
        let Some(witness) = self.looking.remove(&ticket) else {
            return Ok(());
        };
        witness.judge(offset_bytes, found)
    }

    /// The lengths that the object may have for the look with this `ticket`.
    pub(super) fn length_seen(&self, ticket: Ticket) -> Option<(u64, u64)> {
        self.looking
            .get(&ticket)
            .map(|witness| witness.length_bytes)
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
        let Some(witness) = self.looking.remove(&sync.looking) else {
            return;
        };
        if self.is_frozen() {
            return;
        }
        if !witness.is_as(&self.durable) {
            self.revision += 1;
        }
        if let Some(range) = sync.range {
            self.promises.push_back((range, witness));
            if self.promises.len() > PROMISES {
                self.promises.pop_front();
            }
        } else if sync.looking >= self.durable_since {
            self.durable = witness;
            self.durable_since = sync.looking;
        }
    }

    /// A sync has returned an error, or was given up.
    pub(super) fn sync_failed(&mut self, sync: &SyncTicket) {
        self.looking.remove(&sync.looking);
    }

    /// Whether the durable bytes of a store, which have this revision, have to be judged: they or
    /// what is asked of them are not what was judged last.
    pub(super) fn is_judged_anew(&mut self, revision: u64) -> bool {
        let now = Some((revision, self.revision));
        let is_new = self.judged != now;
        self.judged = now;
        is_new
    }

    /// What in `image`, the bytes of the range after a crash, breaks a promise.
    ///
    /// What a look that begins now may see keeps every promise: each byte was there when a sync
    /// began, or is of a change since. So only other bytes are put before the promises.
    pub(super) fn judge_image(&self, image: &[u8]) -> Result<(), WrongByte> {
        let now = self.witness_of(self.start(), self.bytes.clone());
        let places = (self.start()..).step_by(PIECE);
        places
            .zip(image.chunks(PIECE))
            .filter(|&(place, piece)| now.judge(place, piece).is_err())
            .try_for_each(|(place, piece)| self.judge_promises(place, piece))
    }

    /// What in `piece`, which lies at `place`, breaks a promise.
    fn judge_promises(&self, place: u64, piece: &[u8]) -> Result<(), WrongByte> {
        self.durable.judge(place, piece)?;
        let end = place + piece.len() as u64;
        for (range, witness) in &self.promises {
            let first = range.start.clamp(place, end);
            let last = range.end.clamp(first, end);
            witness.judge(
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
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::bytes_of_version;
    use super::*;

    fn write(ledger: &mut Ledger, start: u64, end: u64) -> (Ticket, u64) {
        let version = ledger.new_version();
        let length = NewLength::AtLeast(end);
        (
            ledger.begin(Change {
                start,
                end,
                version,
                length,
            }),
            version,
        )
    }

    fn ledger() -> Ledger {
        Ledger::of_object(1, Arc::new(AtomicBool::new(false)))
    }

    #[test]
    fn a_reader_may_see_what_was_written_while_it_read() {
        let mut ledger = ledger();
        let (first, version) = write(&mut ledger, 0, 100);
        ledger.done(first);
        let reader = ledger.look(0..100);
        let (second, later) = write(&mut ledger, 0, 50);
        ledger.done(second);
        let mut seen = bytes_of_version(version, 0, 100);
        seen[..50].copy_from_slice(&bytes_of_version(later, 0, 50));
        assert_eq!(ledger.seen(reader, 0, &seen), Ok(()));
        let reader = ledger.look(0..100);
        assert!(
            ledger
                .seen(reader, 0, &bytes_of_version(version, 0, 100))
                .is_err()
        );
    }

    #[test]
    fn a_sync_promises_what_was_there_when_it_began() {
        let mut ledger = ledger();
        let (first, one) = write(&mut ledger, 0, 100);
        ledger.done(first);
        let sync = ledger.sync_begins(None);
        let (second, two) = write(&mut ledger, 0, 100);
        ledger.done(second);
        ledger.sync_returned(sync);
        assert_eq!(ledger.judge_image(&bytes_of_version(one, 0, 100)), Ok(()));
        assert_eq!(ledger.judge_image(&bytes_of_version(two, 0, 100)), Ok(()));
        assert!(ledger.judge_image(&[0; 100]).is_err());
        assert_eq!(ledger.durable_length_bytes(), (100, 100));
    }

    #[test]
    fn a_sync_of_a_range_promises_that_range() {
        let mut ledger = ledger();
        let (first, one) = write(&mut ledger, 0, 100);
        ledger.done(first);
        let sync = ledger.sync_begins(Some(0..50));
        ledger.sync_returned(sync);
        let mut image = bytes_of_version(one, 0, 100);
        image[50..].fill(0);
        assert_eq!(ledger.judge_image(&image), Ok(()));
        image[49] ^= 1;
        assert!(ledger.judge_image(&image).is_err());
    }
}
