//! Which pages of an object are dirty, to be written, or in flight, in page order.
//!
//! Sixty-four neighbouring pages share one *block* of three bit sets. The blocks of an object
//! form a treap keyed by block number (its priorities are a hash of the key and need no memory);
//! all objects draw their blocks from one slab, so that the memory is bounded at start.
//!
//! invariant D1: a page with its flag `DIRTY` set and not held exclusively has its dirty bit set.
//! invariant D2: a page under writeback or unstable has its in-flight bit set, and so its block
//! exists: a failed write can always mark its page dirty again.
//! invariant D3: a page with its to-write bit set is dirty as well, or it is a page that the store
//! refused. A refused page has the to-write bit and no dirty bit: it is as dirty as the others and
//! waits for its next try.
//! invariant D4: a block in the treap has at least one bit set; an empty one is in the slab.
//! invariant D5: a page that waits for its next try is not in flight.
//! invariant D6: a block with a dirty page knows since when its oldest one is dirty, or longer. One
//! whose dirty pages were all taken begins anew, and one of which a pass took all that it found
//! there is no older than that.

use crate::state::index::INDEX_BITS;
use crate::state::stamp::{STAMP_BITS, Stamp, Uncommitted, earliest};
use forebay_base::hash::mix;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    lock,
};
use forebay_rt::wait::WaitQueue;
use std::ops::Range;

/// All pages of an object.
pub(crate) const ALL_PAGES: Range<u64> = 0..u64::MAX;

/// Pages of one block.
const BLOCK_PAGES: u64 = 64;
/// A look for the oldest page passes so many blocks.
const BLOCKS_OF_A_LOOK: u32 = 256;
/// Bits of a block's number.
const NUMBER_BITS: u32 = INDEX_BITS - BLOCK_PAGES.ilog2();
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const NIL: u32 = u32::MAX;

const _: () = assert!(NUMBER_BITS + STAMP_BITS == u64::BITS);

/// One block. Its fields are atomics so that the slab needs no lock around them; each block is
/// used under the lock of the object that owns it.
#[derive(Debug, Default)]
struct Block {
    dirty: AtomicU64,
    towrite: AtomicU64,
    in_flight: AtomicU64,
    /// Its number in the object, and above [`NUMBER_BITS`] since when its oldest dirty page is
    /// dirty.
    number_and_since: AtomicU64,
    left: AtomicU32,
    right: AtomicU32,
}

/// Bytes of one block, a part of the price of a page.
pub(crate) const BLOCK_BYTES: usize = size_of::<Block>();

/// The slab of blocks that all objects share.
#[derive(Debug)]
pub(crate) struct BlockSlab {
    blocks: Box<[Block]>,
    free: Mutex<FreeBlocks>,
    /// Notified when blocks may be free again, whichever store the pages in them belonged to.
    pub(crate) freed: WaitQueue,
}

#[derive(Debug)]
struct FreeBlocks {
    first: u32,
    count: u32,
}

/// No block is left: some pages have to be written first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlabFull;

impl BlockSlab {
    pub(crate) fn new(count: u32) -> BlockSlab {
        let blocks: Box<[Block]> = (0..count).map(|_| Block::default()).collect();
        for (at, block) in blocks.iter().enumerate() {
            let next = if at + 1 == blocks.len() {
                NIL
            } else {
                at as u32 + 1
            };
            block.right.store(next, Relaxed);
        }
        let first = if count == 0 { NIL } else { 0 };
        BlockSlab {
            blocks,
            free: Mutex::new(FreeBlocks { first, count }),
            freed: WaitQueue::with_room(8),
        }
    }

    /// Blocks that are not in use.
    pub(crate) fn free_count(&self) -> u32 {
        lock(&self.free).count
    }

    fn take(&self, number: u64) -> Result<u32, SlabFull> {
        let mut free = lock(&self.free);
        let at = free.first;
        if at == NIL {
            return Err(SlabFull);
        }
        let block = &self.blocks[at as usize];
        free.first = block.right.load(Relaxed);
        free.count -= 1;
        block.number_and_since.store(number, Relaxed);
        block.left.store(NIL, Relaxed);
        block.right.store(NIL, Relaxed);
        Ok(at)
    }

