//! A running bench of the fronts: the state that its rounds share.

use super::fio::{Fio, Job, NBD_READ, NBD_WRITE, Script};
use super::server::{Server, missing};
use crate::contender::{Concurrency, Phase, Sample, Who};
use crate::error::BenchError;
use crate::goals::metric;
use crate::rounds::Rounds;
use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, pause_current};
use std::path::{Path, PathBuf};

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
    /// A job of this length by one process.
    pub(super) fn timed(self, script: Script, target: PathBuf, range_bytes: u64) -> Job {
        Job {
            script,
            target,
            range_bytes,
            jobs: 1,
            depth: 1,
            span_ms: self.span_ms,
            settle_ms: self.settle_ms,
        }
    }

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
    pub(super) rounds: Rounds<'a>,
}

impl Fronts<'_> {
    pub(super) fn cached_bytes(&self) -> u64 {
        self.memory_bytes / CACHED_PART
    }

    /// Notes what is not measured, and why.
    pub(super) fn leave_out(&mut self, front: Phase, reason: &str) {
        let note = format!("  left out: {reason}");
        self.rounds.heading.note(front, note);
    }

    /// The contenders that can take part; the others are listed with a reason.
    pub(super) fn present(&mut self, front: Phase) -> Vec<Who> {
        let mut present = Vec::new();
        for who in front.contenders() {
            match missing(who) {
                None => present.push(who),
                Some(reason) => self.leave_out(front, &reason),
            }
        }
        present
    }

    /// Processor time of idle servers in which nothing is dirty.
    pub(super) fn idle<'s>(
        &mut self,
        front: Phase,
        contenders: &[Who],
        servers: impl Iterator<Item = &'s Server> + Clone,
    ) -> Result<(), BenchError> {
        let Some(settle) = self.pace.idle_settle else {
            let reason = "processor time of idle servers, which --quick does not wait for";
            self.leave_out(front, reason);
            return Ok(());
        };
        self.rounds
            .progress
            .begin(&format!("{}: idle", front.name()));
        pause_current(settle);
        let mut before = Vec::new();
        for server in servers.clone() {
            before.push(server.processor_ns()?);
        }
        let watch = Stopwatch::start();
        pause_current(IDLE_SPAN);
        let seconds = watch.elapsed().as_millis() as f64 / 1e3;
        for ((who, server), before) in contenders.iter().zip(servers).zip(before) {
            // The time of a thread that ended meanwhile is lost.
            let micros = server.processor_ns()?.saturating_sub(before) as f64 / 1e3;
            let samples = vec![Sample::plain(metric::IDLE, "us", micros / seconds)];
            self.rounds
                .results
                .add(front, Concurrency::new(1, 1), *who, samples);
        }
        Ok(())
    }
}
