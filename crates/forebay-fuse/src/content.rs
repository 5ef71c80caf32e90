//! The content of a regular file: an object of the cache, and the attributes that are shown
//! meanwhile.
//!
//! While a file has content here, its length and its times of change are ours: what was written is
//! in memory and reaches the source later, and the source would then record the time of the
//! write-back. A time is taken when a program first looks, or closes, or syncs, and is set in the
//! source once everything is written.
//!
//! invariant M2: while a content has users it is not closed.

use crate::agreement::{Agreed, modified_of};
use crate::kernel_pages::KernelPages;
use crate::room::Room;
use crate::source::{Descriptors, OMITTED, PRESENT, PRIVILEGE_BITS};
use forebay::{AccessError, File, SyncError};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};
use forebay_store::ObjectId;
use rustix::fd::AsFd;
use rustix::fs::{Stat, Timespec};
use rustix::io::Errno;
use std::sync::OnceLock;

/// The system's error number for an error of the cache.
pub(crate) fn access_errno(error: &AccessError) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

/// The system's error number for what kept data from becoming durable.
pub(crate) fn sync_errno(error: &SyncError) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

/// A file's content in the cache.
#[derive(Debug)]
pub(crate) struct Content {
    /// The store's number of it.
    pub(crate) object: ObjectId,
    /// A handle that no program reads or writes through; others are its clones.
    pub(crate) file: File,
    /// The largest length that the source allows, once it was looked up.
    pub(crate) largest: OnceLock<u64>,
    /// The device that has it.
    pub(crate) device: u64,
    /// The room that is there, once it was asked for.
    pub(crate) room: OnceLock<Arc<Room>>,
    /// The pages that the kernel has of it, and the writes that pass them.
    pub(crate) kernel_pages: Arc<KernelPages>,
    /// Written to since the times were last taken.
    modified: AtomicBool,
    /// Has set-user-ID or set-group-ID bits, which a write of another user takes away.
    has_set_id: AtomicBool,
    /// Has capabilities, which every write takes away.
    is_capable: AtomicBool,
    /// The next sync also makes durable what an earlier content of the file left uncommitted.
    /// Locked while a sync does, so that no other returns before it is done.
    owes_commit: Mutex<bool>,
    /// A sync has reported that its commits fail.
    loss_reported: AtomicBool,
    /// Its loss was counted and named, and its commit will not be asked for again.
    is_waived: AtomicBool,
    /// The source counts the names of its files: some say of each that it has none.
    pub(crate) names_count: bool,
    /// Locked while the source's times are set and read: otherwise a call that sets an older time
    /// could undo one that a program has set meanwhile.
    times: Mutex<Times>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    /// What is shown instead of the source's times.
    kept: Option<Kept>,
    /// The state of the source when it last had everything that we have. None while it does not.
    agreed: Option<Agreed>,
}

impl Times {
    /// The times of a file of which the source, as in `stat`, has everything.
    fn of(stat: &Stat) -> Times {
        Times {
            kept: None,
            agreed: Some(Agreed::of(stat)),
        }
    }

