//! The mixed load: 4 KiB at random places of more data than the cache holds, read, overwritten, or
//! both.

use super::gate::Gate;
use crate::contender::{Load, PagedFile, Sample, Step, Who};
use crate::error::BenchError;
use crate::layout::{check_stamp, stamp_pages};
use crate::measure::{AlignedBytes, Deadline, Times, together};
use forebay_base::{PAGE_BYTES, Prng};
use forebay_rt::thread::Stopwatch;
use std::sync::Arc;

/// Percentage of reads if a load both reads and overwrites.
const READS_PERCENT: u64 = 70;

/// Runs `step` with one thread for each of `handles` on a file of `file_pages`. `sync` makes the
/// written data durable, and is not counted in the rate: no dirty data may be left when the next
/// contender has its turn.
pub(crate) fn run<F: PagedFile>(
    who: Who,
    handles: Vec<F>,
    file_pages: u64,
    step: &Step,
    sync: impl FnOnce() -> Result<(), BenchError>,
) -> Result<Vec<Sample>, BenchError> {
    let gate = Arc::new(Gate::new(handles.len()));
    let (shared, step) = (Arc::clone(&gate), *step);
    let done = together(handles, move |index, file| {
        let mut thread = Thread::new(who, file_pages, index, &step);
        let settled = thread.run(file, step.settle_ms);
        // Pass the gate even after an error, because the others wait there.
        shared.pass();
        thread.times = Times::default();
        let measured = thread.run(file, step.span_ms);
        shared.pass();
        settled.and(measured).map(|()| thread.times)
    })?;
    let elapsed_ns = gate.used()?.elapsed_ns;
    let watch = Stopwatch::start();
    sync()?;
    let sync_ns = watch.elapsed().as_nanos();
    if step.load == Load::WarmRandom {
        return Ok(Vec::new());
    }
    let mut times = Times::default();
    for (_, part) in &done {
        times.merge(part);
    }
    let mut samples = samples(step.load, &times, elapsed_ns);
    if writes(step.load) {
        let name = format!("{} sync", metric(step.load));
        samples.push(Sample::plain(&name, "ms", sync_ns as f64 / 1e6));
    }
    Ok(samples)
}

/// The rate and the times of the operations in `times`, which took `elapsed_ns` together.
pub(crate) fn samples(load: Load, times: &Times, elapsed_ns: u64) -> Vec<Sample> {
    let name = metric(load);
    let rate = times.count() as f64 * 1e9 / elapsed_ns.max(1) as f64;
    vec![
        Sample::plain(&format!("{name} rate"), "ops/s", rate),
        times.micros(name),
    ]
}

/// The random pages of thread `index` of a step.
pub(crate) fn choices(step: &Step, index: usize) -> Prng {
    let load = metric(step.load);
    Prng::from_seed(step.seed).child(&format!("mixed {load} {} {index}", step.threads))
}

fn metric(load: Load) -> &'static str {
    match load {
        Load::OverwriteRandom => "overwrite",
        Load::ReadAndOverwriteRandom => "70/30",
        _ => "read",
    }
}

fn writes(load: Load) -> bool {
    matches!(load, Load::OverwriteRandom | Load::ReadAndOverwriteRandom)
}

/// One thread of a step.
struct Thread {
    who: Who,
    load: Load,
    file_pages: u64,
    prng: Prng,
    page: AlignedBytes,
    times: Times,
}

impl Thread {
    fn new(who: Who, file_pages: u64, index: usize, step: &Step) -> Thread {
        Thread {
            who,
            load: step.load,
            file_pages,
            prng: choices(step, index),
            page: AlignedBytes::new(PAGE_BYTES, PAGE_BYTES),
            times: Times::default(),
        }
    }

    fn run<F: PagedFile>(&mut self, file: &mut F, span_ms: u64) -> Result<(), BenchError> {
        let deadline = Deadline::after_ms(span_ms);
        let mut began_ns = deadline.elapsed_ns();
        // At least one operation: on a slow disk it may take longer than the span.
        loop {
            self.operate(file)?;
            let now_ns = deadline.elapsed_ns();
            self.times.record(now_ns - began_ns);
            began_ns = now_ns;
            if deadline.has_passed() {
                return Ok(());
            }
        }
    }

    fn operate<F: PagedFile>(&mut self, file: &mut F) -> Result<(), BenchError> {
        let page_index = self.prng.below(self.file_pages);
        let offset_bytes = page_index * PAGE_BYTES as u64;
        if self.is_next_a_read() {
            file.read_at(&mut self.page, offset_bytes)?;
            return check_stamp(self.who, &self.page, page_index);
        }
        stamp_pages(&mut self.page, offset_bytes);
        file.write_at(&self.page, offset_bytes)
    }

    fn is_next_a_read(&mut self) -> bool {
        match self.load {
            Load::OverwriteRandom => false,
            Load::ReadAndOverwriteRandom => self.prng.below(100) < READS_PERCENT,
            _ => true,
        }
    }
}

#[cfg(test)]
#[path = "mixed_tests.rs"]
mod tests;
