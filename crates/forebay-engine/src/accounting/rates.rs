//! Measuring a store: its write bandwidth, and the base rate of its writers.
//!
//! Spec/writeback.md 3. Two things are done differently, because a kernel never sees these stores
//! start (docs/decisions/writeback-and-throttling.md). A store is measured over the time in which
//! it was busy. And the first samples weigh more, so that the rate of a store, be it 4 GB/s or 4
//! MB/s, is known within a second instead of half a minute. Kernels with a learned
//! estimate do neither.
//!
//! A sample is full if the store had enough to do during it. Only a full sample shows the rate that
//! the store can keep up. The others show what it has room for, and raise the estimate step by
//! step. A sample is not full either if the store refused more than an eighth of its pages, and one
//! in which it took none is left out.

use crate::event::Event;
use crate::kernel::Estimate;
use crate::parts::Dirty;
use crate::state::backing::{Backing, Rates, SAMPLES_TO_TRUST};
use forebay_base::Instant;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_law::bandwidth::{BANDWIDTH_INTERVAL_MS, Bandwidth, Sample};
use forebay_law::rate::{DirtyRate, RateInputs};

/// The interval between the first samples.
const FIRST_INTERVAL_MS: u64 = 20;
/// This many samples count for more than the window would let them: full samples by their number,
/// the others by the factor that each may raise the estimate.
pub(crate) const EARLY_SAMPLES: u64 = 16;
/// After a sample that is not full, the estimate is at most this many times the one before, because
/// the first requests of a store with a cache of its own end at once.
const GROWTH: u64 = 2;
/// A store that writes this many times less than in its first samples had a cache of its own, if
/// it keeps doing so.
const CACHE_GAIN: u64 = 4;
/// This many samples in a row show it, once a store counts as measured. A thread that was kept from
/// running, or a short stall of the store, spoils one or two.
const SAMPLES_TO_DOUBT: u64 = 3;

/// An idle time that is longer does not count for an estimate that is learned.
const LEARNED_GAP_MS: u64 = 1_000;

/// What the rate law needs from a writer's evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateView {
    pub(crate) position_ratio: u64,
    pub(crate) dirty: u64,
    pub(crate) setpoint: u64,
}

impl Dirty {
    /// Starts measuring anew after a time in which the store had nothing to write. A gap between
    /// two rounds does not count, or a store that answers before the next round would never be
    /// sampled.
    pub(crate) fn skip_idle_gap(&self, backing: &Backing) {
        let now = self.rt.now();
        let idle_ms = backing.activity.idle(now).as_millis();
        let shortest_ms = if self.pages.kernel.values.estimate == Estimate::Learned {
            LEARNED_GAP_MS
        } else {
            BANDWIDTH_INTERVAL_MS
        };
        if idle_ms > shortest_ms {
            stamp(backing, &mut lock(&backing.rates), now);
        }
    }

    /// After pages were written: a sample of the bandwidth, if it is time for one.
    pub fn update_bandwidth(&self, backing: &Backing) {
        self.sample(backing, None);
        self.step_drain(backing);
    }

    /// In a writer's evaluation: samples of the bandwidth and of the base rate, if it is time.
    pub(crate) fn update_rates(&self, backing: &Backing, view: RateView) {
        self.sample(backing, Some(view));
        self.step_drain(backing);
    }

