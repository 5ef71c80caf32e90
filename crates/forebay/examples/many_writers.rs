//! Many writers on real threads in front of one store: how long their calls take, how fair the
//! shares are, and how much processor time a call costs. `cargo run --release -p forebay --example
//! many_writers [WRITERS [BLOCK_BYTES [MB_PER_S [SECONDS]]]]`.

use forebay::{Cache, Settings};
use forebay_base::Span;
use forebay_rt::Rt;
use forebay_rt::thread::{Stopwatch, pause_current, spawn};
use forebay_store::{MemoryStore, ObjectId, Rate, RateStore};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const MEMORY_BYTES: u64 = 256 << 20;
/// Calls in the first this many seconds do not count.
const SETTLING_S: u64 = 5;

/// What one writer did after all had settled.
struct Done {
    bytes: u64,
    latencies_us: Vec<u64>,
}

fn write_on(file: &forebay::File, part: (u64, u64), block: u64, phase: &AtomicU64) -> Done {
    let file = file.blocking();
    let bytes = vec![7_u8; block as usize];
    let mut done = Done {
        bytes: 0,
        latencies_us: Vec::new(),
    };
    let mut at = 0;
    loop {
        let watch = Stopwatch::start();
        let is_written = file.write_at(&bytes, part.0 + at).is_ok();
        match phase.load(Ordering::Relaxed) {
            1 if is_written => {
                done.bytes += block;
                done.latencies_us.push(watch.elapsed().as_micros());
            }
            0 | 1 => {}
            _ => return done,
        }
        at = (at + block) % part.1;
    }
}

/// Processor time that this process has used, us.
fn processor_us() -> Result<u64, Failure> {
    const TICK_US: u64 = 10_000;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat
        .rsplit_once(')')
        .ok_or("the line has no name of the process")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(ticks * TICK_US)
}

fn argument(at: usize, usual: u64) -> Result<u64, Failure> {
    match std::env::args().nth(at) {
        Some(given) => Ok(given.parse()?),
        None => Ok(usual),
    }
}

fn main() -> Result<(), Failure> {
    let (writers, block) = (argument(1, 100)?, argument(2, 4_096)?);
    let (mb_per_s, seconds) = (argument(3, 30)?, argument(4, 10)?);
    let cache = Cache::new(Settings {
        memory_bytes: MEMORY_BYTES,
        prefault: true,
        ..Settings::default()
    })?;
    let rate = Rate::bytes(mb_per_s * 1_000_000);
    let store = Arc::new(RateStore::new(
        Rt::real(),
        Arc::new(MemoryStore::new()),
        rate,
    ));
    let attached = cache.attach(store.clone())?;
    let part_bytes = (1 << 30) / writers / block.max(1) * block;
    let file = cache.open(&attached, ObjectId(1), 1 << 30)?;
    let phase = Arc::new(AtomicU64::new(0));
    let all: Arc<Mutex<Vec<Done>>> = Arc::default();
    let threads = (0..writers).map(|writer| {
        let (file, phase, all) = (file.clone(), phase.clone(), all.clone());
        spawn("writer", move || {
            let part = (writer * part_bytes, part_bytes.max(block));
            let done = write_on(&file, part, block, &phase);
            all.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(done);
        })
    });
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    pause_current(Span::from_secs(SETTLING_S));
    let before_us = processor_us()?;
    phase.store(1, Ordering::Relaxed);
    pause_current(Span::from_secs(seconds));
    phase.store(2, Ordering::Relaxed);
    let taken_us = processor_us()? - before_us;
    store.set_rate(Rate::UNLIMITED);
    threads
        .into_iter()
        .for_each(forebay_rt::thread::Joiner::join);
    let all = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
    report(&all, taken_us, seconds);
    Ok(())
}

fn report(all: &[Done], processor_us: u64, seconds: u64) {
    let mut latencies: Vec<u64> = all
        .iter()
        .flat_map(|done| done.latencies_us.clone())
        .collect();
    latencies.sort_unstable();
    let at = |part: f64| {
        let place = (latencies.len().saturating_sub(1)) as f64 * part;
        latencies.get(place as usize).copied().unwrap_or(0) as f64 / 1_000.0
    };
    let shares: Vec<f64> = all.iter().map(|done| done.bytes as f64).collect();
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let jain = sum * sum / (shares.len() as f64 * squares);
    println!(
        "{} writers: {:.1} MB/s, Jain {jain:.3}, p50 {:.1} ms, p99 {:.1}, longest {:.1}, \
         {:.1} us of processor a call",
        all.len(),
        sum / seconds as f64 / 1e6,
        at(0.5),
        at(0.99),
        at(1.0),
        processor_us as f64 / latencies.len().max(1) as f64,
    );
}
