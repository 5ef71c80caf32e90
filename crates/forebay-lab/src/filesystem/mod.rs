//! File systems: stores that lay files out on a part of a device.
//!
//! A [`FileSystem`] gives each file of the engine its place in the groups of its space, delayed or
//! at once, writes a log and inodes besides the data, and answers reclaim as the real one does
//! ([`FileSystemSettings`]). A read of a hole costs no I/O.
//!
//! ```
//! use forebay_lab::device::{DeviceSettings, build};
//! use forebay_lab::filesystem::{FileSystem, FileSystemSettings};
//! use forebay_rt::{Virtual, VirtualSettings};
//! use forebay_store::ObjectId;
//!
//! let machine = Virtual::new(VirtualSettings::default());
//! let disk = DeviceSettings::named("HDD-A").expect("the catalogue has it");
//! let disk = build(&machine.rt(), "disk", &disk)?;
//! let xfs = FileSystemSettings::named("xfs").expect("it is known");
//! let data = FileSystem::new(machine.rt(), disk, 0..64 << 30, xfs);
//! machine.run(data.create(ObjectId(1), 7))?;
//! data.lay_out(ObjectId(2), 7, 10 << 20)?;
//! assert_eq!(data.extents_of(ObjectId(2)), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod borders;
mod extents;
mod files;
mod journal;
mod settings;
mod space;

pub use settings::{FileSystemSettings, ReclaimAnswer};

use crate::device::transfer::{End, Whole, direction_of};
use crate::device::{Device, Transfer, TransferKind};
use borders::{page_ceiling, page_floor};
use extents::Segment;
use files::{Files, Full};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::units::byte_of;
use forebay_engine::kernel::{GivenUp, InodeCache};
use forebay_rt::Rt;
use forebay_rt::wait::{Slot, WaitQueue};
use forebay_store::{Failure, Geometry, Io, IoKind, ObjectId, Store};
use journal::{Range, Which};
use std::ops;

/// Log writes that may be under way before a change of metadata has to wait.
const LOG_WRITES: usize = 8;

/// A file system on a part of a device. A clone is the same file system.
#[derive(Clone)]
pub struct FileSystem {
    shared: Arc<Shared>,
}

struct Shared {
    rt: Rt,
    device: Arc<dyn Device>,
    settings: FileSystemSettings,
    files: Mutex<Files>,
    log_writes: AtomicUsize,
    log_write_ended: WaitQueue,
    counts: [AtomicU64; 4],
}

/// The file system has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file system has no room left; remove files or use a larger device")]
pub struct NoRoom;

/// What metadata has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataCounts {
    /// Log writes.
    pub log_writes: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Inode clusters written.
    pub cluster_writes: u64,
    /// Inode clusters read.
    pub cluster_reads: u64,
}

const LOG_COUNT: usize = 0;
const LOG_BYTES: usize = 1;
const CLUSTER_WRITES: usize = 2;
const CLUSTER_READS: usize = 3;

impl FileSystem {
    /// An empty file system on the bytes `range` of `device`.
    ///
    /// # Panics
    /// If the range leaves the device.
    pub fn new(
        rt: Rt,
        device: Arc<dyn Device>,
        range: ops::Range<u64>,
        settings: FileSystemSettings,
    ) -> FileSystem {
        let capacity = device.shape().capacity_bytes;
        assert!(
            range.start <= range.end && range.end <= capacity,
            "a file system on {range:?} leaves a device of {capacity} bytes"
        );
        let length = page_floor(range.end - range.start);
        let files = Files::new(range.start, length, settings.clone());
        FileSystem {
            shared: Arc::new(Shared {
                rt,
                device,
                settings,
                files: Mutex::new(files),
                log_writes: AtomicUsize::new(0),
                log_write_ended: WaitQueue::new(),
                counts: Default::default(),
            }),
        }
    }

