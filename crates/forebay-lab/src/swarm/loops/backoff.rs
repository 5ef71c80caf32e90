//! Back-off: what a store refused is tried again when it is due, not before and not much later
//! (spec/writeback.md 7.9, Forebay; docs/decisions/sync-and-commits.md).
//!
//! A request that fails is split down to single pages at once. A page that is refused alone waits
//! for the next try of its object. That is a second after the first refusal of the last try, twice
//! as long after each further one, and at most a minute. A try begins with the first write of such
//! a page and covers all of them. A store that refused everything for half a second and then takes
//! a write may have room again, so everything is tried at once.

use super::age::Age;
use forebay_base::{Instant, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The first wait, and the longest.
const WAITS: (Span, Span) = (Span::from_secs(1), Span::from_secs(60));
/// A store that has refused every write for this long is forgiven with the first write that it
/// takes, and at the earliest this long after the refusal.
const REFUSING: Span = Span::from_millis(499);
const FORGIVEN: Span = Span::from_millis(200);
/// Clocks are read in whole milliseconds.
const EARLY: Span = Span::from_millis(2);
/// A flusher at work ends its slice and waits for room in its store's queue before it looks.
const LATE: Span = Span::from_millis(400);
/// An object with other dirty pages is not put off. It has its next turn when these are old enough.
const OTHERS: &str = "for the expiry and interval of its other dirty pages";

/// One object.
#[derive(Debug, Default)]
struct Object {
    /// Pages whose last write failed.
    failed: BTreeSet<u64>,
    /// Those of them that were refused alone and have to wait.
    refused: BTreeSet<u64>,
    /// When the first page of the last try was refused, and how long the next try has to wait.
    since: Option<Instant>,
    wait: Span,
    /// A try has begun since.
    is_tried: bool,
    /// It had other dirty pages since.
    has_others: bool,
    /// When its store was forgiven since.
    forgiven: Option<Instant>,
}

impl Object {
    /// When its next try is due.
    fn due(&self) -> Option<Instant> {
        let since = self.since?;
        let own = since + self.wait;
        let forgiven = self.forgiven.map(|at| at.max(since + FORGIVEN));
        Some(forgiven.map_or(own, |at| at.min(own)))
    }

    /// The first page of a try was refused.
    fn waits_from(&mut self, now: Instant) {
        if self.forgiven.take().is_some() {
            self.wait = Span::ZERO;
        }
        self.since = Some(now);
        self.wait = (self.wait + self.wait).clamp(WAITS.0, WAITS.1);
        self.is_tried = false;
        self.has_others = false;
    }
}

/// The objects of one store.
#[derive(Debug)]
pub(super) struct BackOff {
    objects: BTreeMap<u64, Object>,
    /// How long other dirty pages of an object may delay its turn.
    others: Span,
    /// Since when every write that ended has failed.
    refusing: Option<Instant>,
}

impl BackOff {
    pub(super) fn new(expire: Span, interval: Span) -> BackOff {
        BackOff {
            objects: BTreeMap::new(),
            others: expire + interval,
            refusing: None,
        }
    }

    /// Whether the last write of a page failed.
    pub(super) fn has_failed(&self, object: u64, page: u64) -> bool {
        let object = self.objects.get(&object);
        object.is_some_and(|object| object.failed.contains(&page))
    }

    /// `pages` get new bytes. They are written in their usual turn, whatever was refused.
    pub(super) fn dirtied(&mut self, object: u64, pages: Range<u64>) {
        if let Some(object) = self.objects.get_mut(&object) {
            object.refused.retain(|page| !pages.contains(page));
            object.has_others = true;
        }
    }

    /// Notes which objects with refused pages have other dirty pages, by `age`.
    pub(super) fn look(&mut self, age: &Age) {
        for (number, object) in &mut self.objects {
            object.has_others |= age.has_dirty(*number);
        }
    }

    /// A write of `pages` begins.
    pub(super) fn begins(
        &mut self,
        now: Instant,
        number: u64,
        pages: Range<u64>,
    ) -> Option<String> {
        let object = self.objects.get_mut(&number)?;
        object.refused.range(pages).next()?;
        object.refused.clear();
        object.is_tried = true;
        let due = object.due()?;
        (now + EARLY < due).then(|| {
            format!(
                "what object {number} was refused is tried {} before it is due, {} after the \
                 refusal (spec/writeback.md 7.9)",
                due.since(now),
                object.wait
            )
        })
    }

    /// A write of `pages` ended.
    pub(super) fn ends(&mut self, now: Instant, number: u64, pages: Range<u64>, is_done: bool) {
        if is_done {
            let refusing = self.refusing.take();
            if refusing.is_some_and(|since| now.since(since) >= REFUSING) {
                let objects = self.objects.values_mut();
                objects.for_each(|object| object.forgiven = Some(now));
            }
            let Some(object) = self.objects.get_mut(&number) else {
                return;
            };
            object.failed.retain(|page| !pages.contains(page));
            if object.failed.is_empty() {
                self.objects.remove(&number);
            }
            return;
        }
        self.refusing.get_or_insert(now);
        let object = self.objects.entry(number).or_default();
        let is_single = pages.end - pages.start == 1;
        if is_single {
            object.refused.insert(pages.start);
        }
        object.failed.extend(pages);
        if is_single && (object.since.is_none() || object.is_tried) {
            object.waits_from(now);
        }
    }

    /// What should have been tried by now and was not.
    pub(super) fn judge(&self, now: Instant) -> Option<String> {
        self.objects.iter().find_map(|(number, object)| {
            let due = object.since? + object.wait;
            let (late, others) = if object.has_others {
                (LATE + self.others, OTHERS)
            } else {
                (LATE, "it has no other dirty pages")
            };
            let waits = !object.is_tried && !object.refused.is_empty();
            (waits && now > due + late).then(|| {
                format!(
                    "what object {number} was refused is due for {}, {} after the refusal, and \
                     nobody tries it ({late} are allowed, {others}; spec/writeback.md 7.9)",
                    now.since(due),
                    object.wait
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::at;

    /// A run of eight pages fails, is split, and page 3 is refused alone.
    fn refused() -> BackOff {
        let mut back_off = BackOff::new(Span::from_secs(3), Span::from_secs(1));
        for (pages, is_done) in [(0..8, false), (0..4, false), (4..8, true), (0..2, true)] {
            assert_eq!(back_off.begins(at(0), 1, pages.clone()), None);
            back_off.ends(at(1), 1, pages, is_done);
        }
        back_off.ends(at(1), 1, 2..3, true);
        back_off.ends(at(1), 1, 3..4, false);
        back_off
    }

    #[test]
    fn a_try_that_comes_too_early_or_too_late_is_found() {
        assert!(refused().begins(at(900), 1, 3..4).is_some());
        assert_eq!(refused().begins(at(900), 1, 4..8), None, "it was taken");
        let mut back_off = refused();
        assert_eq!(back_off.judge(at(1_400)), None);
        assert!(back_off.judge(at(1_402)).is_some());
        assert_eq!(back_off.begins(at(1_001), 1, 3..4), None);
        assert_eq!(back_off.judge(at(9_000)), None, "it is under way");
        back_off.ends(at(1_001), 1, 3..4, false);
        let early = back_off.begins(at(2_500), 1, 3..4).expect("2 s by now");
        assert!(early.contains("501 ms before it is due"), "{early}");
    }

    #[test]
    fn a_store_that_takes_a_write_again_is_asked_for_all_at_once() {
        let mut back_off = refused();
        back_off.ends(at(400), 2, 0..1, true);
        assert!(back_off.begins(at(700), 1, 3..4).is_some());
        let mut back_off = refused();
        back_off.ends(at(600), 2, 0..1, true);
        assert_eq!(back_off.begins(at(601), 1, 3..4), None);
        back_off.ends(at(601), 1, 3..4, false);
        assert!(back_off.begins(at(1_500), 1, 3..4).is_some(), "1 s again");
    }

    #[test]
    fn what_is_written_at_last_is_forgotten() {
        let mut mixed = refused();
        mixed.dirtied(1, 6..7);
        assert_eq!(mixed.judge(at(5_400)), None);
        assert!(mixed.judge(at(5_402)).is_some());
        let mut back_off = refused();
        assert_eq!(back_off.begins(at(1_001), 1, 3..4), None);
        back_off.ends(at(1_002), 1, 3..4, true);
        assert_eq!(back_off.judge(at(100_000)), None);
        back_off.ends(at(100_000), 1, 3..4, false);
        assert_eq!(back_off.begins(at(101_000), 1, 3..4), None, "1 s again");
    }
}
