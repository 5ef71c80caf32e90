//! A contender's process: it bears the load, reports its progress on the board, and sends a summary
//! at the end.

use super::board::Board;
use super::limit_cache::{LimitCache, Limits};
use super::load::{BLOCK_BYTES, Load, Storage, warm};
use super::slow_disk::SlowDisk;
use super::tick::{Assignment, Ended, Kind, Summary};
use crate::error::DemoError;
use forebay::{Cache, Settings, blocking};
use forebay_base::Span;
use forebay_host::{StepError, end_with_parent};
use forebay_rt::thread::{pause_current, spawn};
use forebay_rt::{Rt, block_on};
use forebay_store::{FileStore, FileStoreSettings, OpenMode, Rate, RateStore};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the contender that `assignment` describes; the board is its standard input.
///
/// # Errors
/// A task that cannot be read, or a parent that is gone. Why the contender failed goes to the
/// parent.
pub fn be_contender(assignment: &str) -> Result<(), DemoError> {
    let failed = || DemoError::system("read the task of the demo");
    end_with_parent()?;
    let assignment: Assignment =
        serde_json::from_str(assignment).map_err(|e| failed()(e.into()))?;
    let board = Board::given().map_err(failed())?;
    let outcome = match assignment.kind {
        Kind::Forebay => with_forebay(&assignment, board),
        Kind::StopsAtLimit => with_limit_cache(&assignment, board),
        Kind::Direct => with_disk_alone(&assignment, board),
        Kind::Kernel => with_kernel(&assignment, board),
    };
    // The parent reports the reason; this process has nowhere to report it.
    let ended = match outcome {
        Ok(summary) => Ended::Well(summary),
        Err(error) => Ended::Failed(error.to_string()),
    };
    let text = serde_json::to_vec(&ended).map_err(|e| failed()(e.into()))?;
    io::stdout().write_all(&text).map_err(failed())
}

fn cache_failed<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> DemoError {
    move |reason| StepError::cache(action, reason).into()
}

impl Storage for blocking::File {
    fn read(&self, page: &mut [u8], at: u64) -> Result<(), String> {
        self.read_at(page, at).map(drop).map_err(|e| e.to_string())
    }

    fn write(&self, block: &[u8], at: u64) -> Result<(), String> {
        self.write_at(block, at)
            .map(drop)
            .map_err(|e| e.to_string())
    }
}

fn with_forebay(assignment: &Assignment, board: Board) -> Result<Summary, DemoError> {
    let cache = Cache::new(Settings {
        memory_bytes: assignment.memory_bytes,
        ..Settings::default()
    });
    let cache = cache.map_err(cache_failed("start"))?;
    let files = FileStore::new(FileStoreSettings::default());
    let files = files.map_err(cache_failed("start a store"))?;
    let opened = files.open(&assignment.path, OpenMode::ReadWrite);
    let opened = opened.map_err(cache_failed("open a file"))?;
    let disk = Arc::new(RateStore::new(Rt::real(), files, Rate::UNLIMITED));
    let attached = cache
        .attach(disk.clone())
        .map_err(cache_failed("attach a store"))?;
    let file = cache.open(&attached, opened.object, opened.length_bytes);
    let file = Arc::new(file.map_err(cache_failed("open a file"))?.blocking());
    let rate = Rate::bytes(assignment.disk_bytes_per_s);
    let summary = bear(assignment, board, file, || disk.set_rate(rate))?;
    disk.set_rate(Rate::UNLIMITED);
    block_on(cache.close()).map_err(cache_failed("close"))?;
    Ok(summary)
}

fn slow_disk(assignment: &Assignment) -> Result<SlowDisk, DemoError> {
    SlowDisk::open(&assignment.path, assignment.disk_bytes_per_s)
        .map_err(DemoError::at("open", &assignment.path))
}

