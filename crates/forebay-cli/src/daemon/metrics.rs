//! The statistics of a cache as OpenMetrics text.

use forebay::histogram::{BOUNDS_US, Histogram, Histograms, RequestTimes};
use forebay::statistics::{AtRiskStatistics, BackingStatistics, DrainStatistics};
use forebay::why::OpenWait;
use forebay::{Cache, Statistics, Unit};
use forebay_base::{PAGE_BYTES, Span};
use forebay_store::{Figure, IoKind};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// What a server knows beside its cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// Clients, if it counts them.
    pub(crate) connections: Option<usize>,
    /// Requests that were answered with an error, with labels that say which.
    pub(crate) errors: Vec<(String, u64)>,
    /// What its volumes say of themselves, by their exports.
    pub(crate) figures: Vec<(String, Vec<Figure>)>,
    /// What keeps it from its work now, a sentence each.
    pub(crate) troubles: Vec<String>,
}

/// The statistics and histograms of a cache, and what its server knows, in the exposition format of
/// OpenMetrics 1.0. Counters carry the names of /proc/vmstat.
pub(crate) fn of(cache: &Cache, beside: &Beside) -> String {
    let statistics = cache.statistics_with_ages();
    let mut text = render(&statistics, &cache.histograms(), beside.connections);
    text.counters("client_errors", &beside.errors);
    open_waits(&mut text, &cache.open_waits());
    names(&mut text, cache, statistics.backings.len());
    volumes(&mut text, &beside.figures);
    text.0.push_str("# EOF\n");
    text.0
}

