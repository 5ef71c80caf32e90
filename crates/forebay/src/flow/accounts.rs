//! The books of dirty pages: every transition of spec/writeback.md 1.2 moves its counters here.
//!
//! The counters are exact: each is moved once, by whoever made the transition, while a hold or a
//! claim keeps the page from making another.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::state::backing::Backing;
use crate::state::object::ObjectState;
use forebay_base::sync::atomic::{AtomicU64, Ordering};

/// Takes `pages` from a gauge that cannot be below that.
pub(crate) fn less(gauge: &AtomicU64, pages: u64) {
    let before = gauge.fetch_sub(pages, Ordering::Relaxed);
    debug_assert!(
        before >= pages,
        "a gauge of {before} pages cannot lose {pages}"
    );
}

/// A page whose last write failed is written again, or dropped.
pub(crate) fn account_failure_over(backing: &Backing, object: &ObjectState) {
    less(&backing.failed_pages, 1);
    less(&object.failed_pages, 1);
}

impl Engine {
    /// T1: a clean page became dirty.
    pub(crate) fn account_dirtied(&self, backing: &Backing, frame: u32) {
        self.account_redirtied(backing, frame);
        backing.dirtied.fetch_add(1, Ordering::Relaxed);
        self.count(Counter::NrDirtied, 1);
    }

    /// T6: a page that could not be written is dirty again.
    pub(crate) fn account_redirtied(&self, backing: &Backing, frame: u32) {
        self.global.dirty.fetch_add(1, Ordering::Relaxed);
        backing.reclaimable.fetch_add(1, Ordering::Relaxed);
        self.zone_of(frame).dirty.fetch_add(1, Ordering::Relaxed);
    }

    /// T3 and T4 together: a dirty page was claimed, and its write is submitted.
    pub(crate) fn account_claimed(&self, backing: &Backing, frame: u32) {
        self.account_cancelled(backing, frame);
        self.account_writeback_begins(backing, frame);
    }

    /// T4 of a page that was not in the books as dirty (anonymous memory).
    pub(crate) fn account_writeback_begins(&self, backing: &Backing, frame: u32) {
        self.global.writeback.fetch_add(1, Ordering::Relaxed);
        backing.writeback.fetch_add(1, Ordering::Relaxed);
        self.zone_of(frame)
            .writeback
            .fetch_add(1, Ordering::Relaxed);
    }

    /// T8: the write of `pages` ended, and they wait for a commit.
    pub(crate) fn account_uncommitted(&self, backing: &Backing, pages: u64) {
        self.global.uncommitted.fetch_add(pages, Ordering::Relaxed);
        backing.uncommitted.fetch_add(pages, Ordering::Relaxed);
    }

    /// T9: an unstable page was committed, is dirty again, or was dropped.
    pub(crate) fn account_unstable_ends(&self, backing: &Backing, frame: u32) {
        less(&self.global.uncommitted, 1);
        less(&backing.uncommitted, 1);
        self.account_writeback_ends(backing, frame);
    }

    /// T5: its write ended.
    pub(crate) fn account_writeback_ends(&self, backing: &Backing, frame: u32) {
        less(&self.global.writeback, 1);
        less(&backing.writeback, 1);
        less(&self.zone_of(frame).writeback, 1);
    }

    /// The writes of `pages` failed; they are dirty again and kept.
    pub(crate) fn account_failed(&self, backing: &Backing, object: &ObjectState, pages: u64) {
        backing.failed_pages.fetch_add(pages, Ordering::Relaxed);
        object.failed_pages.fetch_add(pages, Ordering::Relaxed);
        self.count(Counter::NrWriteFailed, pages);
    }

    /// T7: a dirty page was dropped without a write.
    pub(crate) fn account_cancelled(&self, backing: &Backing, frame: u32) {
        less(&self.global.dirty, 1);
        less(&backing.reclaimable, 1);
        less(&self.zone_of(frame).dirty, 1);
    }
}
