//! What a contender is, what it is asked to do and what it returns.

use crate::error::BenchError;
use forebay_base::PAGE_BYTES;
use forebay_host::SlowDevice;
use serde::{Deserialize, Serialize};
use std::io::IoSliceMut;

/// Pages that one vectored read or one batch asks for.
pub(crate) const RUN_PAGES: usize = 32;

/// The contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Who {
    /// The cache of this repository.
    Forebay,
    /// The kernel's page cache, by ordinary system calls on buffered files.
    Kernel,
    /// The speed of the hardware: a plain copy, or raw O_DIRECT by io_uring; for the fronts a mount
    /// that answers immediately and does nothing.
    Floor,
    /// nbdkit with its memory plugin, which keeps everything, or with its file plugin where the
    /// medium matters.
    Nbdkit,
    /// qemu-nbd with the kernel's page cache under it.
    QemuNbd,
    /// The file itself, past the kernel's page cache.
    Device,
    /// bindfs, which passes on what it is asked.
    Bindfs,
    /// The folder itself.
    Folder,
}

impl Who {
    /// Those of the library, in the order of the columns and of the first round.
    pub(crate) const LIBRARY: [Who; 3] = [Who::Forebay, Who::Kernel, Who::Floor];

    /// The name in tables and rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Forebay => "forebay",
            Who::Kernel => "kernel",
            Who::Floor => "floor",
            Who::Nbdkit => "nbdkit",
            Who::QemuNbd => "qemu-nbd",
            Who::Device => "device",
            Who::Bindfs => "bindfs",
            Who::Folder => "folder",
        }
    }
}

/// A part of the bench: the state that every contender enters, and the loads that run in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    Hit,
    Dirty,
    Miss,
    Stream,
    Slow,
    Mix,
    Memory,
    Order,
    Mixed,
    Commit,
    Growth,
    /// The block server.
    Nbd,
    /// The mount, with large files.
    Mount,
    /// The mount again, with small files.
    Files,
}

impl Phase {
    /// The name in tables and rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Hit => "hit",
            Phase::Dirty => "dirty",
            Phase::Miss => "miss",
            Phase::Stream => "stream",
            Phase::Order => "order",
            Phase::Mixed => "mixed",
            Phase::Commit => "commit",
            Phase::Slow => "slow disk",
            Phase::Mix => "mix",
            Phase::Memory => "memory",
            Phase::Growth => "growth",
            Phase::Nbd => "nbd",
            Phase::Mount => "mount",
            Phase::Files => "files",
        }
    }

    /// The contenders, in the order of the columns and of the first round.
    pub(crate) fn contenders(self) -> [Who; 3] {
        match self {
            Phase::Nbd => [Who::Forebay, Who::Nbdkit, Who::QemuNbd],
            Phase::Mount => [Who::Forebay, Who::Floor, Who::Device],
            Phase::Files => [Who::Forebay, Who::Bindfs, Who::Folder],
            _ => Who::LIBRARY,
        }
    }

    /// The name in a call of the bench, which is one word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Phase::Slow => "slow",
            other => other.name(),
        }
    }
}

/// What a contender does with its pages while it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Load {
    /// Copy random cached pages out, one for each call.
    ReadByCopy,
    /// Copy runs of [`RUN_PAGES`] cached pages out, one run for each call.
    ReadVectored,
    /// Copy [`RUN_PAGES`] random cached pages out by one call, or by one call for each page if a
    /// contender has no such call.
    ReadBatch,
    /// Touch 64 bytes of random cached pages in place.
    ReadByGuard,
    /// Overwrite random cached pages, one for each call.
    Overwrite,
    /// Read uniformly random pages that are not cached, from one thread.
    ReadMissing,
    /// The same by a task for each read that is under way, where the contender has tasks.
    ReadMissingByTasks,
    /// Read the data once from front to back, cold.
    ReadInOrder,
    /// Fill the cache with random pages; not measured.
    WarmRandom,
    /// Read random pages of more data than the cache holds.
    ReadRandom,
    /// Overwrite random pages of more data than the cache holds.
    OverwriteRandom,
    /// Read seven random pages for three that are overwritten, of more data than the cache holds.
    ReadAndOverwriteRandom,
    /// Write all the data once in order, then make it durable.
    WriteStream,
    /// Overwrite random pages, each made durable before the next.
    CommitOverwrites,
    /// Append records to a file, each made durable before the next.
    CommitAppends,
    /// Write to the slow disk without end.
    WriteSlowly,
    /// Fill the cache with the pages that zipf readers leave in it; not measured.
    WarmZipf,
    /// Read pages by zipf, alone.
    ReadZipf,
    /// Report what memory and reclaim cost.
    Account,
    /// Overwrite random cached pages, a task of the runtime for each writer.
    OverwriteByTasks,
    /// Read pages by zipf while another thread writes to the slow disk without end.
    ReadZipfBesideWriter,
}