    /// The device that it is on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.shared.device
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        lock(&self.shared.files).free_bytes()
    }

    /// Ranges of the device that the file lies on.
    pub fn extents_of(&self, object: ObjectId) -> usize {
        lock(&self.shared.files).extents_of(object)
    }

    /// Where the page of the file lies on the device; None if it is a hole or has no place yet.
    pub fn address_of(&self, object: ObjectId, page: u64) -> Option<u64> {
        let files = lock(&self.shared.files);
        files.segments(object, byte_of(page), byte_of(page + 1))[0].start
    }

    /// What metadata has cost so far.
    pub fn metadata_counts(&self) -> MetadataCounts {
        let count = |index: usize| self.shared.counts[index].load(Ordering::Relaxed);
        MetadataCounts {
            log_writes: count(LOG_COUNT),
            log_bytes: count(LOG_BYTES),
            cluster_writes: count(CLUSTER_WRITES),
            cluster_reads: count(CLUSTER_READS),
        }
    }

    /// Makes an empty file in the directory numbered `directory`. Files of a directory lie in one
    /// group as long as it has room. Waits while the log has too many writes under way.
    ///
    /// # Errors
    /// [`NoRoom`] for its inode.
    pub async fn create(&self, object: ObjectId, directory: u64) -> Result<(), NoRoom> {
        self.until_log_has_room().await;
        let created = self.change(|files, log| files.create(object, directory, log));
        created.map_err(|Full| NoRoom)
    }

    /// Removes a file: its place is free at once, and nothing of it is written. No request for it
    /// may be under way.
    pub async fn remove(&self, object: ObjectId) {
        self.until_log_has_room().await;
        self.change(|files, log| files.remove(object, log));
    }

    /// Somebody opens a file that is there already: its inode is read if it is not in memory.
    pub async fn look_up(&self, object: ObjectId) {
        let gone = lock(&self.shared.files).look_up(object);
        if let Some((start, bytes)) = gone {
            self.read_cluster(start, page_ceiling(bytes)).await;
        }
    }

    /// Announces that the cache has these bytes of the file, written to the device or not. A file
    /// system that delays allocation then places all of that at once when the first of it is
    /// written; another one places it now.
    ///
    /// # Errors
    /// [`NoRoom`], if it places it now.
    pub fn reaches(&self, object: ObjectId, bytes: ops::Range<u64>) -> Result<(), NoRoom> {
        let placed = self.change(|files, log| files.reaches(object, bytes, log));
        placed.map_err(|Full| NoRoom)
    }

    /// Announces that nobody writes the file any more: from now on it gets only what it needs.
    pub fn close(&self, object: ObjectId) {
        lock(&self.shared.files).close(object);
    }

    /// Makes a file that has been there for ever: `length_bytes` in one range if possible. It
    /// costs no I/O.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn lay_out(
        &self,
        object: ObjectId,
        directory: u64,
        length_bytes: u64,
    ) -> Result<(), NoRoom> {
        let mut files = lock(&self.shared.files);
        let mut unwritten = Vec::new();
        let end = page_ceiling(length_bytes);
        let mut lay = || {
            files.create(object, directory, &mut unwritten)?;
            files.reaches(object, 0..end, &mut unwritten)?;
            files.close(object);
            files.for_write(object, 0, end, &mut unwritten)?;
            files.forget_change(object);
            Ok(())
        };
        lay().map_err(|Full| {
            // Half a file is useless, so its room is freed.
            files.forget_change(object);
            files.remove(object, &mut unwritten);
            NoRoom
        })
    }

    async fn read_cluster(&self, start: u64, bytes: u64) {
        let ended = Arc::new(Slot::new());
        let read = Transfer::heard(TransferKind::Read, start, bytes, Arc::clone(&ended));
        self.count(CLUSTER_READS, 1);
        self.shared.device.submit(read);
        ended.take().await;
    }

    /// Changes the files, and then writes the log buffers that this filled. Inodes that are changed
    /// by then are written some time later.
    fn change<T>(&self, change: impl FnOnce(&mut Files, &mut Vec<Range>) -> T) -> T {
        let mut log = Vec::new();
        let (changed, arms) = {
            let mut files = lock(&self.shared.files);
            let changed = change(&mut files, &mut log);
            (changed, files.journal.arms())
        };
        for range in log {
            self.write_log(range, None);
        }
        if arms {
            self.write_inodes_later();
        }
        changed
    }

    /// Writes a part of the log; `next` comes when it has ended.
    fn write_log(&self, (start, bytes): Range, next: Option<Transfer>) {
        self.count(LOG_COUNT, 1);
        self.count(LOG_BYTES, bytes);
        self.shared.log_writes.fetch_add(1, Ordering::AcqRel);
        let shared = Arc::clone(&self.shared);
        let then = move || {
            shared.log_writes.fetch_sub(1, Ordering::AcqRel);
            shared.log_write_ended.wake_all();
            if let Some(next) = next {
                shared.device.submit(next);
            }
        };
        let whole = Whole::new(End::Next(Box::new(then)));
        let write = Transfer::of(whole, TransferKind::Write, (start, bytes));
        self.shared.device.submit(write);
    }

    async fn until_log_has_room(&self) {
        loop {
            let ended = self.shared.log_write_ended.listen();
            if self.shared.log_writes.load(Ordering::Acquire) < LOG_WRITES {
                return;
            }
            ended.await;
        }
    }

    fn write_inodes_later(&self) {
        let this = self.clone();
        let delay = Span::from_millis(self.shared.settings.metadata_delay_ms);
        self.shared.rt.spawn("inodes", async move {
            this.shared.rt.sleep(delay).await;
            lock(&this.shared.files).journal.disarm();
            this.write_inodes(Which::All);
        });
    }

    /// Writes inodes that are changed.
    fn write_inodes(&self, which: Which) {
        let (log, clusters) = {
            let mut files = lock(&self.shared.files);
            (files.journal.force(), files.journal.take_changed(which))
        };
        if let Some(range) = log {
            self.write_log(range, None);
        }
        self.count(CLUSTER_WRITES, clusters.len() as u64);
        for (range, gate) in clusters {
            let shared = Arc::clone(&self.shared);
            let written = move || {
                lock(&shared.files).journal.written(range.0, &gate);
                gate.open();
            };
            let whole = Whole::new(End::Next(Box::new(written)));
            let write = Transfer::of(whole, TransferKind::Write, range);
            self.shared.device.submit(write);
        }
    }

    fn count(&self, index: usize, count: u64) {
        self.shared.counts[index].fetch_add(count, Ordering::Relaxed);
    }

    /// Submits the mapped segments as pieces of one transfer. A hole has nothing to move.
    fn submit_segments(&self, end: End, kind: TransferKind, segments: &[Segment]) {
        let mapped = segments
            .iter()
            .filter_map(|it| Some((it.start?, it.length)));
        let sum: u64 = mapped.clone().map(|(_, length)| length).sum();
        let mut rest = Transfer::of(Whole::new(end), kind, (0, sum));
        for (start, length) in mapped {
            let piece = rest.cut_front(length, start);
            self.shared.device.submit(piece);
        }
        // What is left is the piece that holds the others together.
        rest.piece.ended();
    }

    fn commit(&self, end: End) {
        let flush = Transfer::of(Whole::new(end), TransferKind::Flush, (0, 0));
        let log = lock(&self.shared.files).journal.force();
        match log {
            Some(range) => self.write_log(range, Some(flush)),
            None => self.shared.device.submit(flush),
        }
    }
}

