//! The slow disk: endless writers on a disk with a known rate. Measured are the level of dirty
//! pages, the shares and the latencies after the start.

use super::writers::{Region, Team, write};
use crate::contender::{PagedFile, Sample, Step};
use crate::error::BenchError;
use crate::measure::{Times, background, together};
use forebay_base::{PAGE_BYTES, Span};
use forebay_rt::thread::pause_current;
use std::sync::Arc;

/// Rate of the slow disk.
pub(crate) const SLOW_BYTES_PER_SECOND: u64 = 30_000_000;

const SAMPLE_MS: u64 = 100;

/// The cache's dirty pages at one moment.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_field_names, reason = "a number's unit is in its name")]
pub(crate) struct DirtyLevel {
    /// Dirty pages and pages being written, as the limits count them.
    pub(crate) dirty_pages: u64,
    /// The setpoint of the control law, if there is one.
    pub(crate) setpoint_pages: Option<u64>,
    /// The hard limit, plus the pages that the writers may add between two checks of it; `None`
    /// without such a limit.
    pub(crate) allowed_pages: Option<u64>,
}

/// The interface to a contender while its writers run.
pub(crate) trait SlowDisk {
    /// The level now.
    fn level(&mut self) -> Result<DirtyLevel, BenchError>;

    /// Frees writers that the slow disk holds up: measuring is over.
    fn release(&mut self) -> Result<(), BenchError>;
}

/// Runs `step` with one writer for each of `handles` on a file of `file_bytes`.
pub(crate) fn run<F: PagedFile>(
    handles: Vec<F>,
    file_bytes: u64,
    step: &Step,
    disk: &mut dyn SlowDisk,
) -> Result<Vec<Sample>, BenchError> {
    let writers = handles.len();
    let end_ms = step.settle_ms + step.span_ms;
    let team = Arc::new(Team::new(writers, end_ms * 1_000_000));
    let shared = Arc::clone(&team);
    let running = background("writers", move || {
        together(handles, move |index, file| {
            let region = Region::part(file_bytes, index, writers).endless();
            write(file, region, &shared, index)
        })
    })?;
    let watched = watch(&team, step, disk);
    // Whatever the watcher found, the writers must end before anything else.
    team.stop();
    disk.release()?;
    let done = running.join()?;
    let mut times = Times::default();
    for (_, part) in &done {
        times.merge(part);
    }
    let mut samples = watched?;
    samples.push(times.micros("write"));
    samples.push(Sample::plain(
        "longest gap",
        "ms",
        team.longest_gap_ns() as f64 / 1e6,
    ));
    Ok(samples)
}

/// Samples the level while the writers settle and then while they are measured.
fn watch(team: &Team, step: &Step, disk: &mut dyn SlowDisk) -> Result<Vec<Sample>, BenchError> {
    let mut highest_over = Highest::default();
    while team.elapsed_ns() < step.settle_ms * 1_000_000 {
        highest_over.note(disk.level()?);
        pause_current(Span::from_millis(SAMPLE_MS));
    }
    let first = Moment::take(team, disk.level()?);
    let mut levels = vec![first.level];
    while team.elapsed_ns() < team.end_ns() {
        pause_current(Span::from_millis(SAMPLE_MS));
        let level = disk.level()?;
        // The watcher may have been held up until after the writers ended.
        if team.elapsed_ns() <= team.end_ns() {
            highest_over.note(level);
            levels.push(level);
        }
    }
    let last = Moment::take(team, levels[levels.len() - 1]);
    let mut samples = throughput(&first, &last);
    samples.extend(level_samples(&levels));
    samples.extend(highest_over.sample());
    Ok(samples)
}

struct Moment {
    at_ns: u64,
    written_bytes: Vec<u64>,
    level: DirtyLevel,
}

impl Moment {
    fn take(team: &Team, level: DirtyLevel) -> Moment {
        Moment {
            level,
            at_ns: team.elapsed_ns().min(team.end_ns()),
            written_bytes: team.written_bytes(),
        }
    }
}

/// The data that the disk accepted and how equally the writers shared it, between two moments.
fn throughput(first: &Moment, last: &Moment) -> Vec<Sample> {
    if last.at_ns <= first.at_ns {
        // The watcher was held up between the two moments.
        return Vec::new();
    }
    let shares: Vec<f64> = last
        .written_bytes
        .iter()
        .zip(&first.written_bytes)
        .map(|(end, start)| (end - start) as f64)
        .collect();
    let accepted: f64 = shares.iter().sum();
    // Pages that became dirty and stayed dirty have not reached the disk.
    let grown =
        (last.level.dirty_pages as f64 - first.level.dirty_pages as f64) * PAGE_BYTES as f64;
    let nanos = (last.at_ns - first.at_ns) as f64;
    let mean = accepted / shares.len() as f64;
    let furthest = shares
        .iter()
        .map(|share| (share - mean).abs())
        .fold(0.0, f64::max);
    let mut samples = vec![Sample::plain(
        "rate",
        "MB/s",
        (accepted - grown) * 1e3 / nanos,
    )];
    if mean > 0.0 {
        let unfair = Sample::plain("farthest share from the mean", "%", 100.0 * furthest / mean);
        samples.push(unfair);
    }
    samples
}

fn level_samples(levels: &[DirtyLevel]) -> Vec<Sample> {
    let mib = |pages: f64| pages * PAGE_BYTES as f64 / f64::from(1 << 20);
    let mean = |of: &dyn Fn(&DirtyLevel) -> u64| {
        levels.iter().map(|level| of(level) as f64).sum::<f64>() / levels.len() as f64
    };
    let dirty_pages = mean(&|level| level.dirty_pages);
    let mut samples = vec![Sample::plain("mean dirty level", "MiB", mib(dirty_pages))];
    if levels.iter().all(|level| level.setpoint_pages.is_some()) {
        let setpoint_pages = mean(&|level| level.setpoint_pages.unwrap_or(0));
        samples.push(Sample::plain("setpoint", "MiB", mib(setpoint_pages)));
    }
    samples
}

/// The farthest that the dirty pages ever were above the allowed level.
#[derive(Default)]
struct Highest {
    over_pages: Option<u64>,
}

impl Highest {
    fn note(&mut self, level: DirtyLevel) {
        let over = level
            .allowed_pages
            .map(|allowed| level.dirty_pages.saturating_sub(allowed));
        self.over_pages = self.over_pages.max(over);
    }

    fn sample(&self) -> Option<Sample> {
        self.over_pages
            .map(|pages| Sample::plain("most over the allowance", "pages", pages as f64))
    }
}

#[cfg(test)]
#[path = "slow_tests.rs"]
mod tests;
