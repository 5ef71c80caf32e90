//! Whether each decision about a writer follows from what was recorded with it, by the engine's own
//! laws, and whether what was recorded is what the gauges show at the same instant.
//!
//! This finds a decision that no law made, and a law whose inputs were not the state of the cache.
//! It does not find a law that is wrong.

use super::super::verdict::{Oracle, Violation};
use super::observer::{Moment, Observer};
use forebay_base::Instant;
use forebay_engine::Statistics;
use forebay_engine::event::{Event, PauseLimit, PauseRecord};
use forebay_law::rate::{DirtyRate, RateInputs, strict_setpoint};

/// After this many steps the base rate of a store changes by steps alone. Before, it also follows
/// the first samples of the bandwidth.
const EARLY_STEPS: u64 = 32;

/// The base rate of a store, as its recorded steps make it.
#[derive(Clone, Copy, Debug, Default)]
struct OfStore {
    steps: u64,
    known: Option<DirtyRate>,
    /// When the last step was taken, and from what.
    last: Option<(Instant, RateInputs)>,
}

/// See above.
#[derive(Debug, Default)]
pub(super) struct Recomputed {
    stores: Vec<OfStore>,
}

impl Recomputed {
    fn store(&mut self, bdi: usize) -> &mut OfStore {
        if self.stores.len() <= bdi {
            self.stores.resize(bdi + 1, OfStore::default());
        }
        &mut self.stores[bdi]
    }
}

impl OfStore {
    /// The base rate becomes `ratelimit`.
    fn steps_to(&mut self, now: Instant, inputs: RateInputs, ratelimit: u64) -> Option<String> {
        let expected = self.known.map(|known| known.advanced(&inputs));
        self.steps += 1;
        self.last = Some((now, inputs));
        self.known = Some(expected.map_or(
            DirtyRate {
                ratelimit,
                balanced: ratelimit,
            },
            |expected| DirtyRate {
                ratelimit,
                ..expected
            },
        ));
        let expected = expected?.ratelimit;
        (self.steps > EARLY_STEPS && expected != ratelimit).then(|| {
            format!(
                "the base rate is {ratelimit} pages/s after {inputs:?}, from which follow \
                 {expected}"
            )
        })
    }

    /// What is wrong with the base rate of a pause, or with the last step towards it.
    fn judge(&mut self, now: Instant, record: &PauseRecord) -> Option<String> {
        let known = self.known?;
        if known.ratelimit != record.dirty_ratelimit {
            let known = self.known.take()?.ratelimit;
            let is_early = self.steps <= EARLY_STEPS;
            return (!is_early).then(|| {
                format!(
                    "a pause is computed with a base rate of {} pages/s; the last step led to \
                     {known}",
                    record.dirty_ratelimit
                )
            });
        }
        let (_, inputs) = self.last.take_if(|(at, _)| *at == now)?;
        let place = &record.position;
        let (dirty, setpoint) = if place.strict {
            let setpoint = strict_setpoint(
                place.store_dirty,
                place.store_thresh,
                place.store_background,
            );
            (place.store_dirty, setpoint)
        } else {
            (place.dirty, record.setpoint)
        };
        // Another writer may have been evaluated between the two.
        let most_apart = place.thresh / 8;
        let is_other = |one: u64, other: u64| one.abs_diff(other) > most_apart;
        (is_other(inputs.dirty, dirty) || is_other(inputs.setpoint, setpoint)).then(|| {
            format!(
                "the base rate steps by {inputs:?}, and at the same instant a pause is computed \
                 with {dirty} dirty pages and a setpoint of {setpoint}"
            )
        })
    }
}

/// What is wrong with the inputs of a pause of store `bdi`, at the instant of its decision.
fn judge_inputs(record: &PauseRecord, bdi: usize, seen: &Statistics) -> Option<String> {
    let (place, store) = (&record.position, &seen.backings[bdi]);
    // The smoothed limit may have taken a step since.
    let most_limit = seen.dirty_limit + seen.dirty_limit / 31 + 1;
    let has_failed = seen.backings.iter().any(|store| store.failed_pages > 0);
    let is_silent = |number: usize| number != bdi && seen.backings[number].silent_us > 0;
    let all_answer = !(0..seen.backings.len()).any(is_silent);
    // What a promise in seconds allows may have taken a step since.
    let has_promise = store.drain.is_some();
    let pages = [
        ("threshold", place.thresh, seen.nr_dirty_threshold, true),
        (
            "background threshold",
            place.background,
            seen.nr_dirty_background_threshold,
            true,
        ),
        (
            "dirty pages",
            place.dirty,
            seen.dirty(),
            !has_failed && all_answer,
        ),
        (
            "dirty pages of its store",
            place.store_dirty,
            store.reclaimable + store.writeback,
            !has_failed,
        ),
        (
            "threshold of its store",
            place.store_thresh,
            store.dirty_thresh,
            !has_promise,
        ),
    ];
    let wrong = pages
        .iter()
        .find(|(_, of_pause, gauge, is_exact)| *is_exact && of_pause != gauge);
    if let Some((name, of_pause, gauge, _)) = wrong {
        return Some(format!(
            "a pause is computed with {of_pause} as the {name}; it is {gauge}"
        ));
    }
    let limits = seen.dirty_limit..=most_limit;
    (!limits.contains(&place.hard_limit)).then(|| {
        format!(
            "a pause is computed with a hard limit of {}; it is {limits:?}",
            place.hard_limit
        )
    })
}

impl Observer for Recomputed {
    fn event(&mut self, moment: &Moment<'_>, event: &Event) -> Option<Violation> {
        let (bdi, what) = match *event {
            Event::BdiDirtyRatelimit {
                bdi,
                inputs,
                dirty_ratelimit,
                ..
            } => {
                let of_store = self.store(bdi);
                (bdi, of_store.steps_to(moment.now, inputs, dirty_ratelimit))
            }
            Event::BalanceDirtyPages { bdi, record, .. }
                if record.limit != PauseLimit::Unmeasured =>
            {
                let again = record.recomputed();
                let differs = (again != record)
                    .then(|| format!("{record:?} is recorded, but its inputs give {again:?}"));
                let of_store = self.store(bdi);
                let what = differs.or_else(|| of_store.judge(moment.now, &record));
                (
                    bdi,
                    what.or_else(|| judge_inputs(&record, bdi, moment.statistics())),
                )
            }
            _ => return None,
        };
        let what = format!("at {} ms, store {bdi}: {}", moment.now.as_millis(), what?);
        Some(Oracle::Recomputed.finds(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_base_rate_that_does_not_follow_is_found() {
        let inputs = RateInputs {
            position_ratio: 1_024,
            average_pages_per_s: 1_000,
            dirtied_pages: 100,
            elapsed_ms: 200,
            dirty: 500,
            setpoint: 600,
        };
        let mut rate = DirtyRate {
            ratelimit: 900,
            balanced: 900,
        };
        let mut store = OfStore::default();
        assert_eq!(store.steps_to(Instant::ZERO, inputs, rate.ratelimit), None);
        for _ in 0..EARLY_STEPS {
            rate = rate.advanced(&inputs);
            assert_eq!(store.steps_to(Instant::ZERO, inputs, rate.ratelimit), None);
        }
        let wrong = rate.advanced(&inputs).ratelimit + 1;
        let found = store.steps_to(Instant::ZERO, inputs, wrong);
        assert!(found.is_some_and(|what| what.contains("from which follow")));
    }
}
