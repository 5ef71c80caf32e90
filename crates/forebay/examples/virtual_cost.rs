//! What an operation costs in real time on a simulated machine:
//! `cargo run --release -p forebay --example virtual_cost [CASES [COUNT]]`.
//!
//! Only the cases whose name contains CASES are run, COUNT times each. A simulated machine does
//! the same at each run, so the instructions of an operation can be counted on a busy machine too:
//! the difference of two COUNTs under `valgrind --tool=callgrind`, divided by theirs.

use forebay::{AttachedStore, Cache, Counter, File, Parts, Settings};

use forebay::settings::PageMemory;
use forebay_rt::thread::Stopwatch;
use forebay_rt::{Rt, Virtual, VirtualSettings, Work, WorkCosts};
use forebay_store::{Durability, Geometry, Io, ObjectId, Rate, RateStore, Store};
use std::sync::Arc;

const PAGE: usize = 4096;
/// How often a case is run if nobody says it.
const COUNT: u64 = 2_000_000;
/// One pause costs as much as many writes.
const WRITES_OF_A_PAUSE: u64 = 20;
/// Pages that are overwritten and read again.
const RECENT_PAGES: u64 = 1_000;
/// What the store of the writer that pauses takes, pages/s.
const SLOW_PAGES_PER_S: u64 = 5_000;

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

/// What is run, and how often.
struct Asked {
    cases: String,
    count: u64,
}

impl Asked {
    fn of_arguments() -> Asked {
        let mut words = std::env::args().skip(1);
        Asked {
            cases: words.next().unwrap_or_default(),
            count: words
                .next()
                .map_or(COUNT, |count| count.parse().expect("COUNT is a number")),
        }
    }

    /// Runs `work`, if it is asked for, and prints what each of `count` times cost.
    async fn run(&self, what: &str, count: u64, work: impl Future<Output = ()>) {
        if !what.contains(&self.cases) {
            return;
        }
        let (watch, before_ns) = (Stopwatch::start(), processor_ns());
        work.await;
        let each_ns = watch.elapsed().as_nanos() / count.max(1);
        let worked_ns = processor_ns().saturating_sub(before_ns) / count.max(1);
        println!("{what:28} {each_ns:6} ns, of which a processor worked {worked_ns:5} ns");
    }
}

fn cache(rt: &Rt, memory_mib: u64, store: Arc<dyn Store>) -> (Cache, AttachedStore) {
    let settings = Settings {
        memory_bytes: memory_mib << 20,
        page_memory: PageMemory::Phantom,
        ..Settings::default()
    };
    let parts = Parts {
        rt: rt.clone(),
        sink: None,
    };
    let cache = Cache::with_parts(settings, parts).expect("the settings are good");
    let store = cache.attach(store).expect("a new cache takes a store");
    (cache, store)
}

fn open(cache: &Cache, store: &AttachedStore) -> File {
    let file = cache.open(store, ObjectId(1), 0);
    file.expect("the object opens")
}

async fn measure(rt: Rt, asked: Asked) {
    let (cache, store) = cache(&rt, 512, Arc::new(Nowhere));
    let file = open(&cache, &store);
    let (mut page, count) = (vec![0; PAGE], asked.count);
    let charging = Box::pin(async {
        for _ in 0..count {
            rt.charge(Work::Copy { pages: 1 }).await;
        }
    });
    asked.run("charge", count, charging).await;
    let charged = Box::pin(async {
        for number in 0..count {
            rt.charge(Work::Copy { pages: 1 }).await;
            write(&file, &page, number * PAGE as u64).await;
        }
    });
    asked.run("write new pages, charged", count, charged).await;
    let writing = Box::pin(async {
        for number in count..2 * count {
            write(&file, &page, number * PAGE as u64).await;
        }
    });
    asked.run("write new pages", count, writing).await;
    let recent = |number: u64| (2 * count + number % RECENT_PAGES) * PAGE as u64;
    for number in 0..RECENT_PAGES {
        write(&file, &page, recent(number)).await;
    }
    let overwriting = Box::pin(async {
        for number in 0..count {
            write(&file, &page, recent(number)).await;
        }
    });
    asked.run("overwrite", count, overwriting).await;
    let reading = Box::pin(async {
        for number in 0..count {
            read(&file, &mut page, recent(number)).await;
        }
    });
    asked.run("read, resident", count, reading).await;
    let reading_through = Box::pin(async {
        for number in 0..count {
            read(&file, &mut page, number * PAGE as u64).await;
        }
    });
    asked.run("read through", count, reading_through).await;
    pauses(&rt, &asked).await;
}

/// A writer of single pages on a slow store: almost each write pauses.
async fn pauses(rt: &Rt, asked: &Asked) {
    let rate = Rate::bytes(SLOW_PAGES_PER_S * PAGE as u64);
    let nowhere = Arc::new(Nowhere);
    let store = Arc::new(RateStore::new(rt.clone(), nowhere, rate));
    let (cache, store) = cache(rt, 32, store);
    let (file, page) = (open(&cache, &store), vec![0; PAGE]);
    let count = asked.count / WRITES_OF_A_PAUSE;
    let paced = Box::pin(async {
        for number in 0..count {
            write(&file, &page, number * PAGE as u64).await;
        }
    });
    asked.run("write, paced", count, paced).await;
    let paused = cache.statistics().get(Counter::BalancePauses);
    if paused > 0 {
        println!("    {paused} pauses in {count} writes");
    }
}

async fn write(file: &File, page: &[u8], at: u64) {
    let written = file.write_at(page, at).await;
    written.expect("the store takes everything");
}

async fn read(file: &File, page: &mut [u8], at: u64) {
    let read = file.read_at(page, at).await;
    read.expect("the store gives everything");
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
    machine.run(measure(machine.rt(), Asked::of_arguments()));
}
