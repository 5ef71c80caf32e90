//! Pages that a cut gives up: their holders let go, and they leave the cache, dirty or not.

use crate::error::AccessError;
use crate::marks::Mark;
use crate::parts::Writeback;
use crate::state::backing::Backing;
use crate::state::frame::{HOLDS, flag};
use crate::state::index::key;
use crate::state::object::{ObjectState, Origin};
use forebay_base::sync::lock;
use std::ops::Range;

impl Writeback {
    /// Waits until no guard holds a page of the range.
    pub(super) async fn guards_drop(
        &self,
        object: &ObjectState,
        pages: Range<u64>,
    ) -> Result<(), AccessError> {
        for page in self.memory.pages_to_visit(object, pages) {
            let key = key(object.number, page);
            if let Some(frame) = self.memory.find_surely(key) {
                self.last_guard_drops(object, frame, key).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn last_guard_drops(
        &self,
        object: &ObjectState,
        frame: u32,
        key: u64,
    ) -> Result<(), AccessError> {
        let is_free = |word| word & HOLDS == 0;
        let dropped = self.pages.guard_drops(object, frame, key, is_free).await;
        dropped.inspect_err(|_| self.accounts.mark(Mark::CutHeld))
    }

    /// Drops pages that nobody submits, puts in or begins to hold any more: what keeps one busy now
    /// ends by itself.
    pub(super) async fn drop_surely(
        &self,
        object: &ObjectState,
        backing: &Backing,
        pages: &Range<u64>,
    ) {
        while self
            .drop_pages(object, backing, pages.clone())
            .await
            .is_err()
        {
            self.accounts.mark(Mark::CutTriedAgain);
        }
    }

    /// Takes every page of the range out of the cache, dirty or not.
    pub(crate) async fn drop_pages(
        &self,
        object: &ObjectState,
        backing: &Backing,
        pages: Range<u64>,
    ) -> Result<(), AccessError> {
        for page in self.memory.pages_to_visit(object, pages.clone()) {
            self.drop_page(object, backing, page).await?;
            self.pages.slab.freed.wake_all();
        }
        if let Origin::Anonymous { slots } = &object.origin {
            for page in pages.start..pages.end.min(slots.len() as u64) {
                self.memory.give_slot_back(object, page);
            }
        }
        Ok(())
    }

    async fn drop_page(
        &self,
        object: &ObjectState,
        backing: &Backing,
        page: u64,
    ) -> Result<(), AccessError> {
        let key = key(object.number, page);
        while let Some(frame) = self.memory.find_surely(key) {
            let Ok(mut hold) = self.memory.frames.exclude(frame, key, flag::WRITEBACK) else {
                self.page_is_idle(object, frame, key).await?;
                continue;
            };
            let word = hold.word();
            if !object.is_anonymous() {
                let mut dirty = lock(&object.dirty);
                dirty.cancel(&self.pages.slab, page);
                if word & flag::UNSTABLE != 0 {
                    // Otherwise the mark belongs to a flusher that has yet to find the page gone.
                    dirty.landed(&self.pages.slab, page);
                }
                drop(dirty);
                if word & flag::DIRTY != 0 {
                    self.dirty.account_cancelled(backing, frame);
                }
                if word & flag::FAILED != 0 {
                    self.dirty.account_failure_over(backing, object);
                }
                if word & flag::UNSTABLE != 0 {
                    self.dirty.account_unstable_ends(backing, frame);
                }
            }
            if word & flag::ANON != 0 {
                self.pages.anonymous_is_dropped(word);
            }
            hold.unset(flag::DIRTY | flag::UNSTABLE | flag::FAILED | flag::PIECE);
            self.memory.release_page(hold);
            break;
        }
        if object.is_anonymous() {
            self.memory.give_slot_back(object, page);
        }
        Ok(())
    }

    /// Waits until nobody fills, writes or holds the page.
    pub(super) async fn page_is_idle(
        &self,
        object: &ObjectState,
        frame: u32,
        key: u64,
    ) -> Result<(), AccessError> {
        let busy = flag::EXCLUSIVE | flag::WRITEBACK;
        self.pages.page_settles(object, frame, key, busy).await?;
        self.last_guard_drops(object, frame, key).await
    }
}
