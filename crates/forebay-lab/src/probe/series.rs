//! Levels and rates, sampled once a second.

use super::PausesSinceLook;
use crate::device::Statistics as DeviceStatistics;
use crate::outcome::{Column, Series};
use crate::world::World;
use forebay_base::units::page_of;
use forebay_base::{Instant, PAGE_BYTES, Span};
use forebay_engine::statistics::{BackingStatistics, ZoneStatistics};
use forebay_engine::{Counter, Statistics};
use std::collections::BTreeMap;

/// The interval between samples.
pub(crate) const INTERVAL: Span = Span::from_secs(1);

/// Time over which a device's mean wait is taken.
const AWAIT_INTERVAL: Span = Span::from_secs(10);

/// Counters that are reported as rates.
pub(crate) const RATES: [Counter; 10] = [
    Counter::PgscanKswapd,
    Counter::PgscanDirect,
    Counter::PgstealKswapd,
    Counter::PgstealDirect,
    Counter::NrVmscanWrite,
    Counter::NrDirtied,
    Counter::NrWritten,
    Counter::Pswpin,
    Counter::Pswpout,
    Counter::KswapdHighWmarkHitQuickly,
];

/// The unit of one of [`RATES`].
pub(crate) fn rate_unit(counter: Counter) -> &'static str {
    match counter {
        Counter::KswapdHighWmarkHitQuickly => "times/s",
        _ => "pages/s",
    }
}

/// Keeps what was seen.
pub(crate) struct Sampler {
    began: Instant,
    at_s: Vec<f64>,
    columns: BTreeMap<(usize, String), Column>,
    last: Option<Statistics>,
    /// When the last sample was, and what the devices had done then: the series begins with one.
    last_at: Instant,
    last_devices: Vec<DeviceStatistics>,
    /// Devices at the bounds of the intervals of their mean waits, from the beginning of what is
    /// measured to its end.
    bounds: Vec<Vec<DeviceStatistics>>,
    next_bound: Instant,
}

struct Seen {
    at: Instant,
    statistics: Statistics,
    devices: Vec<DeviceStatistics>,
}

impl Sampler {
    /// A series that begins now, when the devices had done this much.
    pub(crate) fn new(began: Instant, devices: Vec<DeviceStatistics>) -> Sampler {
        Sampler {
            began,
            at_s: Vec::new(),
            columns: BTreeMap::new(),
            last: None,
            last_at: began,
            last_devices: devices,
            bounds: Vec::new(),
            next_bound: Instant::NEVER,
        }
    }

    /// Measuring begins at `at`, when the devices had done this much.
    pub(crate) fn open(&mut self, at: Instant, devices: &[DeviceStatistics]) {
        self.bounds = vec![devices.to_vec()];
        self.next_bound = at + AWAIT_INTERVAL;
    }

    /// Measuring ends, when the devices had done this much.
    pub(crate) fn close(&mut self, devices: &[DeviceStatistics]) {
        self.bounds.push(devices.to_vec());
        self.next_bound = Instant::NEVER;
    }

    /// One sample.
    pub(crate) fn look(&mut self, world: &World) {
        let seen = Seen {
            at: world.now(),
            statistics: world.cache().statistics(),
            devices: world.device_statistics(),
        };
        self.at_s.push((seen.at - self.began).as_secs_f64());
        self.levels(&seen.statistics);
        self.pauses(world.pauses_since_look());
        for zone in &seen.statistics.zones {
            self.zone(zone);
        }
        let names: Vec<String> = world.store_names();
        for (name, backing) in names.iter().zip(&seen.statistics.backings) {
            self.backing(name, backing);
        }
        self.rates(&seen);
        self.device_rates(world, &seen);
        if seen.at >= self.next_bound {
            self.bounds.push(seen.devices.clone());
            while seen.at >= self.next_bound {
                self.next_bound += AWAIT_INTERVAL;
            }
        }
        self.last_at = seen.at;
        self.last_devices = seen.devices;
        self.last = Some(seen.statistics);
    }

    fn put(&mut self, order: usize, name: &str, unit: &str, value: f64) {
        let rows = self.at_s.len();
        let column = self.columns.entry((order, name.into())).or_default();
        column.name = name.into();
        column.unit = unit.into();
        // A column that begins late was 0 before.
        column.values.resize(rows - 1, 0.0);
        column.values.push(value);
    }

    fn pages(&mut self, order: usize, name: &str, pages: u64) {
        self.put(order, name, "pages", pages as f64);
    }

    fn levels(&mut self, seen: &Statistics) {
        self.pages(0, "dirty", seen.nr_dirty);
        self.pages(1, "writeback", seen.nr_writeback);
        self.pages(2, "thresh", seen.nr_dirty_threshold);
        self.pages(3, "background", seen.nr_dirty_background_threshold);
        self.pages(4, "setpoint", seen.dirty_setpoint);
        self.pages(5, "dirty_limit", seen.dirty_limit);
        self.pages(6, "free", seen.free());
        let sum = |of: fn(&ZoneStatistics) -> u64| seen.zones.iter().map(of).sum();
        self.pages(7, "inactive_file", sum(|zone| zone.inactive_file));
        self.pages(8, "active_file", sum(|zone| zone.active_file));
        self.pages(9, "inactive_anon", sum(|zone| zone.inactive_anon));
        self.pages(10, "active_anon", sum(|zone| zone.active_anon));
        if let Some(elastic) = &seen.elastic {
            self.pages(13, "memory_target", page_of(elastic.target_bytes));
            self.pages(14, "headroom", page_of(elastic.headroom_bytes));
        }
    }