/// Brings a contender into the state of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Preparation {
    pub(crate) phase: Phase,
    /// Files over which the cached set of the phases hit and dirty is split.
    pub(crate) set_files: u64,
    /// Memory of the cache of the phase growth, whose files exist nowhere else.
    pub(crate) growth_bytes: u64,
    /// The slow disk of the kernel, if one could be made.
    pub(crate) slow_device: Option<SlowDevice>,
}

/// One load, measured once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) phase: Phase,
    pub(crate) load: Load,
    pub(crate) threads: u32,
    /// Requests in flight, for all threads together.
    pub(crate) depth: u32,
    /// How long to measure, for loads without an end.
    pub(crate) span_ms: u64,
    /// How long to run before measuring begins.
    pub(crate) settle_ms: u64,
    /// Files over which the pages are split; thread `i` works on file `i` modulo this.
    pub(crate) files: u64,
    /// Bytes to read or write, for loads that end with their data.
    pub(crate) bytes: u64,
    /// Bytes of one call, for loads that read in order.
    pub(crate) call_bytes: u64,
    /// Seed of every choice, the same for each contender.
    pub(crate) seed: u64,
}

impl Step {
    /// A step by one thread with one request at a time; a stage sets what it needs.
    pub(crate) fn bare(phase: Phase, load: Load, seed: u64) -> Step {
        Step {
            phase,
            load,
            threads: 1,
            depth: 1,
            span_ms: 0,
            settle_ms: 0,
            files: 1,
            bytes: 0,
            call_bytes: 0,
            seed,
        }
    }

    pub(crate) fn concurrency(&self) -> Concurrency {
        Concurrency::new(self.threads, self.depth)
    }
}

/// One measured number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
    /// The distribution of the number over operations, if it was measured, in its unit; that of the
    /// operations of a server in us.
    pub(crate) percentiles: Option<Percentiles>,
}

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    /// Half of the operations took no longer.
    pub p50: f64,
    /// 99 of a hundred took no longer.
    pub p99: f64,
    /// 999 of a thousand took no longer.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Sample {
    /// A number without a distribution.
    pub(crate) fn plain(metric: &str, unit: &str, value: f64) -> Sample {
        Sample {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value,
            percentiles: None,
        }
    }
}

/// How many threads or processes work at once, and how many requests are in flight for all of them
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Concurrency {
    pub(crate) threads: u32,
    pub(crate) depth: u32,
}

impl Concurrency {
    pub(crate) const fn new(threads: u32, depth: u32) -> Concurrency {
        Concurrency { threads, depth }
    }
}

/// A contender: it is brought into a phase's state and runs loads in it.
pub(crate) trait Contender {
    /// Enters the state that `preparation` names and gives up the previous one. Returns remarks for
    /// the readers of the table.
    fn prepare(&mut self, preparation: &Preparation) -> Result<Vec<String>, BenchError>;

    /// Runs one load. No samples means that the load is meaningless for this contender.
    fn run(&mut self, step: &Step) -> Result<Vec<Sample>, BenchError>;
}

/// A file of pages as one thread of a load sees it. Every page starts with its number, so a load
/// can check that it got the right one.
pub(crate) trait PagedFile: Send + 'static {
    /// Copies `buffer.len()` bytes out, from byte `offset_bytes` on.
    fn read_at(&mut self, buffer: &mut [u8], offset_bytes: u64) -> Result<(), BenchError>;

    /// Copies [`RUN_PAGES`] pages out from `offset_bytes` on into as many buffers, by one call.
    fn read_run(&mut self, buffers: &mut [u8], offset_bytes: u64) -> Result<(), BenchError>;

    /// Copies the pages `page_indexes` out into as many buffers, in the fastest way: one by one,
    /// unless a contender has a call for many.
    fn read_batch(
        &mut self,
        buffers: &mut [u8],
        page_indexes: &[u64; RUN_PAGES],
    ) -> Result<(), BenchError> {
        for (page, page_index) in buffers.chunks_mut(PAGE_BYTES).zip(page_indexes) {
            self.read_at(page, page_index * PAGE_BYTES as u64)?;
        }
        Ok(())
    }

    /// Reads the first 64 bytes of page `page_index` in place and returns their sum; `None` if this
    /// contender cannot do that.
    fn touch(&mut self, page_index: u64) -> Result<Option<u64>, BenchError>;

    /// Copies `bytes` in from byte `offset_bytes` on.
    fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> Result<(), BenchError>;
}

/// `buffers` as one slice for each page of a vectored read.
///
/// # Panics
/// If it is shorter than [`RUN_PAGES`] pages.
pub(crate) fn page_slices(buffers: &mut [u8]) -> [IoSliceMut<'_>; RUN_PAGES] {
    let mut pages = buffers.chunks_exact_mut(PAGE_BYTES);
    std::array::from_fn(|_| {
        IoSliceMut::new(
            pages
                .next()
                .expect("the caller gives a buffer for each page"),
        )
    })
}
