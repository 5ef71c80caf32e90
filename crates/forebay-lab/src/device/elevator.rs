//! The requests that wait for a drive: merged, sorted, and taken in batches
//! (spec/workloads.md 5.2).
//!
//! Each direction has its requests in ascending order of address and takes them one way, in
//! batches. Reads go before writes, but no more than [`PASSED_OVER`] batches of them in a row, and
//! a request that is overdue starts the next batch of its direction. A direction has room for a
//! number of requests, counted from their arrival to their end; a request that comes when it is
//! full waits until the count has fallen below the mark at which congestion ends.

use super::transfer::{Piece, Transfer, TransferKind};
use forebay_base::{Instant, Span};
use std::collections::{BTreeMap, VecDeque};

/// Batches of reads that may pass over waiting writes.
const PASSED_OVER: u32 = 2;

/// How long a request of each direction may wait before it starts the next batch.
const OVERDUE: [Span; 2] = [Span::from_millis(500), Span::from_millis(5_000)];

const READS: usize = 0;
const WRITES: usize = 1;

/// How a device's requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElevatorSettings {
    /// Requests that a direction has room for, from arrival to end.
    pub(crate) requests: usize,
    /// Bytes of the largest request.
    pub(crate) largest_bytes: u64,
    /// Requests of one batch.
    pub(crate) batch: usize,
    /// Whether requests are merged and sorted; otherwise they go as they come.
    pub(crate) sorts: bool,
}

impl ElevatorSettings {
    /// Above this many requests a direction is congested: seven eighths.
    fn congested_above(&self) -> usize {
        self.requests - self.requests / 8 + 1
    }

    /// Below this many it no longer is: thirteen sixteenths.
    fn cleared_below(&self) -> usize {
        (self.requests - self.requests / 8 - self.requests / 16).saturating_sub(1)
    }
}

/// One request to the drive, made of neighbouring transfers.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) kind: TransferKind,
    pub(crate) start_bytes: u64,
    pub(crate) length_bytes: u64,
    /// When it got its place; its waiting is counted from here.
    pub(crate) at: Instant,
    pub(crate) pieces: Vec<Piece>,
    sequence: u64,
}

impl Queued {
    fn end_bytes(&self) -> u64 {
        self.start_bytes + self.length_bytes
    }

    fn key(&self) -> Key {
        (self.start_bytes, self.sequence)
    }
}

/// Where a request starts, and its number.
type Key = (u64, u64);

/// The requests of one direction.
#[derive(Debug, Default)]
struct Side {
    sorted: BTreeMap<Key, Queued>,
    /// When each of them came and where it starts now, by number.
    arrivals: BTreeMap<u64, (Instant, u64)>,
    /// Transfers for which there was no room.
    waiting: VecDeque<Transfer>,
    /// Requests from their arrival to their end.
    taken: usize,
    is_full: bool,
    is_congested: bool,
    /// Where the last request taken from here ended.
    swept_to: u64,
    /// Transfers that became part of another's request.
    merged: u64,
}

/// All requests that wait for one drive.
#[derive(Debug)]
pub(crate) struct Elevator {
    settings: ElevatorSettings,
    sides: [Side; 2],
    flushes: VecDeque<Queued>,
    batch_side: usize,
    batch_left: usize,
    passed_over: u32,
    next_sequence: u64,
}

fn side_of(kind: TransferKind) -> usize {
    if kind == TransferKind::Write {
        WRITES
    } else {
        READS
    }
}

impl Elevator {
    pub(crate) fn new(settings: ElevatorSettings) -> Elevator {
        Elevator {
            settings,
            sides: Default::default(),
            flushes: VecDeque::new(),
            batch_side: READS,
            batch_left: 0,
            passed_over: 0,
            next_sequence: 0,
        }
    }

    /// Takes everything out, as if nothing had come.
    pub(crate) fn take_all(&mut self) -> Elevator {
        let empty = Elevator::new(self.settings);
        std::mem::replace(self, empty)
    }

