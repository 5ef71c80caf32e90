//! W1, fs_mark: many equal files, written once and never touched again, with a barrier after each
//! iteration and no sync.

use super::knobs::knob;
use super::{Knobs, Work, Workload};
use crate::world::{Process, World, WorldError};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Prng, Span};

pub(super) const FS_MARK: Workload = Workload {
    name: "fs-mark",
    summary: "W1: many equal files, buffered writes of 16 KiB, no sync",
    knobs: &[
        knob(
            "processes",
            "0",
            "processes, each with a directory tree of its own; 0 for one a processor",
        ),
        knob(
            "iterations",
            "10",
            "how often, with a barrier in between; files are kept",
        ),
        knob(
            "files",
            "0",
            "files of an iteration, all processes; 0 for 150 a 512 MiB of memory",
        ),
        knob("file_bytes", "10M", "bytes of a file"),
        knob("block", "16K", "bytes of one write"),
        knob("subdirectories", "100", "subdirectories of each process"),
        knob(
            "files_per_subdirectory",
            "150",
            "files before the next subdirectory has its turn",
        ),
    ],
    expects: None,
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

/// Building a name of 40 characters, and the other work of a process for a file.
const OWN_WORK_OF_FILE: Span = Span::from_micros(5);

/// What one process does in one iteration.
#[derive(Clone, Copy)]
struct Share {
    process: u64,
    first_subdirectory: u64,
    files: u64,
    file_bytes: u64,
    block: u64,
    subdirectories: u64,
    files_per_subdirectory: u64,
}

/// What the processes of one iteration report at its end.
#[derive(Default)]
struct Sums {
    files_per_second: f64,
    overhead_us: f64,
}

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let machine = world.machine();
    let processes = match knobs.number("processes") {
        0 => machine.processors as u64,
        given => given,
    };
    let files = match knobs.number("files") {
        0 => (150 * machine.memory.bytes() / (512 << 20)).max(processes),
        given => given,
    };
    let mut share = Share {
        process: 0,
        first_subdirectory: 0,
        files: (files / processes).max(1),
        file_bytes: knobs.number("file_bytes"),
        block: knobs.number("block").max(1),
        subdirectories: knobs.number("subdirectories").max(1),
        files_per_subdirectory: knobs.number("files_per_subdirectory").max(1),
    };
    let iterations = knobs.number("iterations");
    let all_bytes = [iterations, processes, share.files, share.file_bytes];
    let file_system = world.main_file_system();
    file_system.expect_room("fs-mark", &all_bytes)?;
    let began = world.now();
    let mut chance = world.chance("fs-mark");
    for _ in 0..iterations {
        let sums = Arc::new(Mutex::new(Sums::default()));
        // The program takes the time in seconds, so every process forked in that second has the
        // same.
        share.first_subdirectory = chance.below(share.subdirectories);
        let mut writers = Vec::new();
        for process in 0..processes {
            let (share, sums) = (Share { process, ..share }, sums.clone());
            writers.push(world.spawn("fs_mark", move |process| iterate(process, share, sums)));
        }
        for writer in writers {
            writer.wait().await?;
        }
        let sums = lock(&sums);
        let measures = world.measures();
        measures.sample("files_per_second", "files/s", sums.files_per_second);
        measures.sample("fsmark_app_overhead", "us", sums.overhead_us);
    }
    let all_files = (iterations * processes * share.files) as f64;
    let spent_s = (world.now() - began).as_secs_f64().max(1e-9);
    world
        .measures()
        .figure("files_per_elapsed_second", all_files / spent_s);
    Ok(())
}

/// One process of one iteration.
async fn iterate(process: Process, share: Share, sums: Arc<Mutex<Sums>>) -> Result<(), WorldError> {
    let began = process.now();
    let mut in_calls = Span::ZERO;
    let mut names = process.world().chance(&format!("names {}", share.process));
    for file in 0..share.files {
        let turn = share.first_subdirectory + file / share.files_per_subdirectory;
        let subdirectory = turn % share.subdirectories;
        process.compute(OWN_WORK_OF_FILE).await;
        let called = process.now();
        let directory = share.process * share.subdirectories + subdirectory;
        write_file(&process, &share, directory, &mut names).await?;
        in_calls += process.now() - called;
    }
    let spent = process.now() - began;
    let rate = share.files as f64 / spent.as_secs_f64().max(1e-9);
    let mut sums = lock(&sums);
    // The program prints each process's rate with one decimal.
    sums.files_per_second += (rate * 10.0).round() / 10.0;
    sums.overhead_us += spent.saturating_sub(in_calls).as_micros() as f64;
    Ok(())
}

async fn write_file(
    process: &Process,
    share: &Share,
    directory: u64,
    names: &mut Prng,
) -> Result<(), WorldError> {
    let name = format!("{:016x}{:024x}", process.now().as_nanos(), names.next_u64());
    let file_system = process.world().main_file_system();
    let mut file = process.create_in(file_system, directory, &name).await?;
    while file.end_bytes() < share.file_bytes {
        file.append(share.block.min(share.file_bytes - file.end_bytes()))
            .await?;
    }
    file.close().await;
    Ok(())
}
