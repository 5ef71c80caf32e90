//! The status page at the address of the metrics: one file without scripts, which the browser loads
//! again every few seconds.
//!
//! Everybody who can reach the address sees it, so it shows nothing that the metrics do not: causes
//! and stores, and no callers or files.

use crate::daemon::history::{History, Rates, Sample};
use forebay::statistics::BackingStatistics;
use forebay::why::OpenWait;
use forebay::{Cache, Statistics};
use forebay_base::units::{byte_of, show_bytes};
use forebay_base::{Instant, Span};
use forebay_chart::{Axis, Chart, Layer, Shape, document, escape, table_of_markup};
use std::collections::BTreeMap;

/// In the head: a reload, and no request for an icon.
const HEAD: &str = "\
<meta http-equiv=\"refresh\" content=\"5\">
<link rel=\"icon\" href=\"data:,\">
<style>
meter { width: 9rem; height: 1rem; }
</style>
";

/// The page of `cache` at `now`. `troubles` are those that only the server knows.
pub(super) fn page(cache: &Cache, history: &History, now: Instant, troubles: &[String]) -> String {
    let statistics = cache.statistics_with_ages();
    let names: Vec<String> = (0..statistics.backings.len())
        .map(|bdi| cache.store_name(bdi))
        .collect();
    let mut body = String::from("<h1>Forebay</h1>\n");
    body += &format_p(&format!(
        "Version {}, running for {}. This page shows the last {} and loads itself every 5 s.",
        env!("CARGO_PKG_VERSION"),
        show(now.since(Instant::ZERO)),
        show(History::span()),
    ));
    body += &list_of(troubles, &statistics, &names);
    body += &stores(&statistics, &names);
    body += &waits(&cache.open_waits(), &names);
    body += &memory(&statistics);
    body += &charts(&history.samples());
    document("Forebay", &body).replacen("<title>", &[HEAD, "<title>"].concat(), 1)
}

