//! Four writers that time each of their writes.

use super::board::{Board, TICK_MS};
use crate::error::CommandError;
use forebay_bench::Times;
use forebay_rt::thread::{Joiner, Stopwatch, spawn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const WRITERS: u64 = 4;
pub(super) const BLOCK_BYTES: u64 = 64 << 10;

/// What the writers share with the thread that waits for them.
pub(super) struct Shared {
    pub(super) board: Board,
    pub(super) watch: Stopwatch,
    stops: AtomicBool,
    done: Mutex<Done>,
}

#[derive(Default)]
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
            done: Mutex::default(),
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
            None => Ok(std::mem::take(&mut done.times)),
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
) -> Result<Vec<Joiner>, CommandError>
where
    W: Fn(&[u8], u64) -> Result<(), String> + Clone + Send + 'static,
{
    let part_bytes = file_bytes / WRITERS / BLOCK_BYTES * BLOCK_BYTES;
    let writer = |index: u64| {
        let (shared, write) = (Arc::clone(shared), write.clone());
        spawn("writer", move || {
            let part = (index * part_bytes, part_bytes);
            let mut times = Times::default();
            let ended = write_on(index, part, &shared, &mut times, &write);
            let mut done = shared.done();
            done.times.merge(&times);
            if let Err(reason) = ended {
                done.failure = Some(reason);
            }
        })
        .map_err(CommandError::system("start a writer"))
    };
    (0..WRITERS).map(writer).collect()
}

fn write_on(
    index: u64,
    (first_byte, part_bytes): (u64, u64),
    shared: &Shared,
    times: &mut Times,
    write: &impl Fn(&[u8], u64) -> Result<(), String>,
) -> Result<(), String> {
    let block = vec![7_u8; BLOCK_BYTES as usize];
    let (mut at, mut tick, mut writes, mut longest_ns) = (0, 0, 0, 0);
    while !shared.stops.load(Ordering::Relaxed) {
        let watch = Stopwatch::start();
        write(&block, first_byte + at)?;
        let nanos = watch.elapsed().as_nanos();
        times.record(nanos);
        let now = shared.tick();
        if now != tick {
            (tick, writes, longest_ns) = (now, 0, 0);
        }
        (writes, longest_ns) = (writes + 1, nanos.max(longest_ns));
        shared.board.show_writes(tick, index, writes, longest_ns);
        at = (at + BLOCK_BYTES) % part_bytes;
    }
    Ok(())
}
