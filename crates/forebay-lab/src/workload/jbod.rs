//! W9, several devices under one dirty limit: disks side by side, or a disk and a USB key.
//!
//! The published runs took 600 s. Dirty memory is steady long before 120 s.

use super::endless::{EndlessWriter, Pattern};
use super::knobs::knob;
use super::{KnobError, Knobs, Work, Workload};
use crate::machine::Machine;
use crate::probe::mean_and_deviation;
use crate::world::{World, WorldError};
use forebay_base::Span;

pub(super) const JBOD: Workload = Workload {
    name: "jbod",
    summary: "W9: endless writers on every file system of the machine, under one dirty limit",
    knobs: &[
        knob("writers", "1", "dd's on each file system"),
        knob("disks", "0", "file systems that are written to; 0 for all"),
        knob("seconds", "120", "simulated run time"),
        knob(
            "late_seconds",
            "0",
            "how long the last file system is written to alone before the others are",
        ),
        knob(
            "late_writers",
            "0",
            "dd's on each of those others; 0 for as many as on the last",
        ),
        knob("block", "4K", "bytes of one write"),
        knob(
            "calls_at_once",
            "16",
            "writes whose processor time is charged together",
        ),
    ],
    expects: Some(expect_work),
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

/// How often to check whether writers make progress.
const LOOK: Span = Span::from_secs(1);

/// One file system and its writers.
struct Disk {
    file_system: usize,
    writers: Vec<EndlessWriter>,
    /// Bytes written at the last check.
    seen_bytes: u64,
    stood_still: Span,
}

fn expect_work(knobs: &Knobs, machine: &Machine) -> Result<(), KnobError> {
    let (disks, all) = (knobs.number("disks"), machine.storage.file_systems.len());
    if disks > all as u64 {
        let allowed = format!("0 to the {all} file systems of machine '{}'", machine.name);
        return Err(knobs.refused("disks", &allowed));
    }
    knobs.expect_one("writers")?;
    knobs.expect_less("late_seconds", "seconds")
}

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let pattern = Pattern {
        block_bytes: knobs.number("block").max(1),
        calls_at_once: knobs.number("calls_at_once").max(1),
    };
    let all = world.file_systems().len();
    let count = match knobs.number("disks") as usize {
        0 => all,
        given => given,
    };
    let writers = knobs.number("writers");
    let late_writers = match knobs.number("late_writers") {
        0 => writers,
        given => given,
    };
    let late = Span::from_secs(knobs.number("late_seconds"));
    let end = world.now() + Span::from_secs(knobs.number("seconds"));
    let mut disks = Vec::new();
    // The last one first: for a while it is the only one that is written to.
    for file_system in (0..count).rev() {
        let is_last = file_system + 1 == count;
        let writers = if is_last { writers } else { late_writers };
        disks.push(Disk::start(&world, file_system, writers, pattern));
        if is_last {
            watch(&world, &mut disks, end.min(world.now() + late)).await;
        }
    }
    watch(&world, &mut disks, end).await;
    world.close_window();
    for disk in disks {
        disk.end(&world).await?;
    }
    Ok(())
}

/// Checks all disks until `end`.
async fn watch(world: &World, disks: &mut [Disk], end: forebay_base::Instant) {
    while world.now() < end {
        world.rt().sleep(LOOK.min(end - world.now())).await;
        disks.iter_mut().for_each(Disk::look);
    }
}

impl Disk {
    fn start(world: &World, file_system: usize, writers: u64, pattern: Pattern) -> Disk {
        let start = |number| EndlessWriter::start(world, file_system, number, pattern);
        Disk {
            file_system,
            writers: (0..writers).map(start).collect(),
            seen_bytes: 0,
            stood_still: Span::ZERO,
        }
    }

    fn look(&mut self) {
        let written = self.writers.iter().map(EndlessWriter::written_bytes).sum();
        if written == self.seen_bytes {
            self.stood_still += LOOK;
        }
        self.seen_bytes = written;
    }

    async fn end(self, world: &World) -> Result<(), WorldError> {
        let name = world.file_systems()[self.file_system].name();
        let spent_s = world.measured().as_secs_f64().max(1e-9);
        let longest = self.writers.iter().map(EndlessWriter::longest_call_s);
        let rates: Vec<f64> = self
            .writers
            .iter()
            .map(|writer| writer.written_bytes() as f64 / spent_s)
            .collect();
        let (mean, deviation) = mean_and_deviation(&rates);
        let measures = world.measures();
        let figure = |what: &str, value: f64| measures.figure(what, value);
        figure(
            &format!("{name}_writer_longest_pause_s"),
            longest.fold(0.0, f64::max),
        );
        figure(
            &format!("stood_still_s@{name}"),
            self.stood_still.as_secs_f64(),
        );
        figure(&format!("per_dd_bytes_per_s_mean@{name}"), mean);
        figure(
            &format!("per_dd_bytes_per_s_coeffvar@{name}"),
            deviation / mean.max(1e-9),
        );
        for writer in self.writers {
            writer.end().await?;
        }
        Ok(())
    }
}
