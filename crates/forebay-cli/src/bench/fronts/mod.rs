//! `forebay bench --fronts`: the block server and the mount under fio, beside servers that others
//! wrote, by turns.

mod fio;
mod goals;
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
use fio::{Fio, Job, Outcome, Work};
use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, pause_current};
use goals::metric;
use results::{Front, Name, Results, Sample, Who};
use server::{Image, Server, missing, serve};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What is read and written while memory lasts, as a part of it: all of it may be dirty and
/// nothing has to be written back.
const CACHED_PART: u64 = 16;
/// What is written under pressure, as a multiple of the memory.
const PRESSURE_TIMES: u64 = 4;
/// How long processor time is counted.
const IDLE_SPAN: Span = Span::from_secs(6);

/// How long everything takes.
#[derive(Clone, Copy)]
struct Pace {
    rounds: u32,
    span_ms: u64,
    settle_ms: u64,
    pressure_ms: u64,
    /// How long nothing is asked before processor time is counted. The flusher looks after what
    /// was written until it is as old as dirty pages become.
    idle_settle: Option<Span>,
}

const FULL: Pace = Pace {
    rounds: 5,
    span_ms: 2_000,
    settle_ms: 400,
    pressure_ms: 20_000,
    idle_settle: Some(Span::from_secs(36)),
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
    scratch.check_room((PRESSURE_TIMES + 2) * arguments.memory_bytes * 2)?;
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
    let no_mount = "forebay mount and the mount that does nothing are not part of this program";
    bench.left_out.push((Front::Mount, no_mount.to_owned()));
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
        let by_turns = (LOADS.len() * 3) as u64 * u64::from(self.rounds);
        by_turns + 2
    }
}

/// A load of the block servers: what, under which name, and how many at once.
const LOADS: [(Work, &str, u32); 4] = [
    (Work::RandomRead, metric::READ, 32),
    (Work::RandomRead, metric::READ, 1),
    (Work::RandomWrite, metric::WRITE, 32),
    (Work::RandomWrite, metric::WRITE, 1),
];

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

    /// Everything about the block servers.
    fn blocks(&mut self) -> Result<(), CommandError> {
        let present = self.present(Front::Nbd);
        self.blocks_in_memory(&present)?;
        for who in present {
            // The memory plugin has no medium, so nothing presses it.
            if who != Who::Nbdkit {
                self.blocks_under_pressure(who)?;
            }
        }
        Ok(())
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

    /// Reads and writes of what is in memory, by turns, then what the servers do when nothing is
    /// asked.
    fn blocks_in_memory(&mut self, present: &[Who]) -> Result<(), CommandError> {
        let image = Image {
            folder: self.folder,
            length_bytes: self.cached_bytes(),
            memory_bytes: self.memory_bytes,
        };
        let mut servers: Vec<(Who, Server<'_>, PathBuf)> = Vec::new();
        for &who in present {
            let (server, socket) = serve(who, &image, self.interrupts)?;
            servers.push((who, server, socket));
        }
        for (_, _, socket) in &servers {
            self.fio.run(&self.filling(socket))?;
        }
        for (work, metric, depth) in LOADS {
            for round in 1..=self.pace.rounds {
                for (who, _, socket) in &servers {
                    let job = self.timed(socket, work, depth, self.pace.span_ms);
                    self.note(&format!("{metric}, depth {depth}, round {round}"), *who);
                    let outcome = self.fio.run(&job)?;
                    let name = named(metric, "IOPS", depth);
                    self.results
                        .add(name, *who, sample(outcome.operations, &outcome));
                    self.progress.skip(1);
                }
            }
        }
        for (_, _, socket) in &servers {
            self.fio.run(&self.filling(socket))?;
        }
        self.idle(&servers)?;
        servers
            .into_iter()
            .try_for_each(|(_, server, _)| server.end())
    }

    /// Processor time of servers of which nothing is asked and in which nothing is dirty.
    fn idle(&mut self, servers: &[(Who, Server<'_>, PathBuf)]) -> Result<(), CommandError> {
        let Some(settle) = self.pace.idle_settle else {
            let reason = "processor time of idle servers, which --quick does not wait for";
            self.left_out.push((Front::Nbd, reason.to_owned()));
            return Ok(());
        };
        self.progress.begin("nbd: idle");
        pause_current(settle);
        let mut before = Vec::new();
        for (_, server, _) in servers {
            before.push(server.processor_ns()?);
        }
        let watch = Stopwatch::start();
        pause_current(IDLE_SPAN);
        let seconds = watch.elapsed().as_millis() as f64 / 1e3;
        for ((who, server, _), before) in servers.iter().zip(before) {
            // A thread that ended meanwhile takes its time with it.
            let micros = server.processor_ns()?.saturating_sub(before) as f64 / 1e3;
            let sample = Sample {
                value: micros / seconds,
                latency_us: None,
            };
            self.results.add(named(metric::IDLE, "us", 1), *who, sample);
        }
        Ok(())
    }

    /// Writes of more than there is memory for.
    fn blocks_under_pressure(&mut self, who: Who) -> Result<(), CommandError> {
        let image = Image {
            folder: self.folder,
            length_bytes: PRESSURE_TIMES * self.memory_bytes,
            memory_bytes: self.memory_bytes,
        };
        let (server, socket) = serve(who, &image, self.interrupts)?;
        self.note(metric::PRESSURE, who);
        let mut job = self.timed(&socket, Work::RandomWrite, 32, self.pace.pressure_ms);
        job.range_bytes = image.length_bytes;
        let outcome = self.fio.run(&job)?;
        let writes = sample(outcome.operations, &outcome);
        self.results
            .add(named(metric::PRESSURE, "IOPS", 32), who, writes);
        let gap = Sample {
            value: outcome.longest_gap_ms,
            latency_us: None,
        };
        self.results.add(named(metric::GAP, "ms", 32), who, gap);
        self.progress.skip(1);
        server.end()
    }

    fn note(&self, what: &str, who: Who) {
        self.progress.begin(&format!("nbd: {what}, {}", who.name()));
    }

    /// All of an image once, durable in the end.
    fn filling(&self, socket: &Path) -> Job {
        Job {
            socket: socket.to_owned(),
            work: Work::WriteAndSync,
            range_bytes: self.cached_bytes(),
            jobs: 1,
            depth: 4,
            span_ms: 0,
            settle_ms: 0,
        }
    }

    fn timed(&self, socket: &Path, work: Work, depth: u32, span_ms: u64) -> Job {
        Job {
            socket: socket.to_owned(),
            work,
            range_bytes: self.cached_bytes(),
            jobs: 1,
            depth,
            span_ms,
            settle_ms: self.pace.settle_ms,
        }
    }
}

fn named(metric: &'static str, unit: &'static str, depth: u32) -> Name {
    Name {
        front: Front::Nbd,
        metric,
        unit,
        jobs: 1,
        depth,
    }
}

fn sample(value: f64, outcome: &Outcome) -> Sample {
    Sample {
        value,
        latency_us: Some(outcome.latency_us),
    }
}
