//! The callers that have dirtied most lately.
//!
//! Space-Saving: a caller for which there is no room takes the place of the lightest, with its
//! count. So the count of a caller is never too low, and exact while there are no more callers than
//! places. Counts are halved regularly, because pages that were written since are not dirty any
//! more.

use crate::caller::CallerKey;
use forebay_base::sync::{Mutex, lock};

/// Callers that are counted.
const PLACES: usize = 8;
/// Counts are halved this often: the window of the bandwidth law, ms.
const HALVED_MS: u64 = 3_000;

#[derive(Clone, Copy, Debug)]
struct Place {
    caller: CallerKey,
    pages: u64,
}

#[derive(Debug, Default)]
struct Places {
    places: Vec<Place>,
    halved_ms: u64,
}

impl Places {
    fn halve(&mut self, now_ms: u64) {
        let times = now_ms.saturating_sub(self.halved_ms) / HALVED_MS;
        if times == 0 {
            return;
        }
        self.halved_ms += times * HALVED_MS;
        let shift = u32::try_from(times).unwrap_or(u32::MAX);
        for place in &mut self.places {
            place.pages = place.pages.checked_shr(shift).unwrap_or(0);
        }
        self.places.retain(|place| place.pages > 0);
    }
}

/// What the callers that dirtied most have dirtied, and all of them together.
#[derive(Debug)]
pub(crate) struct TopDirtiers(Mutex<Places>);

/// A caller's part of the pages that were dirtied lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirtiedPart {
    pub(crate) own: u64,
    pub(crate) all: u64,
    /// The other caller that dirtied most, and its pages.
    pub(crate) other: Option<(CallerKey, u64)>,
}

impl DirtiedPart {
    /// Its part of `pages`.
    pub(crate) fn of(self, pages: u64) -> u64 {
        let part = u128::from(pages) * u128::from(self.own);
        part.checked_div(u128::from(self.all))
            .map_or(0, |pages| pages as u64)
    }
}

impl Default for TopDirtiers {
    fn default() -> TopDirtiers {
        TopDirtiers(Mutex::new(Places {
            places: Vec::with_capacity(PLACES),
            halved_ms: 0,
        }))
    }
}

impl TopDirtiers {
    /// Notes that `caller` has dirtied `pages`.
    pub(crate) fn note(&self, caller: CallerKey, pages: u64, now_ms: u64) {
        if pages == 0 {
            return;
        }
        let mut all = lock(&self.0);
        all.halve(now_ms);
        if let Some(place) = all.places.iter_mut().find(|place| place.caller == caller) {
            place.pages += pages;
        } else if all.places.len() < PLACES {
            all.places.push(Place { caller, pages });
        } else if let Some(lightest) = all.places.iter_mut().min_by_key(|place| place.pages) {
            lightest.caller = caller;
            lightest.pages += pages;
        }
    }

    /// The part of `caller` at `now_ms`.
    pub(crate) fn part(&self, caller: CallerKey, now_ms: u64) -> DirtiedPart {
        let mut all = lock(&self.0);
        all.halve(now_ms);
        let mut part = DirtiedPart::default();
        for place in &all.places {
            part.all += place.pages;
            if place.caller == caller {
                part.own = place.pages;
            } else if part.other.is_none_or(|(_, pages)| place.pages > pages) {
                part.other = Some((place.caller, place.pages));
            }
        }
        part
    }

    /// Every counted caller with its pages, the most first.
    pub(crate) fn all(&self, now_ms: u64) -> Vec<(CallerKey, u64)> {
        let mut all = lock(&self.0);
        all.halve(now_ms);
        let mut rows: Vec<_> = all.places.iter().map(|it| (it.caller, it.pages)).collect();
        drop(all);
        rows.sort_by_key(|(_, pages)| std::cmp::Reverse(*pages));
        rows
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn caller(number: u32) -> CallerKey {
        CallerKey::handle(number)
    }

    #[test]
    fn up_to_eight_callers_are_counted_exactly() {
        let top_dirtiers = TopDirtiers::default();
        for number in 0..8 {
            top_dirtiers.note(caller(number), u64::from(number) + 1, 0);
            top_dirtiers.note(caller(number), 10, 0);
        }
        let part = top_dirtiers.part(caller(3), 0);
        assert_eq!((part.own, part.all), (14, 36 + 80));
        assert_eq!(part.other, Some((caller(7), 18)));
        assert_eq!(part.of(1160), 140);
    }

    #[test]
    fn a_ninth_takes_the_place_of_the_lightest_and_no_count_is_too_low() {
        let top_dirtiers = TopDirtiers::default();
        for number in 0..8 {
            top_dirtiers.note(caller(number), 100 - u64::from(number), 0);
        }
        top_dirtiers.note(caller(8), 5, 0);
        assert_eq!(top_dirtiers.part(caller(8), 0).own, 93 + 5);
        assert_eq!(top_dirtiers.part(caller(7), 0).own, 0);
        assert_eq!(top_dirtiers.all(0)[0], (caller(0), 100));
    }

    #[test]
    fn what_was_dirtied_long_ago_does_not_count() {
        let top_dirtiers = TopDirtiers::default();
        top_dirtiers.note(caller(1), 1_000, 0);
        assert_eq!(top_dirtiers.part(caller(1), HALVED_MS).own, 500);
        top_dirtiers.note(caller(2), 100, HALVED_MS);
        assert_eq!(top_dirtiers.part(caller(1), 3 * HALVED_MS).own, 125);
        assert_eq!(top_dirtiers.part(caller(2), 3 * HALVED_MS).own, 25);
        assert_eq!(top_dirtiers.all(1_000 * HALVED_MS), []);
    }
}
