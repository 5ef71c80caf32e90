//! A contender's process: it writes as its assignment says, reports its progress on the board, and
//! sends a summary at the end.

use super::board::{Board, Level, TICK_MS};
use super::tick::{Assignment, Ended, Storage, Summary};
use super::writers::{BLOCK_BYTES, Shared, start};
use crate::error::DemoError;
use forebay::{Cache, Counter, Settings};
use forebay_base::Span;
use forebay_host::{StepError, end_with_parent};
use forebay_rt::thread::{Joiner, pause_current};
use forebay_rt::{Rt, block_on};
use forebay_store::{FileStore, FileStoreSettings, OpenMode, Rate, RateStore};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

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
    let outcome = match &assignment.storage {
        Storage::File(path) => as_forebay(&assignment, path, board),
        Storage::Device(path) => as_kernel(&assignment, path, board),
    };
    // The parent reports the reason; this process has nobody to report it to.
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

fn as_forebay(assignment: &Assignment, path: &Path, board: Board) -> Result<Summary, DemoError> {
    let settings = Settings {
        memory_bytes: assignment.memory_bytes,
        ..Settings::default()
    };
    let cache = Cache::new(settings).map_err(cache_failed("start"))?;
    let files =
        FileStore::new(FileStoreSettings::default()).map_err(cache_failed("start a store"))?;
    let opened = files
        .open(path, OpenMode::ReadWrite)
        .map_err(cache_failed("open a file"))?;
    let rate = Rate::bytes(assignment.disk_bytes_per_s);
    let disk = Arc::new(RateStore::new(Rt::real(), files, rate));
    let attached = cache
        .attach(disk.clone())
        .map_err(cache_failed("attach a store"))?;
    let file = cache
        .open(&attached, opened.object, opened.length_bytes)
        .map_err(cache_failed("open a file"))?
        .blocking();
    let shared = Arc::new(Shared::new(board));
    let write = move |block: &[u8], offset_bytes| {
        let written = file.write_at(block, offset_bytes);
        written.map_err(|reason| reason.to_string())
    };
    let writers = start(assignment.file_bytes, &shared, write)?;
    let looks = || {
        let statistics = cache.statistics();
        let level = Level {
            dirty_pages: statistics.dirty(),
            setpoint_pages: statistics.dirty_setpoint,
            pauses: statistics.get(Counter::BalancePauses),
        };
        shared.board.show_level(shared.tick(), level);
    };
    let summary = finish(assignment, &shared, looks, writers)?;
    disk.set_rate(Rate::UNLIMITED);
    block_on(cache.close()).map_err(cache_failed("close"))?;
    Ok(summary)
}

fn as_kernel(assignment: &Assignment, device: &Path, board: Board) -> Result<Summary, DemoError> {
    let file = OpenOptions::new()
        .write(true)
        .open(device)
        .map_err(DemoError::at("open", device))?;
    let file = Arc::new(file);
    let shared = Arc::new(Shared::new(board));
    let write = move |block: &[u8], offset_bytes| {
        let written = file.write_all_at(block, offset_bytes);
        written.map_err(|reason| reason.to_string())
    };
    let writers = start(assignment.file_bytes, &shared, write)?;
    // The parent reads the level of the device: this process might have to wait for memory to do
    // so.
    finish(assignment, &shared, || {}, writers)
}

/// Looks once a tick until the time is up, and then waits for the writers.
fn finish(
    assignment: &Assignment,
    shared: &Shared,
    look: impl Fn(),
    writers: Vec<Joiner>,
) -> Result<Summary, DemoError> {
    let ends_ms = u64::from(assignment.seconds) * 1_000;
    while shared.watch.elapsed().as_millis() < ends_ms {
        look();
        pause_current(Span::from_millis(TICK_MS / 2));
    }
    shared.stop();
    let seconds = shared.watch.elapsed().as_millis() as f64 / 1e3;
    writers.into_iter().for_each(Joiner::join);
    let times = shared.all().map_err(|reason| DemoError::Contender {
        contender: "demo",
        reason,
    })?;
    Ok(Summary {
        writes: times.len(),
        mb_per_s: (times.len() * BLOCK_BYTES) as f64 / seconds / 1e6,
        p50_ms: times.value_at_quantile(0.5) as f64 / 1e6,
        p99_ms: times.value_at_quantile(0.99) as f64 / 1e6,
        longest_ms: times.max() as f64 / 1e6,
    })
}
