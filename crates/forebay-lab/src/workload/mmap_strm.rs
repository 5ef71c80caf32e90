//! W3, mmap-strm: write faults on mappings much larger than memory, first of files alone, then
//! beside anonymous memory.

use super::knobs::knob;
use super::{KnobError, Knobs, Work, Workload};
use crate::machine::Machine;
use crate::world::{Process, World, WorldError};
use forebay_base::units::pages_for;

pub(super) const MMAP_STRM: Workload = Workload {
    name: "mmap-strm",
    summary: "W3: write faults on mappings of ten times the memory, then with anonymous memory",
    knobs: &[
        knob(
            "processes",
            "0",
            "processes of each kind; 0 for one a processor",
        ),
        knob(
            "alone_tenths",
            "100",
            "files of the first stage, in tenths of the memory",
        ),
        knob(
            "mixed_tenths",
            "30",
            "everything of the second stage, in tenths of the memory",
        ),
        knob(
            "anonymous_percent",
            "30",
            "anonymous part of the second stage",
        ),
        knob(
            "file_passes",
            "10",
            "passes over the files of the second stage",
        ),
        knob("anonymous_passes", "5", "passes over the anonymous memory"),
    ],
    expects: Some(expect_work),
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

fn expect_work(knobs: &Knobs, _machine: &Machine) -> Result<(), KnobError> {
    if knobs.number("alone_tenths") == 0 && knobs.number("mixed_tenths") == 0 {
        return Err(knobs.refused("alone_tenths", "at least 1 where mixed_tenths is 0"));
    }
    Ok(())
}

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let memory = world.machine().memory.bytes();
    let processes = match knobs.number("processes") {
        0 => world.machine().processors as u64,
        given => given,
    };
    let tenths = |name: &str| memory.saturating_mul(knobs.number(name)) / 10;
    let (alone, mixed) = (tenths("alone_tenths"), tenths("mixed_tenths"));
    let anonymous = mixed.saturating_mul(knobs.number("anonymous_percent")) / 100;
    let file_system = world.main_file_system();
    file_system.expect_room("mmap-strm", &[alone.max(mixed - anonymous)])?;
    world.expect_swap("mmap-strm", anonymous)?;
    let began = world.now();
    map_files(&world, processes, alone / processes, 1).await?;
    let measures = world.measures();
    measures.figure("elapsed_alone", (world.now() - began).as_secs_f64());
    let passes = knobs.number("anonymous_passes");
    let hogs: Vec<_> = (0..processes)
        .map(|_| {
            let bytes = anonymous / processes;
            world.spawn("usemem", move |process| {
                touch_anonymous(process, bytes, passes)
            })
        })
        .collect();
    let file_passes = knobs.number("file_passes");
    map_files(
        &world,
        processes,
        (mixed - anonymous) / processes,
        file_passes,
    )
    .await?;
    for hog in hogs {
        hog.wait().await?;
    }
    Ok(())
}

/// One stage's file processes, to their end.
async fn map_files(
    world: &World,
    processes: u64,
    bytes: u64,
    passes: u64,
) -> Result<(), WorldError> {
    let mappers: Vec<_> = (0..processes)
        .map(|number| {
            world.spawn("usemem", move |process| {
                touch_file(process, number, bytes, passes)
            })
        })
        .collect();
    for mapper in mappers {
        mapper.wait().await?;
    }
    Ok(())
}

async fn touch_file(
    process: Process,
    number: u64,
    bytes: u64,
    passes: u64,
) -> Result<(), WorldError> {
    let file_system = process.world().main_file_system();
    let mut file = process
        .create(file_system, &format!("sparse-{number}"))
        .await?;
    file.truncate(bytes).await?;
    for _ in 0..passes {
        file.touch(0, pages_for(bytes)).await?;
    }
    file.remove().await
}

async fn touch_anonymous(process: Process, bytes: u64, passes: u64) -> Result<(), WorldError> {
    let mut memory = process.map_anonymous(bytes).await?;
    for _ in 0..passes {
        memory.touch_all().await?;
    }
    memory.unmap().await;
    Ok(())
}
