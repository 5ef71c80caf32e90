//! What a workload measures by itself: figures, samples in order, latencies.

use crate::outcome::{Distribution, Samples};
use crate::probe::Latencies;
use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use std::collections::BTreeMap;

/// Values by name, as the published tables call them.
#[derive(Default)]
pub struct Measures {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    figures: BTreeMap<String, f64>,
    samples: BTreeMap<String, Samples>,
    latencies: BTreeMap<String, Latencies>,
}

impl Measures {
    /// One figure; a later one of the same name replaces it.
    pub fn figure(&self, name: &str, value: f64) {
        lock(&self.kept).figures.insert(name.into(), value);
    }

    /// One more sample of a series of them.
    pub fn sample(&self, name: &str, unit: &str, value: f64) {
        let mut kept = lock(&self.kept);
        let samples = kept.samples.entry(name.into()).or_default();
        samples.unit = unit.into();
        samples.values.push(value);
    }

    /// One latency.
    pub fn latency(&self, name: &str, span: Span) {
        let mut kept = lock(&self.kept);
        if let Some(latencies) = kept.latencies.get_mut(name) {
            latencies.record(span);
            return;
        }
        let mut latencies = Latencies::default();
        latencies.record(span);
        kept.latencies.insert(name.into(), latencies);
    }

    /// Forgets the latencies recorded so far: what was before the measured time does not count.
    pub fn forget_latencies(&self) {
        lock(&self.kept).latencies.clear();
    }

    /// A latency recorded so far at `percentile`, in milliseconds.
    pub fn percentile_ms(&self, name: &str, percentile: f64) -> Option<f64> {
        let kept = lock(&self.kept);
        let latencies = kept.latencies.get(name)?;
        Some(latencies.percentile_us(percentile) / 1_000.0)
    }

    /// Everything.
    pub(crate) fn take(&self) -> TakenMeasures {
        let kept = std::mem::take(&mut *lock(&self.kept));
        let distributions = kept.latencies.iter();
        TakenMeasures {
            figures: kept.figures,
            samples: kept.samples,
            distributions: distributions
                .map(|(name, latencies)| (name.clone(), latencies.distribution_ms()))
                .collect(),
        }
    }
}

/// What was measured.
pub(crate) struct TakenMeasures {
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) samples: BTreeMap<String, Samples>,
    pub(crate) distributions: BTreeMap<String, Distribution>,
}
