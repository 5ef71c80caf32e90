//! How many pages each caller has made dirty: since the start, and in the last minutes.
//!
//! A writer counts for itself. What it counted comes here when it is evaluated and when its handle
//! goes, so that a write to a page that is dirty already adds nothing.
//!
//! invariant WD1: the rows together have all pages that were noted, including those of callers
//! whose row had to make room for another one.

use crate::caller::CallerKey;
use crate::state::minutes::{MINUTES, Window, cleared_between, freshness, minute_of};
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
    minutes: [u32; MINUTES as usize],
    /// The minute that was last written to.
    minute: u64,
}

/// Bytes of a row.
pub(crate) const ROW_BYTES: usize = size_of::<Row>();

impl Row {
    fn new(key: DirtierKey) -> Row {
        Row {
            key,
            all: 0,
            minutes: [0; MINUTES as usize],
            minute: 0,
        }
    }

    fn turn_to(&mut self, minute: u64) {
        cleared_between(self.minute, minute).for_each(|place| self.minutes[place] = 0);
        self.minute = self.minute.max(minute);
    }

    fn note(&mut self, pages: u64, minute: u64) {
        self.turn_to(minute);
        self.all += pages;
        let sum = &mut self.minutes[(minute % MINUTES) as usize];
        *sum = sum.saturating_add(u32::try_from(pages).unwrap_or(u32::MAX));
    }

    fn add(&mut self, mut other: Row) {
        self.turn_to(other.minute);
        other.turn_to(self.minute);
        self.all += other.all;
        for (sum, added) in self.minutes.iter_mut().zip(other.minutes) {
            *sum = sum.saturating_add(added);
        }
    }

    fn pages(mut self, window: Option<Window>) -> u64 {
        let Some(window) = window else {
            return self.all;
        };
        self.turn_to(window.minute);
        let places = window.places();
        places.map(|place| u64::from(self.minutes[place])).sum()
    }

    /// Orders rows by how soon they make room: the last minute first, then the pages in it. In one
    /// number, because with many callers every row is asked for each call.
    fn freshness(&self) -> u64 {
        freshness(self.minute, self.minutes[(self.minute % MINUTES) as usize])
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
        lock(&self.0).row(key).note(pages, minute_of(now));
    }

    /// The pages of every row, of the last `minutes` or since the start, and of callers that have
    /// no row any more.
    pub(crate) fn pages(&self, now: Instant, minutes: Option<u64>) -> Vec<(DirtierKey, u64)> {
        let window = minutes.map(|minutes| Window::of(now, minutes));
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

    fn sum(dirtied: &Dirtied, now: Instant, minutes: Option<u64>) -> u64 {
        let pages = dirtied.pages(now, minutes);
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
        let pages = dirtied.pages(at_minute(9), None);
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
        let pages = dirtied.pages(Instant::ZERO, Some(1));
        assert!(pages.contains(&(key(5_000), 1 << 20)), "{pages:?}");
    }
}
