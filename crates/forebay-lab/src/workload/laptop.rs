//! W8, a laptop: W1, W2 and W3 on a slow stick while a user starts and stops programs.
//!
//! The stand-in for the user is ours. Program and library pages come from the internal disk in
//! random order, in the windows in which faults read around themselves; inodes and directory
//! blocks are a file of their own there.

use super::knobs::knob;
use super::{Knobs, Work, Workload, fs_mark, mmap_strm, simple_wb};
use crate::world::{Process, World, WorldError, WorldFile};
use forebay_base::{Prng, Span};

pub(super) const LAPTOP: Workload = Workload {
    name: "laptop",
    summary: "W8: fs-mark, simple-wb, mmap-strm on a stick, next to a user who starts programs",
    knobs: &[
        knob(
            "test",
            "all",
            "fsmark, simple-wb, mmap-strm, or all of them one after the other",
        ),
        knob(
            "files",
            "84",
            "files of 10 MiB in one iteration of fsmark, divided by scale",
        ),
        knob("iterations", "10", "iterations of fsmark"),
    ],
    expects: None,
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

/// A part of the whole, by the name in the tables, with the settings that it has here.
type Part = (&'static str, &'static Workload, Vec<(&'static str, u64)>);

/// A window in which a fault reads around itself.
const WINDOW: u64 = 128 << 10;

/// An inode on disk.
const INODE: u64 = 256;

/// An inode cluster, which is read as a whole.
const CLUSTER: u64 = 16 << 10;

/// The processor time to look at one inode.
const INODE_WORK: Span = Span::from_micros(1);

/// Processor time that a program takes between two waits.
const SLICE: Span = Span::from_millis(10);

/// Between the end of one program and the start of the next.
const REST: Span = Span::from_millis(200);

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let wanted = knobs.word("test");
    let parts: [Part; 3] = [
        (
            "fsmark",
            &fs_mark::FS_MARK,
            vec![
                ("processes", 2),
                ("iterations", knobs.number("iterations")),
                ("files", (knobs.number("files") / knobs.scale).max(2)),
            ],
        ),
        ("simple-wb", &simple_wb::SIMPLE_WB, vec![("iterations", 1)]),
        ("mmap-strm", &mmap_strm::MMAP_STRM, vec![]),
    ];
    let chosen: Vec<Part> = parts
        .into_iter()
        .filter(|(name, ..)| wanted == "all" || wanted == *name)
        .collect();
    let chance = world.chance("user");
    let scale = knobs.scale;
    for program in &PROGRAMS {
        world.expect_swap(program.name, program.anonymous_bytes / scale)?;
    }
    let user = world.spawn("user", move |process| use_programs(process, chance, scale));
    for (name, workload, settings) in chosen {
        let began = world.now();
        let knobs = Knobs::usual(workload, &settings, scale);
        (workload.run)(world.clone(), knobs).await?;
        let spent_s = (world.now() - began).as_secs_f64();
        world.measures().figure(&format!("elapsed@{name}"), spent_s);
    }
    user.kill();
    user.wait().await?;
    tell_launches(&world);
    Ok(())
}

fn tell_launches(world: &World) {
    for program in PROGRAMS {
        let name = format!("launch@{}", program.name);
        for (figure, percentile) in [("launch_p50_s", 50.0), ("launch_p95_s", 95.0)] {
            if let Some(ms) = world.measures().percentile_ms(&name, percentile) {
                let figure = format!("{figure}@{}", program.name);
                world.measures().figure(&figure, ms / 1e3);
            }
        }
    }
}

/// What a program does between its start and its end.
struct Program {
    name: &'static str,
    mapped_bytes: u64,
    anonymous_bytes: u64,
    inodes: u64,
    work: Span,
    written_bytes: u64,
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "browser",
        mapped_bytes: 120 << 20,
        anonymous_bytes: 150 << 20,
        inodes: 2_000,
        work: Span::from_millis(1_500),
        written_bytes: 2 << 20,
    },
    Program {
        name: "terminal",
        mapped_bytes: 25 << 20,
        anonymous_bytes: 20 << 20,
        inodes: 60_000,
        work: Span::from_secs(1),
        written_bytes: 0,
    },
];

/// A program and its files on the internal disk.
struct Installed {
    program: &'static Program,
    image: WorldFile,
    inodes: WorldFile,
    profile: WorldFile,
    scale: u64,
}

/// Starts one program after the other, for ever. The first start of each does not count.
async fn use_programs(process: Process, mut chance: Prng, scale: u64) -> Result<(), WorldError> {
    let mut installed = Vec::new();
    for program in &PROGRAMS {
        installed.push(Installed::on_internal_disk(&process, program, scale).await?);
    }
    for round in 0_u64.. {
        for installed in &mut installed {
            let began = process.now();
            installed.start_and_end(&process, &mut chance).await?;
            if round > 0 {
                let name = format!("launch@{}", installed.program.name);
                let spent = process.now() - began;
                process.world().measures().latency(&name, spent);
            }
            process.sleep(REST).await;
        }
    }
    Ok(())
}

impl Installed {
    async fn on_internal_disk(
        process: &Process,
        program: &'static Program,
        scale: u64,
    ) -> Result<Installed, WorldError> {
        let file_systems = process.world().file_systems();
        let internal = &file_systems[file_systems.len() - 1];
        let inodes_bytes = (program.inodes * INODE / scale).next_multiple_of(CLUSTER);
        let image_bytes = (program.mapped_bytes / scale).next_multiple_of(WINDOW);
        Ok(Installed {
            program,
            image: process
                .open_old(internal, program.name, image_bytes)
                .await?,
            inodes: process.open_old(internal, "inodes", inodes_bytes).await?,
            profile: process.create(internal, "profile").await?,
            scale,
        })
    }

    async fn start_and_end(
        &mut self,
        process: &Process,
        chance: &mut Prng,
    ) -> Result<(), WorldError> {
        let program = self.program;
        read_in_random_order(&mut self.image, WINDOW, chance).await?;
        let mut memory = process
            .map_anonymous(program.anonymous_bytes / self.scale)
            .await?;
        memory.touch_all().await?;
        read_in_random_order(&mut self.inodes, CLUSTER, chance).await?;
        let mut left = program.work + INODE_WORK.saturating_mul(program.inodes);
        while left > Span::ZERO {
            let slice = SLICE.min(left);
            process.compute(slice).await;
            left = left.saturating_sub(slice);
        }
        if program.written_bytes > 0 {
            self.profile
                .write(0, program.written_bytes / self.scale)
                .await?;
        }
        memory.unmap().await;
        Ok(())
    }
}

/// Reads all of `file`, a block at a time, no block twice.
async fn read_in_random_order(
    file: &mut WorldFile,
    block_bytes: u64,
    chance: &mut Prng,
) -> Result<(), WorldError> {
    let mut blocks: Vec<u64> = (0..file.end_bytes() / block_bytes).collect();
    for unplaced in (1..blocks.len()).rev() {
        blocks.swap(unplaced, chance.below(unplaced as u64 + 1) as usize);
    }
    for block in blocks {
        file.read(block * block_bytes, block_bytes).await?;
    }
    Ok(())
}
