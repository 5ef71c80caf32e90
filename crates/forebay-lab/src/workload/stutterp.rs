//! W4, stutterp: how long a small mapping takes while a growing number of writers and hogs make
//! reclaim as hard as possible.
//!
//! Only the worker that is measured ends by itself, after the pass that it is in; the others are
//! killed at the end of each step. The files of a step are laid out beforehand, written back and
//! removed after it, which leaves the next step an empty cache.

use super::knobs::knob;
use super::{Knobs, Work, Workload};
use crate::probe::mean_and_deviation;
use crate::world::{Process, ProcessHandle, World, WorldError, WorldFile};
use forebay_base::sync::Arc;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{PAGE_BYTES, Prng, Span};

pub(super) const STUTTERP: Workload = Workload {
    name: "stutterp",
    summary: "W4: how long a mapping takes next to 4 to 64 writers and hogs of 120% of the memory",
    knobs: &[
        knob(
            "workers",
            "0",
            "workers of the only step; 0 for every step up to four times the processors",
        ),
        knob(
            "most_workers",
            "0",
            "workers of the last step that is measured; 0 for four times the processors",
        ),
        knob("seconds", "300", "measured time of a step"),
        knob(
            "mapping",
            "128M",
            "memory that is mapped, written and unmapped in one pass",
        ),
        knob(
            "calibration",
            "5G",
            "bytes written to find how long the warm-up of a step is",
        ),
        knob(
            "warm_up_seconds",
            "0",
            "time for the writers before the hogs start; 0 to calibrate",
        ),
        knob(
            "files_per_writer",
            "1",
            "files of each writer, each of its whole share; 0 for as many as writers",
        ),
        knob("readers", "0", "processes that read 32 files at random"),
    ],
    expects: None,
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

/// What a writer or reader moves at a time, and the alignment of its offsets.
const BLOCK: u64 = 1 << 20;

/// How long the measured worker sleeps before each pass.
const DELAY: Span = Span::from_millis(5);

/// A file of a reader.
const READER_FILE: u64 = 100 << 20;

/// Files of a reader.
const READER_FILES: u64 = 32;

/// Blocks that a reader takes from one file before it goes to another.
const READS_PER_FILE: u64 = 16;

/// The time after the calibrated part of the warm-up.
const WARM_UP_REST: Span = Span::from_secs(5);

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let scale = knobs.scale;
    let settings = Settings {
        run: Span::from_secs(knobs.number("seconds")),
        warm_up: Span::from_secs(knobs.number("warm_up_seconds")),
        mapping: knobs.number("mapping") / scale,
        files_per_writer: knobs.number("files_per_writer"),
        readers: knobs.number("readers"),
        reader_file: READER_FILE / scale,
        file_percent_of_percent: file_percent_of_percent(world.machine().dirty.dirty_ratio_percent),
    };
    world.expect_swap("stutterp's mapping", settings.mapping)?;
    let most_workers = knobs.number("most_workers");
    let steps = match knobs.number("workers") {
        0 => {
            let mut steps = steps(world.machine().processors as u64);
            steps.retain(|&workers| most_workers == 0 || workers <= most_workers);
            steps
        }
        given => vec![given.max(2)],
    };
    let calibration = knobs.number("calibration") / scale;
    let conductor = world.spawn("stutterp", move |process| {
        conduct(process, settings, steps, calibration)
    });
    conductor.wait().await?;
    Ok(())
}

#[derive(Clone, Copy)]
struct Settings {
    run: Span,
    /// Zero until it is calibrated.
    warm_up: Span,
    mapping: u64,
    /// 0 for as many as there are writers.
    files_per_writer: u64,
    readers: u64,
    reader_file: u64,
    /// What is written to files and what to anonymous memory, in hundredths of a percent of the
    /// memory.
    file_percent_of_percent: (u64, u64),
}

/// The working set is the memory plus one dirty limit; the ratio says how much of it is files.
fn file_percent_of_percent(dirty_ratio_percent: u64) -> (u64, u64) {
    let all = 100 + dirty_ratio_percent;
    let files = all * dirty_ratio_percent;
    (files, all * 100 - files)
}

/// The numbers of workers that are measured one after the other.
fn steps(processors: u64) -> Vec<u64> {
    let most = processors * 4;
    let first = [4, 7, 12, 21, 30, 48].into_iter();
    let later = (1..).map(|number| 48 + 31 * number);
    let below = first.chain(later).take_while(|&workers| workers < most);
    below.chain(std::iter::once(most)).collect()
}