    fn give_back(&self, at: u32) {
        let mut free = lock(&self.free);
        self.blocks[at as usize].right.store(free.first, Relaxed);
        free.first = at;
        free.count += 1;
    }

    fn at(&self, at: u32) -> &Block {
        &self.blocks[at as usize]
    }
}

impl Block {
    fn number(&self) -> u64 {
        self.number_and_since.load(Relaxed) & NUMBER_MASK
    }

    /// Since when its oldest dirty page is dirty. Means nothing if none is.
    fn since(&self) -> Stamp {
        Stamp::of_bits(self.number_and_since.load(Relaxed) >> NUMBER_BITS)
    }

    /// A page becomes dirty that is newer than its store since `since`.
    fn dirtied(&self, since: impl FnOnce() -> Stamp) {
        let is_first = self.bits(Tag::Dirty) == 0;
        self.set_since(if is_first { since() } else { return });
    }

    /// A page is dirty again that was newer than its store since `since`.
    fn dirty_again(&self, since: Stamp) {
        let is_first = self.bits(Tag::Dirty) == 0;
        self.set_since(if is_first {
            since
        } else {
            since.earlier(self.since())
        });
    }

    fn set_since(&self, since: Stamp) {
        let word = self.number() | since.bits() << NUMBER_BITS;
        self.number_and_since.store(word, Relaxed);
    }

    fn is_empty(&self) -> bool {
        self.bits(Tag::Dirty) | self.in_flight.load(Relaxed) == 0
    }

    fn bits(&self, tag: Tag) -> u64 {
        match tag {
            Tag::Dirty => self.dirty.load(Relaxed) | self.towrite.load(Relaxed),
            Tag::ToWrite => self.dirty.load(Relaxed) & self.towrite.load(Relaxed),
            Tag::InFlight => self.in_flight.load(Relaxed),
        }
    }

    /// Pages that a writer may take: tagged, and no write of them in flight.
    fn takeable(&self, tag: Tag) -> u64 {
        self.bits(tag) & self.dirty.load(Relaxed) & !self.in_flight.load(Relaxed)
    }

    /// The pages that `pass` may take; `visit` is the block that it came to last.
    fn takeable_in(&self, tag: Tag, pass: Option<Pass>, visit: Option<Visit>) -> u64 {
        let pages = self.takeable(tag);
        let Some(pass) = pass else {
            return pages;
        };
        match visit {
            Some(visit) if visit.is_of(self, pass) => pages & visit.left,
            _ if pages != 0 && self.since().is_after(pass.began) => 0,
            _ => pages,
        }
    }

    /// Pages that the store refused and that wait for their next try.
    fn refused(&self) -> u64 {
        self.towrite.load(Relaxed) & !self.dirty.load(Relaxed)
    }

    /// The pages of `mask` need no longer wait for their next try. Returns how many did.
    fn forgive(&self, mask: u64) -> u64 {
        let forgiven = self.refused() & mask;
        self.dirty.fetch_or(forgiven, Relaxed);
        self.towrite.fetch_and(!forgiven, Relaxed);
        u64::from(forgiven.count_ones())
    }
}

/// Which pages are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Newer than the store.
    Dirty,
    /// Dirty when a sync began: the fixed set that it writes.
    ToWrite,
    /// Under writeback, or unstable.
    InFlight,
}

/// A run of neighbouring pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) pages: u64,
    /// Since when the oldest of them is dirty, or longer.
    pub(crate) since: Stamp,
}

/// Which pages of a range are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    pub(crate) tag: Tag,
    /// The pass of the flusher that takes them.
    pub(crate) pass: Option<Pass>,
}

/// A pass takes what was dirty when it began: of each block that has a page which was dirty then,
/// those that are dirty when it comes to the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) began: Stamp,
    pub(crate) now: Stamp,
}

