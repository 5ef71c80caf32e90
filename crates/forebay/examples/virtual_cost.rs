//! What an operation costs in real time on a simulated machine:
//! `cargo run --release -p forebay --example virtual_cost`.

use forebay::{Cache, Parts, Settings};

use forebay::settings::PageMemory;
use forebay_rt::thread::Stopwatch;
use forebay_rt::{Rt, Virtual, VirtualSettings, Work, WorkCosts};
use forebay_store::{Durability, Geometry, Io, ObjectId, Store};
use std::sync::Arc;

const PAGE: usize = 4096;
const PAGES: u64 = 2_000_000;

/// Takes everything at once.
struct Nowhere;

impl Store for Nowhere {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_bytes: 4096,
            max_io_pages: 256,
            write_unit_pages: 1,
            queue_depth: 32,
            durability: Durability::OnFinish,
            stable_pages: false,
        }
    }

    fn submit(&self, io: Io) {
        io.succeed();
    }
}

async fn measure(rt: Rt) {
    let settings = Settings {
        memory_bytes: 512 << 20,
        page_memory: PageMemory::Phantom,
        ..Settings::default()
    };
    let parts = Parts {
        rt: rt.clone(),
        sink: None,
    };
    let cache = Cache::with_parts(settings, parts).expect("the settings are good");
    let store = cache
        .attach(Arc::new(Nowhere))
        .expect("a new cache takes a store");
    let file = cache
        .open(&store, ObjectId(1), 0)
        .expect("the object opens");
    let mut page = vec![0; PAGE];
    let recent = |number: u64| (2 * PAGES - 1 - number % 1_000) * PAGE as u64;
    let charging = Box::pin(async {
        for _ in 0..PAGES {
            rt.charge(Work::Copy { pages: 1 }).await;
        }
    });
    print_cost("charge", charging).await;
    let charged = Box::pin(async {
        for number in 0..PAGES {
            rt.charge(Work::Copy { pages: 1 }).await;
            write(&file, &page, number * PAGE as u64).await;
        }
    });
    print_cost("write new pages, charged", charged).await;
    let writing = Box::pin(async {
        for number in PAGES..2 * PAGES {
            write(&file, &page, number * PAGE as u64).await;
        }
    });
    print_cost("write new pages", writing).await;
    let overwriting = Box::pin(async {
        for number in 0..PAGES {
            write(&file, &page, recent(number)).await;
        }
    });
    print_cost("overwrite", overwriting).await;
    let reading = Box::pin(async {
        for number in 0..PAGES {
            read(&file, &mut page, recent(number)).await;
        }
    });
    print_cost("read, resident", reading).await;
    let reading_through = Box::pin(async {
        for number in 0..PAGES {
            read(&file, &mut page, number * PAGE as u64).await;
        }
    });
    print_cost("read through", reading_through).await;
}

async fn write(file: &forebay::File, page: &[u8], at: u64) {
    let written = file.write_at(page, at).await;
    written.expect("the store takes everything");
}

async fn read(file: &forebay::File, page: &mut [u8], at: u64) {
    let read = file.read_at(page, at).await;
    read.expect("the store gives everything");
}

async fn print_cost(what: &str, work: impl Future<Output = ()>) {
    let (watch, before_ns) = (Stopwatch::start(), processor_ns());
    work.await;
    let each_ns = watch.elapsed().as_nanos() / PAGES;
    let worked_ns = processor_ns().saturating_sub(before_ns) / PAGES;
    println!("{what:28} {each_ns:6} ns, of which a processor worked {worked_ns:5} ns");
}

/// The processor time of this process as the system reports it; 0 if it does not.
fn processor_ns() -> u64 {
    let reported = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = reported.split_whitespace().next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn main() {
    let machine = Virtual::new(VirtualSettings {
        processors: 2,
        costs: WorkCosts {
            copy_page_ns: 2_300,
            scan_page_ns: 400,
            free_page_ns: 800,
            writeback_page_ns: 1_600,
            request_ns: 8_000,
            ..WorkCosts::default()
        },
        ..VirtualSettings::default()
    });
    machine.run(measure(machine.rt()));
}
