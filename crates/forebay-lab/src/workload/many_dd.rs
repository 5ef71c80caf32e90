//! W7, many dd's on one device, and one rsync next to them.

use super::endless::{EndlessWriter, Pattern};
use super::knobs::knob;
use super::{KnobError, Knobs, Work, Workload};
use crate::machine::Machine;
use crate::probe::mean_and_deviation;
use crate::world::{Process, ProcessHandle, World, WorldError};
use forebay_base::Span;
use forebay_base::sync::Arc;
use forebay_base::sync::atomic::{AtomicU64, Ordering};

pub(super) const MANY_DD: Workload = Workload {
    name: "many-dd",
    summary: "W7: endless writers on one device, killed at the end; one rsync next to them",
    knobs: &[
        knob("writers", "100", "dd's, all started at once"),
        knob("rsync", "0", "1 for an rsync next to them"),
        knob("seconds", "600", "simulated run time"),
        knob(
            "settle_seconds",
            "100",
            "the first part of it, which is not measured",
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

/// The rate of the network source of rsync.
const SOURCE_BYTES_PER_S: u64 = 117_000_000;

/// Its receive buffer.
const RECEIVE_BUFFER: u64 = 256 << 10;

/// What rsync writes at a time.
const RSYNC_BLOCK: u64 = 32 << 10;

/// Its own work on a block.
const RSYNC_WORK: Span = Span::from_micros(20);

/// How much it puts into one file.
const RSYNC_FILE: u64 = 64 << 20;

/// Bytes that rsync has written.
type Written = Arc<AtomicU64>;

fn expect_work(knobs: &Knobs, _machine: &Machine) -> Result<(), KnobError> {
    knobs.expect_less("settle_seconds", "seconds")?;
    // An rsync may be measured alone.
    if knobs.number("rsync") == 0 {
        knobs.expect_one("writers")?;
    }
    Ok(())
}

async fn run(world: World, knobs: Knobs) -> Result<(), WorldError> {
    let pattern = Pattern {
        block_bytes: knobs.number("block").max(1),
        calls_at_once: knobs.number("calls_at_once").max(1),
    };
    let start = |number| EndlessWriter::start(&world, 0, number, pattern);
    let writers: Vec<EndlessWriter> = (0..knobs.number("writers")).map(start).collect();
    let rsynced = Written::default();
    let mut rsync = None;
    if knobs.number("rsync") > 0 {
        let count = rsynced.clone();
        rsync = Some(world.spawn("rsync", move |process| receive(process, count)));
    }
    let all = Span::from_secs(knobs.number("seconds"));
    let settle = Span::from_secs(knobs.number("settle_seconds"));
    world.rt().sleep(settle).await;
    world.open_window();
    let read = || -> Vec<u64> { writers.iter().map(EndlessWriter::written_bytes).collect() };
    let (before, before_rsync) = (read(), rsynced.load(Ordering::Relaxed));
    world.rt().sleep(all.saturating_sub(settle)).await;
    world.close_window();
    let measured_s = world.measured().as_secs_f64().max(1e-9);
    let rates: Vec<f64> = read()
        .iter()
        .zip(&before)
        .map(|(now, before)| (now - before) as f64 / measured_s)
        .collect();
    tell_rates(&world, &rates);
    if rsync.is_some() {
        let bytes = rsynced.load(Ordering::Relaxed) - before_rsync;
        world
            .measures()
            .figure("rsync_throughput", bytes as f64 / measured_s);
    }
    let processes = writers.into_iter().map(EndlessWriter::into_process);
    let longest = kill_all(&world, processes.chain(rsync).collect()).await?;
    world
        .measures()
        .figure("time_to_kill_writer", longest.as_secs_f64());
    Ok(())
}

fn tell_rates(world: &World, rates: &[f64]) {
    if rates.is_empty() {
        return;
    }
    let (mean, deviation) = mean_and_deviation(rates);
    let measures = world.measures();
    for rate in rates {
        measures.sample("per_dd_bytes_per_s", "bytes/s", *rate);
    }
    measures.figure("per_dd_bytes_per_s_mean", mean);
    measures.figure("per_dd_bytes_per_s_coeffvar", deviation / mean.max(1e-9));
}

/// Kills all at once, and returns how long the 99th of a hundred took to end.
async fn kill_all(world: &World, processes: Vec<ProcessHandle>) -> Result<Span, WorldError> {
    let killed = world.now();
    processes.iter().for_each(ProcessHandle::kill);
    let mut spans = Vec::new();
    for process in processes {
        spans.push(process.wait_for_time().await? - killed);
    }
    spans.sort_unstable();
    let ninety_ninth = (spans.len() * 99).div_ceil(100).saturating_sub(1);
    Ok(spans.get(ninety_ninth).copied().unwrap_or(Span::ZERO))
}

/// Reads from the network and writes files, at its own speed or at that of the slower side.
async fn receive(process: Process, written: Written) -> Result<(), WorldError> {
    let began = process.now();
    let mut received = 0;
    for number in 0_u64.. {
        let file_system = process.world().main_file_system();
        let mut file = process
            .create_in(file_system, 1, &format!("rsync-{number}"))
            .await?;
        while file.end_bytes() < RSYNC_FILE {
            // The source sends ahead as far as the receive buffer has room.
            let span = process.now() - began;
            let sent = span.as_nanos() / 1_000 * (SOURCE_BYTES_PER_S / 1_000) / 1_000;
            let ahead = sent.min(received + RECEIVE_BUFFER);
            if ahead < received + RSYNC_BLOCK {
                let missing = received + RSYNC_BLOCK - ahead;
                let nanos = missing * 1_000_000_000 / SOURCE_BYTES_PER_S;
                process.sleep(Span::from_nanos(nanos)).await;
            }
            received += RSYNC_BLOCK;
            process.compute(RSYNC_WORK).await;
            file.append(RSYNC_BLOCK).await?;
            written.fetch_add(RSYNC_BLOCK, Ordering::Relaxed);
        }
        file.close().await;
    }
    Ok(())
}