    /// A program has set the time of modification to `asked`, and the source then was as in `stat`.
    fn were_set(&mut self, asked: Timespec, stat: &Stat, is_written: bool) {
        let mut kept = Kept::of(stat);
        if !is_written && asked.tv_nsec != PRESENT.tv_nsec {
            // The source may already have the time of a write-back that came in between.
            kept.modified = asked;
        }
        self.kept = Some(kept);
        if !is_written {
            // What is written back later gives the source another time.
            self.agreed = None;
        } else if self.agreed.is_some() {
            self.agreed = Some(Agreed::of(stat));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    modified: Timespec,
    changed: Timespec,
}

impl Kept {
    fn of(stat: &Stat) -> Kept {
        Kept {
            modified: modified_of(stat),
            changed: Timespec {
                tv_sec: stat.st_ctime,
                tv_nsec: stat.st_ctime_nsec as i64,
            },
        }
    }
}

impl Content {
    /// The content of a file that the source described as `stat`.
    pub(crate) fn new(object: ObjectId, file: File, stat: &Stat) -> Content {
        Content {
            object,
            file,
            largest: OnceLock::new(),
            device: stat.st_dev,
            room: OnceLock::new(),
            kernel_pages: Arc::default(),
            modified: AtomicBool::new(false),
            has_set_id: AtomicBool::new(stat.st_mode & PRIVILEGE_BITS != 0),
            // Only the first write needs this, so an open does not ask for it.
            is_capable: AtomicBool::new(true),
            owes_commit: Mutex::new(true),
            loss_reported: AtomicBool::new(false),
            is_waived: AtomicBool::new(false),
            names_count: stat.st_nlink > 0,
            times: Mutex::new(Times::of(stat)),
        }
    }

    /// Notes that bytes were changed.
    pub(crate) fn mark_modified(&self) {
        if !self.modified.load(Ordering::Relaxed) {
            self.modified.store(true, Ordering::Release);
        }
    }

    /// Notes that the file may have set-user-ID or set-group-ID bits.
    pub(crate) fn mark_set_id(&self) {
        self.has_set_id.store(true, Ordering::Relaxed);
    }

    /// Notes that the file may have capabilities.
    pub(crate) fn mark_capable(&self) {
        self.is_capable.store(true, Ordering::Relaxed);
    }

    /// Whether the file may have set-user-ID or set-group-ID bits; the caller takes them away.
    pub(crate) fn take_set_id(&self) -> bool {
        take(&self.has_set_id)
    }

    /// Whether the file may have capabilities; the caller takes them away.
    pub(crate) fn take_capable(&self) -> bool {
        take(&self.is_capable)
    }

    /// Calls `commit`, which makes durable what the source has of the file, if an earlier content
    /// left something to commit, or if `surely`. The commit is owed until one has succeeded.
    pub(crate) fn pay_commit(
        &self,
        surely: bool,
        commit: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut owes = lock(&self.owes_commit);
        if *owes {
            commit()?;
            *owes = false;
            return Ok(());
        }
        drop(owes);
        if surely { commit() } else { Ok(()) }
    }

    /// A sync has reported to a program that commits of it fail for ever.
    pub(crate) fn record_loss_reported(&self) {
        self.loss_reported.store(true, Ordering::Release);
    }

    /// Whether a program got the error that commits of it fail for ever.
    pub(crate) fn loss_is_reported(&self) -> bool {
        self.loss_reported.load(Ordering::Acquire)
    }

    /// Makes sure that no commit of it is asked for again. True the first time.
    pub(crate) fn waive_commit(&self) -> bool {
        self.file.waive_commit();
        !self.is_waived.swap(true, Ordering::AcqRel)
    }

    /// Whether its commit will not be asked for again.
    pub(crate) fn is_waived(&self) -> bool {
        self.is_waived.load(Ordering::Acquire)
    }

    /// Whether the source lacks something that is here.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.file.is_written()
    }

    /// Whether the source has everything, also the times.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled_at(&lock(&self.times))
    }

    fn is_settled_at(&self, times: &Times) -> bool {
        !self.is_dirty() && !self.modified.load(Ordering::Acquire) && times.agreed.is_some()
    }

    fn is_stale(&self, times: &Times, stat: &Stat) -> bool {
        let is_broken = |agreed: Agreed| agreed.is_broken_by(stat);
        self.is_settled_at(times) && times.agreed.is_some_and(is_broken)
    }

    /// The state of the source if another program has changed the file below since it was settled.
    /// `stat` is its state a moment ago, perhaps before it was settled; so a difference is checked
    /// again while nobody settles the file.
    pub(crate) fn changed_below(&self, fd: impl AsFd, stat: &Stat) -> Result<Option<Stat>, Errno> {
        let times = lock(&self.times);
        if !self.is_stale(&times, stat) {
            return Ok(None);
        }
        let stat = rustix::fs::fstat(fd)?;
        Ok(self.is_stale(&times, &stat).then_some(stat))
    }

    /// Whether something was written since the time was last taken.
    pub(crate) fn is_modified(&self) -> bool {
        self.modified.load(Ordering::Acquire)
    }

    /// Takes the time of what was written since it was last taken.
    pub(crate) fn take_times(&self, fd: impl AsFd, through: &Descriptors) -> Result<(), Errno> {
        if !self.modified.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut times = lock(&self.times);
        if !self.modified.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let taken = match through.set_times(&fd, OMITTED, PRESENT) {
            // A user that may write a file but does not own it may only set both times.
            Err(Errno::PERM) => through.set_times(&fd, PRESENT, PRESENT),
            other => other,
        };
        let taken = taken.and_then(|()| rustix::fs::fstat(&fd));
        let stat = taken.inspect_err(|_| self.mark_modified())?;
        times.kept = Some(Kept::of(&stat));
        times.agreed = None;
        Ok(())
    }

    /// Sets the times of the file as a program asks.
    pub(crate) fn set_times(
        &self,
        fd: impl AsFd,
        through: &Descriptors,
        accessed: Timespec,
        modified: Timespec,
    ) -> Result<(), Errno> {
        if modified.tv_nsec == OMITTED.tv_nsec {
            self.take_times(&fd, through)?;
            through.set_times(&fd, accessed, modified)?;
            return self.metadata_changed(fd);
        }
        let mut times = lock(&self.times);
        let is_written = self.file.is_written();
        through.set_times(&fd, accessed, modified)?;
        let stat = rustix::fs::fstat(&fd)?;
        let was_modified = self.modified.swap(false, Ordering::AcqRel);
        times.were_set(modified, &stat, is_written && !was_modified);
        Ok(())
    }