    fn pauses(&mut self, pauses: PausesSinceLook) {
        self.put(11, "pause_mean", "ms", pauses.mean_ms());
        self.put(12, "pause_max", "ms", pauses.longest_ms());
    }

    fn zone(&mut self, zone: &ZoneStatistics) {
        if zone.managed == 0 {
            return;
        }
        let place = place_of(zone);
        self.pages(20, &format!("free@{place}"), zone.free);
        self.pages(21, &format!("dirty@{place}"), zone.dirty);
        self.pages(22, &format!("writeback@{place}"), zone.writeback);
        self.pages(23, &format!("inactive_file@{place}"), zone.inactive_file);
        self.pages(24, &format!("active_file@{place}"), zone.active_file);
    }

    fn backing(&mut self, name: &str, backing: &BackingStatistics) {
        let bytes = |pages: u64| (pages * PAGE_BYTES as u64) as f64;
        let bandwidth = bytes(backing.write_bandwidth);
        self.put(30, &format!("write_bandwidth@{name}"), "bytes/s", bandwidth);
        let ratelimit = bytes(backing.dirty_ratelimit);
        self.put(31, &format!("dirty_ratelimit@{name}"), "bytes/s", ratelimit);
        let level = backing.reclaimable + backing.writeback;
        self.pages(32, &format!("dirty@{name}"), level);
        self.pages(33, &format!("thresh@{name}"), backing.dirty_thresh);
        self.pages(34, &format!("written@{name}"), backing.written);
        if let Some(at_risk) = backing.at_risk {
            let oldest_s = at_risk.oldest.as_secs_f64();
            self.put(35, &format!("oldest@{name}"), "s", oldest_s);
        }
    }

    fn rates(&mut self, seen: &Seen) {
        let passed_s = (seen.at - self.last_at).as_secs_f64().max(1e-9);
        let rates = RATES.map(|counter| {
            let before = self.last.as_ref().map_or(0, |last| last.get(counter));
            (seen.statistics.get(counter) - before) as f64 / passed_s
        });
        for (counter, rate) in RATES.iter().zip(rates) {
            self.put(40, counter.name(), rate_unit(*counter), rate);
        }
    }

    fn device_rates(&mut self, world: &World, seen: &Seen) {
        let passed_s = (seen.at - self.last_at).as_secs_f64().max(1e-9);
        let devices = seen.devices.iter().zip(&self.last_devices);
        let passed: Vec<_> = devices.map(|(now, before)| now.since(before)).collect();
        for (name, passed) in world.device_names().iter().zip(&passed) {
            self.put(
                50,
                &format!("device_rate@{name}"),
                "bytes/s",
                passed.bytes_per_s(),
            );
            self.put(51, &format!("await@{name}"), "ms", passed.await_ms());
            let seeks = passed.seeks as f64 / passed_s;
            self.put(52, &format!("seeks@{name}"), "times/s", seeks);
        }
    }

    /// A device's mean wait over intervals of ten seconds, as in the reports of 2011; the rest of
    /// the measured time is one more interval. None if nothing waited.
    pub(crate) fn await_ms(&self, device: usize) -> Option<f64> {
        let passed = |pair: &[Vec<DeviceStatistics>]| pair[1][device].since(&pair[0][device]);
        let intervals = self.bounds.windows(2).map(passed);
        let intervals = intervals.filter(|passed| passed.both().requests > 0);
        let waits: Vec<f64> = intervals.map(|passed| passed.await_ms()).collect();
        (!waits.is_empty()).then(|| mean_without_outliers(waits))
    }

    pub(crate) fn series(&self) -> Series {
        Series {
            at_s: self.at_s.clone(),
            columns: self.columns.values().cloned().collect(),
        }
    }
}

/// The label of a zone: its name, after the number of its node if that is not the first.
pub(super) fn place_of(zone: &ZoneStatistics) -> String {
    if zone.node == 0 {
        return zone.name.clone();
    }
    format!("{}.{}", zone.node, zone.name)
}

/// The mean; while the standard deviation exceeds twice the mean, without the largest value, at
/// most ten times.
fn mean_without_outliers(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    for _ in 0..10 {
        let (mean, deviation) = mean_and_deviation(&values);
        if deviation <= 2.0 * mean || values.len() < 2 {
            return mean;
        }
        values.pop();
    }
    mean_and_deviation(&values).0
}

/// The arithmetic mean and the standard deviation, dividing by the count.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / count;
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_interval_is_left_out() {
        let mut waits = vec![10.0; 20];
        waits.push(10_000.0);
        assert!((mean_without_outliers(waits) - 10.0).abs() < 1e-9);
        assert!((mean_without_outliers(vec![8.0, 12.0]) - 10.0).abs() < 1e-9);
        assert!(mean_without_outliers(Vec::new()).abs() < 1e-9);
    }
}
