//! On which list anonymous pages start, and what that is worth beside a file that is read once.

use crate::support::{Bench, OfSize, PAGE, simulate, write_pages};
use forebay_engine::{Counter, Settings};
use forebay_kernels::Policy;
use forebay_store::{MemoryStore, ObjectId};
use std::sync::Arc;

const ANONYMOUS_PAGES: u64 = 500;

/// What was seen of anonymous pages.
#[derive(Debug)]
struct Seen {
    /// On the active list after the first touch.
    active: u64,
    /// Written to swap while a file four times the memory was read.
    swapped: u64,
}

fn beside_a_stream(preset: &str) -> Seen {
    let policy = Policy::preset(preset).expect("the preset exists");
    let mut seen = None;
    simulate(1, async |rt| {
        let settings = Settings {
            ..Settings::of_mib(16)
        }
        .under(policy);
        let memory = Arc::new(MemoryStore::new());
        let bench = Bench::around(rt.clone(), settings, memory.clone(), memory);
        let swap = bench.cache.set_swap(&bench.store, ObjectId(9), 16 << 20);
        swap.expect("swap is new");
        let idle = bench.cache.anonymous(ANONYMOUS_PAGES * PAGE as u64);
        let idle = idle.expect("swap is set");
        let written = write_pages(&idle, 0..ANONYMOUS_PAGES).await;
        written.expect("memory takes bytes");
        let active = bench.cache.statistics().zones[0].active_anon;
        let file = bench.open(64 << 20);
        let mut bytes = vec![0; 32 * PAGE];
        for at in (0..64 << 20).step_by(bytes.len()) {
            let read = file.read_at(&mut bytes, at).await;
            read.expect("the file is read");
            rt.yield_now().await;
        }
        let swapped = bench.count(Counter::Pswpout);
        seen = Some(Seen { active, swapped });
        bench.assert_consistent();
    });
    seen.expect("the test has run")
}

#[test]
fn anonymous_pages_begin_as_used_up_to_5_8_and_as_unused_since() {
    for preset in ["linux-3.0", "linux-3.3", "linux-4.11"] {
        assert_eq!(beside_a_stream(preset).active, ANONYMOUS_PAGES, "{preset}");
    }
    for preset in ["linux-5.15", "linux-6.16", "forebay"] {
        assert_eq!(beside_a_stream(preset).active, 0, "{preset}");
    }
}

#[test]
fn what_begins_as_used_outlives_a_file_that_is_read_once() {
    let seen = beside_a_stream("linux-4.11");
    assert!(seen.swapped < ANONYMOUS_PAGES / 10, "{seen:?}");
}