    /// Takes a transfer of any length, in requests no longer than the largest.
    pub(crate) fn add(&mut self, mut transfer: Transfer, now: Instant) {
        if transfer.kind == TransferKind::Flush {
            let flush = self.request(transfer, now);
            return self.flushes.push_back(flush);
        }
        while transfer.length_bytes > self.settings.largest_bytes {
            let start = transfer.start_bytes;
            let front = transfer.cut_front(self.settings.largest_bytes, start);
            self.add_one(front, now);
        }
        self.add_one(transfer, now);
    }

    fn add_one(&mut self, transfer: Transfer, now: Instant) {
        let side = &mut self.sides[side_of(transfer.kind)];
        let transfer = if self.settings.sorts {
            side.merge(transfer, self.settings.largest_bytes)
        } else {
            Some(transfer)
        };
        let Some(transfer) = transfer else {
            return;
        };
        if side.is_full {
            side.waiting.push_back(transfer);
        } else {
            self.insert(transfer, now);
        }
    }

    fn insert(&mut self, transfer: Transfer, now: Instant) {
        let kind = side_of(transfer.kind);
        let queued = self.request(transfer, now);
        let side = &mut self.sides[kind];
        side.put(queued);
        side.taken += 1;
        side.is_full |= side.taken >= self.settings.requests;
        side.is_congested |= side.taken > self.settings.congested_above();
    }

    fn request(&mut self, transfer: Transfer, now: Instant) -> Queued {
        self.next_sequence += 1;
        Queued {
            kind: transfer.kind,
            start_bytes: transfer.start_bytes,
            length_bytes: transfer.length_bytes,
            at: now,
            pieces: vec![transfer.piece],
            sequence: self.next_sequence,
        }
    }

    /// The request that the drive gets next.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Queued> {
        if let Some(flush) = self.flushes.pop_front() {
            return Some(flush);
        }
        if self.batch_left == 0 || self.sides[self.batch_side].sorted.is_empty() {
            self.begin_batch(now)?;
        }
        self.batch_left -= 1;
        let side = &mut self.sides[self.batch_side];
        let queued = if self.settings.sorts {
            side.take_upwards()
        } else {
            side.take_oldest()
        };
        Some(queued)
    }

    /// Chooses the direction of the next batch; None if nothing waits.
    fn begin_batch(&mut self, now: Instant) -> Option<()> {
        let reads = !self.sides[READS].sorted.is_empty();
        let writes = !self.sides[WRITES].sorted.is_empty();
        if !reads && !writes {
            return None;
        }
        let writes_turn = writes && (self.passed_over >= PASSED_OVER || self.is_overdue(now));
        self.batch_side = if reads && !writes_turn { READS } else { WRITES };
        self.passed_over = match self.batch_side {
            READS if writes => self.passed_over + 1,
            READS => self.passed_over,
            _ => 0,
        };
        self.batch_left = self.settings.batch.max(1);
        let side = &mut self.sides[self.batch_side];
        if let Some((at, start)) = side.oldest()
            && now - at >= OVERDUE[self.batch_side]
        {
            side.swept_to = start;
        }
        Some(())
    }

    fn is_overdue(&self, now: Instant) -> bool {
        let oldest = self.sides[WRITES].oldest();
        oldest.is_some_and(|(at, _)| now - at >= OVERDUE[WRITES])
    }

    /// A request of this kind has ended: transfers that wait for room may get it.
    pub(crate) fn ended(&mut self, kind: TransferKind, now: Instant) {
        if kind == TransferKind::Flush {
            return;
        }
        let cleared = self.settings.cleared_below();
        let side = &mut self.sides[side_of(kind)];
        side.taken -= 1;
        if side.taken >= cleared {
            return;
        }
        side.is_congested = false;
        side.is_full = false;
        self.admit(side_of(kind), now);
    }

    fn admit(&mut self, kind: usize, now: Instant) {
        while !self.sides[kind].is_full {
            let Some(transfer) = self.sides[kind].waiting.pop_front() else {
                return;
            };
            self.add_one(transfer, now);
        }
    }

    /// Whether this direction has more requests than it should.
    pub(crate) fn is_congested(&self, kind: TransferKind) -> bool {
        self.sides[side_of(kind)].is_congested
    }

    /// Requests that wait for the drive.
    pub(crate) fn in_flight(&self) -> usize {
        let sorted = |side: &Side| side.sorted.len();
        self.flushes.len() + self.sides.iter().map(sorted).sum::<usize>()
    }

    /// Transfers of this direction that became part of another's request.
    pub(crate) fn merged(&self, kind: TransferKind) -> u64 {
        self.sides[side_of(kind)].merged
    }

    /// Transfers of this direction that wait for room.
    #[cfg(test)]
    pub(crate) fn waiting(&self, kind: TransferKind) -> usize {
        self.sides[side_of(kind)].waiting.len()
    }
}

