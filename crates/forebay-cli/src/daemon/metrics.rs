//! The statistics of a cache as OpenMetrics text.

use forebay::statistics::DrainStatistics;
use forebay::{Counter, Statistics};
use forebay_base::PAGE_BYTES;
use std::fmt::{Display, Write};

/// Counters in microseconds; they are exposed in seconds.
const TIMES: [(Counter, &str); 2] = [
    (Counter::BalancePausedUs, "balance_dirty_paused"),
    (Counter::ThrottledUs, "reclaim_throttled"),
];

/// The statistics of a cache, and the number of clients if the server counts them, in the
/// exposition format of OpenMetrics 1.0. Counters carry the names of /proc/vmstat.
pub(crate) fn render(statistics: &Statistics, connections: Option<usize>) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    for (&counter, &value) in &statistics.counters {
        match TIMES.iter().find(|(time, _)| *time == counter) {
            Some((_, name)) => text.seconds(name, &[("", value)]),
            None => text.counter(counter.name(), value),
        }
    }
    let bytes = |pages: u64| pages * PAGE_BYTES as u64;
    for (name, pages, help) in [
        ("dirty_bytes", statistics.nr_dirty, "Dirty pages"),
        (
            "writeback_bytes",
            statistics.nr_writeback,
            "Pages under writeback or unstable",
        ),
        (
            "dirty_threshold_bytes",
            statistics.nr_dirty_threshold,
            "Dirty threshold",
        ),
        (
            "dirty_background_threshold_bytes",
            statistics.nr_dirty_background_threshold,
            "Level at which the flusher starts",
        ),
        (
            "dirty_setpoint_bytes",
            statistics.dirty_setpoint,
            "Level at which the laws hold",
        ),
        (
            "dirty_limit_bytes",
            statistics.dirty_limit,
            "Hard limit of dirty pages",
        ),
        ("cache_bytes", statistics.frames, "Frames"),
        ("cache_free_bytes", statistics.free(), "Free frames"),
    ] {
        text.gauge(name, help, &[("", bytes(pages))]);
    }
    text.gauge(
        "memory_bytes",
        "All memory of the cache",
        &[("", statistics.memory_bytes)],
    );
    text.gauge(
        "object_bytes",
        "The part of it for open files, and for closed files that are remembered",
        &[("", statistics.object_bytes)],
    );
    if let Some(connections) = connections {
        text.gauge(
            "connections",
            "Clients connected",
            &[("", connections as u64)],
        );
    }
    stores(&mut text, statistics);
    text.0.push_str("# EOF\n");
    text.0
}

/// The metrics of each store.
fn stores(text: &mut Text, statistics: &Statistics) {
    let each = |value: fn(&forebay::statistics::BackingStatistics) -> u64| -> Vec<(String, u64)> {
        let numbered = statistics.backings.iter().enumerate();
        numbered
            .map(|(bdi, backing)| (format!("{{bdi=\"{bdi}\"}}"), value(backing)))
            .collect()
    };
    let page = PAGE_BYTES as u64;
    for (name, help, values) in [
        (
            "bdi_dirty_bytes",
            "Dirty pages of a store",
            each(|backing| backing.reclaimable * PAGE_BYTES as u64),
        ),
        (
            "bdi_writeback_bytes",
            "Pages of a store under writeback",
            each(|backing| backing.writeback * PAGE_BYTES as u64),
        ),
        (
            "bdi_write_bandwidth_bytes_per_second",
            "Measured write bandwidth of a store",
            each(|backing| backing.write_bandwidth * PAGE_BYTES as u64),
        ),
        (
            "bdi_dirty_ratelimit_bytes_per_second",
            "Base rate of one writer",
            each(|backing| backing.dirty_ratelimit * PAGE_BYTES as u64),
        ),
        (
            "bdi_writes_in_flight",
            "Write requests that a store has now",
            each(|backing| u64::from(backing.writes_in_flight)),
        ),
    ] {
        text.gauge(name, help, &values);
    }
    promises(text, statistics);
    for (name, values) in [
        ("bdi_throttled", each(|backing| backing.throttled_us)),
        (
            "bdi_idle_while_throttled",
            each(|backing| backing.idle_while_throttled_us),
        ),
    ] {
        text.seconds(name, &values);
    }
    text.gauge(
        "page_bytes",
        "Bytes of a page; counters count pages",
        &[("", page)],
    );
}

