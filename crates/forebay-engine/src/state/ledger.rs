//! The ledger: who waited, how long, for which store and why; the last stalls; and the limits of a
//! minute ago. Only the end of a call that waited writes to it.
//!
//! invariant WL1: the rows together have all waits that were noted, including those of callers
//! whose row had to make room for another one.

use crate::caller::{Caller, CallerKey};
use crate::event::WaitedCall;
use crate::state::dirtied;
use crate::state::minutes::{MINUTE, Recent, Window, freshness};
use crate::state::open_calls::{LEAST_PLACES, PLACE_BYTES};
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
    lock,
};
use forebay_base::{Instant, Span};
use forebay_law::blame::{CAUSES, Cause};
use std::collections::VecDeque;

/// The most rows, and the most names that are remembered.
const MOST_ROWS: usize = 256;
/// The most stalls that are kept.
const MOST_STALLS: usize = 4_096;
/// The fewest rows, and the fewest stalls.
const LEAST: usize = 4;
/// Moments of the last minute that are kept.
const MOMENTS: usize = 8;
const MOMENT: Span = Span::from_secs(8);
/// Knobs that are turned again within this time leave one moment.
const TURN: Span = Span::from_secs(1);
/// Stores whose rates a moment has.
const STORES: usize = 8;

/// Sums over the calls of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) calls: u64,
    pub(crate) us: u64,
    pub(crate) longest_us: u64,
}

impl Sums {
    fn note(&mut self, us: u64) {
        self.add(Sums {
            calls: 1,
            us,
            longest_us: us,
        });
    }

    pub(crate) fn add(&mut self, other: Sums) {
        self.calls += other.calls;
        self.us += other.us;
        self.longest_us = self.longest_us.max(other.longest_us);
    }
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    pub(crate) caller: CallerKey,
    pub(crate) bdi: Option<usize>,
    pub(crate) cause: Cause,
}

/// The sums of one minute or step, in less room.
#[derive(Clone, Copy, Debug, Default)]
struct Minute {
    calls: u32,
    us: u32,
    longest_us: u32,
}

impl Minute {
    /// Notes the part of a wait of `whole_us` that belongs to it. The call is counted where it
    /// ended.
    fn note(&mut self, part_us: u64, whole_us: u64, ends_here: bool) {
        let bounded = |us: u64| u32::try_from(us).unwrap_or(u32::MAX);
        self.calls = self.calls.saturating_add(u32::from(ends_here));
        self.us = self.us.saturating_add(bounded(part_us));
        if ends_here {
            self.longest_us = self.longest_us.max(bounded(whole_us));
        }
    }

    fn add(&mut self, other: Minute) {
        self.calls = self.calls.saturating_add(other.calls);
        self.us = self.us.saturating_add(other.us);
        self.longest_us = self.longest_us.max(other.longest_us);
    }

    fn sums(self) -> Sums {
        Sums {
            calls: u64::from(self.calls),
            us: u64::from(self.us),
            longest_us: u64::from(self.longest_us),
        }
    }
}

/// Sums since the start, and of the recent past.
#[derive(Clone, Copy, Debug)]
struct Past {
    all: Sums,
    recent: Recent<Minute>,
}

impl Past {
    fn new() -> Past {
        Past {
            all: Sums::default(),
            recent: Recent::new(),
        }
    }

    /// Notes a wait of `us` that ends at `now`.
    fn note(&mut self, us: u64, now: Instant) {
        self.all.note(us);
        self.recent.spread(now, us, |minute, part_us, ends_here| {
            minute.note(part_us, us, ends_here);
        });
    }

    fn add(&mut self, other: &Past) {
        self.all.add(other.all);
        self.recent.add(&other.recent, Minute::add);
    }

    /// The sums of `window`. Without a window, the sums since the start.
    fn sums(&self, window: Option<Window>) -> Sums {
        let Some(window) = window else {
            return self.all;
        };
        let mut sums = Sums::default();
        self.recent
            .for_each(window, |minute| sums.add(minute.sums()));
        sums
    }

    /// Orders rows by how soon they make room: the last minute first, then what was waited in it.
    fn freshness(&self) -> u64 {
        let (minute, last) = self.recent.last_minute();
        freshness(minute, last.us)
    }
}

/// The sums of one caller, store and cause.
#[derive(Clone, Copy, Debug)]
struct Row {
    key: RowKey,
    past: Past,
    /// The other caller that had most of the dirty pages.
    culprit: Option<CallerKey>,
}

/// The limits and the rates of stores at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) memory_bytes: u64,
    pub(crate) limit_pages: u64,
    /// The rate of each store, pages/s; 0: not known.
    pub(crate) rates: [u64; STORES],
}

impl Moment {
    /// The rate of store `bdi`.
    pub(crate) fn rate_of(&self, bdi: Option<usize>) -> u64 {
        bdi.and_then(|bdi| self.rates.get(bdi).copied())
            .unwrap_or(0)
    }

    /// Notes the rate of store `bdi`, if there is room.
    pub(crate) fn note_rate(&mut self, bdi: usize, pages_per_s: u64) {
        if let Some(rate) = self.rates.get_mut(bdi) {
            *rate = pages_per_s;
        }
    }
}

