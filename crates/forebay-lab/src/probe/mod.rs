//! What is measured of a run: events of the engine, levels over time, counters before and after.

mod events;
mod figures;
mod latencies;
mod pauses;
mod series;

pub(crate) use events::{PausesSinceLook, Watcher};
pub(crate) use figures::{
    FIGURES, Gathered, STALL_CONTEXTS, STALL_REASONS, Suffix, derive, family_of, suffix_of,
};
pub(crate) use latencies::BUCKET_RATIO;
pub use latencies::Latencies;
pub(crate) use pauses::WatchedPauses;
pub(crate) use series::{INTERVAL, RATES, Sampler, mean_and_deviation, rate_unit};