impl Storage for LimitCache {
    fn read(&self, page: &mut [u8], at: u64) -> Result<(), String> {
        let block = LimitCache::read(self, at / BLOCK_BYTES).map_err(|e| e.to_string())?;
        let start = (at % BLOCK_BYTES) as usize;
        page.copy_from_slice(&block[start..start + page.len()]);
        Ok(())
    }

    fn write(&self, block: &[u8], at: u64) -> Result<(), String> {
        LimitCache::write(self, at / BLOCK_BYTES, block).map_err(|e| e.to_string())
    }
}

fn with_limit_cache(assignment: &Assignment, board: Board) -> Result<Summary, DemoError> {
    let limits = Limits {
        cached: (assignment.memory_bytes / BLOCK_BYTES) as usize,
        dirty: (assignment.dirty_bytes / BLOCK_BYTES) as usize,
    };
    let cache = LimitCache::new(slow_disk(assignment)?, BLOCK_BYTES, limits);
    let cache = Arc::new(cache);
    let ends = Arc::new(AtomicBool::new(false));
    let (flushed, stop) = (Arc::clone(&cache), Arc::clone(&ends));
    let flusher = spawn("flusher", move || {
        flushed.flush(|| stop.load(Ordering::Relaxed));
    });
    let flusher = flusher.map_err(DemoError::system("start a flusher"))?;
    let summary = bear(assignment, board, cache.clone(), || cache.disk.slow_down());
    ends.store(true, Ordering::Relaxed);
    flusher.join();
    summary
}

impl Storage for SlowDisk {
    fn read(&self, page: &mut [u8], at: u64) -> Result<(), String> {
        SlowDisk::read(self, page, at).map_err(|e| e.to_string())
    }

    fn write(&self, block: &[u8], at: u64) -> Result<(), String> {
        SlowDisk::write(self, block, at).map_err(|e| e.to_string())
    }
}

fn with_disk_alone(assignment: &Assignment, board: Board) -> Result<Summary, DemoError> {
    let disk = Arc::new(slow_disk(assignment)?);
    bear(assignment, board, disk.clone(), || disk.slow_down())
}

impl Storage for File {
    fn read(&self, page: &mut [u8], at: u64) -> Result<(), String> {
        self.read_exact_at(page, at).map_err(|e| e.to_string())
    }

    fn write(&self, block: &[u8], at: u64) -> Result<(), String> {
        self.write_all_at(block, at).map_err(|e| e.to_string())
    }
}

fn with_kernel(assignment: &Assignment, board: Board) -> Result<Summary, DemoError> {
    let path = &assignment.path;
    let device = OpenOptions::new().read(true).write(true).open(path);
    let device = device.map_err(DemoError::at("open", path))?;
    // The parent slows the device down.
    bear(assignment, board, Arc::new(device), || {})
}

/// Bears the load. The disk is slow from the moment at which the reader's pages are cached.
fn bear(
    assignment: &Assignment,
    board: Board,
    storage: Arc<dyn Storage>,
    slow_down: impl FnOnce(),
) -> Result<Summary, DemoError> {
    let failed = |reason| DemoError::Contender {
        contender: assignment.kind.name(),
        reason,
    };
    warm(&*storage).map_err(failed)?;
    slow_down();
    board
        .show_ready()
        .map_err(DemoError::system("write shared memory"))?;
    while !board
        .may_start()
        .map_err(DemoError::system("read shared memory"))?
    {
        pause_current(Span::from_millis(1));
    }
    let (flood, end) = (assignment.flood(), assignment.end());
    let times = Load::new(storage, board).run(flood, end)?;
    let seconds = end.saturating_sub(flood).as_millis() as f64 / 1e3;
    let millis = |nanos: u64| nanos as f64 / 1e6;
    Ok(Summary {
        mb_per_s: (times.len() * BLOCK_BYTES) as f64 / seconds / 1e6,
        p50_ms: millis(times.value_at_quantile(0.5)),
        p99_ms: millis(times.value_at_quantile(0.99)),
        longest_ms: millis(times.max()),
    })
}