/// Reclaim of XFS up to 5.8: it begins to write whatever is changed, and waits for each inode that
/// it meets before its write has ended.
impl InodeCache for FileSystem {
    fn unused(&self) -> u64 {
        lock(&self.shared.files).retired_count()
    }

    fn retire(&self, file: ObjectId) {
        lock(&self.shared.files).retire(file);
    }

    fn give_up(&self, count: u64) -> GivenUp {
        if self.unused() > 0 {
            self.write_inodes(Which::Idle);
        }
        let (gone, writing) = lock(&self.shared.files).give_up(count);
        GivenUp { gone, writing }
    }
}

impl Store for FileSystem {
    fn geometry(&self) -> Geometry {
        crate::device::geometry_on(self.shared.device.shape())
    }

    fn submit(&self, io: Io) {
        let request = io.request();
        let object = request.object;
        let Some(end_bytes) = request.offset_bytes.checked_add(request.length_bytes) else {
            return io.fail(Failure::OutOfRange);
        };
        // The device moves whole pages.
        let (from, to) = (request.offset_bytes, page_ceiling(end_bytes));
        let segments = match request.kind {
            IoKind::Write => match self.change(|files, log| files.for_write(object, from, to, log))
            {
                Ok(segments) => segments,
                Err(Full) => return io.fail(Failure::NoSpace),
            },
            IoKind::Read => lock(&self.shared.files).segments(object, from, to),
            IoKind::SetLength => {
                self.change(|files, log| files.cut(object, request.offset_bytes, log));
                Vec::new()
            }
            IoKind::Discard => {
                let (first, end) = (page_ceiling(request.offset_bytes), page_floor(end_bytes));
                if first < end {
                    self.change(|files, log| files.punch(object, first, end, log));
                }
                Vec::new()
            }
            IoKind::Commit => Vec::new(),
        };
        let end = End::Io(io);
        match direction_of(request.kind) {
            Some(kind) => self.submit_segments(end, kind, &segments),
            None if request.kind == IoKind::Commit => self.commit(end),
            None => end.report(),
        }
    }
}

#[cfg(test)]
#[path = "filesystem_tests.rs"]
mod tests;
