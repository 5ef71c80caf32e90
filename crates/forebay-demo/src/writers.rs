//! Four writers that time each of their writes.

use super::board::{Board, TICK_MS, WRITERS};
use crate::error::DemoError;
use forebay_rt::thread::{Joiner, Stopwatch, spawn};
use hdrhistogram::Histogram;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const BLOCK_BYTES: u64 = 64 << 10;

/// The longest time of a write that the distribution can tell from a longer one.
const LONGEST_NS: u64 = 100_000_000_000;

/// The times of writes in ns, accurate to one part in a thousand.
pub(super) type Times = Histogram<u64>;

fn no_times() -> Times {
    Histogram::new_with_bounds(1, LONGEST_NS, 3)
        .expect("the bounds are in order and the digits from 0 to 5")
}

/// What the writers share with the thread that waits for them.
pub(super) struct Shared {
    pub(super) board: Board,
    pub(super) watch: Stopwatch,
    stops: AtomicBool,
    done: Mutex<Done>,
}

struct Done {
    times: Times,
    failure: Option<String>,
}

impl Shared {
    /// The first tick begins here.
    pub(super) fn new(board: Board) -> Shared {
        board.show_start();
        Shared {
            board,
            watch: Stopwatch::start(),
            stops: AtomicBool::new(false),
            done: Mutex::new(Done {
                times: no_times(),
                failure: None,
            }),
        }
    }

    /// The current tick.
    pub(super) fn tick(&self) -> u64 {
        self.watch.elapsed().as_millis() / TICK_MS
    }

    /// Asks the writers to end.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// All writes of the writers that have ended, or the reason why one failed.
    pub(super) fn all(&self) -> Result<Times, String> {
        let mut done = self.done();
        match done.failure.take() {
            Some(reason) => Err(reason),
            None => Ok(std::mem::replace(&mut done.times, no_times())),
        }
    }

    fn done(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the writers. Each writes its own part of `file_bytes` in order, again and again.
pub(super) fn start<W>(
    file_bytes: u64,
    shared: &Arc<Shared>,
    write: W,
) -> Result<Vec<Joiner>, DemoError>
where
    W: Fn(&[u8], u64) -> Result<(), String> + Clone + Send + 'static,
{
    let part_bytes = file_bytes / WRITERS / BLOCK_BYTES * BLOCK_BYTES;
    let writer = |index: u64| {
        let (shared, write) = (Arc::clone(shared), write.clone());
        spawn("writer", move || {
            let part = index * part_bytes..(index + 1) * part_bytes;
            let mut times = no_times();
            let ended = write_on(index, part, &shared, &mut times, &write);
            let mut done = shared.done();
            done.times
                .add(&times)
                .expect("both were made with the same bounds");
            if let Err(reason) = ended {
                done.failure = Some(reason);
            }
        })
        .map_err(DemoError::system("start a writer"))
    };
    (0..WRITERS).map(writer).collect()
}

fn write_on(
    index: u64,
    part: Range<u64>,
    shared: &Shared,
    times: &mut Times,
    write: &impl Fn(&[u8], u64) -> Result<(), String>,
) -> Result<(), String> {
    let block = vec![7_u8; BLOCK_BYTES as usize];
    let (mut at, mut tick, mut writes, mut longest_ns) = (0, 0, 0, 0);
    while !shared.stops.load(Ordering::Relaxed) {
        let watch = Stopwatch::start();
        write(&block, part.start + at)?;
        let nanos = watch.elapsed().as_nanos();
        times.saturating_record(nanos);
        let now = shared.tick();
        if now != tick {
            (tick, writes, longest_ns) = (now, 0, 0);
        }
        (writes, longest_ns) = (writes + 1, nanos.max(longest_ns));
        shared.board.show_writes(tick, index, writes, longest_ns);
        at = (at + BLOCK_BYTES) % (part.end - part.start);
    }
    Ok(())
}
