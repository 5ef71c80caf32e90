//! The floor: the speed of the hardware without any cache. It is a plain copy from memory to memory
//! where the others hit, and raw O_DIRECT by io_uring where they must go to the disk.

mod arena;
mod direct;
mod ring;

pub(crate) use arena::huge_pages_remark;
pub(crate) use ring::{Direction, RawRing};

use crate::contender::{Contender, Load, Phase, Preparation, Sample, Step, Who};
use crate::error::BenchError;
use crate::layout::{COMMIT_BYTES, Layout, check_stamp, stamp_pages};
use crate::measure::{Deadline, Times, processor_ns, processor_ns_since};
use crate::phases::miss::{self, MissOrder};
use crate::phases::mix::SKEW;
use crate::phases::{cached, commit, mixed, order, stream};
use crate::zipf::best_hit_ratio;
use arena::Arena;
use direct::DirectFile;
use forebay_base::PAGE_BYTES;
use forebay_rt::thread::Stopwatch;
use ring::open_direct;
use std::fs::File;

/// Bytes and number of the requests in flight that a disk needs to reach its sequential rate.
const STREAM_CALL_BYTES: usize = 1 << 20;
const STREAM_DEPTH: u32 = 8;

/// The contender without a cache.
pub(crate) struct Floor {
    layout: Layout,
    /// The cached set, once for each thread: two threads must not write to the same arena.
    sets: Vec<Arena>,
    data: Option<File>,
    /// The files of the phase commit.
    commits: Vec<DirectFile>,
    order: MissOrder,
}

impl Floor {
    pub(crate) fn new(layout: Layout, seed: u64) -> Floor {
        let order = MissOrder::new(layout.data_pages(), seed);
        Floor {
            layout,
            sets: Vec::new(),
            data: None,
            commits: Vec::new(),
            order,
        }
    }

    fn stamped_arena(&self) -> Arena {
        let mut arena = Arena::new(self.layout.set_bytes() as usize);
        stamp_pages(arena.bytes_mut(), 0);
        arena
    }

    fn use_cached(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        if step.phase == Phase::Growth {
            return Ok(Vec::new());
        }
        let file_pages = self.layout.used_pages(step.load) / step.files;
        let threads = step.threads as usize;
        while self.sets.len() < threads {
            self.sets.push(self.stamped_arena());
        }
        let rest = self.sets.split_off(threads);
        let used = std::mem::take(&mut self.sets);
        let (used, samples) = cached::run(Who::Floor, used, file_pages, step)?;
        self.sets = used;
        self.sets.extend(rest);
        Ok(samples)
    }

    fn read_missing(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let Some(data) = &self.data else {
            return Ok(Vec::new());
        };
        let mut ring = RawRing::new(step.depth, PAGE_BYTES)?;
        read_missing(Who::Floor, &mut ring, data, &mut self.order, step)
    }

    fn stream(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let Some(data) = &self.data else {
            return Ok(Vec::new());
        };
        let mut ring = RawRing::new(STREAM_DEPTH, STREAM_CALL_BYTES)?;
        let mut offsets = stream_offsets(step.bytes, u64::from(step.threads)).into_iter();
        let watch = Stopwatch::start();
        ring.run(
            data,
            Direction::Write,
            |bytes| {
                let offset = offsets.next()?;
                stamp_pages(bytes, offset);
                Some(offset)
            },
            |_, _, _| Ok(()),
        )?;
        data.sync_data()
            .map_err(BenchError::in_scratch("sync", &self.layout.data_file()))?;
        Ok(vec![stream::rate(step.bytes, watch.elapsed().as_nanos())])
    }

    /// Reads in the way that is fastest for the disk, whatever call size the step has.
    fn read_in_order(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let Some(data) = &self.data else {
            return Ok(Vec::new());
        };
        let mut ring = RawRing::new(STREAM_DEPTH, STREAM_CALL_BYTES)?;
        let mut offsets = stream_offsets(step.bytes, u64::from(step.threads)).into_iter();
        let mut read_bytes = 0;
        let busy_before_ns = processor_ns()?;
        let deadline = Deadline::after_ms(step.span_ms);
        ring.run(
            data,
            Direction::Read,
            |_| offsets.next().filter(|_| !deadline.has_passed()),
            |offset, _, bytes| {
                read_bytes += bytes.len() as u64;
                order::check_pages(Who::Floor, bytes, offset)
            },
        )?;
        let elapsed_ns = deadline.elapsed_ns();
        let busy_ns = processor_ns_since(busy_before_ns)?;
        Ok(order::samples(read_bytes, elapsed_ns, busy_ns))
    }