/// The block that a pass came to last.
#[derive(Clone, Copy, Debug)]
struct Visit {
    number: u64,
    began: Stamp,
    /// When it came to the block.
    came: Stamp,
    /// What it has not taken yet.
    left: u64,
    /// It may take all that was dirty then.
    is_whole: bool,
}

impl Visit {
    fn of(block: &Block, tag: Tag, pass: Pass) -> Visit {
        let left = block.takeable(tag);
        Visit {
            number: block.number(),
            began: pass.began,
            came: pass.now,
            left,
            is_whole: left == block.bits(Tag::Dirty),
        }
    }

    fn is_of(&self, block: &Block, pass: Pass) -> bool {
        self.number == block.number() && self.began == pass.began
    }

    /// The pages of `mask` were taken. None if the visit is over: what is dirty now became so
    /// later.
    fn took(mut self, block: &Block, mask: u64) -> Option<Visit> {
        self.left &= !mask;
        if self.left & block.bits(Tag::Dirty) != 0 {
            return Some(self);
        }
        if self.is_whole && self.came.is_after(block.since()) {
            block.set_since(self.came);
        }
        None
    }
}

/// The tagged pages of one object. Lives inside the object's lock.
#[derive(Debug)]
pub(crate) struct DirtyIndex {
    root: u32,
    /// The block of the last change: neighbours follow each other.
    recent: u32,
    dirty_pages: u64,
    /// Dirty pages that the store refused and that wait for their next try.
    refused_pages: u64,
    /// How often a page that was taken has come back to be written.
    put_back: u64,
    /// Since when bytes are written and wait for a commit.
    pub(crate) uncommitted: Uncommitted,
    /// Where the pass of the flusher is.
    visit: Option<Visit>,
}

impl Default for DirtyIndex {
    fn default() -> DirtyIndex {
        DirtyIndex {
            root: NIL,
            recent: NIL,
            dirty_pages: 0,
            refused_pages: 0,
            put_back: 0,
            uncommitted: Uncommitted::default(),
            visit: None,
        }
    }
}

fn split(page: u64) -> (u64, u64) {
    (page / BLOCK_PAGES, 1 << (page % BLOCK_PAGES))
}

fn priority(number: u64) -> u64 {
    mix(number ^ 0x5bd1_e995)
}