fn format_p(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// What is wrong now, if anything is.
fn list_of(troubles: &[String], statistics: &Statistics, names: &[String]) -> String {
    let mut all = troubles.to_vec();
    for (store, name) in statistics.backings.iter().zip(names) {
        let refused = store.troubles.iter().flatten().filter(|it| !it.is_over);
        all.extend(refused.map(|trouble| trouble.text(name, store.failed_pages)));
        if store.silent_us >= 1_000_000 {
            let silent = show(Span::from_micros(store.silent_us));
            all.push(format!("{name} has not answered for {silent}"));
        }
    }
    let line = |text: &String| format!("<p class=\"bad\">{}</p>\n", escape(text));
    all.iter().map(line).collect()
}

/// A table whose cells are markup, with numbers from the column `numbers` on.
fn table(head: &[&str], rows: &[Vec<String>], numbers: usize) -> String {
    let head: Vec<String> = head.iter().map(|text| (*text).to_owned()).collect();
    table_of_markup(&head, rows, numbers)
}

fn stores(statistics: &Statistics, names: &[String]) -> String {
    let row = |(store, name): (&BackingStatistics, &String)| {
        let level = byte_of(store.reclaimable + store.writeback);
        let limit = byte_of(store.dirty_thresh);
        let rate = byte_of(store.write_bandwidth);
        let (shown, most) = (level.min(limit.max(1)), limit.max(1));
        vec![
            escape(name).into_owned(),
            format!("<meter min=\"0\" max=\"{most}\" value=\"{shown}\">{shown}</meter>"),
            show_bytes(level),
            show_bytes(limit),
            format!("{}/s", show_bytes(rate)),
            match (level, rate) {
                (0, _) => "0 s".to_owned(),
                (_, 0) => "unknown".to_owned(),
                _ => show(Span::from_micros(level.saturating_mul(1_000_000) / rate)),
            },
            store.oldest_dirty.map_or_else(|| "none".to_owned(), show),
            store.writes_in_flight.to_string(),
        ]
    };
    let rows: Vec<_> = statistics.backings.iter().zip(names).map(row).collect();
    let heads = [
        "Store",
        "Dirty data against its limit",
        "Dirty",
        "Limit",
        "Rate",
        "Written in",
        "Oldest",
        "Writes in flight",
    ];
    format!("<h2>Stores</h2>\n{}", table(&heads, &rows, 2))
}

/// The waits that go on, by cause and store.
fn waits(open: &[OpenWait], names: &[String]) -> String {
    let mut by_cause: BTreeMap<(&str, &str), (u64, Span)> = BTreeMap::new();
    for wait in open {
        let store = wait.bdi.and_then(|bdi| names.get(bdi));
        let key = (wait.cause.name(), store.map_or("", String::as_str));
        let (count, oldest) = by_cause.entry(key).or_default();
        *count += 1;
        *oldest = (*oldest).max(wait.waited);
    }
    if by_cause.is_empty() {
        return "<h2>Waiting now</h2>\n<p>No caller is waiting.</p>\n".to_owned();
    }
    let row = |((cause, store), (count, oldest)): (&(&str, &str), &(u64, Span))| {
        vec![
            escape(cause).into_owned(),
            escape(store).into_owned(),
            count.to_string(),
            show(*oldest),
        ]
    };
    let rows: Vec<_> = by_cause.iter().map(row).collect();
    let heads = ["Cause", "Store", "Calls", "Oldest"];
    format!(
        "<h2>Waiting now</h2>\n{}<p>forebay why shows which callers.</p>\n",
        table(&heads, &rows, 2)
    )
}

fn memory(statistics: &Statistics) -> String {
    let row = |name: &str, bytes: u64| vec![name.to_owned(), show_bytes(bytes)];
    let rows = [
        row("Memory of the cache", statistics.memory_bytes),
        row("Free", byte_of(statistics.free())),
        row("Dirty", byte_of(statistics.nr_dirty)),
        row("Under writeback", byte_of(statistics.nr_writeback)),
        row(
            "Background writeback starts at",
            byte_of(statistics.nr_dirty_background_threshold),
        ),
        row("Dirty limit", byte_of(statistics.dirty_limit)),
    ];
    format!("<h2>Memory</h2>\n{}", table(&["", "Size"], &rows, 1))
}

fn charts(samples: &[Sample]) -> String {
    let (Some(last), true) = (samples.last(), samples.len() > 1) else {
        return "<h2>Last minutes</h2>\n<p>Not enough samples yet: one is taken every 5 s.</p>\n"
            .to_owned();
    };
    let ago = |sample: &Sample| last.at.since(sample.at).as_micros() as f64 / 1e6;
    let rates: Vec<Rates> = samples
        .windows(2)
        .map(|pair| pair[1].rates(&pair[0], ago(&pair[1])))
        .collect();
    format!(
        "<h2>Last minutes</h2>\n<div class=\"gallery\">\n{}{}</div>\n",
        level_chart(samples, &ago).figure(),
        rate_chart(&rates).figure(),
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn time_axis() -> Axis {
    let mut axis = Axis::linear("time before now, s");
    axis.bounds = Some((-(History::span().as_millis() as f64) / 1e3, 0.0));
    axis
}

fn level_chart(samples: &[Sample], ago: &dyn Fn(&Sample) -> f64) -> Chart {
    let points = |of: fn(&Sample) -> u64| -> Vec<(f64, f64)> {
        let point = |sample: &Sample| (-ago(sample), mib(of(sample)));
        samples.iter().map(point).collect()
    };
    let mut chart = Chart::new("Dirty data and its limit", time_axis(), Axis::linear("MiB"));
    let level = Shape::Line(points(|sample| sample.level_bytes));
    chart.add(Layer::new("dirty or under writeback", 0, level));
    let limit = Shape::Dashed(points(|sample| sample.limit_bytes));
    chart.add(Layer::new("limit", 1, limit));
    chart
}

fn rate_chart(rates: &[Rates]) -> Chart {
    let mut chart = Chart::new("Rates", time_axis(), Axis::linear("MiB/s"));
    let mut add = |colour, name, of: fn(&Rates) -> f64| {
        let points = rates.iter().map(|it| (-it.ago_s, of(it)));
        chart.add(Layer::new(name, colour, Shape::Line(points.collect())));
    };
    add(0, "made dirty by callers", |it| it.dirtied);
    add(1, "written to stores", |it| it.written);
    add(2, "read from stores", |it| it.read);
    chart
}

/// A time for people.
fn show(time: Span) -> String {
    let ms = time.as_millis();
    match ms / 1_000 {
        0 => format!("{ms} ms"),
        1..120 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::Settings;
    use forebay_base::sync::Arc;
    use forebay_store::{MemoryStore, ObjectId};

    #[test]
    fn the_page_shows_stores_and_waits_and_no_markup_of_others() {
        let settings = Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        cache.name_store(store.key(), "<b>disk</b>").unwrap();
        let file = cache.open(&store, ObjectId(1), 0).unwrap().blocking();
        file.write_at(&[1; 8 << 10], 0).unwrap();
        let history = History::default();
        let now = Instant::ZERO + Span::from_secs(90);
        let troubles = ["no <room>".to_owned()];
        let first = page(&cache, &history, now, &troubles);
        for expected in [
            "&lt;b&gt;disk&lt;/b&gt;",
            "no &lt;room&gt;",
            "<td class=\"n\">8 KiB</td>",
            "No caller is waiting",
            "Not enough samples",
            "running for 90.0 s",
            "http-equiv=\"refresh\"",
        ] {
            assert!(first.contains(expected), "{expected}: {first}");
        }
        assert!(!first.contains("<script"), "{first}");
        for seconds in [90, 95] {
            history.record_at(
                &cache.statistics(),
                Instant::ZERO + Span::from_secs(seconds),
            );
        }
        let second = page(&cache, &history, now, &[]);
        assert_eq!(second.matches("<svg").count(), 2);
        assert_eq!(
            second.matches("<details>").count(),
            2,
            "a table behind each chart"
        );
    }
}