    fn sample(&self, backing: &Backing, view: Option<RateView>) {
        let now = self.rt.now();
        let now_ms = now.as_millis();
        let mut rates = lock(&backing.rates);
        let elapsed_ms = now_ms.saturating_sub(rates.updated_ms);
        if elapsed_ms <= interval_ms(&rates) {
            return;
        }
        let dirtied = backing.counts.dirtied.load(Ordering::Relaxed) - rates.dirtied_stamp;
        let busy = backing.activity.times(now).busy;
        let written = backing.counts.written.load(Ordering::Relaxed) - rates.written_stamp;
        // A write that ends between the two is counted by one of them.
        let refused_pages = self.refused_since(backing, &rates).min(written);
        let sample = Sample {
            written_pages: written - refused_pages,
            refused_pages,
            elapsed_ms,
            busy_us: busy.saturating_sub(rates.busy_stamp).as_micros(),
        };
        if sample.written_pages == 0 && refused_pages > 0 {
            // It is asked again and again, and each answer may come at once: this says as little as
            // a time without requests.
            stamp(backing, &mut rates, now);
            return;
        }
        if sample.written_pages == 0 && rates.samples < EARLY_SAMPLES {
            if sample.busy_us == 0 {
                // The store was asked for nothing: counting this would waste one of the first
                // samples.
                stamp(backing, &mut rates, now);
                return;
            }
            if rates.samples < SAMPLES_TO_TRUST {
                return;
            }
        }
        let old_average = rates.bandwidth.average_pages_per_s;
        estimate_anew(self.pages.kernel.values.estimate, &mut rates, sample);
        if let Some(view) = view {
            let inputs = RateInputs {
                position_ratio: view.position_ratio,
                average_pages_per_s: old_average,
                dirtied_pages: dirtied,
                elapsed_ms,
                dirty: view.dirty,
                setpoint: view.setpoint,
            };
            rates.rate = rates.rate.advanced(&inputs);
            self.accounts.record(&Event::BdiDirtyRatelimit {
                bdi: backing.number,
                write_bw: rates.bandwidth.write_pages_per_s,
                avg_write_bw: rates.bandwidth.average_pages_per_s,
                inputs,
                dirty_ratelimit: rates.rate.ratelimit,
            });
        }
        if rates.samples < EARLY_SAMPLES {
            let writers = backing.writers.seen.load(Ordering::Relaxed).max(1);
            let fair = (rates.bandwidth.average_pages_per_s / writers).max(1);
            rates.rate = DirtyRate {
                ratelimit: fair,
                balanced: fair,
            };
        }
        rates.samples += 1;
        stamp(backing, &mut rates, now);
    }

    /// Pages that the store refused since the last sample. For an estimate that is learned they
    /// count as written.
    fn refused_since(&self, backing: &Backing, rates: &Rates) -> u64 {
        if self.pages.kernel.values.estimate == Estimate::Learned {
            return 0;
        }
        let refused = backing.counts.refused.load(Ordering::Relaxed);
        refused.saturating_sub(rates.refused_stamp)
    }
}

/// The estimate after `sample`, as the kernel makes it.
fn estimate_anew(estimate: Estimate, rates: &mut Rates, sample: Sample) {
    if estimate == Estimate::Learned {
        let known = rates.bandwidth;
        rates.bandwidth = known.advanced(sample.written_pages, sample.elapsed_ms);
        return;
    }
    let is_known = rates.full_samples >= EARLY_SAMPLES;
    advance(rates, sample);
    if is_known && estimate == Estimate::Steps {
        let known = rates.bandwidth;
        (rates.steady, rates.bandwidth) = rates.steady.advanced(known, sample);
    }
}

/// Samples are taken often until a few were full, or until enough were not full to show that the
/// load is light.
fn interval_ms(rates: &Rates) -> u64 {
    if rates.full_samples < SAMPLES_TO_TRUST && rates.samples < EARLY_SAMPLES {
        FIRST_INTERVAL_MS
    } else {
        BANDWIDTH_INTERVAL_MS
    }
}

/// Notes `sample` in the estimate, and in the number of full samples in it.
fn advance(rates: &mut Rates, sample: Sample) {
    if sample.is_partial() {
        rates.bandwidth = advanced_by_partial(rates, sample);
        return;
    }
    let (known, full) = (rates.bandwidth.write_pages_per_s, rates.full_samples);
    // A store that wrote nothing at all has stalled, which says little about how fast it is.
    if full >= EARLY_SAMPLES || sample.written_pages == 0 {
        rates.bandwidth = rates.bandwidth.sampled(sample);
        rates.full_samples = full + 1;
        return;
    }
    let rate = sample.written_pages * 1_000_000 / sample.busy_us.max(1);
    let is_other = rate < known / CACHE_GAIN;
    rates.doubted_samples = if is_other {
        rates.doubted_samples + 1
    } else {
        0
    };
    let is_known = full >= SAMPLES_TO_TRUST;
    if is_other && is_known && rates.doubted_samples < SAMPLES_TO_DOUBT {
        return;
    }
    // The first full sample replaces the whole estimate, and so does one that shows that the
    // store's own cache is full.
    let full = if is_other { 0 } else { full };
    rates.doubted_samples = 0;
    rates.bandwidth = settled((known * full + rate) / (full + 1));
    rates.full_samples = full + 1;
}

