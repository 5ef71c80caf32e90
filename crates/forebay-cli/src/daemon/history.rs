//! Levels and sums of the last minutes, for the status page.

use crate::daemon::looks::INTERVAL;
use forebay::{Counter, Statistics};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::units::byte_of;
use forebay_base::{Instant, Span};
use forebay_rt::Rt;
use std::collections::VecDeque;

/// Samples that are kept: five minutes of them.
const KEPT: usize = 61;

/// A cache at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// Dirty or under writeback.
    pub(super) level_bytes: u64,
    pub(super) limit_bytes: u64,
    /// Since the start: made dirty by callers, written to stores, read from stores.
    pub(super) dirtied_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) read_bytes: u64,
}

/// What happened between two samples, MiB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    /// How long before the last sample it ended, s.
    pub(super) ago_s: f64,
    pub(super) dirtied: f64,
    pub(super) written: f64,
    pub(super) read: f64,
}

/// The samples of one server, the newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Arc<Mutex<VecDeque<Sample>>>);

impl History {
    /// Takes a sample at each look, if there is an address at which the page `is_served`.
    pub(crate) fn record(
        &self,
        rt: &Rt,
        is_served: bool,
    ) -> impl FnMut(&Statistics) -> bool + use<> {
        let (history, rt) = (self.clone(), rt.clone());
        move |statistics| {
            if is_served {
                history.record_at(statistics, rt.now());
            }
            is_served
        }
    }

    pub(super) fn record_at(&self, statistics: &Statistics, at: Instant) {
        self.push(Sample::of(statistics, at));
    }

    fn push(&self, sample: Sample) {
        let mut samples = lock(&self.0);
        if samples.len() == KEPT {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        lock(&self.0).iter().copied().collect()
    }

    /// How far it goes back at most.
    pub(super) fn span() -> Span {
        Span::from_secs(INTERVAL.as_millis() / 1_000 * (KEPT as u64 - 1))
    }
}

impl Sample {
    fn of(statistics: &Statistics, at: Instant) -> Sample {
        let bytes = |counter| byte_of(statistics.get(counter));
        Sample {
            at,
            level_bytes: byte_of(statistics.dirty()),
            limit_bytes: byte_of(statistics.dirty_limit),
            dirtied_bytes: bytes(Counter::NrDirtied),
            written_bytes: bytes(Counter::Pgpgout),
            read_bytes: bytes(Counter::Pgpgin),
        }
    }

    /// What happened from `before` until this sample, `ago_s` before the last one.
    pub(super) fn rates(&self, before: &Sample, ago_s: f64) -> Rates {
        let seconds = self.at.since(before.at).as_micros().max(1) as f64 / 1e6;
        let rate =
            |now: u64, then: u64| now.saturating_sub(then) as f64 / f64::from(1 << 20) / seconds;
        Rates {
            ago_s,
            dirtied: rate(self.dirtied_bytes, before.dirtied_bytes),
            written: rate(self.written_bytes, before.written_bytes),
            read: rate(self.read_bytes, before.read_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64) -> Sample {
        Sample {
            at: Instant::ZERO + Span::from_secs(seconds),
            level_bytes: 0,
            limit_bytes: 1,
            dirtied_bytes: seconds << 20,
            written_bytes: seconds << 21,
            read_bytes: 0,
        }
    }

    #[test]
    fn the_newest_samples_are_kept_and_give_rates() {
        let history = History::default();
        for number in 0..100 {
            history.push(sample(5 * number));
        }
        let samples = history.samples();
        assert_eq!(samples.len(), KEPT);
        assert_eq!(samples.last(), Some(&sample(495)));
        let expected = Rates {
            ago_s: 0.0,
            dirtied: 1.0,
            written: 2.0,
            read: 0.0,
        };
        assert_eq!(samples[1].rates(&samples[0], 0.0), expected);
        assert_eq!(History::span(), Span::from_secs(300));
    }
}
