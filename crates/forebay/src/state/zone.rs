//! A zone: a run of frames with its own free list, watermarks, LRU lists and dirty accounts.
//!
//! invariant Z1: every frame of a zone is in exactly one place: on the free list, on one LRU
//! list, isolated by a reclaimer, held exclusively while it is allocated or released, or in the
//! zone's balloon (zone/size.rs).
//! invariant Z2: a list's size is the number of frames that its links reach.
//! invariant Z3: a frame carries `LISTED` exactly while it is linked into a list, which is the
//! one that its `ANON` and `ACTIVE` flags name as they were when it was linked.

mod balloon;
mod size;

pub(crate) use size::ZoneSize;

use crate::event::PageLevels;
use crate::state::frame::{ExclusiveHold, FrameTable, NO_FRAME, flag};
use crate::state::gauge::Gauge;
use crate::state::node::ReclaimFlags;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use forebay_law::history::RotationCounts;
use forebay_law::scan::{ListSizes, ReclaimCost};
use size::Size;

/// The LRU lists of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    InactiveAnon = 0,
    ActiveAnon = 1,
    InactiveFile = 2,
    ActiveFile = 3,
}

impl List {
    pub(crate) const ALL: [List; 4] = [
        List::InactiveAnon,
        List::ActiveAnon,
        List::InactiveFile,
        List::ActiveFile,
    ];

    /// The list to which the flags of `word` send a frame.
    pub(crate) fn of(word: u64) -> List {
        match (word & flag::ANON != 0, word & flag::ACTIVE != 0) {
            (true, false) => List::InactiveAnon,
            (true, true) => List::ActiveAnon,
            (false, false) => List::InactiveFile,
            (false, true) => List::ActiveFile,
        }
    }

    pub(crate) fn is_active(self) -> bool {
        matches!(self, List::ActiveAnon | List::ActiveFile)
    }

    pub(crate) fn is_file(self) -> bool {
        matches!(self, List::InactiveFile | List::ActiveFile)
    }
}

/// Head (newest) and tail (oldest) of each list, and what the scan law remembers.
#[derive(Debug)]
struct Lists {
    heads: [u32; 4],
    tails: [u32; 4],
    cost: ReclaimCost,
    /// Of anonymous pages and of file pages.
    rotations: [RotationCounts; 2],
}

impl Lists {
    /// Makes `oldest` the last of a list; all are off it if that is none.
    fn cut_tail(&mut self, frames: &FrameTable, list: List, oldest: u32) {
        self.tails[list as usize] = oldest;
        match oldest {
            NO_FRAME => self.heads[list as usize] = NO_FRAME,
            _ => frames
                .frame(oldest)
                .older
                .store(NO_FRAME, Ordering::Relaxed),
        }
    }
}

#[derive(Debug)]
struct FreeList {
    first: u32,
}

/// Frames that a reclaimer took off a list, at most [`Batch::LIMIT`] at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    frames: [u32; Batch::LIMIT],
    len: usize,
}

impl Batch {
    /// SWAP_CLUSTER_MAX of spec/reclaim.md 0.2.
    pub(crate) const LIMIT: usize = 32;

    pub(crate) const fn new() -> Batch {
        Batch {
            frames: [NO_FRAME; Batch::LIMIT],
            len: 0,
        }
    }

    pub(crate) fn push(&mut self, frame: u32) {
        self.frames[self.len] = frame;
        self.len += 1;
    }

