//! The mount, beside a mount that does nothing and the file on its device.

use super::fio::{DEVICE_WRITE, FILE_READ, FILE_WRITE, Job};
use super::goals::metric;
use super::results::{Front, Name, Who};
use super::server::mount;
use super::stand::{Fronts, READERS, SEQUENTIAL_TIMES, sample, value};
use crate::error::BenchError;
use forebay_fuse::can_mount;
use forebay_fuse::floor::Floor;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that is read.
const READ_FILE: &str = "read";
/// Threads of the floor that take requests: as many as fio has jobs at most.
const FLOOR_THREADS: usize = 2;
/// Requests under way when the device is written directly, enough to keep it busy.
const DEVICE_DEPTH: u32 = 8;
/// The folder below, and where it is mounted.
struct Places {
    source: PathBuf,
    mount: PathBuf,
    floor: PathBuf,
}

impl Places {
    fn make(folder: &Path) -> Result<Places, BenchError> {
        let places = Places {
            source: folder.join("source"),
            mount: folder.join("mount"),
            floor: folder.join("floor"),
        };
        for path in [&places.source, &places.mount, &places.floor] {
            fs::create_dir(path).map_err(BenchError::in_scratch("make", path))?;
        }
        Ok(places)
    }

    /// The folder in which `who` is measured.
    fn of(&self, who: Who) -> &Path {
        match who {
            Who::Forebay => &self.mount,
            Who::Floor => &self.floor,
            _ => &self.source,
        }
    }
}

impl Fronts<'_> {
    /// Runs everything about the mount.
    pub(super) fn mounts(&mut self) -> Result<(), BenchError> {
        if let Err(missing) = can_mount() {
            let reason = format!("cannot mount: {missing}");
            self.left_out.push((Front::Mount, reason));
            return Ok(());
        }
        let places = Places::make(self.folder)?;
        for (name, length_bytes) in [
            (READ_FILE, self.cached_bytes()),
            (Who::Forebay.name(), self.sequential_bytes()),
            (Who::Floor.name(), self.sequential_bytes()),
            (Who::Device.name(), self.sequential_bytes()),
        ] {
            let job = written_in_order(places.source.join(name), Who::Device, length_bytes);
            self.fio.run(&job)?;
        }
        let server = mount(
            Who::Forebay,
            (&places.source, &places.mount),
            self.memory_bytes,
            READ_FILE,
            self.interrupts,
        )?;
        let floor = Floor::start(&places.source, &places.floor, FLOOR_THREADS)
            .map_err(BenchError::in_scratch("mount", &places.floor))?;
        self.cached_reads(&places)?;
        self.writes_in_order(&places)?;
        drop(floor);
        self.idle(Front::Mount, &[(Who::Forebay, &server)])?;
        server.end()
    }

    fn sequential_bytes(&self) -> u64 {
        SEQUENTIAL_TIMES * self.memory_bytes
    }

    fn cached_reads(&mut self, places: &Places) -> Result<(), BenchError> {
        for jobs in READERS {
            for round in 1..=self.pace.rounds {
                for who in [Who::Forebay, Who::Floor] {
                    let what = format!("{}, {jobs} jobs, round {round}", metric::READ);
                    self.note(Front::Mount, &what, who);
                    let outcome = self.fio.run(&Job {
                        script: FILE_READ,
                        target: places.of(who).join(READ_FILE),
                        range_bytes: self.cached_bytes(),
                        jobs,
                        depth: 1,
                        span_ms: self.pace.span_ms,
                        settle_ms: self.pace.settle_ms,
                    })?;
                    let name = named(metric::READ, "IOPS", jobs);
                    self.results
                        .add(name, who, sample(outcome.operations, &outcome));
                    self.progress.skip(1);
                }
            }
        }
        Ok(())
    }

    fn writes_in_order(&mut self, places: &Places) -> Result<(), BenchError> {
        for round in 1..=self.pace.rounds {
            for who in Front::Mount.contenders() {
                self.note(
                    Front::Mount,
                    &format!("{}, round {round}", metric::SEQUENTIAL),
                    who,
                );
                // Each has its own file, because no two may write one file unknown to the cache.
                let path = places.of(who).join(who.name());
                let job = written_in_order(path, who, self.sequential_bytes());
                let outcome = self.fio.run(&job)?;
                let rate = value(outcome.bytes / f64::from(1 << 20));
                self.results
                    .add(named(metric::SEQUENTIAL, "MiB/s", 1), who, rate);
                self.progress.skip(1);
            }
        }
        Ok(())
    }
}

/// Writes all of a file once, and makes it durable at the end; the device is kept busy past the
/// kernel's cache.
fn written_in_order(target: PathBuf, who: Who, range_bytes: u64) -> Job {
    let (script, depth) = match who {
        Who::Device => (DEVICE_WRITE, DEVICE_DEPTH),
        _ => (FILE_WRITE, 1),
    };
    Job {
        script,
        target,
        range_bytes,
        jobs: 1,
        depth,
        span_ms: 0,
        settle_ms: 0,
    }
}

fn named(metric: &'static str, unit: &'static str, jobs: u32) -> Name {
    Name {
        front: Front::Mount,
        metric,
        unit,
        jobs,
        depth: 1,
    }
}
