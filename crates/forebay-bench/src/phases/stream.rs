//! The stream: writers that write four budgets together, once, and then make them durable.

use super::writers::{Region, Team, write};
use crate::contender::{PagedFile, Sample, Step};
use crate::error::BenchError;
use crate::measure::{Times, together};
use std::sync::Arc;

/// Runs `step` with one writer for each of `handles`; `sync` makes the written data durable.
pub(crate) fn run<F: PagedFile>(
    handles: Vec<F>,
    step: &Step,
    sync: impl FnOnce() -> Result<(), BenchError>,
) -> Result<Vec<Sample>, BenchError> {
    let writers = handles.len();
    let bytes = step.bytes;
    let team = Arc::new(Team::new(writers, u64::MAX));
    let shared = Arc::clone(&team);
    let done = together(handles, move |index, file| {
        write(file, Region::part(bytes, index, writers), &shared, index)
    })?;
    let written_ns = team.elapsed_ns();
    sync()?;
    let durable_ns = team.elapsed_ns();
    let mut times = Times::default();
    for (_, part) in &done {
        times.merge(part);
    }
    let total_bytes: u64 = team.written_bytes().iter().sum();
    Ok(vec![
        rate(total_bytes, durable_ns),
        times.micros("write"),
        Sample::plain("longest gap", "ms", team.longest_gap_ns() as f64 / 1e6),
        Sample::plain("sync", "ms", (durable_ns - written_ns) as f64 / 1e6),
    ])
}

/// The sample of `bytes` in `elapsed_ns`, in millions of bytes a second.
pub(crate) fn rate(bytes: u64, elapsed_ns: u64) -> Sample {
    Sample::plain(
        "rate",
        "MB/s",
        bytes as f64 * 1e3 / elapsed_ns.max(1) as f64,
    )
}
