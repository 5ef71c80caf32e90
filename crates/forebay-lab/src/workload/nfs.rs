//! W10, files on a server: pages that were sent stay unstable, and count as dirty, until a commit
//! frees them in one burst.
//!
//! The engine and its policy decide what is sent, what is in flight and when to commit; the server
//! decides how long that takes. The published runs took 600 s; dirty memory is steady long before
//! 120 s.

use super::endless::{EndlessWriter, Pattern};
use super::knobs::knob;
use super::{KnobError, Knobs, Work, Workload};
use crate::machine::Machine;
use crate::probe::mean_and_deviation;
use crate::world::{World, WorldError};
use forebay_base::Span;

pub(super) const NFS: Workload = Workload {
    name: "nfs",
    summary: "W10: endless writers on a server whose writes are unstable until a commit",
    knobs: &[
        knob("writers", "1", "dd's on the mount"),
        knob("seconds", "120", "simulated run time"),
        knob("block", "1M", "bytes of one write"),
    ],
    expects: Some(expect_work),
    run: |world, knobs| -> Work { Box::pin(run(world, knobs)) },
};

fn expect_work(knobs: &Knobs, _machine: &Machine) -> Result<(), KnobError> {
    knobs.expect_one("writers")
}

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let pattern = Pattern {
        block_bytes: knobs.number("block").max(1),
        calls_at_once: 1,
    };
    let start = |number| EndlessWriter::start(&world, 0, number, pattern);
    let writers: Vec<EndlessWriter> = (0..knobs.number("writers")).map(start).collect();
    let seconds = Span::from_secs(knobs.number("seconds"));
    world.rt().sleep(seconds).await;
    world.close_window();
    let spent_s = seconds.as_secs_f64().max(1e-9);
    let rates: Vec<f64> = writers
        .iter()
        .map(|writer| writer.written_bytes() as f64 / spent_s)
        .collect();
    let longest = writers.iter().map(EndlessWriter::longest_call_s);
    let (mean, deviation) = mean_and_deviation(&rates);
    let measures = world.measures();
    measures.figure("per_dd_bytes_per_s_mean", mean);
    measures.figure("per_dd_bytes_per_s_coeffvar", deviation / mean.max(1e-9));
    measures.figure("writer_longest_pause_s", longest.fold(0.0, f64::max));
    for writer in writers {
        writer.end().await?;
    }
    Ok(())
}