impl DirtyIndex {
    /// Pages that are dirty, including those that were refused.
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.dirty_pages
    }

    /// Whether any page is dirty and need not wait for its next try.
    pub(crate) fn has_untried(&self) -> bool {
        self.dirty_pages > self.refused_pages
    }

    /// How often a page that was taken has come back to be written. While this does not change, a
    /// sync that finds no page to be written knows that all are on their way to the store.
    pub(crate) fn put_back(&self) -> u64 {
        self.put_back
    }

    /// Whether nothing is dirty and nothing in flight.
    pub(crate) fn is_clean(&self) -> bool {
        self.root == NIL
    }

    /// Tags a page dirty. True if it was not. `since` is asked for the first page of a block.
    pub(crate) fn set_dirty(
        &mut self,
        slab: &BlockSlab,
        page: u64,
        since: impl FnOnce() -> Stamp,
    ) -> Result<bool, SlabFull> {
        let (number, bit) = split(page);
        let at = self.find_or_insert(slab, number)?;
        let block = slab.at(at);
        let is_new = block.bits(Tag::Dirty) & bit == 0;
        if is_new {
            block.dirtied(since);
            block.dirty.fetch_or(bit, Relaxed);
        }
        self.dirty_pages += u64::from(is_new);
        Ok(is_new)
    }

    /// Takes the dirty and to-write tags of a page away (it was discarded).
    pub(crate) fn cancel(&mut self, slab: &BlockSlab, page: u64) {
        self.change(slab, page, |index, block, bit| {
            index.refused_pages -= block.forgive(bit);
            if block.dirty.fetch_and(!bit, Relaxed) & bit != 0 {
                index.dirty_pages -= 1;
            }
            block.towrite.fetch_and(!bit, Relaxed);
        });
    }

    /// A write of the page ended well, and nothing holds it in flight any more.
    pub(crate) fn landed(&mut self, slab: &BlockSlab, page: u64) {
        self.change(slab, page, |_, block, bit| {
            block.in_flight.fetch_and(!bit, Relaxed);
        });
    }

    /// A write of the page failed or was put off: dirty again, since `since`. Cannot fail (D2).
    pub(crate) fn untake(&mut self, slab: &BlockSlab, page: u64, tag: Tag, since: Stamp) {
        self.change(slab, page, |index, block, bit| {
            block.dirty_again(since);
            index.refused_pages -= block.forgive(bit);
            if block.dirty.fetch_or(bit, Relaxed) & bit == 0 {
                index.dirty_pages += 1;
            }
            if tag == Tag::ToWrite {
                block.towrite.fetch_or(bit, Relaxed);
                index.put_back += 1;
            }
            block.in_flight.fetch_and(!bit, Relaxed);
        });
    }

    /// The store refused the page: it is dirty again, and no flusher takes it before
    /// [`DirtyIndex::retry_refused`].
    pub(crate) fn refuse(&mut self, slab: &BlockSlab, page: u64, since: Stamp) {
        self.untake(slab, page, Tag::Dirty, since);
        self.change(slab, page, |index, block, bit| {
            // A sync that has tagged it meanwhile is about to try it.
            if block.towrite.fetch_or(bit, Relaxed) & bit == 0 {
                block.dirty.fetch_and(!bit, Relaxed);
                index.refused_pages += 1;
            }
        });
    }

    /// The pages that were refused may be tried again.
    pub(crate) fn retry_refused(&mut self, slab: &BlockSlab) {
        let mut from = 0;
        while self.refused_pages > 0 {
            let next = self.next(slab, &(from..u64::MAX), Block::refused);
            let page = next.expect("every refused page has a block");
            let (number, _) = split(page);
            let at = self.find(slab, number).expect("a found page has its block");
            self.refused_pages -= slab.at(at).forgive(u64::MAX);
            from = (number + 1) * BLOCK_PAGES;
        }
    }

    /// Takes the next run of tagged pages of `range`. The run ends at the latest where `end` says
    /// for its first page: their dirty and to-write bits become in-flight bits.
    pub(crate) fn take_run(
        &mut self,
        slab: &BlockSlab,
        Takes { tag, pass }: Takes,
        range: Range<u64>,
        end: impl FnOnce(u64) -> u64,
    ) -> Option<Run> {
        let first = self.next(slab, &range, |block| {
            block.takeable_in(tag, pass, self.visit)
        })?;
        let mut since = None;
        let stop = range.end.min(end(first));
        let mut page = first;
        while page < stop {
            let Some(at) = self.find(slab, split(page).0) else {
                break;
            };
            let block = slab.at(at);
            let offset = page % BLOCK_PAGES;
            let ready = (block.takeable_in(tag, pass, self.visit) >> offset).trailing_ones();
            let count = u64::from(ready).min(stop - page).min(BLOCK_PAGES - offset);
            if count == 0 {
                break;
            }
            let mask = (u64::MAX >> (BLOCK_PAGES - count)) << offset;
            let visit = pass.map(|pass| {
                let last = self.visit.filter(|visit| visit.is_of(block, pass));
                last.unwrap_or_else(|| Visit::of(block, tag, pass))
            });
            block.dirty.fetch_and(!mask, Relaxed);
            block.towrite.fetch_and(!mask, Relaxed);
            block.in_flight.fetch_or(mask, Relaxed);
            since = earliest(since, Some(block.since()));
            if let Some(visit) = visit {
                self.visit = visit.took(block, mask);
            }
            self.dirty_pages -= count;
            page += count;
            if offset + count < BLOCK_PAGES {
                break;
            }
        }
        Some(Run {
            first,
            pages: page - first,
            since: since?,
        })
    }

    /// Since when the oldest page is dirty of the next blocks from `from` on, and where to look on;
    /// None there if these were the last. A look is short, since writers wait for it.
    pub(crate) fn oldest_dirty(&self, slab: &BlockSlab, from: u64) -> (Option<Stamp>, Option<u64>) {
        let mut oldest = None;
        let mut from = from;
        for _ in 0..BLOCKS_OF_A_LOOK {
            let Some(page) = self.next(slab, &(from..u64::MAX), |block| block.bits(Tag::Dirty))
            else {
                return (oldest, None);
            };
            let (number, _) = split(page);
            let at = self.find(slab, number).expect("a found page has its block");
            oldest = earliest(oldest, Some(slab.at(at).since()));
            from = (number + 1) * BLOCK_PAGES;
        }
        (oldest, Some(from))
    }

    /// Marks all pages in the range that are dirty now as to be written, and returns how many.
    pub(crate) fn tag_for_writing(&mut self, slab: &BlockSlab, range: Range<u64>) -> u64 {
        let mut tagged = 0;
        let mut from = range.start;
        while let Some(page) = self.next(slab, &(from..range.end), |block| block.bits(Tag::Dirty)) {
            let (number, _) = split(page);
            let block = slab.at(self.find(slab, number).expect("a found page has its block"));
            let first = number * BLOCK_PAGES;
            let below = range.end.saturating_sub(first).min(BLOCK_PAGES);
            let mask = (u64::MAX >> (BLOCK_PAGES - below)) & (u64::MAX << (page - first));
            self.refused_pages -= block.forgive(mask);
            let bits = block.dirty.load(Relaxed) & mask;
            block.towrite.fetch_or(bits, Relaxed);
            tagged += u64::from(bits.count_ones());
            from = first + BLOCK_PAGES;
        }
        tagged
    }

    /// The first page of `range` that is dirty and does not wait for its next try.
    pub(crate) fn next_untried(&self, slab: &BlockSlab, range: &Range<u64>) -> Option<u64> {
        self.next(slab, range, |block| block.takeable(Tag::Dirty))
    }

    /// The first page of `range` with `tag`.
    pub(crate) fn next_tagged(&self, slab: &BlockSlab, tag: Tag, range: Range<u64>) -> Option<u64> {
        self.next(slab, &range, |block| block.bits(tag))
    }

    /// The first page of `range` that is among `bits` of its block. No block past the range is
    /// looked at: there may be very many.
    fn next(
        &self,
        slab: &BlockSlab,
        range: &Range<u64>,
        bits: impl Fn(&Block) -> u64,
    ) -> Option<u64> {
        let mut from = range.start;
        while from < range.end {
            let (number, _) = split(from);
            let at = self.at_or_after(slab, number)?;
            let block = slab.at(at);
            let first = block.number() * BLOCK_PAGES;
            if first >= range.end {
                return None;
            }
            let skipped = from.saturating_sub(first);
            let found = bits(block) & (u64::MAX << skipped);
            if found != 0 {
                let page = first + u64::from(found.trailing_zeros());
                return (page < range.end).then_some(page);
            }
            from = first + BLOCK_PAGES;
        }
        None
    }

    fn change(
        &mut self,
        slab: &BlockSlab,
        page: u64,
        act: impl FnOnce(&mut DirtyIndex, &Block, u64),
    ) {
        let (number, bit) = split(page);
        let Some(at) = self.find(slab, number) else {
            return;
        };
        act(self, slab.at(at), bit);
        if slab.at(at).is_empty() {
            self.remove(slab, at);
        }
    }

    fn find(&self, slab: &BlockSlab, number: u64) -> Option<u32> {
        if self.recent != NIL && slab.at(self.recent).number() == number {
            return Some(self.recent);
        }
        let mut at = self.root;
        while at != NIL {
            let block = slab.at(at);
            match number.cmp(&block.number()) {
                std::cmp::Ordering::Equal => return Some(at),
                std::cmp::Ordering::Less => at = block.left.load(Relaxed),
                std::cmp::Ordering::Greater => at = block.right.load(Relaxed),
            }
        }
        None
    }

    /// The block numbered `number` or the next one that exists.
    fn at_or_after(&self, slab: &BlockSlab, number: u64) -> Option<u32> {
        let mut best = None;
        let mut at = self.root;
        while at != NIL {
            let block = slab.at(at);
            if block.number() >= number {
                best = Some(at);
                at = block.left.load(Relaxed);
            } else {
                at = block.right.load(Relaxed);
            }
        }
        best
    }

    fn find_or_insert(&mut self, slab: &BlockSlab, number: u64) -> Result<u32, SlabFull> {
        if let Some(at) = self.find(slab, number) {
            self.recent = at;
            return Ok(at);
        }
        let at = slab.take(number)?;
        let mut parent = NIL;
        let mut under = self.root;
        while under != NIL && priority(slab.at(under).number()) > priority(number) {
            parent = under;
            under = side(slab, under, number).load(Relaxed);
        }
        let (left, right) = partition(slab, under, number);
        slab.at(at).left.store(left, Relaxed);
        slab.at(at).right.store(right, Relaxed);
        self.hang(slab, parent, number, at);
        self.recent = at;
        Ok(at)
    }

    fn remove(&mut self, slab: &BlockSlab, at: u32) {
        let number = slab.at(at).number();
        let mut parent = NIL;
        let mut under = self.root;
        while under != at {
            parent = under;
            under = side(slab, under, number).load(Relaxed);
        }
        let block = slab.at(at);
        let joined = join(slab, block.left.load(Relaxed), block.right.load(Relaxed));
        self.hang(slab, parent, number, joined);
        if self.recent == at {
            self.recent = NIL;
        }
        slab.give_back(at);
    }

    fn hang(&mut self, slab: &BlockSlab, parent: u32, number: u64, child: u32) {
        if parent == NIL {
            self.root = child;
        } else {
            side(slab, parent, number).store(child, Relaxed);
        }
    }
}

