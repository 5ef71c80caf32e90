//! The reaper's state: the work that is left after the requests. Which closed files are in line to
//! be let go, which are to be settled, and who is woken for it. The thread that does this work is
//! in `reaper_thread`.

use crate::inode::Inode;
use crate::shares::Shares;
use forebay_base::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use forebay_rt::wait::{Permits, WaitQueue};
use fuser::{INodeNo, Notifier};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{OnceLock, Weak};

/// Contents that are written at the same time to be let go: as many as a journal commits at once.
pub(crate) const RETIRING: usize = 64;
/// Names that the kernel is asked to forget at a time.
pub(crate) const PRUNED: usize = 512;

/// How much may be held for files that are not open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Files that are held open by their path.
    pub(crate) held: usize,
    /// Contents of closed files.
    pub(crate) closed_contents: usize,
    /// Files that the kernel knows before it is asked to forget some.
    pub(crate) inodes: usize,
}

impl Limits {
    /// Shares of the descriptors that the process may open, and of its memory.
    pub(crate) fn of(descriptors: u64, shares: &Shares) -> Limits {
        /// Those that the server needs for itself, and for a few open files.
        const RESERVED: usize = 96;
        let descriptors = descriptors.min(1 << 20) as usize;
        // Each takes two. An eighth holds names; what is left is for open files.
        let contents = descriptors.saturating_sub(RESERVED) * 3 / 8;
        Limits {
            held: (descriptors / 8).clamp(16, 4_096),
            closed_contents: contents.min(shares.objects() as usize / 4 * 3).max(16),
            inodes: shares.names() as usize,
        }
    }
}

/// The work that is left. It holds no file: a removed one would keep its room on the disk, and one
/// that still has content is in the table (invariant M1).
#[derive(Debug)]
pub(crate) struct Reaper {
    work: Mutex<Work>,
    pub(crate) news: WaitQueue,
    /// For requests that have no descriptor: woken when contents were let go.
    pub(crate) spared: WaitQueue,
    stopped: AtomicBool,
    /// No content of a closed file may stay until the line is empty.
    lets_all_go: AtomicBool,
    pub(crate) retiring: Arc<Permits>,
    /// Where the search for names to forget goes on.
    pub(crate) pruned_up_to: AtomicU64,
    notifier: OnceLock<Notifier>,
}

#[derive(Debug, Default)]
struct Work {
    /// Files whose content nobody uses, those closed first in front.
    line: VecDeque<Weak<Inode>>,
    /// Files that were closed before the source had all of them.
    unsettled: BTreeMap<u64, Weak<Inode>>,
}

impl Reaper {
    pub(crate) fn new() -> Reaper {
        Reaper {
            work: Mutex::new(Work::default()),
            news: WaitQueue::new(),
            spared: WaitQueue::new(),
            stopped: AtomicBool::new(false),
            lets_all_go: AtomicBool::new(false),
            retiring: Arc::new(Permits::new(RETIRING)),
            pruned_up_to: AtomicU64::new(0),
            notifier: OnceLock::new(),
        }
    }

    /// Takes the connection over which the kernel learns of names; called once.
    pub(crate) fn set_notifier(&self, notifier: Notifier) {
        // A second session would be another folder with another reaper.
        let _ = self.notifier.set(notifier);
    }

    /// The connection for messages to the kernel, once there is a session.
    pub(crate) fn notifier(&self) -> Option<&Notifier> {
        self.notifier.get()
    }

    /// Makes the kernel ask for the attributes of a file again; nobody waits for that.
    pub(crate) fn attributes_changed(&self, id: INodeNo) {
        /// No place in the file: its pages stay.
        const NOWHERE: i64 = -1;
        if let Some(notifier) = self.notifier.get() {
            // If the kernel does not know the file, it has no attributes of it.
            let _ = notifier.inval_inode(id, NOWHERE, 0);
        }
    }

    /// A content has no users any more. `joins` is whether its file is not yet in line.
    pub(crate) fn closed(&self, inode: &Arc<Inode>, joins: bool, unsettled: bool, limits: Limits) {
        let mut work = lock(&self.work);
        if joins {
            work.line.push_back(Arc::downgrade(inode));
        }
        // A wake-up for each close would cost more than the work of the reaper.
        let surplus = RETIRING.min(limits.closed_contents / 32);
        let mut has_news = work.line.len() > limits.closed_contents + surplus;
        if unsettled {
            has_news |= work.unsettled.is_empty();
            work.unsettled.insert(inode.id, Arc::downgrade(inode));
        }
        drop(work);
        if has_news {
            self.news.wake_all();
        }
    }

    /// A call found no descriptor left: all contents that nobody uses are let go.
    pub(crate) fn descriptors_missing(&self) {
        self.lets_all_go.store(true, Ordering::Release);
        self.news.wake_all();
    }

    /// The files in line whose content nobody uses.
    pub(crate) fn closed_files(&self) -> Vec<Arc<Inode>> {
        let work = lock(&self.work);
        work.line.iter().filter_map(Weak::upgrade).collect()
    }

    /// The kernel has looked up one more file, and knows `known` now.
    pub(crate) fn looked_up(&self, known: usize, limits: Limits) {
        if known > limits.inodes && known.is_multiple_of(PRUNED / 2) {
            self.news.wake_all();
        }
    }

    /// Whether its thread is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether the source has all of every file that was closed.
    pub(crate) fn is_settled(&self) -> bool {
        lock(&self.work).unsettled.is_empty()
    }

    /// Whether contents are being written to be let go.
    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.available() < RETIRING
    }

    /// Ends the reaper's thread.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.news.wake_all();
    }

    pub(crate) fn next_to_retire(&self, limits: Limits) -> Option<Arc<Inode>> {
        let lets_all_go = self.lets_all_go.load(Ordering::Acquire);
        let most = if lets_all_go {
            0
        } else {
            limits.closed_contents
        };
        let next = lock(&self.work).next_to_retire(most);
        if next.is_none() {
            self.lets_all_go.store(false, Ordering::Release);
        }
        next
    }

    /// Takes out the files that were closed before the source had all of them. A later close of one
    /// of them puts it in again.
    pub(crate) fn take_unsettled(&self) -> BTreeMap<u64, Weak<Inode>> {
        std::mem::take(&mut lock(&self.work).unsettled)
    }

    /// Puts back files of which the source still lacks something.
    pub(crate) fn put_back(&self, unsettled: BTreeMap<u64, Weak<Inode>>) {
        let mut work = lock(&self.work);
        for (id, inode) in unsettled {
            work.unsettled.entry(id).or_insert(inode);
        }
    }
}

impl Work {
    /// Takes the first file out of a line that is longer than `most`. The places of files that are
    /// gone count until they come to the front, so that the line has a bound.
    fn next_to_retire(&mut self, most: usize) -> Option<Arc<Inode>> {
        while self.line.len() > most {
            let first = self.line.pop_front()?;
            if let Some(inode) = first.upgrade() {
                return Some(inode);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_closed_files_leaves_descriptors_for_open_ones() {
        let shares = Shares::of(1 << 40);
        for descriptors in [128_usize, 256, 1024, 20_000, 1 << 20] {
            let limits = Limits::of(descriptors as u64, &shares);
            let kept = limits.held + 2 * limits.closed_contents;
            let left = descriptors - kept;
            assert!(left >= descriptors / 16 + 64, "{left} of {descriptors}");
        }
        let limits = Limits::of(1 << 20, &Shares::of(64 << 20));
        let objects = Shares::of(64 << 20).objects() as usize;
        assert!(limits.closed_contents < objects, "and memory");
    }
}