async fn conduct(
    process: Process,
    mut settings: Settings,
    steps: Vec<u64>,
    calibration: u64,
) -> Result<(), WorldError> {
    if settings.warm_up == Span::ZERO {
        let spent_s = calibrate(&process, calibration).await?.as_nanos() / 1_000_000_000 + 1;
        settings.warm_up = Span::from_secs(spent_s) + WARM_UP_REST;
    }
    for workers in steps {
        let step = Step::lay_out(&process, settings, workers).await?;
        let samples = step.run(&process).await?;
        report(process.world(), workers, &samples);
        step.clear(&process).await?;
    }
    Ok(())
}

/// How long it takes to write `bytes` in order, for good.
async fn calibrate(process: &Process, bytes: u64) -> Result<Span, WorldError> {
    let file_system = process.world().main_file_system();
    file_system.expect_room("stutterp's calibration", &[bytes])?;
    let began = process.now();
    let mut file = process.create(file_system, "calibration").await?;
    while file.end_bytes() < bytes {
        file.append(BLOCK.min(bytes - file.end_bytes())).await?;
    }
    file.sync().await?;
    let spent = process.now() - began;
    file.remove().await?;
    Ok(spent)
}

/// One number of workers, with its files.
struct Step {
    settings: Settings,
    hogs: u64,
    hog_bytes: u64,
    /// The files of each writer.
    written: Vec<Vec<WorldFile>>,
    /// The files of each reader.
    read: Vec<Vec<WorldFile>>,
}

impl Step {
    async fn lay_out(
        process: &Process,
        settings: Settings,
        workers: u64,
    ) -> Result<Step, WorldError> {
        let memory = process.world().machine().memory.bytes();
        let writers = (workers - 1) / 2;
        let hogs = workers - 1 - writers;
        let (files, anonymous) = settings.file_percent_of_percent;
        let file_bytes = memory / 10_000 * files / writers.max(1);
        // A writer has at least a block to write, and a hog a page, with any dirty limit.
        let file_bytes = file_bytes.next_multiple_of(BLOCK).max(BLOCK);
        let hog_bytes = memory / 10_000 * anonymous / hogs.max(1);
        let files_each = match settings.files_per_writer {
            0 => writers,
            given => given,
        };
        Ok(Step {
            settings,
            hogs,
            hog_bytes: hog_bytes.max(PAGE_BYTES as u64),
            written: lay_out(process, "written", writers, files_each, file_bytes).await?,
            read: lay_out(
                process,
                "read",
                settings.readers,
                READER_FILES,
                settings.reader_file.next_multiple_of(BLOCK),
            )
            .await?,
        })
    }

    /// Warms up, measures, and stops all processes. Returns how long each pass took, ms.
    async fn run(&self, process: &Process) -> Result<Vec<f64>, WorldError> {
        let world = process.world();
        let mut others = self.start_file_workers(world);
        world.rt().sleep(self.settings.warm_up).await;
        others.extend((0..self.hogs).map(|_| {
            let bytes = self.hog_bytes;
            world.spawn("hog", move |process| write_for_ever(process, bytes))
        }));
        let (stop, passes) = (Arc::new(AtomicBool::new(false)), Passes::default());
        let (until, noted) = (stop.clone(), passes.clone());
        let mapping = self.settings.mapping;
        let measured = world.spawn("mmap", move |process| {
            map_until(process, mapping, until, noted)
        });
        world.rt().sleep(self.settings.run).await;
        stop.store(true, Ordering::Release);
        others.iter().for_each(ProcessHandle::kill);
        for other in others {
            other.wait().await?;
        }
        measured.wait().await?;
        let passes = std::mem::take(&mut *lock(&passes));
        Ok(passes)
    }

    fn start_file_workers(&self, world: &World) -> Vec<ProcessHandle> {
        let writers = self.written.iter().enumerate().map(|(number, files)| {
            let chance = world.chance(&format!("writer {number}"));
            world.spawn("writer", |process| {
                let files = seen_by(files, &process);
                write_at_random(files, chance)
            })
        });
        let readers = self.read.iter().enumerate().map(|(number, files)| {
            let chance = world.chance(&format!("reader {number}"));
            world.spawn("reader", |process| {
                let files = seen_by(files, &process);
                read_at_random(files, chance)
            })
        });
        writers.chain(readers).collect()
    }

    /// What is dirty is written, and the cache emptied.
    async fn clear(self, process: &Process) -> Result<(), WorldError> {
        for file in self.written.iter().flatten() {
            file.for_process(process).sync().await?;
        }
        for file in self.written.into_iter().chain(self.read).flatten() {
            file.remove().await?;
        }
        Ok(())
    }
}

