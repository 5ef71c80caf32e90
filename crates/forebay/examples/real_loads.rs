//! Writers on real threads in front of stores of several speeds, and what each store gets, second
//! by second: `cargo run --release -p forebay --example real_loads [NAME [FOLDER]]`.
//!
//! Virtual time never interleaves between two awaits, so it does not show what these loads show.

use forebay::{Cache, Counter, Settings};
use forebay_base::Span;
use forebay_rt::Rt;
use forebay_rt::thread::{Stopwatch, pause_current, spawn};
use forebay_store::{FileStore, FileStoreSettings, MemoryStore, OpenMode, Rate, RateStore, Store};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const BLOCK_BYTES: usize = 64 << 10;
const MEMORY_BYTES: u64 = 256 << 20;
const STORE_BYTES: u64 = 1 << 30;
const SECONDS: usize = 10;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Copy)]
enum Kind {
    /// Memory, which answers at once.
    Instant,
    /// A file in the folder that was named.
    File,
    /// Memory behind a medium of this many bytes a second.
    Rated(u64),
}

struct Load {
    name: &'static str,
    /// Each store, and how many writers it has.
    stores: &'static [(Kind, usize)],
    /// The first store stalls from the third second on.
    first_stops: bool,
}

const MB: u64 = 1_000_000;

const LOADS: &[Load] = &[
    Load {
        name: "instant",
        stores: &[(Kind::Instant, 1)],
        first_stops: false,
    },
    Load {
        name: "instant-beside-slow",
        stores: &[(Kind::Rated(5 * MB), 4), (Kind::Instant, 1)],
        first_stops: false,
    },
    Load {
        name: "file",
        stores: &[(Kind::File, 1)],
        first_stops: false,
    },
    Load {
        name: "file-four",
        stores: &[(Kind::File, 4)],
        first_stops: false,
    },
    Load {
        name: "file-beside-slow",
        stores: &[(Kind::Rated(5 * MB), 4), (Kind::File, 1)],
        first_stops: false,
    },
    Load {
        name: "one-of-two-stops",
        stores: &[(Kind::Rated(200 * MB), 1), (Kind::Rated(200 * MB), 1)],
        first_stops: true,
    },
    Load {
        name: "one-beside-sixteen",
        stores: &[(Kind::Rated(200 * MB), 16), (Kind::Rated(200 * MB), 1)],
        first_stops: false,
    },
];

/// A store and what its writers have written to it.
struct Target {
    rated: Option<Arc<RateStore>>,
    file: forebay::File,
    writers: usize,
    written_bytes: Arc<AtomicU64>,
    path: Option<PathBuf>,
}

fn target(
    cache: &Cache,
    folder: &Path,
    index: usize,
    of: (Kind, usize),
) -> Result<Target, Failure> {
    let (kind, writers) = of;
    let mut rated = None;
    let mut path = None;
    let (store, object): (Arc<dyn Store>, _) = match kind {
        Kind::Instant => (Arc::new(MemoryStore::new()), forebay_store::ObjectId(1)),
        Kind::Rated(bytes_per_s) => {
            let memory = Arc::new(MemoryStore::new());
            let medium = RateStore::new(Rt::real(), memory, Rate::bytes(bytes_per_s));
            let medium = Arc::new(medium);
            rated = Some(medium.clone());
            (medium, forebay_store::ObjectId(1))
        }
        Kind::File => {
            let files = FileStore::new(FileStoreSettings::default())?;
            let name = folder.join(format!("real-loads-{index}"));
            let mode = OpenMode::Create {
                length_bytes: Some(STORE_BYTES),
            };
            let opened = files.open(&name, mode)?;
            path = Some(name);
            (files, opened.object)
        }
    };
    let attached = cache.attach(store)?;
    Ok(Target {
        rated,
        file: cache.open(&attached, object, STORE_BYTES)?,
        writers,
        written_bytes: Arc::default(),
        path,
    })
}

