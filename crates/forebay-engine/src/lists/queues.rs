//! The lists of one zone: four chains of frames, their lengths, and what the laws of reclaim
//! remember about them.
//!
//! invariant Z2: a list's size is the number of frames that its links reach.
//! invariant Z3: a frame has `LISTED` set exactly while it is linked into a list. It is the list
//! that its `ANON` and `ACTIVE` flags named when it was linked.

use crate::lists::list::List;
use crate::state::batch::Batch;
use crate::state::frame::{ExclusiveHold, FrameTable, NO_FRAME, flag};
use crate::state::gauge::Gauge;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    lock,
};
use forebay_law::history::RotationCounts;
use forebay_law::scan::{ListSizes, ReclaimCost};

/// How the flags of a page change when it goes to another list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub set: u64,
    pub clear: u64,
    /// Whether the move adds to the age of the zone (spec/reclaim.md 2.8).
    pub ages_zone: bool,
}

/// Head (newest) and tail (oldest) of each list, and what the scan law remembers.
#[derive(Debug)]
struct Chains {
    heads: [u32; 4],
    tails: [u32; 4],
    cost: ReclaimCost,
    /// One for anonymous pages and one for file pages.
    rotations: [RotationCounts; 2],
}

impl Chains {
    /// Makes `oldest` the last frame of a list; if it is none, the list is empty.
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

/// The lists of one zone.
#[derive(Debug)]
pub struct ZoneLists {
    chains: Mutex<Chains>,
    sizes: [Gauge<Chains>; 4],
    isolated: [Gauge<Chains>; 2],
    /// nonresident_age of spec/reclaim.md 2.8.
    age: AtomicU64,
}

impl Default for ZoneLists {
    fn default() -> ZoneLists {
        ZoneLists {
            chains: Mutex::new(Chains {
                heads: [NO_FRAME; 4],
                tails: [NO_FRAME; 4],
                cost: ReclaimCost::default(),
                rotations: [RotationCounts::default(); 2],
            }),
            sizes: std::array::from_fn(|_| Gauge::new(0)),
            isolated: std::array::from_fn(|_| Gauge::new(0)),
            age: AtomicU64::new(0),
        }
    }
}

impl ZoneLists {
    pub fn size(&self, list: List) -> u64 {
        self.sizes[list as usize].get()
    }

    pub fn sizes(&self) -> ListSizes {
        ListSizes {
            inactive_anon: self.size(List::InactiveAnon),
            active_anon: self.size(List::ActiveAnon),
            inactive_file: self.size(List::InactiveFile),
            active_file: self.size(List::ActiveFile),
        }
    }

    /// Frames of this type that reclaimers have taken off the chains.
    pub fn isolated(&self, is_file: bool) -> u64 {
        self.isolated[usize::from(is_file)].get()
    }

    pub(crate) fn age(&self) -> u64 {
        self.age.load(Ordering::Relaxed)
    }

