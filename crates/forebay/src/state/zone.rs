//! A zone: a run of frames with its own free list, watermarks and dirty accounts. Its lists of
//! pages are in the room `lists`.
//!
//! invariant Z1: every frame of a zone is in exactly one place: on the free list, on one LRU
//! list, isolated by a reclaimer, held exclusively while it is allocated or released, or in the
//! zone's balloon (zone/size.rs).

mod balloon;
mod size;

pub(crate) use size::ZoneSize;

use crate::state::frame::{FrameTable, NO_FRAME};
use crate::state::gauge::Gauge;
use crate::state::node::ReclaimFlags;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use size::Size;

#[derive(Debug)]
struct FreeList {
    first: u32,
}

/// Frames of one kind of memory.
#[derive(Debug)]
pub(crate) struct Zone {
    /// Its place among the cache's zones.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) node: usize,
    pub(crate) first_frame: u32,
    /// Frames of the zone, including those that it has given up.
    pub(crate) spanned_pages: u64,
    size: Size,
    free: Mutex<FreeList>,
    free_pages: Gauge<FreeList>,
    /// Dirty file pages, and pages under writeback or unstable.
    pub(crate) dirty: AtomicU64,
    pub(crate) writeback: AtomicU64,
    /// Pages looked at since one was last freed.
    pub(crate) scanned_in_vain: AtomicU64,
    /// What reclaim found here, for the policies that balance zones.
    pub(crate) flags: ReclaimFlags,
}

/// How a zone is made.
#[derive(Clone, Debug)]
pub(crate) struct ZonePlan {
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) node: usize,
    pub(crate) first_frame: u32,
    pub(crate) size: ZoneSize,
}

impl Zone {
    /// The zone of `plan`, with all of its frames free.
    pub(crate) fn new(plan: ZonePlan, frames: &FrameTable) -> Zone {
        let spanned_pages = plan.size.managed_pages;
        let end = plan.first_frame + spanned_pages as u32;
        for frame in plan.first_frame..end {
            let next = if frame + 1 == end {
                NO_FRAME
            } else {
                frame + 1
            };
            frames.frame(frame).older.store(next, Ordering::Relaxed);
        }
        let first = if spanned_pages == 0 {
            NO_FRAME
        } else {
            plan.first_frame
        };
        Zone {
            number: plan.number,
            name: plan.name,
            node: plan.node,
            first_frame: plan.first_frame,
            spanned_pages,
            size: Size::new(&plan.size),
            free: Mutex::new(FreeList { first }),
            free_pages: Gauge::new(spanned_pages),
            dirty: AtomicU64::new(0),
            writeback: AtomicU64::new(0),
            scanned_in_vain: AtomicU64::new(0),
            flags: ReclaimFlags::default(),
        }
    }

    pub(crate) fn contains(&self, frame: u32) -> bool {
        frame >= self.first_frame && u64::from(frame - self.first_frame) < self.spanned_pages
    }

    pub(crate) fn free_pages(&self) -> u64 {
        self.free_pages.get()
    }

    /// Takes one frame off the free list.
    pub(crate) fn take_free(&self, frames: &FrameTable) -> Option<u32> {
        let mut free = lock(&self.free);
        let frame = free.first;
        if frame == NO_FRAME {
            return None;
        }
        free.first = frames.frame(frame).older.load(Ordering::Relaxed);
        // The next caller follows the link of the frame that is first then.
        frames.prefetch_frame(free.first);
        self.free_pages.less(&mut free, 1);
        Some(frame)
    }

    /// Puts blank frames on the free list.
    pub(crate) fn put_free(&self, frames: &FrameTable, blank: &[u32]) {
        if blank.is_empty() {
            return;
        }
        self.scanned_in_vain.store(0, Ordering::Relaxed);
        let mut free = lock(&self.free);
        for &frame in blank {
            frames
                .frame(frame)
                .older
                .store(free.first, Ordering::Relaxed);
            free.first = frame;
        }
        self.free_pages.more(&mut free, blank.len() as u64);
    }

    /// Pages dirty, under writeback or unstable.
    pub(crate) fn pages_pending(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) + self.writeback.load(Ordering::Relaxed)
    }

    /// The frames of the free list, for the consistency walk.
    pub(crate) fn free_members(&self, frames: &FrameTable) -> Vec<u32> {
        let free = lock(&self.free);
        self.chain(frames, free.first)
    }

    /// The frames that follow `first` by their links, itself first.
    fn chain(&self, frames: &FrameTable, first: u32) -> Vec<u32> {
        let mut members = Vec::new();
        let mut at = first;
        while at != NO_FRAME && members.len() as u64 <= self.spanned_pages {
            members.push(at);
            at = frames.frame(at).older.load(Ordering::Relaxed);
        }
        members
    }
}
