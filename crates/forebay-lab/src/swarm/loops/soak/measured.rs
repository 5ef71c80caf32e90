//! The figures of a scene.

use super::super::super::scene::{Crew, Syncing};
use super::super::super::verdict::Violation;

/// A scene.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Dirty pages and pages under writeback, on average.
    pub(super) level_pages: f64,
    pub(super) sites: Vec<SiteRates>,
    /// The finding of an oracle, if there is one.
    pub(super) found: Option<Violation>,
}

/// A store.
#[derive(Clone, Debug)]
pub(super) struct SiteRates {
    pub(super) name: &'static str,
    pub(super) pages_per_s: f64,
    /// Time without a request although a writer was in a call.
    pub(super) idle_percent: f64,
    pub(super) crews: Vec<CrewRates>,
}

/// Writers that do the same.
#[derive(Clone, Debug)]
pub(super) struct CrewRates {
    pub(super) name: &'static str,
    pub(super) writers: u64,
    /// Pages a second of the slowest writer, on average, and of the fastest writer.
    pub(super) least: f64,
    pub(super) mean: f64,
    pub(super) most: f64,
    /// Syncs of all writers together in a second, if they sync.
    pub(super) syncs_per_s: Option<f64>,
}

impl CrewRates {
    /// The figures of a crew, from the pages and syncs of each writer at the end of `seconds` and
    /// at their start.
    pub(super) fn new(
        crew: &Crew,
        after: &[(u64, u64)],
        before: &[(u64, u64)],
        seconds: f64,
    ) -> CrewRates {
        let both = || after.iter().zip(before);
        let rates = || both().map(|(now, was)| (now.0 - was.0) as f64 / seconds);
        let syncs: u64 = both().map(|(now, was)| now.1 - was.1).sum();
        let is_syncing = crew.syncing != Syncing::Never;
        CrewRates {
            name: crew.name,
            writers: crew.tasks,
            least: rates().fold(f64::INFINITY, f64::min),
            mean: rates().sum::<f64>() / after.len().max(1) as f64,
            most: rates().fold(0.0, f64::max),
            syncs_per_s: is_syncing.then(|| syncs as f64 / seconds),
        }
    }
}

/// Levels that were seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    sum: u64,
    count: u64,
}

impl Levels {
    pub(super) fn add(&mut self, pages: u64) {
        self.sum += pages;
        self.count += 1;
    }

    pub(super) fn mean(self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }
}
