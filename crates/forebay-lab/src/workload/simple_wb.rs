//! W2, simple-wb: dd writes more than memory, the files are removed, and again.
//!
//! What is still dirty when a dd ends is dropped with its file and never written.

use super::knobs::knob;
use super::{Knobs, Work, Workload};
use crate::world::{World, WorldError};

pub(super) const SIMPLE_WB: Workload = Workload {
    name: "simple-wb",
    summary: "W2: sequential writes of four times the memory, removed after each iteration",
    knobs: &[
        knob("jobs", "1", "dd's at once"),
        knob("iterations", "10", "how often"),
        knob(
            "memories",
            "4",
            "what all jobs of an iteration write, in multiples of the memory",
        ),
        knob("block", "1M", "bytes of one write"),
    ],
    expects: None,
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let jobs = knobs.number("jobs").max(1);
    let block = knobs.number("block").max(1);
    let (memory, memories) = (world.machine().memory.bytes(), knobs.number("memories"));
    let file_system = world.main_file_system();
    file_system.expect_room("simple-wb", &[memory, memories])?;
    let total = memory * memories;
    for _ in 0..knobs.number("iterations") {
        let began = world.now();
        let writers: Vec<_> = (0..jobs)
            .map(|job| {
                world.spawn("dd", move |process| {
                    write(process, job, total / jobs, block)
                })
            })
            .collect();
        for writer in writers {
            writer.wait().await?;
        }
        let spent_s = (world.now() - began).as_secs_f64();
        world
            .measures()
            .sample("elapsed_per_iteration", "s", spent_s);
        world
            .measures()
            .sample("rate", "bytes/s", total as f64 / spent_s.max(1e-9));
    }
    Ok(())
}

/// One dd; its file goes with it.
async fn write(
    process: crate::world::Process,
    job: u64,
    bytes: u64,
    block: u64,
) -> Result<(), WorldError> {
    let file_system = process.world().main_file_system();
    let mut file = process.create(file_system, &format!("dd-{job}")).await?;
    while file.end_bytes() < bytes {
        file.append(block.min(bytes - file.end_bytes())).await?;
    }
    file.remove().await
}
