//! The block servers: reads and writes of data in memory, in turns; writes under pressure; and idle
//! servers.

use super::fio::{Job, NBD_FILL, NBD_FLUSH, NBD_WRITE};
use super::server::{Image, Server, serve};
use super::stand::{FLUSHERS, Fronts, LOADS, PRESSURE_TIMES};
use crate::contender::{Concurrency, Phase, Sample, Who};
use crate::error::BenchError;
use crate::goals::metric;
use crate::rounds::Turn;
use std::path::PathBuf;

/// A server and its socket.
type Served = (Server, PathBuf);

impl Fronts<'_> {
    /// Runs everything about the block servers.
    pub(super) fn blocks(&mut self) -> Result<(), BenchError> {
        self.rounds
            .heading
            .note(Phase::Nbd, Phase::Nbd.of_front().to_owned());
        let mut present = self.present(Phase::Nbd);
        self.blocks_in_memory(&present)?;
        self.blocks_flushed(&present)?;
        // The memory plugin has no medium, so there is no pressure on it.
        present.retain(|&who| who != Who::Nbdkit);
        self.blocks_under_pressure(&present)
    }

    fn blocks_in_memory(&mut self, present: &[Who]) -> Result<(), BenchError> {
        let servers = self.servers(present, false)?;
        let (pace, cached_bytes) = (self.pace, self.cached_bytes());
        for (script, metric, depth) in LOADS {
            let turn = Turn {
                phase: Phase::Nbd,
                what: &format!("{metric}, depth {depth}"),
                load: Concurrency::new(1, depth),
            };
            self.rounds.rounds(pace.rounds, &turn, present, |index| {
                let mut job = pace.timed(script, servers[index].1.clone(), cached_bytes);
                job.depth = depth;
                Ok(vec![self.fio.run(&job)?.rate(metric)])
            })?;
        }
        self.fill(&servers)?;
        self.idle(
            Phase::Nbd,
            present,
            servers.iter().map(|(server, _)| server),
        )?;
        end(servers)
    }

    /// Makes each write durable, as a database does.
    fn blocks_flushed(&mut self, present: &[Who]) -> Result<(), BenchError> {
        let servers = self.servers(present, true)?;
        let (pace, cached_bytes) = (self.pace, self.cached_bytes());
        for jobs in FLUSHERS {
            let turn = Turn {
                phase: Phase::Nbd,
                what: &format!("{}, {jobs} clients", metric::FLUSHED),
                load: Concurrency::new(jobs, jobs),
            };
            self.rounds.rounds(pace.rounds, &turn, present, |index| {
                let mut job = pace.timed(NBD_FLUSH, servers[index].1.clone(), cached_bytes);
                job.jobs = jobs;
                let writes = self.fio.run(&job)?.operations;
                Ok(vec![Sample::plain(metric::FLUSHED, "IOPS", writes)])
            })?;
        }
        end(servers)
    }

    /// Starts the servers of all who are present, each over an image that is written once.
    fn servers(&self, present: &[Who], is_file: bool) -> Result<Vec<Served>, BenchError> {
        let image = Image {
            folder: self.folder,
            length_bytes: self.cached_bytes(),
            memory_bytes: self.memory_bytes,
            is_file,
        };
        let start = |&who: &Who| serve(who, &image, self.rounds.interrupts);
        let servers: Vec<Served> = present.iter().map(start).collect::<Result<_, _>>()?;
        self.fill(&servers)?;
        Ok(servers)
    }

    /// Writes more than there is memory for.
    fn blocks_under_pressure(&mut self, present: &[Who]) -> Result<(), BenchError> {
        let image = Image {
            folder: self.folder,
            length_bytes: PRESSURE_TIMES * self.memory_bytes,
            memory_bytes: self.memory_bytes,
            is_file: true,
        };
        let (pace, interrupts) = (self.pace, self.rounds.interrupts);
        let turn = Turn {
            phase: Phase::Nbd,
            what: metric::PRESSURE,
            load: Concurrency::new(1, 32),
        };
        self.rounds.rounds(1, &turn, present, |index| {
            let (server, socket) = serve(present[index], &image, interrupts)?;
            let mut job = pace.timed(NBD_WRITE, socket, image.length_bytes);
            job.depth = 32;
            job.span_ms = pace.pressure_ms;
            let outcome = self.fio.run(&job)?;
            server.end()?;
            let gap = Sample::plain(metric::GAP, "ms", outcome.longest_gap_ms);
            Ok(vec![outcome.rate(metric::PRESSURE), gap])
        })
    }

    /// Writes all of every image once, and makes it durable at the end.
    fn fill(&self, servers: &[Served]) -> Result<(), BenchError> {
        for (_, socket) in servers {
            self.fio.run(&Job {
                script: NBD_FILL,
                target: socket.clone(),
                range_bytes: self.cached_bytes(),
                jobs: 1,
                depth: 4,
                span_ms: 0,
                settle_ms: 0,
            })?;
        }
        Ok(())
    }
}

fn end(servers: Vec<Served>) -> Result<(), BenchError> {
    servers.into_iter().try_for_each(|(server, _)| server.end())
}
