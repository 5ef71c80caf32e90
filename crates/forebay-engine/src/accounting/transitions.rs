//! Accounts of dirty pages: every transition of spec/writeback.md 1.2 moves its counters here.
//!
//! The counters are exact: the code that makes a transition moves its counters once, while a hold
//! or a claim keeps the page from making the next transition. The pages of a request make their
//! transitions together, so the counters are moved once for all of them.

use crate::counters::Counter;
use crate::event::{Event, PageLevels};
use crate::parts::Dirty;
use crate::state::backing::Backing;
use crate::state::gauge::less;
use crate::state::object::ObjectState;
use forebay_base::sync::atomic::Ordering;
use forebay_store::PagePointer;

impl Dirty {
    /// T1 of `pages` that [`Dirty::account_dirty`] has counted: they were written to.
    pub(crate) fn account_written_to(&self, backing: &Backing, pages: u64) {
        backing.counts.dirtied.fetch_add(pages, Ordering::Relaxed);
        self.accounts.count(Counter::NrDirtied, pages);
    }

    /// T1 and T6: a clean page became dirty, or a page that could not be written is dirty again.
    pub(crate) fn account_dirty(&self, backing: &Backing, frame: u32) {
        self.global.dirty.fetch_add(1, Ordering::Relaxed);
        backing.counts.reclaimable.fetch_add(1, Ordering::Relaxed);
        self.memory
            .zone_of(frame)
            .dirty
            .fetch_add(1, Ordering::Relaxed);
    }

    /// T3 and T4 together: dirty pages were claimed, and their write is about to be submitted.
    pub(crate) fn account_claimed(&self, backing: &Backing, claimed: &[PagePointer]) {
        let pages = claimed.len() as u64;
        less(&self.global.dirty, pages);
        less(&backing.counts.reclaimable, pages);
        self.global.writeback.fetch_add(pages, Ordering::Relaxed);
        backing.counts.writeback.fetch_add(pages, Ordering::Relaxed);
        self.memory.for_each_zone(claimed, |zone, pages| {
            less(&zone.dirty, pages);
            zone.writeback.fetch_add(pages, Ordering::Relaxed);
        });
    }

    /// T4 of a page that was not counted as dirty (anonymous memory).
    pub(crate) fn account_writeback_begins(&self, backing: &Backing, frame: u32) {
        self.global.writeback.fetch_add(1, Ordering::Relaxed);
        backing.counts.writeback.fetch_add(1, Ordering::Relaxed);
        self.memory
            .zone_of(frame)
            .writeback
            .fetch_add(1, Ordering::Relaxed);
    }

    /// T8: the write of `pages` ended, and they wait for a commit.
    pub(crate) fn account_uncommitted(&self, backing: &Backing, pages: u64) {
        self.global.uncommitted.fetch_add(pages, Ordering::Relaxed);
        backing
            .counts
            .uncommitted
            .fetch_add(pages, Ordering::Relaxed);
    }

    /// T9: an unstable page was committed, is dirty again, or was dropped.
    pub(crate) fn account_unstable_ends(&self, backing: &Backing, frame: u32) {
        less(&self.global.uncommitted, 1);
        less(&backing.counts.uncommitted, 1);
        self.account_writeback_ends(backing, frame);
    }

    /// T5 of all pages of a request: their write ended.
    pub(crate) fn account_written(&self, backing: &Backing, written: &[PagePointer]) {
        less(&self.global.writeback, written.len() as u64);
        less(&backing.counts.writeback, written.len() as u64);
        self.memory
            .for_each_zone(written, |zone, pages| less(&zone.writeback, pages));
    }

    /// T5 of one page: its write ended.
    fn account_writeback_ends(&self, backing: &Backing, frame: u32) {
        less(&self.global.writeback, 1);
        less(&backing.counts.writeback, 1);
        less(&self.memory.zone_of(frame).writeback, 1);
    }

    /// The writes of `pages` failed; they stay, dirty again.
    pub(crate) fn account_failed(&self, backing: &Backing, object: &ObjectState, pages: u64) {
        backing
            .counts
            .failed_pages
            .fetch_add(pages, Ordering::Relaxed);
        // A request has fewer pages than there are frames.
        object
            .failures
            .pages
            .fetch_add(pages as u32, Ordering::Relaxed);
        self.global.failed.fetch_add(pages, Ordering::Relaxed);
        self.accounts.count(Counter::NrWriteFailed, pages);
    }

    /// A page whose last write failed is written again, or dropped.
    pub(crate) fn account_failure_over(&self, backing: &Backing, object: &ObjectState) {
        less(&self.global.failed, 1);
        less(&backing.counts.failed_pages, 1);
        let before = object.failures.pages.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a page that failed was counted");
    }

    /// T7: a dirty page was dropped without a write.
    pub(crate) fn account_cancelled(&self, backing: &Backing, frame: u32) {
        less(&self.global.dirty, 1);
        less(&backing.counts.reclaimable, 1);
        less(&self.memory.zone_of(frame).dirty, 1);
    }

    /// Counts a page that reclaim submitted for writing.
    pub fn note_reclaim_write(&self, frame: u32, is_kswapd: bool, is_file: bool) {
        self.accounts.count(Counter::NrVmscanWrite, 1);
        let zone = self.memory.zone_of(frame);
        self.accounts.record_with(|| {
            let mut levels_of_all = PageLevels::default();
            for zone in &self.memory.zones {
                levels_of_all.add(self.memory.levels(zone));
            }
            Event::MmVmscanWriteFolio {
                nid: zone.node,
                zone: zone.number,
                is_file,
                is_kswapd,
                levels: self.memory.levels(zone),
                levels_of_all,
            }
        });
    }
}
