//! What opening a file costs when another has to be forgotten for it, and what a cut costs, for
//! objects of several lengths with the first page in memory, or the first and the last: `cargo run
//! --release -p forebay --example object_costs`.
//!
//! All rows are measured in turns in one run, so they can be compared with each other. Times of two
//! different runs cannot.

use forebay::{AttachedStore, Cache, File, Settings};

use forebay::settings::PageMemory;
use forebay_rt::block_on;
use forebay_rt::thread::Stopwatch;
use forebay_store::{Durability, Geometry, Io, ObjectId, Store};
use std::sync::Arc;

const PAGE: usize = 4096;
const ROUNDS: usize = 300;
/// Pages of another object in memory, and all pages.
const OTHER_PAGES: u64 = 40_000;
const MEMORY_BYTES: u64 = 256 << 20;
/// Files that a small table holds.
const FEW: u32 = 16;

/// What a file is like: how long, and how many of its pages are in memory.
struct Kind {
    name: &'static str,
    length_bytes: u64,
    pages: usize,
}

const KINDS: [Kind; 4] = [
    kind("4 KiB", 4 << 10, 1),
    kind("1 GiB", 1 << 30, 1),
    kind("1 TiB", 1 << 40, 1),
    kind("1 TiB, both ends", 1 << 40, 2),
];

const fn kind(name: &'static str, length_bytes: u64, pages: usize) -> Kind {
    Kind {
        name,
        length_bytes,
        pages,
    }
}

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

/// A cache with pages of one large object, and the number of the next file.
struct Bench {
    cache: Cache,
    store: AttachedStore,
    next: u64,
    _other: File,
}

impl Bench {
    fn new(objects_limit: u32) -> Bench {
        let settings = Settings {
            memory_bytes: MEMORY_BYTES,
            page_memory: PageMemory::Phantom,
            objects_limit,
            ..Settings::default()
        };
        let cache = Cache::new(settings).expect("the settings are good");
        let store = cache.attach(Arc::new(Nowhere));
        let store = store.expect("a new cache takes a store");
        let length_bytes = OTHER_PAGES * PAGE as u64;
        let other = cache.open(&store, ObjectId(0), length_bytes);
        let other = other.expect("there is room");
        let mut page = vec![0; PAGE];
        for number in 0..OTHER_PAGES {
            read(&other, &mut page, number);
        }
        Bench {
            cache,
            store,
            next: 0,
            _other: other,
        }
    }

    /// Opens a file that was never seen.
    fn open(&mut self, length_bytes: u64) -> File {
        self.next += 1;
        let file = self
            .cache
            .open(&self.store, ObjectId(self.next), length_bytes);
        file.expect("there is room, or a closed file")
    }

    /// Opens a file and brings its pages into memory.
    fn open_and_read(&mut self, kind: &Kind) -> File {
        let file = self.open(kind.length_bytes);
        let last = kind.length_bytes / PAGE as u64 - 1;
        for number in [0, last].into_iter().take(kind.pages) {
            read(&file, &mut vec![0; PAGE], number);
        }
        file
    }

    /// The nanoseconds of an open when every closed file is of `kind`.
    fn open_ns(&mut self, kind: &Kind) -> u64 {
        for _ in 0..FEW {
            self.open_and_read(kind);
        }
        let watch = Stopwatch::start();
        let opened = self.open(kind.length_bytes);
        let ns = watch.elapsed().as_nanos();
        drop(opened);
        ns
    }

    /// The nanoseconds of a cut of a file of `kind`.
    fn cut_ns(&mut self, kind: &Kind, cut: &impl AsyncFn(&File)) -> u64 {
        let file = self.open_and_read(kind);
        let watch = Stopwatch::start();
        block_on(cut(&file));
        watch.elapsed().as_nanos()
    }
}

fn read(file: &File, page: &mut [u8], number: u64) {
    let read = block_on(file.read_at(page, number * PAGE as u64));
    read.expect("the store gives everything");
}

async fn truncate(file: &File) {
    file.truncate(0).await.expect("the store cuts everything");
}

async fn discard(file: &File) {
    let discarded = file.discard(0..file.len()).await;
    discarded.expect("the store discards everything");
}

fn median(mut each_ns: Vec<u64>) -> u64 {
    each_ns.sort_unstable();
    each_ns[each_ns.len() / 2]
}

fn main() {
    let (mut large, mut small) = (Bench::new(1 << 16), Bench::new(FEW));
    let mut rows: Vec<(String, Vec<u64>)> = Vec::new();
    for round in 0..ROUNDS {
        let mut at = 0;
        let mut add = |name: String, ns: u64| {
            if round == 0 {
                rows.push((name, Vec::new()));
            }
            rows[at].1.push(ns);
            at += 1;
        };
        add("open, places left".into(), large.open_ns(&KINDS[0]));
        for kind in &KINDS {
            let ns = small.open_ns(kind);
            add(format!("open, table full of {}", kind.name), ns);
        }
        for kind in &KINDS {
            let ns = large.cut_ns(kind, &truncate);
            add(format!("truncate {}", kind.name), ns);
        }
        for kind in &KINDS {
            let ns = large.cut_ns(kind, &discard);
            add(format!("discard {}", kind.name), ns);
        }
    }
    let first = median(rows[0].1.clone());
    println!("{:36} {:>10} {:>10}", "", "median", "to first");
    for (name, each_ns) in rows {
        let ns = median(each_ns);
        let tenths = ns * 10 / first.max(1);
        println!("{name:36} {ns:7} ns {:8}.{}", tenths / 10, tenths % 10);
    }
}
