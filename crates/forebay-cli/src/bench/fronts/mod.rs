//! `forebay bench --fronts`: the block server and the mount under fio, beside servers that others
//! wrote, by turns.

mod blocks;
mod fio;
mod goals;
mod mounts;
mod results;
mod server;
mod table;

use super::interrupt::Interrupts;
use super::json::RowFile;
use super::progress::Progress;
use super::scratch::Scratch;
use super::{machine, show_bytes};
use crate::args::BenchArguments;
use crate::error::CommandError;
use blocks::LOADS;
use fio::{Fio, Outcome};
use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, pause_current};
use goals::metric;
use mounts::READERS;
use results::{Front, Name, Results, Sample, Who};
use server::{Server, missing};
use std::io::{self, Write};
use std::path::Path;

/// What is read and written while memory lasts, as a part of it: all of it may be dirty and
/// nothing has to be written back.
const CACHED_PART: u64 = 16;
/// What is written under pressure, as a multiple of the memory.
const PRESSURE_TIMES: u64 = 4;
/// What is written in order, as a multiple of the memory.
const SEQUENTIAL_TIMES: u64 = 4;
/// How long processor time is counted.
const IDLE_SPAN: Span = Span::from_secs(6);

/// How long everything takes.
#[derive(Clone, Copy)]
struct Pace {
    rounds: u32,
    span_ms: u64,
    settle_ms: u64,
    pressure_ms: u64,
    /// How long nothing is asked before processor time is counted. The flusher looks once more
    /// for what is old, and the mount gives files their times.
    idle_settle: Option<Span>,
}

const FULL: Pace = Pace {
    rounds: 5,
    span_ms: 2_000,
    settle_ms: 400,
    pressure_ms: 20_000,
    idle_settle: Some(Span::from_secs(12)),
};
const QUICK: Pace = Pace {
    rounds: 1,
    span_ms: 700,
    settle_ms: 200,
    pressure_ms: 4_000,
    idle_settle: None,
};

/// Measures the fronts and prints their table.
pub(super) fn run(arguments: &BenchArguments) -> Result<(), CommandError> {
    if let Some(reason) = Fio::missing() {
        return Err(CommandError::Client {
            reason: format!("{reason}, and it is the client of this bench"),
        });
    }
    let interrupts = Interrupts::listen()?;
    let row_file = arguments
        .json_file
        .as_deref()
        .map(RowFile::create)
        .transpose()?;
    let scratch = Scratch::create(&arguments.parent_folder)?;
    let most = 2 * (PRESSURE_TIMES + SEQUENTIAL_TIMES + 2);
    scratch.check_room(most * arguments.memory_bytes)?;
    let pace = if arguments.quick { QUICK } else { FULL };
    let mut bench = Fronts {
        folder: scratch.folder(),
        memory_bytes: arguments.memory_bytes,
        pace,
        fio: Fio::new(scratch.folder(), &interrupts),
        interrupts: &interrupts,
        progress: Progress::new(pace.runs()),
        left_out: Vec::new(),
        results: Results::default(),
    };
    bench.blocks()?;
    bench.mounts()?;
    let lines = [
        machine(),
        format!(
            "budget {}, {} read and written while memory lasts, in {}",
            show_bytes(bench.memory_bytes),
            show_bytes(bench.cached_bytes()),
            scratch.folder().display()
        ),
        match pace.rounds {
            1 => "--quick: one short round of everything".to_owned(),
            rounds => format!("median of {rounds} rounds, by turns, and half their spread"),
        },
    ];
    let text = table::render(&lines, &bench.left_out, &bench.results);
    drop(bench.progress);
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(CommandError::system("print the table"))?;
    row_file.map_or(Ok(()), |file| file.write(bench.results.rows()))
}

impl Pace {
    /// Runs of fio, about: some contenders may be missing.
    fn runs(self) -> u64 {
        let a_round = LOADS.len() * 3 + READERS.len() * 2 + 3;
        a_round as u64 * u64::from(self.rounds) + 2
    }
}

/// A bench of the fronts that is running.
struct Fronts<'a> {
    folder: &'a Path,
    memory_bytes: u64,
    pace: Pace,
    fio: Fio<'a>,
    interrupts: &'a Interrupts,
    progress: Progress,
    /// Who or what is not measured, and why.
    left_out: Vec<(Front, String)>,
    results: Results,
}

impl Fronts<'_> {
    fn cached_bytes(&self) -> u64 {
        self.memory_bytes / CACHED_PART
    }

    /// Who can take part; the others are named.
    fn present(&mut self, front: Front) -> Vec<Who> {
        let mut present = Vec::new();
        for who in front.contenders() {
            match missing(who) {
                None => present.push(who),
                Some(reason) => self.left_out.push((front, reason)),
            }
        }
        present
    }

    /// Processor time of servers of which nothing is asked and in which nothing is dirty.
    fn idle(&mut self, front: Front, servers: &[(Who, &Server<'_>)]) -> Result<(), CommandError> {
        let Some(settle) = self.pace.idle_settle else {
            let reason = "processor time of idle servers, which --quick does not wait for";
            self.left_out.push((front, reason.to_owned()));
            return Ok(());
        };
        self.progress.begin(&format!("{}: idle", front.name()));
        pause_current(settle);
        let mut before = Vec::new();
        for (_, server) in servers {
            before.push(server.processor_ns()?);
        }
        let watch = Stopwatch::start();
        pause_current(IDLE_SPAN);
        let seconds = watch.elapsed().as_millis() as f64 / 1e3;
        for ((who, server), before) in servers.iter().zip(before) {
            // A thread that ended meanwhile takes its time with it.
            let micros = server.processor_ns()?.saturating_sub(before) as f64 / 1e3;
            let name = Name {
                front,
                metric: metric::IDLE,
                unit: "us",
                jobs: 1,
                depth: 1,
            };
            self.results.add(name, *who, value(micros / seconds));
        }
        Ok(())
    }

    fn note(&self, front: Front, what: &str, who: Who) {
        let text = format!("{}: {what}, {}", front.name(), who.name());
        self.progress.begin(&text);
    }
}

fn value(value: f64) -> Sample {
    Sample {
        value,
        latency_us: None,
    }
}

fn sample(value: f64, outcome: &Outcome) -> Sample {
    Sample {
        value,
        latency_us: Some(outcome.latency_us),
    }
}