#[derive(Debug)]
struct Books {
    /// In the order of their keys.
    rows: Vec<Row>,
    most_rows: usize,
    /// The waits of rows that made room for others, by cause. They lie in the engine itself, as the
    /// knobs do, so their bytes are not part of the ledger's room.
    others: [Past; CAUSES],
    stalls: VecDeque<WaitedCall>,
    most_stalls: usize,
    /// The one that was remembered or waited last is at the back.
    names: VecDeque<Caller>,
    moments: VecDeque<Moment>,
}

/// Who waited for what.
#[derive(Debug)]
pub(crate) struct Ledger {
    books: Mutex<Books>,
    handles: AtomicU32,
}

/// Bytes of a name, with the memory that it points to.
const NAME_BYTES: usize = size_of::<Caller>() + 64;

/// Bytes of a row, with those of a row of what callers have dirtied: there are as many of them.
const ROW_BYTES: usize = size_of::<Row>() + NAME_BYTES + dirtied::ROW_BYTES;
const STALL_BYTES: usize = size_of::<WaitedCall>();
const MOMENTS_BYTES: usize = MOMENTS * size_of::<Moment>();
/// The most bytes that a ledger takes.
const MOST_BYTES: usize = Room {
    rows: MOST_ROWS,
    stalls: MOST_STALLS,
}
.bytes();

/// How many rows and stalls a ledger keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) rows: usize,
    stalls: usize,
}

impl Room {
    /// As many as fit into `bytes`, up to the most, with half of the bytes for rows. There are
    /// always a few of each.
    pub(crate) fn within(bytes: usize) -> Room {
        let left = bytes.saturating_sub(MOMENTS_BYTES);
        let each = ROW_BYTES + PLACE_BYTES;
        let rows = (left / 2 / each).clamp(LEAST, MOST_ROWS);
        let without_stalls = Room { rows, stalls: 0 }.bytes();
        let stalls = bytes.saturating_sub(without_stalls) / STALL_BYTES;
        Room {
            rows,
            stalls: stalls.clamp(LEAST, MOST_STALLS),
        }
    }

    /// How many calls that wait now have a place.
    pub(crate) const fn places(self) -> usize {
        if self.rows > LEAST_PLACES {
            self.rows
        } else {
            LEAST_PLACES
        }
    }

    /// Bytes of a ledger with this room.
    pub(crate) const fn bytes(self) -> usize {
        let places_bytes = (self.places() - LEAST_PLACES) * PLACE_BYTES;
        MOMENTS_BYTES + self.rows * ROW_BYTES + self.stalls * STALL_BYTES + places_bytes
    }
}

// A ledger takes at most a mebibyte.
const _: () = assert!(MOST_BYTES <= 1 << 20);

impl Ledger {
    /// An empty ledger with `room`.
    pub(crate) fn with_room(room: Room) -> Ledger {
        let (most_rows, most_stalls) = (room.rows, room.stalls);
        Ledger {
            books: Mutex::new(Books {
                rows: Vec::with_capacity(most_rows),
                most_rows,
                others: [Past::new(); CAUSES],
                stalls: VecDeque::with_capacity(most_stalls),
                most_stalls,
                names: VecDeque::with_capacity(most_rows),
                moments: VecDeque::with_capacity(MOMENTS),
            }),
            handles: AtomicU32::new(0),
        }
    }

