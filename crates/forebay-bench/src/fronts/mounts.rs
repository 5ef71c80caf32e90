//! The mount, beside a mount that does nothing and the file on its device.

use super::fio::{DEVICE_WRITE, FILE_READ, FILE_WRITE, Job};
use super::server::{Places, mount};
use super::stand::{Fronts, READERS, SEQUENTIAL_TIMES};
use crate::contender::{Concurrency, Phase, Sample, Who};
use crate::error::BenchError;
use crate::goals::metric;
use crate::rounds::Turn;
use forebay_fuse::can_mount;
use forebay_fuse::floor::Floor;
use std::fs;
use std::path::PathBuf;

/// The file that is read.
const READ_FILE: &str = "read";
/// Threads of the floor that take requests: as many as fio has jobs at most.
const FLOOR_THREADS: usize = 2;
/// Requests under way when the device is written directly, enough to keep it busy.
const DEVICE_DEPTH: u32 = 8;

/// The folders in which the contenders are measured.
struct Folders {
    places: Places,
    floor: PathBuf,
}

impl Folders {
    /// The file `name` as `who` shows it.
    fn file(&self, who: Who, name: &str) -> PathBuf {
        let folder = match who {
            Who::Forebay => &self.places.mount_point,
            Who::Floor => &self.floor,
            _ => &self.places.source,
        };
        folder.join(name)
    }
}

impl Fronts<'_> {
    /// Runs everything about the mount.
    pub(super) fn mounts(&mut self) -> Result<(), BenchError> {
        self.rounds
            .heading
            .note(Phase::Mount, Phase::Mount.of_front().to_owned());
        if let Err(missing) = can_mount() {
            self.leave_out(Phase::Mount, &format!("cannot mount: {missing}"));
            return Ok(());
        }
        let made = |name: &str| {
            let path = self.folder.join(name);
            fs::create_dir(&path).map_err(BenchError::in_scratch("make", &path))?;
            Ok::<_, BenchError>(path)
        };
        let places = Places {
            source: made("source")?,
            mount_point: made("mount")?,
        };
        let floor = made("floor")?;
        let folders = Folders { places, floor };
        for (name, length_bytes) in [
            (READ_FILE, self.cached_bytes()),
            (Who::Forebay.name(), self.sequential_bytes()),
            (Who::Floor.name(), self.sequential_bytes()),
            (Who::Device.name(), self.sequential_bytes()),
        ] {
            let path = folders.file(Who::Device, name);
            self.fio
                .run(&written_in_order(path, Who::Device, length_bytes))?;
        }
        let (places, interrupts) = (&folders.places, self.rounds.interrupts);
        let server = mount(
            Who::Forebay,
            places,
            self.memory_bytes,
            READ_FILE,
            interrupts,
        )?;
        let floor = Floor::start(&places.source, &folders.floor, FLOOR_THREADS)
            .map_err(BenchError::in_scratch("mount", &folders.floor))?;
        self.cached_reads(&folders)?;
        self.writes_in_order(&folders)?;
        drop(floor);
        self.idle(Phase::Mount, &[Who::Forebay], [&server].into_iter())?;
        server.end()
    }

    fn sequential_bytes(&self) -> u64 {
        SEQUENTIAL_TIMES * self.memory_bytes
    }

    fn cached_reads(&mut self, folders: &Folders) -> Result<(), BenchError> {
        let (pace, cached_bytes) = (self.pace, self.cached_bytes());
        let contenders = [Who::Forebay, Who::Floor];
        for jobs in READERS {
            let turn = Turn {
                phase: Phase::Mount,
                what: &format!("{}, {jobs} jobs", metric::READ),
                load: Concurrency::new(jobs, jobs),
            };
            self.rounds
                .rounds(pace.rounds, &turn, &contenders, |index| {
                    let file = folders.file(contenders[index], READ_FILE);
                    let mut job = pace.timed(FILE_READ, file, cached_bytes);
                    job.jobs = jobs;
                    Ok(vec![self.fio.run(&job)?.rate(metric::READ)])
                })?;
        }
        Ok(())
    }

    fn writes_in_order(&mut self, folders: &Folders) -> Result<(), BenchError> {
        let bytes = self.sequential_bytes();
        let contenders = Phase::Mount.contenders();
        let turn = Turn {
            phase: Phase::Mount,
            what: metric::SEQUENTIAL,
            load: Concurrency::new(1, 1),
        };
        self.rounds
            .rounds(self.pace.rounds, &turn, &contenders, |index| {
                let who = contenders[index];
                // Each has its own file, because no two may write one file unknown to the cache.
                let job = written_in_order(folders.file(who, who.name()), who, bytes);
                let rate = self.fio.run(&job)?.bytes / f64::from(1 << 20);
                Ok(vec![Sample::plain(metric::SEQUENTIAL, "MiB/s", rate)])
            })
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
