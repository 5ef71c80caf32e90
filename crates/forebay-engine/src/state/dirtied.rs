//! How many pages each caller has made dirty: since the start, and in the last minutes.
//!
//! A writer counts for itself. What it counted comes here when it is evaluated and when its handle
//! goes, so that a write to a page that is dirty already adds nothing.
//!
//! invariant WD1: the rows together have all pages that were noted, including those of callers
//! whose row had to make room for another one.

use crate::caller::CallerKey;
use crate::state::minutes::{Recent, Window, freshness};
use forebay_base::Instant;
use forebay_base::sync::{Mutex, lock};

/// A caller and the store whose pages it dirtied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirtierKey {
    pub(crate) caller: CallerKey,
    /// None for callers that had to make room.
    pub(crate) bdi: Option<u32>,
}

const OTHERS: DirtierKey = DirtierKey {
    caller: CallerKey::OTHERS,
    bdi: None,
};

#[derive(Clone, Copy, Debug)]
struct Row {
    key: DirtierKey,
    all: u64,
    recent: Recent<u32>,
}

/// Bytes of a row.
pub(crate) const ROW_BYTES: usize = size_of::<Row>();

impl Row {
    fn new(key: DirtierKey) -> Row {
        Row {
            key,
            all: 0,
            recent: Recent::new(),
        }
    }

    fn note(&mut self, pages: u64, now: Instant) {
        self.all += pages;
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        self.recent
            .note(now, |sum| *sum = sum.saturating_add(pages));
    }

    fn add(&mut self, other: Row) {
        self.all += other.all;
        let add = |sum: &mut u32, added| *sum = sum.saturating_add(added);
        self.recent.add(&other.recent, add);
    }

    fn pages(&self, window: Option<Window>) -> u64 {
        let Some(window) = window else {
            return self.all;
        };
        let mut pages = 0;
        self.recent.for_each(window, |sum| pages += u64::from(sum));
        pages
    }

    /// Orders rows by how soon they make room: the last minute first, then the pages in it. In one
    /// number, because with many callers every row is asked for each call.
    fn freshness(&self) -> u64 {
        let (minute, pages) = self.recent.last_minute();
        freshness(minute, pages)
    }
}

#[derive(Debug)]
struct Rows {
    /// In the order of their keys.
    all: Vec<Row>,
    most: usize,
    others: Row,
}

/// What callers have made dirty.
#[derive(Debug)]
pub(crate) struct Dirtied(Mutex<Rows>);

impl Dirtied {
    /// Room for `most` callers, at least one.
    pub(crate) fn with_rows(most: usize) -> Dirtied {
        Dirtied(Mutex::new(Rows {
            all: Vec::with_capacity(most),
            most: most.max(1),
            others: Row::new(OTHERS),
        }))
    }

    /// Notes that the caller of `key` has made `pages` dirty.
    pub(crate) fn note(&self, key: DirtierKey, pages: u64, now: Instant) {
        lock(&self.0).row(key).note(pages, now);
    }

    /// The pages of every row, of `window` or since the start, and of callers that have no row any
    /// more.
    pub(crate) fn pages(&self, window: Option<Window>) -> Vec<(DirtierKey, u64)> {
        let rows = lock(&self.0);
        let rows = rows.all.iter().chain([&rows.others]);
        rows.map(|row| (row.key, row.pages(window)))
            .filter(|(_, pages)| *pages > 0)
            .collect()
    }
}

impl Rows {
    /// The row of `key`. If it is new and there is no room for it, the row that was last written to
    /// in the oldest minute makes room; of several, the one that dirtied least in it.
    fn row(&mut self, key: DirtierKey) -> &mut Row {
        let place = |rows: &[Row]| rows.binary_search_by_key(&key, |row| row.key);
        let mut found = place(&self.all);
        if found.is_err() && self.all.len() == self.most {
            self.fold_oldest();
            found = place(&self.all);
        }
        if let Err(at) = found {
            self.all.insert(at, Row::new(key));
        }
        let (Ok(at) | Err(at)) = found;
        &mut self.all[at]
    }

    fn fold_oldest(&mut self) {
        let rows = self.all.iter().enumerate();
        let oldest = rows.min_by_key(|(_, row)| row.freshness());
        if let Some((at, _)) = oldest {
            let row = self.all.remove(at);
            self.others.add(row);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_base::Span;

    const ROWS: usize = 8;

    fn key(number: u32) -> DirtierKey {
        DirtierKey {
            caller: CallerKey::handle(number),
            bdi: Some(0),
        }
    }

    fn at_minute(minute: u64) -> Instant {
        Instant::ZERO + Span::from_secs(60 * minute)
    }

    fn sum(dirtied: &Dirtied, now: Instant, minutes: Option<usize>) -> u64 {
        let window = minutes.map(|minutes| Window::minutes(now, minutes));
        let pages = dirtied.pages(window);
        pages.iter().map(|(_, pages)| pages).sum()
    }

    #[test]
    fn invariant_wd1_callers_that_make_room_stay_in_the_sum() {
        let dirtied = Dirtied::with_rows(ROWS);
        let mut all = 0;
        for number in 0..1_000 {
            let now = at_minute(u64::from(number) / 100);
            dirtied.note(key(number), u64::from(number) + 1, now);
            all += u64::from(number) + 1;
            assert_eq!(sum(&dirtied, now, None), all);
        }
        let pages = dirtied.pages(None);
        assert_eq!(pages.len(), ROWS + 1);
        assert_eq!(pages.last().map(|(key, _)| *key), Some(OTHERS));
        // Those of the last minute, whether they still have a row or not.
        assert_eq!(sum(&dirtied, at_minute(9), Some(1)), (901..=1_000).sum());
    }

    #[test]
    fn minutes_are_forgotten_and_the_whole_is_not() {
        let dirtied = Dirtied::with_rows(ROWS);
        for minute in 0..30 {
            dirtied.note(key(1), 1 << minute, at_minute(minute));
        }
        let now = at_minute(29);
        assert_eq!(sum(&dirtied, now, Some(2)), (1 << 29) + (1 << 28));
        assert_eq!(sum(&dirtied, now, Some(10)), (1 << 30) - (1 << 20));
        assert_eq!(sum(&dirtied, now, None), (1 << 30) - 1);
        assert_eq!(sum(&dirtied, at_minute(31), Some(2)), 0);
    }

    #[test]
    fn of_many_callers_of_one_minute_the_heavy_one_keeps_its_row() {
        let dirtied = Dirtied::with_rows(ROWS);
        dirtied.note(key(5_000), 1 << 20, Instant::ZERO);
        for number in 0..1_000 {
            dirtied.note(key(number), 1, Instant::ZERO);
        }
        let pages = dirtied.pages(Some(Window::minutes(Instant::ZERO, 1)));
        assert!(pages.contains(&(key(5_000), 1 << 20)), "{pages:?}");
    }
}