/// The link of block `at` that leads to `number`.
fn side(slab: &BlockSlab, at: u32, number: u64) -> &AtomicU32 {
    let block = slab.at(at);
    if number < block.number() {
        &block.left
    } else {
        &block.right
    }
}

/// Splits the tree `at` into the blocks below `number` and those above it.
fn partition(slab: &BlockSlab, at: u32, number: u64) -> (u32, u32) {
    let (mut below, mut above) = (NIL, NIL);
    let (mut below_end, mut above_end) = (NIL, NIL);
    let mut at = at;
    while at != NIL {
        let block = slab.at(at);
        if block.number() < number {
            match below_end {
                NIL => below = at,
                end => slab.at(end).right.store(at, Relaxed),
            }
            below_end = at;
            at = block.right.load(Relaxed);
        } else {
            match above_end {
                NIL => above = at,
                end => slab.at(end).left.store(at, Relaxed),
            }
            above_end = at;
            at = block.left.load(Relaxed);
        }
    }
    if below_end != NIL {
        slab.at(below_end).right.store(NIL, Relaxed);
    }
    if above_end != NIL {
        slab.at(above_end).left.store(NIL, Relaxed);
    }
    (below, above)
}

/// Joins two trees; all blocks of the first are below all of the second.
fn join(slab: &BlockSlab, left: u32, right: u32) -> u32 {
    let (mut left, mut right) = (left, right);
    let mut root = NIL;
    let mut link: Option<&AtomicU32> = None;
    loop {
        let taken = match (left, right) {
            (NIL, rest) | (rest, NIL) => {
                match link {
                    None => root = rest,
                    Some(link) => link.store(rest, Relaxed),
                }
                return root;
            }
            (l, r) => {
                let higher = |at: u32| priority(slab.at(at).number());
                if higher(l) > higher(r) { l } else { r }
            }
        };
        match link {
            None => root = taken,
            Some(link) => link.store(taken, Relaxed),
        }
        let block = slab.at(taken);
        if taken == left {
            left = block.right.load(Relaxed);
            link = Some(&block.right);
        } else {
            right = block.left.load(Relaxed);
            link = Some(&block.left);
        }
    }
}

#[cfg(test)]
#[path = "dirty_index_tests.rs"]
mod tests;