/// The files of `workers` workers, `files_each` each, of `file_bytes` each.
async fn lay_out(
    process: &Process,
    name: &str,
    workers: u64,
    files_each: u64,
    file_bytes: u64,
) -> Result<Vec<Vec<WorldFile>>, WorldError> {
    let file_system = process.world().main_file_system();
    file_system.expect_room("stutterp", &[workers, files_each, file_bytes])?;
    let mut all = Vec::new();
    for worker in 0..workers {
        let mut files = Vec::new();
        for number in 0..files_each {
            let name = format!("{name}-{worker}-{number}");
            files.push(process.open_old(file_system, &name, file_bytes).await?);
        }
        all.push(files);
    }
    Ok(all)
}

fn seen_by(files: &[WorldFile], process: &Process) -> Vec<WorldFile> {
    files.iter().map(|file| file.for_process(process)).collect()
}

async fn write_at_random(files: Vec<WorldFile>, mut chance: Prng) -> Result<(), WorldError> {
    loop {
        let file = &files[chance.below(files.len() as u64) as usize];
        let block = chance.below(file.end_bytes() / BLOCK);
        file.write(block * BLOCK, BLOCK).await?;
    }
}

async fn read_at_random(mut files: Vec<WorldFile>, mut chance: Prng) -> Result<(), WorldError> {
    loop {
        let number = chance.below(files.len() as u64) as usize;
        let file = &mut files[number];
        for _ in 0..READS_PER_FILE {
            let block = chance.below(file.end_bytes() / BLOCK);
            file.read(block * BLOCK, BLOCK).await?;
        }
    }
}

/// A hog: maps once, and writes one word into each page for ever.
async fn write_for_ever(process: Process, bytes: u64) -> Result<(), WorldError> {
    let mut memory = process.map_anonymous(bytes).await?;
    loop {
        memory.touch_all().await?;
    }
}

/// How long each pass took, ms.
type Passes = Arc<Mutex<Vec<f64>>>;

/// Maps, writes and unmaps until `stop`. Oversleeping counts.
async fn map_until(
    process: Process,
    bytes: u64,
    stop: Arc<AtomicBool>,
    passes: Passes,
) -> Result<(), WorldError> {
    let mut ended = process.now();
    while !stop.load(Ordering::Acquire) {
        process.sleep(DELAY).await;
        let mut memory = process.map_anonymous(bytes).await?;
        memory.touch_all().await?;
        memory.unmap().await;
        let spent = (process.now() - ended).saturating_sub(DELAY);
        ended = process.now();
        lock(&passes).push(spent.as_secs_f64() * 1e3);
    }
    Ok(())
}

fn report(world: &World, workers: u64, passes_ms: &[f64]) {
    let mut ascending = passes_ms.to_vec();
    ascending.sort_by(f64::total_cmp);
    let (mean, deviation) = mean_and_deviation(passes_ms);
    // The scripts take the sample numbered floor(n x 99 / 100), counted from 1.
    let ninety_ninth = (ascending.len() * 99 / 100).max(1) - 1;
    let measures = world.measures();
    let statistics = [
        ("amean", Some(mean)),
        ("stddev", Some(deviation)),
        ("p99", ascending.get(ninety_ninth).copied()),
        ("max", ascending.last().copied()),
    ];
    for (statistic, value) in statistics {
        if let Some(value) = value {
            measures.figure(&format!("mmap_latency_{statistic}@{workers}"), value);
        }
    }
    let name = format!("mmap_latency@{workers}");
    // The published tables come from samples. Pictures come from distributions, which have a name
    // of their own so that no row has two meanings.
    let picture = format!("mmap_pass@{workers}");
    for pass_ms in passes_ms {
        measures.sample(&name, "ms", *pass_ms);
        let pass_us = (pass_ms * 1e3).round() as u64;
        measures.latency(&picture, Span::from_micros(pass_us));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_sixteen_processors_are_the_published_ones() {
        assert_eq!(steps(16), [4, 7, 12, 21, 30, 48, 64]);
        assert_eq!(steps(32), [4, 7, 12, 21, 30, 48, 79, 110, 128]);
        assert_eq!(steps(1), [4]);
    }

    #[test]
    fn files_are_24_percent_of_the_memory_and_all_120() {
        assert_eq!(file_percent_of_percent(20), (2_400, 9_600));
    }
}
