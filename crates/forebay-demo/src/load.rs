//! The load of every contender: a reader, and after a while four writers that flood the disk.

use super::board::{Board, TICK_MS, WRITERS};
use crate::error::DemoError;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_rt::thread::{Joiner, Stopwatch, pause_current, spawn};
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a write.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// Bytes that the reader reads from, at the start of the file: a quarter of what a cache may hold.
pub(super) const READ_BYTES: u64 = 64 << 20;
/// Bytes that each writer overwrites in order, again and again.
pub(super) const WRITTEN_BYTES: u64 = 128 << 20;
/// The file of a contender.
pub(super) const FILE_BYTES: u64 = READ_BYTES + WRITERS * WRITTEN_BYTES;

/// The reader asks for this many pages, one after the other, in each of its turns.
const READS_PER_TURN: u64 = 10;
const TURN: Span = Span::from_millis(2);
/// What the reader reaches if no read waits.
pub(super) const READS_PER_S: u64 = READS_PER_TURN * 1_000_000_000 / TURN.as_nanos();

/// The longest time of a write that the distribution can tell from a longer one.
const LONGEST_NS: u64 = 100_000_000_000;

/// The times of writes in ns, accurate to one part in a thousand.
pub(super) type Times = Histogram<u64>;

pub(super) fn no_times() -> Times {
    Histogram::new_with_bounds(1, LONGEST_NS, 3)
        .expect("the bounds are in order and the digits from 0 to 5")
}

/// Something that keeps a file on the slow disk.
pub(super) trait Storage: Send + Sync + 'static {
    fn read(&self, page: &mut [u8], at: u64) -> Result<(), String>;
    fn write(&self, block: &[u8], at: u64) -> Result<(), String>;
}

/// What the threads of the load share.
pub(super) struct Load {
    storage: Arc<dyn Storage>,
    board: Board,
    clock: Stopwatch,
    stops: AtomicBool,
    outcome: Mutex<Result<Times, String>>,
}

/// Reads all pages of the reader twice: they are its working set, and a cache may know it.
pub(super) fn warm(storage: &dyn Storage) -> Result<(), String> {
    let mut page = vec![0; PAGE_BYTES];
    let pages = || (0..READ_BYTES).step_by(PAGE_BYTES);
    pages()
        .chain(pages())
        .try_for_each(|at| storage.read(&mut page, at))
}

impl Load {
    /// The first tick begins here.
    pub(super) fn new(storage: Arc<dyn Storage>, board: Board) -> Load {
        Load {
            storage,
            board,
            clock: Stopwatch::start(),
            stops: AtomicBool::new(false),
            outcome: Mutex::new(Ok(no_times())),
        }
    }

    /// Reads until `end`, and writes from `flood` to `end`. Returns the times of the writes.
    pub(super) fn run(self, flood: Span, end: Span) -> Result<Times, DemoError> {
        let load = Arc::new(self);
        let mut threads = vec![load.start("reader", Load::read)?];
        pause_current(flood);
        for writer in 0..WRITERS {
            threads.push(load.start("writer", move |load| load.write(writer))?);
        }
        pause_current(end.saturating_sub(load.clock.elapsed()));
        load.stops.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(Joiner::join);
        let outcome = std::mem::replace(&mut *lock(&load.outcome), Ok(no_times()));
        outcome.map_err(|reason| DemoError::Contender {
            contender: "demo",
            reason,
        })
    }

    fn start(
        self: &Arc<Load>,
        name: &'static str,
        body: impl FnOnce(&Load) -> Result<Times, String> + Send + 'static,
    ) -> Result<Joiner, DemoError> {
        let load = Arc::clone(self);
        spawn(name, move || {
            let ended = body(&load);
            let mut outcome = lock(&load.outcome);
            match (&mut *outcome, ended) {
                (Ok(all), Ok(times)) => all
                    .add(&times)
                    .expect("both were made with the same bounds"),
                (all, Err(reason)) => *all = Err(reason),
                (Err(_), Ok(_)) => {}
            }
        })
        .map_err(DemoError::system("start a thread"))
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    fn tick(&self) -> u64 {
        self.clock.elapsed().as_millis() / TICK_MS
    }

    /// Reads pages, some far more often than others: half of the reads go to an eighth of the
    /// pages. A reader that is late does not make up for it.
    fn read(&self) -> Result<Times, String> {
        let (mut page, mut prng) = (vec![0; PAGE_BYTES], Prng::from_seed(1));
        let (mut tick, mut reads) = (0, 0);
        let mut next_turn = self.clock.elapsed();
        while !self.stops() {
            for _ in 0..READS_PER_TURN {
                let place = prng.fraction().powi(3) * READ_BYTES as f64;
                let at = place as u64 / PAGE_BYTES as u64 * PAGE_BYTES as u64;
                self.storage.read(&mut page, at)?;
                let now = self.tick();
                if now != tick {
                    (tick, reads) = (now, 0);
                }
                reads += 1;
                self.board.show_reads(tick, reads);
            }
            let now = self.clock.elapsed();
            next_turn = (next_turn + TURN).max(now);
            pause_current(next_turn.saturating_sub(now));
        }
        Ok(no_times())
    }

    /// Writes the part of writer `number`, without a break.
    fn write(&self, number: u64) -> Result<Times, String> {
        let block = vec![7_u8; BLOCK_BYTES as usize];
        let start = READ_BYTES + number * WRITTEN_BYTES;
        let mut times = no_times();
        let (mut at, mut tick, mut writes, mut longest_ns) = (0, 0, 0, 0);
        while !self.stops() {
            let watch = Stopwatch::start();
            self.storage.write(&block, start + at)?;
            let nanos = watch.elapsed().as_nanos();
            times.saturating_record(nanos);
            let now = self.tick();
            if now != tick {
                (tick, writes, longest_ns) = (now, 0, 0);
            }
            (writes, longest_ns) = (writes + 1, nanos.max(longest_ns));
            self.board.show_writes(tick, number, writes, longest_ns);
            at = (at + BLOCK_BYTES) % WRITTEN_BYTES;
        }
        Ok(times)
    }
}