/// Writes a part of the file in order, over and over, until `ends`.
fn write_on(file: &forebay::File, part: (u64, u64), written: &AtomicU64, ends: &AtomicBool) {
    let file = file.blocking();
    let block = vec![7_u8; BLOCK_BYTES];
    let (start, length) = (part.0, part.1 / BLOCK_BYTES as u64 * BLOCK_BYTES as u64);
    let mut at = 0;
    while !ends.load(Ordering::Relaxed) {
        if file.write_at(&block, start + at).is_err() {
            pause_current(Span::from_millis(10));
            continue;
        }
        written.fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
        at = (at + BLOCK_BYTES as u64) % length;
    }
}

fn run(load: &Load, folder: &Path) -> Result<(), Failure> {
    let cache = Cache::new(Settings {
        memory_bytes: MEMORY_BYTES,
        prefault: true,
        ..Settings::default()
    })?;
    let targets: Vec<Target> = load
        .stores
        .iter()
        .enumerate()
        .map(|(index, &of)| target(&cache, folder, index, of))
        .collect::<Result<_, _>>()?;
    let ends = Arc::new(AtomicBool::new(false));
    println!("{}", load.name);
    let mut threads = Vec::new();
    for target in &targets {
        let length = STORE_BYTES / target.writers as u64;
        for writer in 0..target.writers as u64 {
            let file = target.file.clone();
            let (written, ends) = (target.written_bytes.clone(), ends.clone());
            threads.push(spawn("writer", move || {
                write_on(&file, (writer * length, length), &written, &ends);
            })?);
        }
    }
    watch(&cache, &targets, load);
    ends.store(true, Ordering::Relaxed);
    for target in &targets {
        if let Some(rated) = &target.rated {
            rated.set_rate(Rate::UNLIMITED);
        }
    }
    for thread in threads {
        thread.join();
    }
    let statistics = cache.statistics();
    println!(
        "  pauses {} in {} us, overdue {}",
        statistics.get(Counter::BalancePauses),
        statistics.get(Counter::BalancePausedUs),
        statistics.get(Counter::WaitsOverdue),
    );
    for (index, backing) in statistics.backings.iter().enumerate() {
        println!(
            "  store {index}: throttled {} ms, idle of it {} ms",
            backing.throttled_us / 1_000,
            backing.idle_while_throttled_us / 1_000,
        );
    }
    for target in &targets {
        if let Some(path) = &target.path {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Prints what each store's writers got, each second.
fn watch(cache: &Cache, targets: &[Target], load: &Load) {
    let mut before: Vec<u64> = targets.iter().map(|_| 0).collect();
    for second in 0..SECONDS {
        if load.first_stops
            && second == 3
            && let Some(rated) = &targets[0].rated
        {
            rated.set_rate(Rate::bytes(0));
        }
        let watch = Stopwatch::start();
        pause_current(Span::from_secs(1));
        let elapsed_us = watch.elapsed().as_micros().max(1);
        let statistics = cache.statistics();
        let mut line = format!("  {second:2}:");
        for (index, target) in targets.iter().enumerate() {
            let written = target.written_bytes.load(Ordering::Relaxed);
            let rate = (written - before[index]) / elapsed_us;
            before[index] = written;
            let backing = &statistics.backings[index];
            let dirty = backing.reclaimable + backing.writeback;
            let (bandwidth, ratelimit) = (backing.write_bandwidth, backing.dirty_ratelimit);
            let _ = write!(
                line,
                "  {rate:5} MB/s (bandwidth {bandwidth:7} ratelimit {ratelimit:7} pages/s, \
                 dirty {dirty:6})"
            );
        }
        println!("{line}  of {}", statistics.dirty_limit);
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next();
    let folder = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    for load in LOADS {
        if name.as_deref().is_none_or(|name| name == load.name) {
            run(load, &folder)?;
        }
    }
    Ok(())
}
