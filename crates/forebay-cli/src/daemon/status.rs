//! The status of the cache that a server prints on SIGUSR1, for users without Prometheus.

use forebay::{Counter, Statistics};

use forebay::statistics::BackingStatistics;
use forebay_base::PAGE_BYTES;
use forebay_base::units::show_bytes;

/// Some lines: two for the cache, then one for each store.
pub(crate) fn lines(statistics: &Statistics) -> Vec<String> {
    let count = |counter| statistics.get(counter);
    let mut lines = vec![
        format!(
            "status: {} of memory, {} of it free; {} dirty and {} under writeback, of {} allowed",
            show_bytes(statistics.memory_bytes),
            show_pages(statistics.free()),
            show_pages(statistics.nr_dirty),
            show_pages(statistics.nr_writeback),
            show_pages(statistics.dirty_limit),
        ),
        format!(
            "status: since the start {} read and {} written; {} pauses of writers; {} pages that \
             could not be written, {} waits that took too long",
            show_pages(count(Counter::Pgpgin)),
            show_pages(count(Counter::Pgpgout)),
            count(Counter::BalancePauses),
            count(Counter::NrWriteFailed),
            count(Counter::WaitsOverdue),
        ),
    ];
    for (number, store) in statistics.backings.iter().enumerate() {
        lines.push(of_store(number, store));
        let troubles = store.troubles.iter().flatten();
        let going_on = troubles.filter(|trouble| !trouble.is_over);
        let name = format!("status: store {number}");
        lines.extend(going_on.map(|trouble| trouble.text(&name, store.failed_pages)));
    }
    lines
}

fn of_store(number: usize, store: &BackingStatistics) -> String {
    let silence = match store.silent_us / 1_000_000 {
        0 => String::new(),
        seconds => format!("; no answer for {seconds} s"),
    };
    format!(
        "status: store {number}: {} to write, {} on their way in {} requests, {}/s{silence}",
        show_pages(store.reclaimable),
        show_pages(store.writeback),
        store.writes_in_flight,
        show_pages(store.write_bandwidth),
    )
}

/// This many pages as bytes, for people.
pub(super) fn show_pages(pages: u64) -> String {
    show_bytes(pages * PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::{Cache, Settings};
    use forebay_base::sync::Arc;
    use forebay_store::{MemoryStore, ObjectId};

    #[test]
    fn the_lines_say_what_is_dirty_and_where() {
        let settings = Settings {
            memory_bytes: 8 << 20,
            ..Settings::default()
        };
        let cache = Cache::new(settings).unwrap();
        let store = cache.attach(Arc::new(MemoryStore::new())).unwrap();
        let file = cache.open(&store, ObjectId(1), 0).unwrap().blocking();
        file.write_at(&[1; 3 * PAGE_BYTES], 0).unwrap();
        let lines = lines(&cache.statistics());
        assert!(
            lines[0].contains("12 KiB dirty and 0 B under writeback"),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("0 pages that could not be written"),
            "{lines:?}"
        );
        assert!(
            lines[2].starts_with("status: store 0: 12 KiB to write"),
            "{lines:?}"
        );
    }
}
