//! A running bench of the fronts: the state that its rounds share.

use super::fio::{Fio, NBD_READ, NBD_WRITE, Outcome, Script};
use super::goals::metric;
use super::results::{Front, Name, Results, Sample, Who};
use super::server::{Server, missing};
use crate::error::BenchError;
use crate::progress::Progress;
use forebay_base::Span;
use forebay_host::Interrupts;
use forebay_rt::thread::{Stopwatch, pause_current};
use std::path::Path;

/// The data that is read and written while it fits, as a part of the memory: all of it may be
/// dirty, and nothing has to be written back.
pub(super) const CACHED_PART: u64 = 16;
/// The data that is written under pressure, as a multiple of the memory.
pub(super) const PRESSURE_TIMES: u64 = 4;
/// The data that is written in order, as a multiple of the memory.
pub(super) const SEQUENTIAL_TIMES: u64 = 4;
/// How long processor time is measured.
const IDLE_SPAN: Span = Span::from_secs(6);

/// A load of the block servers: the job, its name, and how many run at once.
pub(super) const LOADS: [(Script, &str, u32); 4] = [
    (NBD_READ, metric::READ, 32),
    (NBD_READ, metric::READ, 1),
    (NBD_WRITE, metric::WRITE, 32),
    (NBD_WRITE, metric::WRITE, 1),
];

/// How many clients flush after each write.
pub(super) const FLUSHERS: [u32; 2] = [1, 4];

/// How many jobs read at once.
pub(super) const READERS: [u32; 2] = [1, 2];

/// How long each part takes.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) rounds: u32,
    pub(super) span_ms: u64,
    pub(super) settle_ms: u64,
    pub(super) pressure_ms: u64,
    /// Small files in a tree.
    pub(super) files: usize,
    /// The same in a tree that git looks at.
    pub(super) git_files: usize,
    /// Idle time before processor time is measured. In that time the flusher looks once more for
    /// old pages, and the mount sets the times of the files.
    pub(super) idle_settle: Option<Span>,
}

pub(super) const FULL: Pace = Pace {
    rounds: 5,
    span_ms: 2_000,
    settle_ms: 400,
    pressure_ms: 20_000,
    files: 4_000,
    git_files: 10_000,
    idle_settle: Some(Span::from_secs(12)),
};
pub(super) const QUICK: Pace = Pace {
    rounds: 1,
    span_ms: 700,
    settle_ms: 200,
    pressure_ms: 4_000,
    files: 400,
    git_files: 400,
    idle_settle: None,
};

impl Pace {
    /// Number of runs of fio, roughly: some contenders may be missing.
    pub(super) fn runs(self) -> u64 {
        let a_round = (LOADS.len() + FLUSHERS.len()) * 3 + READERS.len() * 2 + 9;
        a_round as u64 * u64::from(self.rounds) + 2
    }
}

/// A bench of the fronts that is running.
pub(super) struct Fronts<'a> {
    pub(super) folder: &'a Path,
    pub(super) memory_bytes: u64,
    pub(super) pace: Pace,
    pub(super) fio: Fio<'a>,
    pub(super) interrupts: &'a Interrupts,
    pub(super) progress: Progress,
    /// What is not measured, and why.
    pub(super) left_out: Vec<(Front, String)>,
    pub(super) results: Results,
}

impl Fronts<'_> {
    pub(super) fn cached_bytes(&self) -> u64 {
        self.memory_bytes / CACHED_PART
    }

    /// The contenders that can take part; the others are listed with a reason.
    pub(super) fn present(&mut self, front: Front) -> Vec<Who> {
        let mut present = Vec::new();
        for who in front.contenders() {
            match missing(who) {
                None => present.push(who),
                Some(reason) => self.left_out.push((front, reason)),
            }
        }
        present
    }

    /// Processor time of idle servers in which nothing is dirty.
    pub(super) fn idle(
        &mut self,
        front: Front,
        servers: &[(Who, &Server)],
    ) -> Result<(), BenchError> {
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
            // The time of a thread that ended meanwhile is lost.
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

    pub(super) fn note(&self, front: Front, what: &str, who: Who) {
        let text = format!("{}: {what}, {}", front.name(), who.name());
        self.progress.begin(&text);
    }
}

pub(super) fn value(value: f64) -> Sample {
    Sample {
        value,
        latency_us: None,
    }
}

pub(super) fn sample(value: f64, outcome: &Outcome) -> Sample {
    Sample {
        value,
        latency_us: Some(outcome.latency_us),
    }
}