    /// The key of a handle that was opened without a caller.
    pub(crate) fn next_handle(&self) -> CallerKey {
        CallerKey::handle(self.handles.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The other caller that had dirtied most when `caller` last paused for `bdi` because of
    /// others.
    pub(crate) fn culprit(&self, caller: CallerKey, bdi: Option<usize>) -> Option<CallerKey> {
        let key = RowKey {
            caller,
            bdi,
            cause: Cause::OthersDirty,
        };
        let books = lock(&self.books);
        let at = books.rows.binary_search_by_key(&key, |row| row.key).ok()?;
        books.rows[at].culprit
    }

    /// Remembers the name of `caller`. If there are too many names, the caller that was remembered
    /// or waited the longest time ago is forgotten.
    pub(crate) fn remember(&self, caller: &Caller) {
        let mut books = lock(&self.books);
        if books.names.iter().any(|known| known.key() == caller.key()) {
            return;
        }
        if books.names.len() == books.most_rows {
            books.names.pop_front();
        }
        books.names.push_back(caller.clone());
    }

    /// The caller of `key`, with its name if it is remembered.
    pub(crate) fn caller(&self, key: CallerKey) -> Caller {
        let books = lock(&self.books);
        let known = books.names.iter().find(|known| known.key() == key);
        known.cloned().unwrap_or_else(|| Caller::nameless(key))
    }

    /// Notes `call`, which has ended, and its waits by cause, `spans`. It is kept as a stall if it
    /// took at least `threshold`. Returns whether it is time to remember a moment.
    pub(crate) fn note(
        &self,
        call: &WaitedCall,
        spans: impl Iterator<Item = (Cause, Span)>,
        threshold: Span,
        now: Instant,
    ) -> bool {
        let mut books = lock(&self.books);
        for (cause, span) in spans {
            let key = RowKey {
                caller: call.caller,
                bdi: call.bdi,
                cause,
            };
            let us = span.as_micros();
            let row = books.row(key);
            row.past.note(us, now);
            let top_dirtiers = call.pause.and_then(|view| view.heaviest_other);
            row.culprit = top_dirtiers.or(row.culprit);
        }
        books.keep_name(call.caller);
        if call.took >= threshold {
            if books.stalls.len() == books.most_stalls {
                books.stalls.pop_front();
            }
            books.stalls.push_back(*call);
        }
        books.is_moment(now)
    }

    /// Remembers `moment`, unless another caller has remembered one meanwhile.
    pub(crate) fn remember_moment(&self, moment: Moment) {
        let mut books = lock(&self.books);
        if books.is_moment(moment.at) {
            books.push_moment(moment);
        }
    }

    /// Remembers `moment`, at which knobs are turned. It replaces the last one if that is so young,
    /// so that many turns do not push out what was before them; the only one stays, as it is from
    /// before all turns.
    pub(crate) fn remember_turn(&self, moment: Moment) {
        let mut books = lock(&self.books);
        let last = books.moments.back();
        if last.is_some_and(|last| moment.at.since(last.at) < TURN) {
            if books.moments.len() == 1 {
                return;
            }
            books.moments.pop_back();
        }
        books.push_moment(moment);
    }

    /// The moment about a minute ago, or the first one. If the rate of a store was not known then,
    /// this has the first rate that was known.
    pub(crate) fn minute_ago(&self) -> Option<Moment> {
        let books = lock(&self.books);
        let mut past = *books.moments.front()?;
        for (number, rate) in past.rates.iter_mut().enumerate() {
            let mut known = books.moments.iter().map(|moment| moment.rates[number]);
            *rate = known.find(|&rate| rate > 0).unwrap_or(0);
        }
        Some(past)
    }

    /// The sums of every row, of `window` or since the start, and of what has no row any more.
    pub(crate) fn sums(&self, window: Option<Window>) -> Vec<(RowKey, Sums)> {
        let books = lock(&self.books);
        let rows = books
            .rows
            .iter()
            .map(|row| (row.key, row.past.sums(window)));
        let others = Cause::ALL.iter().map(|&cause| {
            let key = RowKey {
                caller: CallerKey::OTHERS,
                bdi: None,
                cause,
            };
            (key, books.others[cause as usize].sums(window))
        });
        rows.chain(others)
            .filter(|(_, sums)| sums.us > 0 || sums.calls > 0)
            .collect()
    }

    /// The stalls that ended at `since` or later, newest first.
    pub(crate) fn stalls(&self, since: Instant) -> Vec<WaitedCall> {
        let books = lock(&self.books);
        let newest = books.stalls.iter().rev();
        newest
            .take_while(|call| call.began + call.took >= since)
            .copied()
            .collect()
    }
}

impl Books {
    /// Whether it is time to remember a moment.
    fn is_moment(&self, now: Instant) -> bool {
        let last = self.moments.back();
        last.is_none_or(|last| now.since(last.at) >= MOMENT)
    }

    fn push_moment(&mut self, moment: Moment) {
        let moments = &mut self.moments;
        let is_old = |it: &Moment| moment.at.since(it.at) >= MINUTE;
        // The last of those that are a minute old stays.
        while moments.len() == MOMENTS || moments.get(1).is_some_and(is_old) {
            moments.pop_front();
        }
        moments.push_back(moment);
    }

    /// The row of `key`. If it is new and there is no room for it, the row that was last written
    /// to in the oldest minute makes room; of those that were written to in the same minute, the
    /// one that waited least in it.
    fn row(&mut self, key: RowKey) -> &mut Row {
        let place = |rows: &[Row]| rows.binary_search_by_key(&key, |row| row.key);
        let mut found = place(&self.rows);
        if found.is_err() && self.rows.len() == self.most_rows {
            self.fold_oldest();
            found = place(&self.rows);
        }
        if let Err(at) = found {
            let (past, culprit) = (Past::new(), None);
            self.rows.insert(at, Row { key, past, culprit });
        }
        let (Ok(at) | Err(at)) = found;
        &mut self.rows[at]
    }

    /// Moves what one row says to the others.
    fn fold_oldest(&mut self) {
        let rows = self.rows.iter().enumerate();
        let oldest = rows.min_by_key(|(_, row)| row.past.freshness());
        if let Some((at, _)) = oldest {
            let row = self.rows.remove(at);
            self.others[row.key.cause as usize].add(&row.past);
        }
    }

    /// The name of `caller` is the last to be forgotten.
    fn keep_name(&mut self, caller: CallerKey) {
        let is_it = |known: &Caller| known.key() == caller;
        if self.names.back().is_some_and(is_it) {
            return;
        }
        if let Some(at) = self.names.iter().position(is_it)
            && let Some(name) = self.names.remove(at)
        {
            self.names.push_back(name);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "ledger_tests.rs"]
mod tests;