    pub(crate) fn as_slice(&self) -> &[u32] {
        &self.frames[..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Frames of one kind of memory.
#[derive(Debug)]
pub(crate) struct Zone {
    /// Its place among the cache's zones.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) node: usize,
    pub(crate) first_frame: u32,
    /// Frames of the zone, with those that it has given up.
    pub(crate) spanned_pages: u64,
    size: Size,
    free: Mutex<FreeList>,
    free_pages: Gauge<FreeList>,
    lists: Mutex<Lists>,
    sizes: [Gauge<Lists>; 4],
    isolated: [Gauge<Lists>; 2],
    /// Dirty file pages, and pages under writeback or unstable.
    pub(crate) dirty: AtomicU64,
    pub(crate) writeback: AtomicU64,
    /// Pages looked at since one was last freed.
    pub(crate) scanned_in_vain: AtomicU64,
    /// What reclaim met here, for the policies that balance zones.
    pub(crate) flags: ReclaimFlags,
    /// nonresident_age of spec/reclaim.md 2.8.
    age: AtomicU64,
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
            lists: Mutex::new(Lists {
                heads: [NO_FRAME; 4],
                tails: [NO_FRAME; 4],
                cost: ReclaimCost::default(),
                rotations: [RotationCounts::default(); 2],
            }),
            sizes: std::array::from_fn(|_| Gauge::new(0)),
            isolated: std::array::from_fn(|_| Gauge::new(0)),
            dirty: AtomicU64::new(0),
            writeback: AtomicU64::new(0),
            scanned_in_vain: AtomicU64::new(0),
            flags: ReclaimFlags::default(),
            age: AtomicU64::new(0),
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
        // The next caller follows its link.
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

    pub(crate) fn size(&self, list: List) -> u64 {
        self.sizes[list as usize].get()
    }

    pub(crate) fn sizes(&self) -> ListSizes {
        ListSizes {
            inactive_anon: self.size(List::InactiveAnon),
            active_anon: self.size(List::ActiveAnon),
            inactive_file: self.size(List::InactiveFile),
            active_file: self.size(List::ActiveFile),
        }
    }

    /// Frames of the type that reclaimers have taken off the lists.
    pub(crate) fn isolated(&self, is_file: bool) -> u64 {
        self.isolated[usize::from(is_file)].get()
    }

    /// Pages dirty, under writeback or unstable.
    pub(crate) fn pages_pending(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) + self.writeback.load(Ordering::Relaxed)
    }

    pub(crate) fn levels(&self) -> PageLevels {
        PageLevels {
            free: self.free_pages(),
            inactive_file: self.size(List::InactiveFile),
            active_file: self.size(List::ActiveFile),
            isolated_file: self.isolated(true),
            dirty: self.dirty.load(Ordering::Relaxed),
            writeback: self.writeback.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn age(&self) -> u64 {
        self.age.load(Ordering::Relaxed)
    }

    /// One eviction or activation: returns the age before it.
    pub(crate) fn grow_older(&self) -> u64 {
        self.age.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn cost(&self) -> ReclaimCost {
        lock(&self.lists).cost
    }

    /// Adds to what reclaim of either type has cost (spec/reclaim.md 2.9).
    pub(crate) fn note_cost(&self, anon: u64, file: u64) {
        let sizes = self.sizes();
        let lru_pages =
            sizes.inactive_anon + sizes.active_anon + sizes.inactive_file + sizes.active_file;
        let mut lists = lock(&self.lists);
        lists.cost = lists.cost.noted(anon, file, lru_pages);
    }

    /// Adds to what reclaim of either type has looked at and put back.
    pub(crate) fn note_rotations(&self, is_file: bool, scanned: u64, rotated: u64) {
        self.add_rotations(&mut lock(&self.lists), is_file, scanned, rotated);
    }

    fn add_rotations(&self, lists: &mut Lists, is_file: bool, scanned: u64, rotated: u64) {
        let (inactive, active) = if is_file {
            (List::InactiveFile, List::ActiveFile)
        } else {
            (List::InactiveAnon, List::ActiveAnon)
        };
        let counts = &mut lists.rotations[usize::from(is_file)];
        counts.scanned += scanned;
        counts.rotated += rotated;
        *counts = counts.decayed(self.size(inactive) + self.size(active));
    }

    /// The same, of anonymous pages and of file pages.
    pub(crate) fn rotations(&self) -> [RotationCounts; 2] {
        lock(&self.lists).rotations
    }

    /// Links a mapped frame at the head of the list that its flags name.
    pub(crate) fn list(&self, frames: &FrameTable, frame: u32) {
        let mut lists = lock(&self.lists);
        self.link_newest(&mut lists, frames, frame);
    }

    /// The same, of a frame that counts as looked at, and as put back if its list is active.
    pub(crate) fn list_scanned(&self, frames: &FrameTable, frame: u32) {
        let mut lists = lock(&self.lists);
        let list = self.link_newest(&mut lists, frames, frame);
        let rotated = u64::from(list.is_active());
        self.add_rotations(&mut lists, list.is_file(), 1, rotated);
    }

    /// Takes up to `wanted` frames off the old end of `list`. They count as isolated.
    pub(crate) fn isolate(&self, frames: &FrameTable, list: List, wanted: usize) -> Batch {
        let mut batch = Batch::new();
        let mut lists = lock(&self.lists);
        let mut oldest = lists.tails[list as usize];
        while oldest != NO_FRAME && batch.len() < wanted.min(Batch::LIMIT) {
            batch.push(oldest);
            oldest = frames.frame(oldest).newer.load(Ordering::Relaxed);
        }
        lists.cut_tail(frames, list, oldest);
        for &frame in batch.as_slice() {
            frames.clear(frame, flag::LISTED);
        }
        let taken = batch.len() as u64;
        self.sizes[list as usize].less(&mut lists, taken);
        self.isolated[usize::from(list.is_file())].more(&mut lists, taken);
        batch
    }

    /// Ends the isolation of `taken` frames of a type: `kept` go back to the lists that their
    /// flags name. Returns those of them that lost their page meanwhile; the caller frees them.
    pub(crate) fn put_back(
        &self,
        frames: &FrameTable,
        kept: &Batch,
        is_file: bool,
        taken: usize,
    ) -> Batch {
        let mut orphans = Batch::new();
        let mut lists = lock(&self.lists);
        for &frame in kept.as_slice() {
            if frames.word(frame) & flag::MAPPED == 0 {
                // What was marked after the page was gone must not stay on a free frame.
                frames.clear(frame, flag::OF_PAGE);
                orphans.push(frame);
            } else {
                self.link_newest(&mut lists, frames, frame);
            }
        }
        self.isolated[usize::from(is_file)].less(&mut lists, taken as u64);
        orphans
    }

    /// Takes a page that its holder has taken out of the index off its list and makes a blank
    /// frame of it, which the caller frees. None if a reclaimer has it isolated: then the hold
    /// ends here, and that reclaimer frees the frame when it puts it back.
    pub(crate) fn disown(&self, frames: &FrameTable, hold: ExclusiveHold<'_>) -> Option<u32> {
        let mut lists = lock(&self.lists);
        let word = hold.word();
        if word & flag::LISTED == 0 {
            hold.blank();
            return None;
        }
        self.unlink(&mut lists, frames, hold.frame(), List::of(word));
        Some(hold.blank())
    }

    /// Moves a listed frame to the old end of its inactive list, to be reclaimed next.
    pub(crate) fn rotate(&self, frames: &FrameTable, frame: u32) -> bool {
        let mut lists = lock(&self.lists);
        let word = frames.word(frame);
        if word & flag::LISTED == 0 {
            return false;
        }
        self.unlink(&mut lists, frames, frame, List::of(word));
        frames.clear(frame, flag::ACTIVE | flag::TOUCHED_AGAIN);
        self.link_oldest(&mut lists, frames, frame);
        true
    }

    fn link_newest(&self, lists: &mut Lists, frames: &FrameTable, frame: u32) -> List {
        let list = self.count_in(lists, frames, frame);
        let links = frames.frame(frame);
        let next = std::mem::replace(&mut lists.heads[list as usize], frame);
        links.newer.store(NO_FRAME, Ordering::Relaxed);
        links.older.store(next, Ordering::Relaxed);
        match next {
            NO_FRAME => lists.tails[list as usize] = frame,
            _ => frames.frame(next).newer.store(frame, Ordering::Relaxed),
        }
        list
    }

    fn link_oldest(&self, lists: &mut Lists, frames: &FrameTable, frame: u32) {
        let list = self.count_in(lists, frames, frame) as usize;
        let links = frames.frame(frame);
        let next = std::mem::replace(&mut lists.tails[list], frame);
        links.older.store(NO_FRAME, Ordering::Relaxed);
        links.newer.store(next, Ordering::Relaxed);
        match next {
            NO_FRAME => lists.heads[list] = frame,
            _ => frames.frame(next).older.store(frame, Ordering::Relaxed),
        }
    }

    /// Marks a frame as listed and counts it in the list that its flags name.
    fn count_in(&self, lists: &mut Lists, frames: &FrameTable, frame: u32) -> List {
        let list = List::of(frames.set(frame, flag::LISTED));
        self.sizes[list as usize].more(lists, 1);
        list
    }

    fn unlink(&self, lists: &mut Lists, frames: &FrameTable, frame: u32, list: List) {
        let links = frames.frame(frame);
        let newer = links.newer.load(Ordering::Relaxed);
        let older = links.older.load(Ordering::Relaxed);
        let list = list as usize;
        match newer {
            NO_FRAME => lists.heads[list] = older,
            _ => frames.frame(newer).older.store(older, Ordering::Relaxed),
        }
        match older {
            NO_FRAME => lists.tails[list] = newer,
            _ => frames.frame(older).newer.store(newer, Ordering::Relaxed),
        }
        frames.clear(frame, flag::LISTED);
        self.sizes[list].less(lists, 1);
    }

    /// The frames of `list`, oldest first, for the consistency walk.
    pub(crate) fn members(&self, frames: &FrameTable, list: List) -> Vec<u32> {
        let lists = lock(&self.lists);
        let mut members = Vec::new();
        let mut at = lists.tails[list as usize];
        while at != NO_FRAME && members.len() as u64 <= self.spanned_pages {
            members.push(at);
            at = frames.frame(at).newer.load(Ordering::Relaxed);
        }
        members
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
