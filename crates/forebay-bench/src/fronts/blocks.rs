//! The block servers: reads and writes of data in memory, in turns; writes under pressure; and idle
//! servers.

use super::fio::{Job, NBD_FILL, NBD_FLUSH, NBD_WRITE, Script};
use super::goals::metric;
use super::results::{Front, Name, Who};
use super::server::{Image, Server, serve};
use super::stand::{FLUSHERS, Fronts, LOADS, PRESSURE_TIMES, sample, value};
use crate::error::BenchError;
use std::path::{Path, PathBuf};

/// A server and its socket.
type Served = (Who, Server, PathBuf);

impl Fronts<'_> {
    /// Runs everything about the block servers.
    pub(super) fn blocks(&mut self) -> Result<(), BenchError> {
        let present = self.present(Front::Nbd);
        self.blocks_in_memory(&present)?;
        self.blocks_flushed(&present)?;
        for who in present {
            // The memory plugin has no medium, so there is no pressure on it.
            if who != Who::Nbdkit {
                self.blocks_under_pressure(who)?;
            }
        }
        Ok(())
    }

    fn blocks_in_memory(&mut self, present: &[Who]) -> Result<(), BenchError> {
        let image = self.image(self.cached_bytes(), false);
        let servers = self.servers(present, &image)?;
        self.fill(&servers)?;
        for (script, metric, depth) in LOADS {
            for round in 1..=self.pace.rounds {
                for (who, _, socket) in &servers {
                    let job = self.timed_block(socket, script, depth);
                    let what = format!("{metric}, depth {depth}, round {round}");
                    self.note(Front::Nbd, &what, *who);
                    let outcome = self.fio.run(&job)?;
                    let name = named(metric, "IOPS", depth);
                    self.results
                        .add(name, *who, sample(outcome.operations, &outcome));
                    self.progress.skip(1);
                }
            }
        }
        self.fill(&servers)?;
        let idle: Vec<_> = servers
            .iter()
            .map(|(who, server, _)| (*who, server))
            .collect();
        self.idle(Front::Nbd, &idle)?;
        end(servers)
    }

    /// Makes each write durable, as a database does.
    fn blocks_flushed(&mut self, present: &[Who]) -> Result<(), BenchError> {
        let image = self.image(self.cached_bytes(), true);
        let servers = self.servers(present, &image)?;
        self.fill(&servers)?;
        for jobs in FLUSHERS {
            for round in 1..=self.pace.rounds {
                for (who, _, socket) in &servers {
                    let mut job = self.timed_block(socket, NBD_FLUSH, 1);
                    job.jobs = jobs;
                    let what = format!("{}, {jobs} clients, round {round}", metric::FLUSHED);
                    self.note(Front::Nbd, &what, *who);
                    let outcome = self.fio.run(&job)?;
                    let mut name = named(metric::FLUSHED, "IOPS", 1);
                    name.jobs = jobs;
                    self.results.add(name, *who, value(outcome.operations));
                    self.progress.skip(1);
                }
            }
        }
        end(servers)
    }

    fn image(&self, length_bytes: u64, is_file: bool) -> Image<'_> {
        Image {
            folder: self.folder,
            length_bytes,
            memory_bytes: self.memory_bytes,
            is_file,
        }
    }

    fn servers(&self, present: &[Who], image: &Image<'_>) -> Result<Vec<Served>, BenchError> {
        let start = |&who: &Who| {
            let (server, socket) = serve(who, image, self.interrupts)?;
            Ok((who, server, socket))
        };
        present.iter().map(start).collect()
    }

    /// Writes more than there is memory for.
    fn blocks_under_pressure(&mut self, who: Who) -> Result<(), BenchError> {
        let image = self.image(PRESSURE_TIMES * self.memory_bytes, true);
        let (server, socket) = serve(who, &image, self.interrupts)?;
        self.note(Front::Nbd, metric::PRESSURE, who);
        let mut job = self.timed_block(&socket, NBD_WRITE, 32);
        job.span_ms = self.pace.pressure_ms;
        job.range_bytes = image.length_bytes;
        let outcome = self.fio.run(&job)?;
        let writes = sample(outcome.operations, &outcome);
        self.results
            .add(named(metric::PRESSURE, "IOPS", 32), who, writes);
        let gap = value(outcome.longest_gap_ms);
        self.results.add(named(metric::GAP, "ms", 32), who, gap);
        self.progress.skip(1);
        server.end()
    }

    /// Writes all of every image once, and makes it durable at the end.
    fn fill(&self, servers: &[Served]) -> Result<(), BenchError> {
        for (_, _, socket) in servers {
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

    fn timed_block(&self, socket: &Path, script: Script, depth: u32) -> Job {
        Job {
            script,
            target: socket.to_owned(),
            range_bytes: self.cached_bytes(),
            jobs: 1,
            depth,
            span_ms: self.pace.span_ms,
            settle_ms: self.pace.settle_ms,
        }
    }
}

fn end(servers: Vec<Served>) -> Result<(), BenchError> {
    servers
        .into_iter()
        .try_for_each(|(_, server, _)| server.end())
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
