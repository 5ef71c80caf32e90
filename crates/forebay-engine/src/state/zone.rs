//! A zone: a run of frames with its own free frames, watermarks and dirty accounts. Its lists of
//! pages are in the room `lists`.
//!
//! invariant Z1: every frame of a zone is in exactly one place: free, on one LRU
//! list, isolated by a reclaimer, held exclusively while it is allocated or released, or in the
//! zone's balloon (zone/size.rs).

mod balloon;
mod free;
mod size;

pub(crate) use size::ZoneSize;

use crate::state::batch::Batch;
use crate::state::frame::{FrameTable, NO_FRAME};
use crate::state::gauge::Gauge;
use crate::state::node::ReclaimFlags;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use free::FreeFrames;
use size::Size;

/// Frames of one kind of memory.
#[derive(Debug)]
pub struct Zone {
    /// Its place among the cache's zones.
    pub number: usize,
    pub(crate) name: String,
    pub node: usize,
    pub(crate) first_frame: u32,
    /// Frames of the zone, including those that it has given up.
    pub(crate) spanned_pages: u64,
    size: Size,
    free: Mutex<FreeFrames>,
    free_pages: Gauge<FreeFrames>,
    /// Dirty file pages, and pages under writeback or unstable.
    pub(crate) dirty: AtomicU64,
    pub(crate) writeback: AtomicU64,
    /// Pages looked at since one was last freed.
    pub(crate) scanned_in_vain: AtomicU64,
    /// What reclaim found here, for the policies that balance zones.
    pub flags: ReclaimFlags,
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
    pub(crate) fn new(plan: ZonePlan) -> Zone {
        let spanned_pages = plan.size.managed_pages;
        Zone {
            number: plan.number,
            name: plan.name,
            node: plan.node,
            first_frame: plan.first_frame,
            spanned_pages,
            size: Size::new(&plan.size),
            free: Mutex::new(FreeFrames::all(spanned_pages as u32)),
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

    pub fn free_pages(&self) -> u64 {
        self.free_pages.get()
    }

    /// Takes one of the free frames.
    pub fn take_free(&self) -> Option<u32> {
        let mut free = lock(&self.free);
        let place = free.take()?;
        self.free_pages.less(&mut free, 1);
        Some(self.first_frame + place)
    }

    /// Takes up to `wanted` of the free frames in one step, and leaves `kept`.
    pub(crate) fn take_free_run(&self, wanted: usize, kept: u64) -> Batch {
        let mut run = Batch::new();
        if self.free_pages() <= kept {
            return run;
        }
        let mut free = lock(&self.free);
        let room = self.free_pages().saturating_sub(kept);
        let wanted = room.min(wanted.min(Batch::LIMIT) as u64);
        for _ in 0..wanted {
            let place = free.take();
            let place = place.expect("a zone has as many free frames as it counts");
            run.push(self.first_frame + place);
        }
        self.free_pages.less(&mut free, wanted);
        run
    }

    /// Frees blank frames, the first of which is taken next: it may still be in the processor's
    /// cache, and memory that was never touched stays so.
    pub(crate) fn put_free(&self, blank: &[u32]) {
        self.put(blank, FreeFrames::go_on_at);
    }

    /// Frees blank frames whose pages were evicted. They are taken when it is their turn.
    pub(crate) fn put_evicted(&self, blank: &[u32]) {
        self.put(blank, |_, _| {});
    }

    fn put(&self, blank: &[u32], then: impl FnOnce(&mut FreeFrames, u32)) {
        let Some(&first) = blank.first() else {
            return;
        };
        self.scanned_in_vain.store(0, Ordering::Relaxed);
        let mut free = lock(&self.free);
        for &frame in blank {
            free.put(frame - self.first_frame);
        }
        then(&mut free, first - self.first_frame);
        self.free_pages.more(&mut free, blank.len() as u64);
    }

    /// Pages dirty, under writeback or unstable.
    pub fn pages_pending(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) + self.writeback.load(Ordering::Relaxed)
    }

    /// The free frames in order, for the consistency walk.
    pub(crate) fn free_members(&self) -> Vec<u32> {
        let free = lock(&self.free);
        let members = free.members();
        members.map(|place| self.first_frame + place).collect()
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

/// Bytes of the record of free frames in a zone of `frames` frames.
pub(crate) fn free_bytes(frames: u32) -> usize {
    free::bytes(frames)
}