impl Side {
    fn put(&mut self, queued: Queued) {
        self.arrivals
            .insert(queued.sequence, (queued.at, queued.start_bytes));
        self.sorted.insert(queued.key(), queued);
    }

    fn remove(&mut self, key: Key) -> Queued {
        self.arrivals.remove(&key.1);
        self.sorted.remove(&key).expect("the key was just found")
    }

    /// Adds the transfer to a request that ends where it starts, or starts where it ends. Gives
    /// it back if there is none with room.
    fn merge(&mut self, transfer: Transfer, largest_bytes: u64) -> Option<Transfer> {
        let (start, end) = (transfer.start_bytes, transfer.end_bytes());
        let room = largest_bytes.saturating_sub(transfer.length_bytes);
        if let Some(key) = self.ends_at(start, room) {
            let queued = self.sorted.get_mut(&key).expect("the key was just found");
            queued.length_bytes += transfer.length_bytes;
            queued.pieces.push(transfer.piece);
            self.merged += 1;
            self.close_gap(key, largest_bytes);
            return None;
        }
        let Some(key) = self.starts_at(end, room) else {
            return Some(transfer);
        };
        let mut queued = self.remove(key);
        queued.start_bytes = start;
        queued.length_bytes += transfer.length_bytes;
        queued.pieces.push(transfer.piece);
        self.merged += 1;
        self.put(queued);
        None
    }

    /// The request that ends at `end_bytes`, if it is no longer than `most_bytes`.
    fn ends_at(&self, end_bytes: u64, most_bytes: u64) -> Option<Key> {
        let (&key, queued) = self.sorted.range(..(end_bytes, 0)).next_back()?;
        let fits = queued.end_bytes() == end_bytes && queued.length_bytes <= most_bytes;
        fits.then_some(key)
    }

    /// The request that starts at `start_bytes`, if it is no longer than `most_bytes`.
    fn starts_at(&self, start_bytes: u64, most_bytes: u64) -> Option<Key> {
        let at = (start_bytes, 0)..(start_bytes, u64::MAX);
        let (&key, queued) = self.sorted.range(at).next()?;
        (queued.length_bytes <= most_bytes).then_some(key)
    }

    /// The request `key` has grown up to its neighbour: the two become one if that is not too
    /// long.
    fn close_gap(&mut self, key: Key, largest_bytes: u64) {
        let grown = &self.sorted[&key];
        let room = largest_bytes.saturating_sub(grown.length_bytes);
        let Some(next) = self.starts_at(grown.end_bytes(), room) else {
            return;
        };
        let next = self.remove(next);
        self.taken -= 1;
        self.merged += 1;
        let grown = self.sorted.get_mut(&key).expect("it was just there");
        grown.length_bytes += next.length_bytes;
        grown.pieces.extend(next.pieces);
    }

    /// The next request at or above where the last one ended; if there is none, the lowest.
    fn take_upwards(&mut self) -> Queued {
        let above = self.sorted.range((self.swept_to, 0)..).next();
        let next = above.or_else(|| self.sorted.iter().next());
        let key = *next.expect("a batch has a request").0;
        let queued = self.remove(key);
        self.swept_to = queued.end_bytes();
        queued
    }

    fn take_oldest(&mut self) -> Queued {
        let first = self.arrivals.iter().next();
        let (&sequence, &(_, start)) = first.expect("a batch has a request");
        self.remove((start, sequence))
    }

    fn oldest(&self) -> Option<(Instant, u64)> {
        self.arrivals.values().next().copied()
    }
}

#[cfg(test)]
#[path = "elevator_tests.rs"]
mod tests;