/// The metrics of the promises in seconds, of the stores that have one.
fn promises(text: &mut Text, statistics: &Statistics) {
    let each = |value: fn(&DrainStatistics) -> u64| -> Vec<(String, u64)> {
        let numbered = statistics.backings.iter().enumerate();
        numbered
            .filter_map(|(bdi, backing)| {
                let value = value(backing.drain.as_ref()?);
                Some((format!("{{bdi=\"{bdi}\"}}"), value))
            })
            .collect()
    };
    for (name, help, values) in [
        (
            "bdi_drain_promise_milliseconds",
            "The time in which what is dirty of a store can be written, as promised",
            each(|drain| drain.promise.as_millis()),
        ),
        (
            "bdi_drain_milliseconds",
            "The time that it would take now",
            each(|drain| drain.takes.as_millis()),
        ),
        (
            "bdi_drain_limit_bytes",
            "What may be dirty of a store for its promise",
            each(|drain| drain.limit * PAGE_BYTES as u64),
        ),
        (
            "bdi_drain_cost_percent",
            "What the promise takes of the store's rate",
            each(|drain| drain.cost_percent),
        ),
    ] {
        text.gauge(name, help, &values);
    }
    text.counters("bdi_drain_overshoot", &each(|drain| drain.overshoots));
}

struct Text(String);

impl Text {
    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.0
            .write_fmt(arguments)
            .expect("writing to a string does not fail");
        self.0.push('\n');
    }

    fn counter(&mut self, name: &str, value: u64) {
        self.line(format_args!("# TYPE forebay_{name} counter"));
        self.line(format_args!("forebay_{name}_total {value}"));
    }

    fn counters(&mut self, name: &str, values: &[(String, u64)]) {
        self.line(format_args!("# TYPE forebay_{name} counter"));
        for (labels, value) in values {
            self.line(format_args!("forebay_{name}_total{labels} {value}"));
        }
    }

    fn seconds(&mut self, name: &str, values_us: &[(impl Display, u64)]) {
        self.line(format_args!("# TYPE forebay_{name}_seconds counter"));
        self.line(format_args!("# UNIT forebay_{name}_seconds seconds"));
        for (labels, us) in values_us {
            let (whole, rest) = (us / 1_000_000, us % 1_000_000);
            self.line(format_args!(
                "forebay_{name}_seconds_total{labels} {whole}.{rest:06}"
            ));
        }
    }

    fn gauge(&mut self, name: &str, help: &str, values: &[(impl Display, u64)]) {
        self.line(format_args!("# TYPE forebay_{name} gauge"));
        self.line(format_args!("# HELP forebay_{name} {help}."));
        for (labels, value) in values {
            self.line(format_args!("forebay_{name}{labels} {value}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::{Cache, Settings};
    use forebay_store::{MemoryStore, ObjectId};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn text() -> String {
        let cache = Cache::new(Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        })
        .unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        let file = cache.open(&store, ObjectId(1), 0).unwrap().blocking();
        file.write_at(&[1; 8192], 0).unwrap();
        let text = render(&cache.statistics(), Some(3));
        forebay_rt::block_on(cache.close()).unwrap();
        text
    }

    #[test]
    fn every_counter_and_the_limits_are_exposed() {
        let text = text();
        for line in [
            "forebay_nr_dirtied_total 2",
            "forebay_connections 3",
            "forebay_bdi_write_bandwidth_bytes_per_second{bdi=\"0\"} ",
            "forebay_balance_dirty_paused_seconds_total 0.000000",
            "forebay_bdi_throttled_seconds_total{bdi=\"0\"} 0.000000",
            "forebay_bdi_idle_while_throttled_seconds_total{bdi=\"0\"} 0.000000",
            "forebay_dirty_limit_bytes ",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn each_metric_is_declared_once_and_before_its_value() {
        let text = text();
        let mut declared = BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().unwrap();
                assert!(declared.insert(name.to_owned()), "{name} twice");
            } else if !line.starts_with('#') {
                let name = line.split([' ', '{']).next().unwrap();
                let base = name.strip_suffix("_total").unwrap_or(name);
                assert!(declared.contains(base), "{line}");
            }
        }
    }
}
