//! The books: sums that have to agree. The cache's gauges are compared with each other and with
//! what the stores counted.

use super::crowd;
use super::explained::{judge_dirtied, judge_ledger};
use super::part::Part;
use super::store::Tally;
use super::verdict::Oracle;
use super::world::World;
use forebay_engine::lab::LabCache;
use forebay_engine::{Counter, Statistics};
use forebay_kernels::Policy;
use forebay_kernels::policy::DirtyThrottle;

/// Pages that a writer may dirty between two checks of the limits.
const STRETCH_PAGES: u64 = 64;

impl World {
    /// What holds at any moment.
    pub(super) fn judge_statistics(&self, statistics: &Statistics) {
        if self.plan.policy == Policy::default() {
            let written = statistics.get(Counter::NrVmscanWriteFile);
            if written > 0 {
                let what = format!("reclaim wrote {written} file pages (promise 4)");
                self.broken(Oracle::Bounds, what);
            }
        }
        let taken = self.plan.settings.memory_bytes;
        let beside_objects = statistics.memory_bytes - statistics.object_bytes;
        if beside_objects > taken {
            let what = format!("{beside_objects} bytes of memory, not {taken}");
            self.broken(Oracle::Bounds, what);
        }
        let limit = statistics.dirty_limit.max(statistics.nr_dirty_threshold);
        let limit = self.highest_limit(limit);
        // What a store has above its part is left out of account for the other stores, up to the
        // limit.
        let paced = self.plan.policy.dirty_throttle == DirtyThrottle::Paced;
        let left_out = if paced && self.stores.len() > 1 {
            limit
        } else {
            0
        };
        let writers = self.plan.clients * (1 + u64::from(self.plan.has(Part::Shared)))
            + u64::from(self.plan.has(Part::Scatter))
            + u64::from(self.plan.has(Part::Table))
            + u64::from(self.plan.has(Part::Crowd));
        let swapped = if self.plan.anonymous.is_some() {
            statistics.frames + statistics.nr_balloon_pages
        } else {
            0
        };
        // Up to 3.1 a writer pays afterwards, by writing itself. Calls that were given up and
        // stores that take nothing let it be ahead for longer.
        let ahead = match self.plan.policy.dirty_throttle {
            DirtyThrottle::ForegroundPerStore | DirtyThrottle::Foreground => 4 * STRETCH_PAGES,
            _ => STRETCH_PAGES,
        };
        // Each call of a crowd may be at a page when the quota of their handle is used up.
        let crowd = if self.plan.has(Part::Crowd) {
            crowd::CALLS
        } else {
            0
        };
        let of_store =
            limit + writers * ahead + swapped + crowd + self.set_aside(statistics, limit);
        let allowed = left_out + of_store;
        if statistics.dirty() > allowed {
            let what = format!(
                "{} pages are dirty or under writeback; the limit is {limit}",
                statistics.dirty()
            );
            self.broken(Oracle::Bounds, what);
        }
        for (number, backing) in statistics.backings.iter().enumerate() {
            let dirty = backing.reclaimable + backing.writeback;
            if dirty > of_store {
                let what = format!(
                    "{dirty} pages of store {number} are dirty or under writeback; limit {limit}"
                );
                self.broken(Oracle::Bounds, what);
            }
        }
    }

    /// How many pages that no store takes the limit may leave out, because no writer should wait
    /// for pages that nothing makes clean. They are at most half of the memory outside the limit,
    /// so that memory stays reclaimable.
    fn set_aside(&self, statistics: &Statistics, limit: u64) -> u64 {
        if self.plan.may_fail() {
            limit.min(statistics.frames.saturating_sub(limit) / 2)
        } else {
            0
        }
    }

    /// What holds when nothing is under way. A run that waited for that may have ended with a loss
    /// of power instead, and then requests stay under way for ever.
    pub(super) fn judge_books(&self) {
        if self.is_over() {
            return;
        }
        for what in self.cache.check() {
            self.broken(Oracle::Books, what);
        }
        let statistics = self.cache.statistics();
        self.judge_statistics(&statistics);
        judge_ledger(&self.verdict, &self.cache, &statistics);
        judge_dirtied(&self.verdict, &self.cache, &statistics);
        for (what, one, other) in sums(&statistics)
            .into_iter()
            .chain(self.sums_of_stores(&statistics))
        {
            if one != other {
                self.broken(Oracle::Books, format!("{what}: {one} and {other}"));
            }
        }
    }

    fn sums_of_stores(&self, statistics: &Statistics) -> Vec<(&'static str, u64, u64)> {
        let mut all = Tally::default();
        for (store, _) in &self.stores {
            let tally = store.tally();
            all.pages_read += tally.pages_read;
            all.pages_written += tally.pages_written;
            all.pages_failed += tally.pages_failed;
            all.writes_in_flight += tally.writes_in_flight;
            all.writes_that_met += tally.writes_that_met;
            all.writes_that_changed += tally.writes_that_changed;
        }
        let in_flight = statistics
            .backings
            .iter()
            .map(|of| u64::from(of.writes_in_flight));
        vec![
            (
                "pages read or refused, by the cache and by its stores",
                statistics.get(Counter::Pgpgin) + statistics.get(Counter::NrReadFailed),
                all.pages_read,
            ),
            (
                "pages written or refused, by the cache and by its stores",
                statistics.get(Counter::Pgpgout) + statistics.get(Counter::NrWriteFailed),
                all.pages_written,
            ),
            (
                "pages written and pages whose writeback ended",
                statistics.get(Counter::NrWritten),
                all.pages_written,
            ),
            (
                "pages that failed, by the cache and by its stores",
                statistics.get(Counter::NrWriteFailed),
                all.pages_failed,
            ),
            (
                "writes in flight, by the cache and by its stores",
                in_flight.sum(),
                all.writes_in_flight,
            ),
            (
                "writes that began where another was under way, of none",
                all.writes_that_met,
                0,
            ),
            (
                "writes whose pages changed under way, of none",
                all.writes_that_changed,
                0,
            ),
        ]
    }
}

/// Gauges of one cache that have to be equal.
fn sums(statistics: &Statistics) -> Vec<(&'static str, u64, u64)> {
    let zones = || statistics.zones.iter();
    let backings = || statistics.backings.iter();
    let listed = zones().map(|zone| {
        let anon = zone.inactive_anon + zone.active_anon;
        zone.free + anon + zone.inactive_file + zone.active_file
    });
    let used = statistics
        .get(Counter::Pgalloc)
        .wrapping_sub(statistics.get(Counter::Pgfree));
    vec![
        (
            "frames free or on lists, and all frames",
            listed.sum(),
            statistics.frames,
        ),
        (
            "pages taken less pages freed, and frames in use",
            used,
            statistics.frames - statistics.free(),
        ),
        (
            "dirty pages of all zones, and of the cache",
            zones().map(|zone| zone.dirty).sum(),
            statistics.nr_dirty,
        ),
        (
            "dirty pages of all stores, and of the cache",
            backings().map(|of| of.reclaimable).sum(),
            statistics.nr_dirty,
        ),
        (
            "writeback of all zones, and of the cache",
            zones().map(|zone| zone.writeback).sum(),
            statistics.nr_writeback,
        ),
        (
            "writeback of all stores, and of the cache",
            backings().map(|of| of.writeback).sum(),
            statistics.nr_writeback,
        ),
        (
            "frames of all zones, and of the cache",
            zones().map(|zone| zone.managed).sum(),
            statistics.frames,
        ),
    ]
}
