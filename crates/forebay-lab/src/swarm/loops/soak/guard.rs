//! The guard: the oracles that hold in any timing, and their findings.
//!
//! The other oracles need virtual time. In virtual time a call that is not held up takes no time
//! (`work`), gauges are read at the instant of each change (the second rule of `limit`), and a
//! timer is never late (`backoff`, `estimate`).

use super::super::super::scene::{Scene, Site};
use super::super::super::verdict::{Oracle, Violation};
use super::super::age::Age;
use super::super::limit::{Level, Limit};
use super::meter::Meter;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_engine::Statistics;
use std::sync::Arc;

/// A thread may be kept from running for this long while a page is dirty: the processors may have
/// other work for seconds.
const AGE_SLACK: Span = Span::from_secs(5);
/// The limit is broken if this many looks in a row see too much. Gauges are read one after the
/// other, so a page that moves meanwhile is counted twice.
const LOOKS: u32 = 3;

#[derive(Debug)]
struct State {
    limit: Limit,
    /// Looks in a row that saw too much.
    over: u32,
    found: Option<Violation>,
}

/// See above.
#[derive(Debug)]
pub(super) struct Guard {
    state: Mutex<State>,
}

impl Guard {
    pub(super) fn new(scene: &Scene) -> Guard {
        Guard {
            state: Mutex::new(State {
                limit: Limit::of_levels(scene.writers(), scene.sites.len() as u64),
                over: 0,
                found: None,
            }),
        }
    }

    /// The oracle of age of a store, if each of its pages is followed.
    pub(super) fn age_of(scene: &Scene, site: &Site) -> Option<Age> {
        let expire = scene.settings.dirty_expire + AGE_SLACK;
        let interval = scene.settings.writeback_interval;
        let age = || Age::new(expire, interval, site.least_pages_per_s());
        scene.is_light.then(age)
    }

    /// Keeps the first finding.
    pub(super) fn keep(&self, oracle: Oracle, wrong: Option<String>) {
        let Some(what) = wrong else {
            return;
        };
        lock(&self.state)
            .found
            .get_or_insert(Violation { oracle, what });
    }

    /// Judges the levels of one look, and the age of all pages.
    pub(super) fn look(&self, now: Instant, seen: &Statistics, meters: &[Arc<Meter>]) {
        for meter in meters {
            self.keep(Oracle::Age, meter.judge_age());
        }
        let silent = meters.iter().map(|meter| meter.longest_silence()).max();
        let level = Level {
            dirty: seen.dirty(),
            limit: seen.dirty_limit,
            dirtied: seen.backings.iter().map(|of_store| of_store.dirtied).sum(),
            silent: silent.unwrap_or(Span::ZERO),
        };
        let wrong = lock(&self.state).judge_level(now, level);
        self.keep(Oracle::Limit, wrong);
    }

    pub(super) fn found(&self) -> Option<Violation> {
        lock(&self.state).found.clone()
    }
}

impl State {
    fn judge_level(&mut self, now: Instant, level: Level) -> Option<String> {
        let wrong = self.limit.note(now, level);
        self.over = if wrong.is_some() { self.over + 1 } else { 0 };
        wrong.filter(|_| self.over >= LOOKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_found_if_it_is_seen_several_times_in_a_row() {
        let mut state = State {
            limit: Limit::of_levels(2, 1),
            over: 0,
            found: None,
        };
        let mut dirty = |dirty: u64| {
            let level = Level {
                dirty,
                limit: 3_200,
                ..Level::default()
            };
            state.judge_level(Instant::ZERO, level)
        };
        // The limit, 100 of the common quota and 128 of two writers.
        for pages in [3_429, 3_429, 3_428, 3_429, 3_429] {
            assert_eq!(dirty(pages), None, "{pages}");
        }
        assert!(dirty(3_429).is_some_and(|what| what.contains("3428 may be")));
    }
}