    /// Shows now as the time at which something of the file other than its bytes changed.
    pub(crate) fn metadata_changed(&self, fd: impl AsFd) -> Result<(), Errno> {
        let mut times = lock(&self.times);
        if times.kept.is_none() && times.agreed.is_none() {
            return Ok(());
        }
        let stat = rustix::fs::fstat(fd)?;
        if let Some(kept) = &mut times.kept {
            kept.changed = Kept::of(&stat).changed;
        }
        if let Some(agreed) = &mut times.agreed {
            agreed.renew(&stat);
        }
        Ok(())
    }

    /// Sets the time that is shown here in the source, if the source has all bytes.
    pub(crate) fn settle(&self, fd: impl AsFd, through: &Descriptors) -> Result<(), Errno> {
        self.take_times(&fd, through)?;
        let mut times = lock(&self.times);
        if self.is_dirty() || times.agreed.is_some() {
            return Ok(());
        }
        if let Some(kept) = times.kept {
            match through.set_times(&fd, OMITTED, kept.modified) {
                // The file belongs to another user: its time stays that of the write-back.
                Err(Errno::PERM) => {}
                other => other?,
            }
        }
        let stat = rustix::fs::fstat(&fd)?;
        if !self.is_dirty() {
            times.agreed = Some(Agreed::of(&stat));
        }
        Ok(())
    }

    /// Replaces what the source says by what is known here.
    pub(crate) fn overlay(&self, stat: &mut Stat) {
        let length_bytes = self.file.len();
        stat.st_size = length_bytes as _;
        // Pages that are not written yet may need room that the source has not allocated.
        let most = (length_bytes.div_ceil(PAGE_BYTES as u64) * PAGE_BYTES as u64 / 512) as i64;
        let unwritten = (self.file.dirty_pages() * PAGE_BYTES as u64 / 512) as i64;
        let blocks = stat.st_blocks;
        stat.st_blocks = blocks.max((blocks + unwritten).min(most));
        if let Some(kept) = lock(&self.times).kept {
            stat.st_mtime = kept.modified.tv_sec;
            stat.st_mtime_nsec = kept.modified.tv_nsec as _;
            stat.st_ctime = kept.changed.tv_sec;
            stat.st_ctime_nsec = kept.changed.tv_nsec as _;
        }
    }
}

/// Lowers a flag that is seldom up, and returns whether it was up.
fn take(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::Relaxed)
}

/// Where a file keeps its content, if it has any.
#[derive(Debug, Default)]
pub(crate) struct ContentSlot {
    state: Mutex<Slot>,
}

/// What the slot holds, under its lock.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) content: Option<Arc<Content>>,
    /// Handles, and calls under way.
    pub(crate) users: u32,
    /// Whether the store may write it.
    pub(crate) writable: bool,
    /// Whether it is in the line of the closed files.
    pub(crate) in_line: bool,
    /// An earlier content was lost, and no sync has reported it.
    pub(crate) unreported_loss: Option<Errno>,
}

impl ContentSlot {
    /// Runs a function on the slot under its lock; the function must not wait.
    pub(crate) fn with<T>(&self, body: impl FnOnce(&mut Slot) -> T) -> T {
        body(&mut lock(&self.state))
    }

    /// The content, if there is one.
    pub(crate) fn get(&self) -> Option<Arc<Content>> {
        lock(&self.state).content.clone()
    }

    /// Whether there is no content, and no loss of an earlier one to report.
    pub(crate) fn is_empty(&self) -> bool {
        let slot = lock(&self.state);
        slot.content.is_none() && slot.unreported_loss.is_none()
    }

    /// Whether somebody uses the content.
    pub(crate) fn is_in_use(&self) -> bool {
        lock(&self.state).users > 0
    }

    /// Takes the content out if nobody uses it (invariant M2), whether or not it is written, of a
    /// file that nobody can open any more: no program is left that could get an error.
    pub(crate) fn take_unused(&self) -> Option<Arc<Content>> {
        let mut slot = lock(&self.state);
        if slot.users > 0 {
            return None;
        }
        slot.unreported_loss = None;
        slot.content.take()
    }

    /// Takes the content out if nobody uses it and the source has all of it (invariant M2), and no
    /// commit is owed. A program may have cut the file while the last sync was under way, and
    /// asking for the commit of a closed file would fail for ever.
    pub(crate) fn take_settled(&self) -> Option<Arc<Content>> {
        let mut slot = lock(&self.state);
        // This check comes last, because a call notes what it leaves to commit before it counts as
        // ended.
        let settled = slot
            .content
            .as_ref()
            .is_some_and(|content| content.is_settled() && !content.file.owes_commit());
        if slot.users > 0 || !settled {
            return None;
        }
        slot.content.take()
    }
}

#[cfg(test)]
mod tests;