    /// Reads with as many requests in flight as the others have threads.
    fn read_random(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let Some(data) = &self.data else {
            return Ok(Vec::new());
        };
        let mut ring = RawRing::new(step.threads, PAGE_BYTES)?;
        let (mut prng, pages) = (mixed::choices(step, 0), self.layout.data_pages());
        let mut times = Times::default();
        let deadline = Deadline::after_ms(step.span_ms);
        ring.run(
            data,
            Direction::Read,
            |_| (!deadline.has_passed()).then(|| prng.below(pages) * PAGE_BYTES as u64),
            |offset, nanos, page| {
                times.record(nanos);
                check_stamp(Who::Floor, page, offset / PAGE_BYTES as u64)
            },
        )?;
        Ok(mixed::samples(step.load, &times, deadline.elapsed_ns()))
    }

    fn commit(&self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        let handles = (0..step.threads as usize)
            .map(|thread| self.commits[thread % step.files as usize].again())
            .collect();
        commit::run(handles, COMMIT_BYTES, step)
    }

    /// No cache with this budget can do better on independent draws.
    fn zipf_bound(&self) -> Vec<Sample> {
        let cached_pages = self.layout.memory_bytes() / PAGE_BYTES as u64;
        let bound = best_hit_ratio(self.layout.data_pages(), SKEW, cached_pages);
        vec![Sample::plain("hit ratio", "%", 100.0 * bound)]
    }
}

impl Contender for Floor {
    fn prepare(&mut self, preparation: &Preparation) -> Result<Vec<String>, BenchError> {
        self.sets.clear();
        self.data = None;
        self.commits.clear();
        match preparation.phase {
            Phase::Hit | Phase::Dirty => {
                let set = self.stamped_arena();
                self.sets.push(set);
                Ok(huge_pages_remark("the plain copy").into_iter().collect())
            }
            Phase::Miss | Phase::Stream | Phase::Order | Phase::Mixed => {
                let (file, is_direct) = open_direct(&self.layout.data_file())?;
                self.data = Some(file);
                Ok(cached_remark(is_direct))
            }
            Phase::Commit => {
                let mut are_direct = true;
                for path in self.layout.commit_files(Who::Floor) {
                    let (file, is_direct) = DirectFile::open(&path)?;
                    self.commits.push(file);
                    are_direct &= is_direct;
                }
                Ok(cached_remark(are_direct))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn run(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError> {
        match step.load {
            Load::ReadByCopy
            | Load::ReadVectored
            | Load::ReadBatch
            | Load::ReadByGuard
            | Load::Overwrite => self.use_cached(step),
            Load::ReadMissing => self.read_missing(step),
            Load::WriteStream => self.stream(step),
            Load::CommitOverwrites | Load::CommitAppends => self.commit(step),
            Load::ReadInOrder => self.read_in_order(step),
            Load::ReadRandom => self.read_random(step),
            Load::ReadZipf => Ok(self.zipf_bound()),
            Load::WarmRandom
            | Load::OverwriteRandom
            | Load::ReadAndOverwriteRandom
            | Load::Account
            | Load::WriteSlowly
            | Load::WarmZipf
            | Load::ReadMissingByTasks
            | Load::OverwriteByTasks
            | Load::ReadZipfBesideWriter => Ok(Vec::new()),
        }
    }
}

/// What a reader must know about files that are not past the page cache.
fn cached_remark(are_direct: bool) -> Vec<String> {
    let remark = "no O_DIRECT on this file system: the floor goes through the kernel's page cache";
    (!are_direct)
        .then(|| remark.to_owned())
        .into_iter()
        .collect()
}

/// Reads pages in the order of `order` from `file` for the span of `step`, as `who`.
pub(crate) fn read_missing(
    who: Who,
    ring: &mut RawRing,
    file: &File,
    order: &mut MissOrder,
    step: &Step,
) -> Result<Vec<Sample>, BenchError> {
    let mut times = Times::default();
    let busy_before_ns = processor_ns()?;
    let watch = Stopwatch::start();
    let end_ns = step.span_ms * 1_000_000;
    ring.run(
        file,
        Direction::Read,
        |_| (watch.elapsed().as_nanos() < end_ns).then(|| order.next_offset()),
        |offset, nanos, page| {
            times.record(nanos);
            check_stamp(who, page, offset / PAGE_BYTES as u64)
        },
    )?;
    let elapsed_ns = watch.elapsed().as_nanos();
    Ok(miss::samples(
        &times,
        elapsed_ns,
        processor_ns_since(busy_before_ns)?,
    ))
}

/// Offsets of the raw stream: `writers` parts of `bytes`, each in order, taken in turn.
fn stream_offsets(bytes: u64, writers: u64) -> Vec<u64> {
    let part_writes = bytes / writers / STREAM_CALL_BYTES as u64;
    (0..part_writes)
        .flat_map(|write| (0..writers).map(move |writer| writer * part_writes + write))
        .map(|write| write * STREAM_CALL_BYTES as u64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_stream_writes_everything_once() {
        let mut offsets = stream_offsets(64 << 20, 4);
        assert_eq!(offsets[..3], [0, 16 << 20, 32 << 20]);
        offsets.sort_unstable();
        assert!(offsets.iter().zip(0_u64..).all(|(&at, n)| at == n << 20));
        assert_eq!(offsets.len(), 64);
    }
}