fn render(statistics: &Statistics, histograms: &Histograms, connections: Option<usize>) -> Text {
    let mut text = Text(String::with_capacity(16 << 10));
    for (&counter, &value) in &statistics.counters {
        let name = counter.name();
        match counter.unit() {
            // Those in microseconds are exposed in seconds.
            Unit::Microseconds => text.seconds(name.trim_end_matches("_us"), &[("", value)]),
            _ => text.counters(name, &[("", value)]),
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
    elastic(&mut text, statistics);
    if let Some(connections) = connections {
        text.gauge(
            "connections",
            "Clients connected",
            &[("", connections as u64)],
        );
    }
    stores(&mut text, statistics);
    refusals(&mut text, statistics);
    times(&mut text, histograms);
    text
}

/// What stores refuse.
fn refusals(text: &mut Text, statistics: &Statistics) {
    let stores = statistics.backings.iter().enumerate();
    let refused: Vec<_> = stores
        .flat_map(|(bdi, store)| {
            let counts: Vec<_> = store.refused.iter().collect();
            counts.into_iter().map(move |(kind, reason, count)| {
                let labels = format!("{{bdi=\"{bdi}\",kind=\"{kind}\",reason=\"{reason}\"}}");
                (labels, count)
            })
        })
        .collect();
    text.counters("bdi_requests_refused", &refused);
}

/// The waits that go on, by store and cause.
fn open_waits(text: &mut Text, waits: &[OpenWait]) {
    let mut by_cause: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for wait in waits {
        let bdi = wait.bdi.map(|bdi| format!("bdi=\"{bdi}\","));
        let (bdi, cause) = (bdi.unwrap_or_default(), wait.cause.name());
        let labels = format!("{{{bdi}cause=\"{cause}\"}}");
        let (count, oldest_us) = by_cause.entry(labels).or_default();
        *count += 1;
        *oldest_us = (*oldest_us).max(wait.waited.as_micros());
    }
    let of = |value: fn(&(u64, u64)) -> u64| -> Vec<(String, u64)> {
        let each = by_cause.iter();
        each.map(|(labels, sums)| (labels.clone(), value(sums)))
            .collect()
    };
    text.gauge(
        "waits_open",
        "Waits that go on now",
        &of(|(count, _)| *count),
    );
    text.gauge_seconds(
        "wait_open_oldest_seconds",
        "For how long the oldest of them has gone on",
        &of(|(_, oldest_us)| *oldest_us),
    );
}

/// What people call each store.
fn names(text: &mut Text, cache: &Cache, stores: usize) {
    let label = |bdi| {
        let name = escaped(&cache.store_name(bdi));
        (format!("{{bdi=\"{bdi}\",name=\"{name}\"}}"), 1)
    };
    let values: Vec<_> = (0..stores).map(label).collect();
    text.gauge("bdi_info", "The name of a store", &values);
}

/// What volumes say of themselves: all figures of one name together.
fn volumes(text: &mut Text, figures: &[(String, Vec<Figure>)]) {
    let all = figures.iter().flat_map(|(export, figures)| {
        let labelled = |figure| (export.as_str(), figure);
        figures.iter().map(labelled)
    });
    let mut by_name: BTreeMap<&str, Vec<(&str, &Figure)>> = BTreeMap::new();
    for (export, figure) in all {
        by_name
            .entry(figure.name)
            .or_default()
            .push((export, figure));
    }
    for (name, figures) in by_name {
        let values: Vec<(String, u64)> = figures
            .iter()
            .map(|(export, figure)| {
                let others = figure.labels.iter();
                let others = others.map(|(name, value)| format!(",{name}=\"{value}\""));
                let others = others.collect::<Vec<_>>().concat();
                let export = escaped(export);
                (format!("{{export=\"{export}\"{others}}}"), figure.value)
            })
            .collect();
        let first = figures[0].1;
        if first.is_counter {
            text.counters(name, &values);
        } else {
            text.gauge(name, first.help, &values);
        }
    }
}

/// A value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The metrics of a budget that gives way.
fn elastic(text: &mut Text, statistics: &Statistics) {
    let Some(elastic) = &statistics.elastic else {
        return;
    };
    for (name, help, bytes) in [
        (
            "memory_target_bytes",
            "What the cache may have now",
            elastic.target_bytes,
        ),
        (
            "memory_floor_bytes",
            "The least that it may have",
            elastic.floor_bytes,
        ),
        (
            "memory_ceiling_bytes",
            "The most that it may have",
            elastic.ceiling_bytes,
        ),
        (
            "memory_headroom_bytes",
            "What was left for others at the last look",
            elastic.headroom_bytes,
        ),
        (
            "memory_over_bytes",
            "What it still gives back",
            statistics.pages_over * PAGE_BYTES as u64,
        ),
    ] {
        text.gauge(name, help, &[("", bytes)]);
    }
    text.counters("memory_turns", &[("", elastic.turns)]);
}

/// The stores that have a `value`, as labels with that value.
fn of_stores(
    statistics: &Statistics,
    value: impl Fn(&BackingStatistics) -> Option<u64>,
) -> Vec<(String, u64)> {
    let numbered = statistics.backings.iter().enumerate();
    numbered
        .filter_map(|(bdi, backing)| Some((format!("{{bdi=\"{bdi}\"}}"), value(backing)?)))
        .collect()
}

/// The metrics of each store.
fn stores(text: &mut Text, statistics: &Statistics) {
    let each = |value: fn(&BackingStatistics) -> u64| {
        of_stores(statistics, |backing| Some(value(backing)))
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
        (
            "bdi_failed_bytes",
            "Bytes that a store refused and that are kept and tried again",
            each(|backing| backing.failed_pages * PAGE_BYTES as u64),
        ),
        (
            "bdi_in_trouble",
            "How many kinds of requests a store refuses now",
            each(|backing| {
                let troubles = backing.troubles.iter().flatten();
                troubles.filter(|trouble| !trouble.is_over).count() as u64
            }),
        ),
    ] {
        text.gauge(name, help, &values);
    }
    text.gauge_seconds(
        "bdi_silent_seconds",
        "For how long a store has had requests and has answered none",
        &each(|backing| backing.silent_us),
    );
    text.counters("bdi_silences", &each(|backing| backing.silences));
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
    let each = |value: fn(&DrainStatistics) -> u64| {
        of_stores(statistics, |backing| backing.drain.as_ref().map(value))
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
    ages(text, statistics);
}

/// How old bytes are, and of a limit on that how often they became older.
fn ages(text: &mut Text, statistics: &Statistics) {
    let label = |bdi: usize| format!("{{bdi=\"{bdi}\"}}");
    let stores = || statistics.backings.iter().enumerate();
    let age = |age: Option<Span>| age.unwrap_or(Span::ZERO).as_micros();
    let oldest: Vec<_> = stores()
        .map(|(bdi, store)| (label(bdi), age(store.oldest_dirty)))
        .collect();
    text.gauge_seconds(
        "bdi_oldest_dirty_seconds",
        "Age of the oldest dirty page of a store, or of one under writeback",
        &oldest,
    );
    let limited: Vec<(String, AtRiskStatistics)> = stores()
        .filter_map(|(bdi, store)| Some((label(bdi), store.at_risk?)))
        .collect();
    let each = |value: fn(&AtRiskStatistics) -> u64| -> Vec<(String, u64)> {
        let values = limited.iter();
        values
            .map(|(label, it)| (label.clone(), value(it)))
            .collect()
    };
    for (name, help, values) in [
        (
            "bdi_at_risk_limit_seconds",
            "The age at which every byte of a store has to be durable",
            each(|it| it.limit.as_micros()),
        ),
        (
            "bdi_at_risk_seconds",
            "Age of the oldest byte of a store that is not durable",
            each(|it| it.oldest.as_micros()),
        ),
    ] {
        text.gauge_seconds(name, help, &values);
    }
    text.counters("bdi_at_risk_overshoot", &each(|it| it.overshoots));
}

/// How long callers waited and stores took.
fn times(text: &mut Text, histograms: &Histograms) {
    let label = |name: &str, value: &str| format!("{name}=\"{value}\"");
    let waits = histograms.waits.iter();
    let waits: Vec<_> = waits
        .map(|(cause, times)| (label("cause", cause.name()), *times))
        .collect();
    let help = "Waits of calls that ended, by cause; their sums are those of the ledger";
    text.histogram("wait_seconds", help, &waits);
    let calls = histograms.calls.iter();
    let calls: Vec<_> = calls
        .map(|(kind, times)| (label("kind", kind.name()), *times))
        .collect();
    let help = "Calls that waited, from their first wait to their end";
    text.histogram("call_seconds", help, &calls);
    let requests = histograms.requests.iter();
    let labels = |it: &RequestTimes| {
        let kind = match it.kind {
            IoKind::Read => "read",
            IoKind::Write => "write",
            _ => "commit",
        };
        format!(
            "{},{}",
            label("bdi", &it.bdi.to_string()),
            label("kind", kind)
        )
    };
    let requests: Vec<_> = requests.map(|it| (labels(it), it.times)).collect();
    let help = "Requests to a store, from their submission to its answer";
    text.histogram("bdi_request_seconds", help, &requests);
}

/// Microseconds as seconds.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// The same as a bound: without zeros at the end, except one after the point.
fn bound(us: u64) -> String {
    let text = seconds(us);
    let short = text.trim_end_matches('0');
    let point = if short.ends_with('.') { "0" } else { "" };
    format!("{short}{point}")
}

struct Text(String);

impl Text {
    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.0
            .write_fmt(arguments)
            .expect("writing to a string does not fail");
        self.0.push('\n');
    }

    fn lines(&mut self, name: &str, values: &[(impl Display, u64)]) {
        for (labels, value) in values {
            self.line(format_args!("forebay_{name}{labels} {value}"));
        }
    }

    fn counters(&mut self, name: &str, values: &[(impl Display, u64)]) {
        self.line(format_args!("# TYPE forebay_{name} counter"));
        self.lines(&format!("{name}_total"), values);
    }

    fn seconds(&mut self, name: &str, values_us: &[(impl Display, u64)]) {
        self.line(format_args!("# TYPE forebay_{name}_seconds counter"));
        self.line(format_args!("# UNIT forebay_{name}_seconds seconds"));
        for (labels, us) in values_us {
            let value = seconds(*us);
            self.line(format_args!("forebay_{name}_seconds_total{labels} {value}"));
        }
    }

    fn histogram(&mut self, name: &str, help: &str, all: &[(String, Histogram)]) {
        self.line(format_args!("# TYPE forebay_{name} histogram"));
        self.line(format_args!("# UNIT forebay_{name} seconds"));
        self.line(format_args!("# HELP forebay_{name} {help}."));
        for (labels, times) in all {
            let bounds = BOUNDS_US.into_iter().map(bound);
            let mut below = 0;
            for (bound, count) in bounds.chain(["+Inf".into()]).zip(times.buckets) {
                below += count;
                self.line(format_args!(
                    "forebay_{name}_bucket{{{labels},le=\"{bound}\"}} {below}"
                ));
            }
            let sum = seconds(times.sum_us);
            self.line(format_args!("forebay_{name}_sum{{{labels}}} {sum}"));
            self.line(format_args!("forebay_{name}_count{{{labels}}} {below}"));
        }
    }

    /// A gauge whose values are microseconds and are exposed in seconds.
    fn gauge_seconds(&mut self, name: &str, help: &str, values_us: &[(String, u64)]) {
        self.line(format_args!("# TYPE forebay_{name} gauge"));
        self.line(format_args!("# UNIT forebay_{name} seconds"));
        self.line(format_args!("# HELP forebay_{name} {help}."));
        for (labels, us) in values_us {
            let value = seconds(*us);
            self.line(format_args!("forebay_{name}{labels} {value}"));
        }
    }

    fn gauge(&mut self, name: &str, help: &str, values: &[(impl Display, u64)]) {
        self.line(format_args!("# TYPE forebay_{name} gauge"));
        self.line(format_args!("# HELP forebay_{name} {help}."));
        self.lines(name, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::elastic::MemorySeen;
    use forebay::settings::Elastic;
    use forebay::why::Cause;
    use forebay::{Cache, Settings};
    use forebay_store::{MemoryStore, ObjectId};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// Three clients, and a volume with a figure of two labels and a plain one.
    fn beside() -> Beside {
        let figure = |name, labels, is_counter, value| Figure {
            name,
            help: "It is a test",
            labels,
            is_counter,
            value,
        };
        let figures = vec![
            figure("bucket_requests", vec![("call", "get")], true, 5),
            figure("volume_epoch", Vec::new(), false, 7),
        ];
        Beside {
            errors: vec![(String::new(), 3)],
            connections: Some(3),
            figures: vec![("a \"disk\"".into(), figures)],
            troubles: Vec::new(),
        }
    }

    #[test]
    fn what_volumes_say_has_their_exports_as_labels() {
        let text = text();
        for line in [
            "# TYPE forebay_bucket_requests counter",
            "forebay_bucket_requests_total{export=\"a \\\"disk\\\"\",call=\"get\"} 5",
            "forebay_volume_epoch{export=\"a \\\"disk\\\"\"} 7",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
    }

    fn text() -> String {
        let cache = Cache::new(Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        })
        .unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        let file = cache.open(&store, ObjectId(1), 0).unwrap().blocking();
        file.write_at(&[1; 8192], 0).unwrap();
        let text = of(&cache, &beside());
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
            "forebay_balance_dirty_along_seconds_total 0.000000",
            "forebay_allocstall_seconds_total 0.000000",
            "forebay_sync_waited_seconds_total 0.000000",
            "forebay_bdi_info{bdi=\"0\",name=\"store 0\"} 1",
            "forebay_bdi_in_trouble{bdi=\"0\"} 0",
            "forebay_bdi_silent_seconds{bdi=\"0\"} 0.000000",
            "forebay_client_errors_total 3",
            "forebay_bdi_throttled_seconds_total{bdi=\"0\"} 0.000000",
            "forebay_bdi_idle_while_throttled_seconds_total{bdi=\"0\"} 0.000000",
            "forebay_dirty_limit_bytes ",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn every_counter_of_time_is_exposed_in_seconds_and_says_so() {
        let text = text();
        let is_time = |counter: &&forebay::Counter| counter.unit() == Unit::Microseconds;
        let mut seen = 0;
        for counter in forebay::Counter::ALL.iter().filter(is_time) {
            let name = counter.name().trim_end_matches("_us");
            assert!(text.contains(&format!("# UNIT forebay_{name}_seconds seconds\n")));
            let line = format!("\nforebay_{name}_seconds_total ");
            let (_, value) = text.split_once(&line).expect("it is exposed");
            let value = value.lines().next().expect("it has a value");
            assert!(value.contains('.'), "{name} is not in seconds: {value}");
            seen += 1;
        }
        assert!(seen >= 7, "{seen} counters of time");
        assert!(
            !text.contains("_us_total"),
            "none is exposed in microseconds"
        );
    }

    #[test]
    fn waits_that_go_on_are_shown_by_store_and_cause_with_the_oldest() {
        let wait = |bdi, cause, ms| OpenWait {
            caller: forebay::CallerKey::CACHE,
            bdi,
            cause,
            waited: Span::from_millis(ms),
        };
        let waits = [
            wait(Some(1), Cause::Commit, 25_000),
            wait(Some(1), Cause::Commit, 3),
            wait(None, Cause::Memory, 7),
        ];
        let mut text = Text(String::new());
        open_waits(&mut text, &waits);
        for line in [
            "forebay_waits_open{bdi=\"1\",cause=\"commit\"} 2\n",
            "forebay_wait_open_oldest_seconds{bdi=\"1\",cause=\"commit\"} 25.000000\n",
            "forebay_waits_open{cause=\"another budget\"} 1\n",
        ] {
            let line = line.replace("another budget", Cause::Memory.name());
            assert!(text.0.contains(&line), "{line} is missing in\n{}", text.0);
        }
    }

    #[test]
    fn no_counter_is_exposed_in_microseconds() {
        let text = text();
        let raw = text.lines().find(|line| line.contains("_us"));
        assert_eq!(raw, None);
    }

    #[test]
    fn a_budget_that_gives_way_shows_where_it_is() {
        let cache = Cache::new(Settings {
            memory_bytes: 64 << 20,
            elastic: Some(Elastic {
                floor_bytes: 16 << 20,
            }),
            ..Settings::default()
        })
        .unwrap();
        let seen = MemorySeen {
            headroom_bytes: 128 << 20,
            ..MemorySeen::default()
        };
        cache.memory_seen(&seen).expect("it is elastic");
        let text = of(&cache, &Beside::default());
        for line in [
            "forebay_memory_target_bytes 16777216",
            "forebay_memory_floor_bytes 16777216",
            "forebay_memory_headroom_bytes 134217728",
            "forebay_memory_looks_total 1",
            "forebay_memory_given_room_total 12288",
            "forebay_memory_turns_total 0",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
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
                let ends = ["_total", "_bucket", "_sum", "_count"];
                let base = ends.iter().find_map(|end| name.strip_suffix(end));
                let base = base.unwrap_or(name);
                assert!(declared.contains(base), "{line}");
            }
        }
    }

    /// The number at the end of the last line that begins with `start`.
    fn last(text: &str, start: &str) -> String {
        let found = text.lines().rfind(|line| line.starts_with(start));
        let found = found.unwrap_or_else(|| panic!("{start} is missing in\n{text}"));
        found.rsplit(' ').next().unwrap().to_owned()
    }

    #[test]
    fn buckets_have_all_that_was_no_longer_than_their_bound() {
        let mut times = Histogram::default();
        times.buckets[0] = 2;
        times.buckets[9] = 1;
        times.buckets[11] = 1;
        times.sum_us = 12_500_100;
        let mut text = Text(String::new());
        text.histogram("x_seconds", "X", &[("a=\"b\"".into(), times)]);
        let text = text.0;
        let expected = "# TYPE forebay_x_seconds histogram\n# UNIT forebay_x_seconds seconds\n";
        assert!(text.starts_with(expected), "{text}");
        for (le, count) in [
            ("0.00003", 2),
            ("0.2", 2),
            ("1.0", 3),
            ("10.0", 3),
            ("+Inf", 4),
        ] {
            let line = format!("forebay_x_seconds_bucket{{a=\"b\",le=\"{le}\"}} {count}\n");
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
        assert_eq!(last(&text, "forebay_x_seconds_sum{a=\"b\"}"), "12.500100");
        assert_eq!(last(&text, "forebay_x_seconds_count{a=\"b\"}"), "4");
    }

    #[test]
    fn histograms_of_a_cache_have_its_causes_and_stores() {
        let cache = Cache::new(Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        })
        .unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        let file = cache.open(&store, ObjectId(1), 0).unwrap().blocking();
        for round in 0..64 {
            file.write_at(&vec![round; 256 << 10], u64::from(round) << 18)
                .unwrap();
        }
        forebay_rt::block_on(cache.close()).unwrap();
        let text = of(&cache, &Beside::default());
        let rows = cache.wait_rows(None);
        assert!(!rows.is_empty(), "16 MiB do not fit in 8");
        for row in &rows {
            let cause = row.cause.name();
            let same = rows.iter().filter(|it| it.cause == row.cause);
            let us: u64 = same.map(|it| it.waited.as_micros()).sum();
            let sum = last(
                &text,
                &format!("forebay_wait_seconds_sum{{cause=\"{cause}\"}}"),
            );
            assert_eq!(sum, seconds(us));
        }
        let writes = "forebay_bdi_request_seconds_count{bdi=\"0\",kind=\"write\"}";
        assert_ne!(last(&text, writes), "0");
        assert_ne!(
            last(&text, "forebay_call_seconds_count{kind=\"write\"}"),
            "0"
        );
    }
}