    /// Counts an eviction or activation, and returns the age before it.
    pub(crate) fn grow_older(&self) -> u64 {
        self.age.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes the flags of a page that its holder has isolated.
    pub(super) fn change(&self, hold: &mut ExclusiveHold<'_>, change: Change) {
        if change.clear != 0 {
            hold.unset(change.clear);
        }
        hold.set(change.set);
        if change.ages_zone {
            self.grow_older();
        }
    }

    pub(crate) fn cost(&self) -> ReclaimCost {
        lock(&self.chains).cost
    }

    /// Adds to what reclaim of either type has cost (spec/reclaim.md 2.9).
    pub(crate) fn note_cost(&self, anon: u64, file: u64) {
        let sizes = self.sizes();
        let lru_pages =
            sizes.inactive_anon + sizes.active_anon + sizes.inactive_file + sizes.active_file;
        let mut chains = lock(&self.chains);
        chains.cost = chains.cost.noted(anon, file, lru_pages);
    }

    /// Adds to what reclaim of either type has looked at and put back.
    pub(crate) fn note_rotations(&self, is_file: bool, scanned: u64, rotated: u64) {
        self.add_rotations(&mut lock(&self.chains), is_file, scanned, rotated);
    }

    fn add_rotations(&self, chains: &mut Chains, is_file: bool, scanned: u64, rotated: u64) {
        let (inactive, active) = if is_file {
            (List::InactiveFile, List::ActiveFile)
        } else {
            (List::InactiveAnon, List::ActiveAnon)
        };
        let counts = &mut chains.rotations[usize::from(is_file)];
        counts.scanned += scanned;
        counts.rotated += rotated;
        *counts = counts.decayed(self.size(inactive) + self.size(active));
    }

    /// The same, for anonymous pages and for file pages.
    pub fn rotations(&self) -> [RotationCounts; 2] {
        lock(&self.chains).rotations
    }

    /// Links mapped frames at the heads of the lists that their flags name, in their order.
    pub fn list_run(&self, frames: &FrameTable, run: &[u32]) {
        let mut chains = lock(&self.chains);
        for &frame in run {
            self.link_newest(&mut chains, frames, frame);
        }
    }

    /// The same, of frames that count as looked at, and as put back if their list is active.
    pub(crate) fn list_run_scanned(&self, frames: &FrameTable, run: &[u32]) {
        let mut chains = lock(&self.chains);
        for &frame in run {
            let list = self.link_newest(&mut chains, frames, frame);
            let rotated = u64::from(list.is_active());
            self.add_rotations(&mut chains, list.is_file(), 1, rotated);
        }
    }

    /// Takes up to `wanted` frames off the old end of `list`. They count as isolated.
    pub(crate) fn isolate(&self, frames: &FrameTable, list: List, wanted: usize) -> Batch {
        let mut batch = Batch::new();
        let mut chains = lock(&self.chains);
        let mut oldest = chains.tails[list as usize];
        while oldest != NO_FRAME && batch.len() < wanted.min(Batch::LIMIT) {
            batch.push(oldest);
            oldest = frames.frame(oldest).newer.load(Ordering::Relaxed);
        }
        chains.cut_tail(frames, list, oldest);
        for &frame in batch.as_slice() {
            frames.clear(frame, flag::LISTED);
        }
        let taken = batch.len() as u64;
        self.sizes[list as usize].less(&mut chains, taken);
        self.isolated[usize::from(list.is_file())].more(&mut chains, taken);
        batch
    }

    /// Ends the isolation of `taken` frames of a type: the frames `kept` go back to the lists that
    /// their flags name. Returns those that lost their page meanwhile, which the caller frees.
    pub(crate) fn put_back(
        &self,
        frames: &FrameTable,
        kept: &Batch,
        is_file: bool,
        taken: usize,
    ) -> Batch {
        let mut orphans = Batch::new();
        let mut chains = lock(&self.chains);
        for &frame in kept.as_slice() {
            if frames.word(frame) & flag::MAPPED == 0 {
                // Flags that were set after the page was gone must not stay on a free frame.
                frames.clear(frame, flag::OF_PAGE);
                orphans.push(frame);
            } else {
                self.link_newest(&mut chains, frames, frame);
            }
        }
        self.isolated[usize::from(is_file)].less(&mut chains, taken as u64);
        orphans
    }

    /// Takes a page off its list that its holder has already taken out of the index, and turns it
    /// into a blank frame, which the caller frees. None if a reclaimer has isolated it: then the
    /// hold ends here, and the reclaimer frees the frame when it puts it back.
    pub(crate) fn disown(&self, frames: &FrameTable, hold: ExclusiveHold<'_>) -> Option<u32> {
        let mut chains = lock(&self.chains);
        let word = hold.word();
        if word & flag::LISTED == 0 {
            hold.blank();
            return None;
        }
        self.unlink(&mut chains, frames, hold.frame(), List::of(word));
        Some(hold.blank())
    }

    /// Moves a listed frame to the old end of its inactive list, to be reclaimed next.
    pub(crate) fn rotate(&self, frames: &FrameTable, frame: u32) -> bool {
        let mut chains = lock(&self.chains);
        let word = frames.word(frame);
        if word & flag::LISTED == 0 {
            return false;
        }
        self.unlink(&mut chains, frames, frame, List::of(word));
        frames.clear(frame, flag::ACTIVE | flag::TOUCHED_AGAIN);
        self.link_oldest(&mut chains, frames, frame);
        true
    }

    fn link_newest(&self, chains: &mut Chains, frames: &FrameTable, frame: u32) -> List {
        let list = self.count_in(chains, frames, frame);
        let links = frames.frame(frame);
        let next = std::mem::replace(&mut chains.heads[list as usize], frame);
        links.newer.store(NO_FRAME, Ordering::Relaxed);
        links.older.store(next, Ordering::Relaxed);
        match next {
            NO_FRAME => chains.tails[list as usize] = frame,
            _ => frames.frame(next).newer.store(frame, Ordering::Relaxed),
        }
        list
    }

    fn link_oldest(&self, chains: &mut Chains, frames: &FrameTable, frame: u32) {
        let list = self.count_in(chains, frames, frame) as usize;
        let links = frames.frame(frame);
        let next = std::mem::replace(&mut chains.tails[list], frame);
        links.older.store(NO_FRAME, Ordering::Relaxed);
        links.newer.store(next, Ordering::Relaxed);
        match next {
            NO_FRAME => chains.heads[list] = frame,
            _ => frames.frame(next).older.store(frame, Ordering::Relaxed),
        }
    }

    /// Marks a frame as listed and counts it in the list that its flags name.
    fn count_in(&self, chains: &mut Chains, frames: &FrameTable, frame: u32) -> List {
        let list = List::of(frames.set(frame, flag::LISTED));
        self.sizes[list as usize].more(chains, 1);
        list
    }

    fn unlink(&self, chains: &mut Chains, frames: &FrameTable, frame: u32, list: List) {
        let links = frames.frame(frame);
        let newer = links.newer.load(Ordering::Relaxed);
        let older = links.older.load(Ordering::Relaxed);
        let list = list as usize;
        match newer {
            NO_FRAME => chains.heads[list] = older,
            _ => frames.frame(newer).older.store(older, Ordering::Relaxed),
        }
        match older {
            NO_FRAME => chains.tails[list] = newer,
            _ => frames.frame(older).newer.store(newer, Ordering::Relaxed),
        }
        frames.clear(frame, flag::LISTED);
        self.sizes[list].less(chains, 1);
    }

    /// The frames of `list`, oldest first, for the consistency walk.
    pub(crate) fn members(&self, frames: &FrameTable, list: List) -> Vec<u32> {
        let chains = lock(&self.chains);
        let mut members = Vec::new();
        let mut at = chains.tails[list as usize];
        while at != NO_FRAME && members.len() as u64 <= u64::from(frames.len()) {
            members.push(at);
            at = frames.frame(at).newer.load(Ordering::Relaxed);
        }
        members
    }
}