/// The estimate after a sample in which the store had too little to do.
fn advanced_by_partial(rates: &Rates, sample: Sample) -> Bandwidth {
    if rates.samples >= EARLY_SAMPLES {
        return rates.bandwidth.sampled(sample);
    }
    // Its writers may have been held up by this very estimate, or by another store's pages.
    let known = match rates.samples {
        0 => 0,
        _ => rates.bandwidth.write_pages_per_s,
    };
    let kept_up = sample.written_pages * 1_000 / sample.elapsed_ms.max(1);
    let most = known.max(kept_up).saturating_mul(GROWTH);
    settled(known.max(sample.pages_per_s().min(most)))
}

fn settled(pages_per_s: u64) -> Bandwidth {
    Bandwidth {
        write_pages_per_s: pages_per_s,
        average_pages_per_s: pages_per_s.max(1),
    }
}

fn stamp(backing: &Backing, rates: &mut Rates, now: Instant) {
    rates.updated_ms = now.as_millis();
    rates.busy_stamp = backing.activity.times(now).busy;
    rates.written_stamp = backing.counts.written.load(Ordering::Relaxed);
    rates.refused_stamp = backing.counts.refused.load(Ordering::Relaxed);
    rates.dirtied_stamp = backing.counts.dirtied.load(Ordering::Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use forebay_base::Span;
    use forebay_rt::{Virtual, VirtualSettings};
    use forebay_store::{MemoryStore, ObjectId};
    use std::sync::Arc;

    #[test]
    fn samples_are_taken_often_until_a_few_were_full_or_many_were_not() {
        let interval = |full_samples, samples| {
            let rates = Rates {
                samples,
                full_samples,
                ..Rates::new(samples, 0)
            };
            interval_ms(&rates)
        };
        assert_eq!(interval(0, EARLY_SAMPLES - 1), FIRST_INTERVAL_MS);
        assert_eq!(
            interval(SAMPLES_TO_TRUST - 1, EARLY_SAMPLES - 1),
            FIRST_INTERVAL_MS
        );
        assert_eq!(interval(0, EARLY_SAMPLES), BANDWIDTH_INTERVAL_MS);
        assert_eq!(
            interval(SAMPLES_TO_TRUST, SAMPLES_TO_TRUST),
            BANDWIDTH_INTERVAL_MS
        );
    }

    /// What is known after samples of 200 ms in which the store had enough to do.
    fn known_after(pages: &[u64]) -> u64 {
        let mut rates = Rates::new(0, 0);
        for &written_pages in pages {
            let sample = Sample {
                written_pages,
                refused_pages: 0,
                elapsed_ms: 200,
                busy_us: 200_000,
            };
            advance(&mut rates, sample);
        }
        rates.bandwidth.average_pages_per_s
    }

    /// A thread that is kept from running for 200 ms is no store that became slow: its writers
    /// would have to keep to a rate that nothing corrects for seconds.
    #[test]
    fn one_slow_sample_of_a_measured_store_changes_nothing() {
        assert_eq!(known_after(&[100, 100, 100, 100, 7, 100, 7, 7, 100]), 500);
    }

    #[test]
    fn slow_samples_in_a_row_are_those_of_a_store_whose_cache_is_full() {
        assert_eq!(known_after(&[100, 100, 100, 100, 7, 7]), 500);
        assert_eq!(known_after(&[100, 100, 100, 100, 7, 7, 7]), 35);
        assert_eq!(known_after(&[100, 100, 100, 100, 7, 7, 7, 9]), 40);
        // Little is known of a store before: its requests may end in bursts.
        assert_eq!(known_after(&[100, 100, 100, 7]), 35);
        // Less than four times slower: the mean of both.
        assert_eq!(known_after(&[100, 30]), 325);
    }

    /// A sample without a page is the truth about an idle store of which enough is known; before
    /// that it would only waste one of the samples that count for more.
    #[test]
    fn an_idle_store_is_sampled_once_enough_is_known_of_it() {
        for (samples, after) in [
            (EARLY_SAMPLES - 1, EARLY_SAMPLES - 1),
            (EARLY_SAMPLES, EARLY_SAMPLES + 1),
        ] {
            let world = Virtual::new(VirtualSettings::default());
            let rt = world.rt();
            world.run(async move {
                let cache = Cache::small(&rt, 4);
                let store = cache.attach(Arc::new(MemoryStore::new()));
                let store = store.expect("the store is well");
                let file = cache.open(&store, ObjectId(1), 0).expect("it opens");
                let engine = &file.handle.engine;
                let backing = engine.dirty.stores.get(0);
                lock(&backing.rates).samples = samples;
                rt.sleep(Span::from_secs(1)).await;
                engine.dirty.update_bandwidth(&backing);
                assert_eq!(lock(&backing.rates).samples, after);
            });
        }
    }
}
