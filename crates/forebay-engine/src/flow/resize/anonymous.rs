//! Cutting anonymous memory. No store learns its length, and its pages may be in swap.

use crate::error::AccessError;
use crate::event::CallKind;
use crate::flow::read::Missing;
use crate::flow::resize::line::ResizeOf;
use crate::handle::Handle;
use crate::parts::Files;
use crate::state::backing::Backing;
use crate::state::frame::flag;
use crate::state::index::key;
use crate::state::object::{CutPlace, ObjectState};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::atomic::Ordering;
use forebay_base::units::{page_of, pages_for};

impl Files {
    /// Makes anonymous memory `length_bytes` long. What was past that is gone.
    pub(super) async fn truncate_anonymous(
        &self,
        handle: &Handle,
        length_bytes: u64,
    ) -> Result<(), AccessError> {
        let first = page_of(length_bytes);
        let call = self.dirty.call(handle, CallKind::Truncate, length_bytes, 0);
        loop {
            let (files, backing) = (self.shared(), handle.backing.clone());
            let place = self
                .writeback
                .place_in_line(&handle.object, first..u64::MAX)
                .await?;
            let cut = async move { files.cut_anonymous(&place, &backing, length_bytes).await };
            if self
                .writeback
                .resize_apart(
                    &call,
                    handle,
                    ResizeOf {
                        name: "truncate",
                        page_index: first,
                    },
                    cut,
                )
                .await??
            {
                return Ok(());
            }
            // The rest of the last page is in swap, where nobody can zero it. It comes in
            // unchanged, because the cut may still be refused.
            let missing = Missing::Absent { page: first };
            self.bring_in(&call, handle, missing, first).await?;
        }
    }

    /// Nobody puts pages in from the new length to the last page dropped, so none stays past the
    /// end. False if the page with the new end is only in swap: then nothing is cut.
    async fn cut_anonymous(
        &self,
        place: &CutPlace,
        backing: &Backing,
        length_bytes: u64,
    ) -> Result<bool, AccessError> {
        let object = &**place.object();
        let guard = self.writeback.resize_alone(place).await;
        let before = guard.set_length(length_bytes);
        if length_bytes >= before {
            return Ok(true);
        }
        let behind = pages_for(length_bytes)..pages_for(before);
        let held = page_of(length_bytes)..behind.end;
        if let Err(error) = self.writeback.guards_drop(object, held).await {
            guard.set_length(before);
            return Err(error);
        }
        if !self.zero_anonymous_tail(object, length_bytes).await {
            guard.set_length(before);
            return Ok(false);
        }
        self.writeback.drop_surely(object, backing, &behind).await;
        Ok(true)
    }

    /// Zeros the part of the last page that a cut left. False if that page is only in swap.
    async fn zero_anonymous_tail(&self, object: &ObjectState, length_bytes: u64) -> bool {
        let start = length_bytes as usize % PAGE_BYTES;
        if start == 0 {
            return true;
        }
        let page = page_of(length_bytes);
        let key = key(object.number, page);
        while let Some(frame) = self.memory.find_surely(key) {
            let Ok(mut hold) = self.memory.frames.exclude(frame, key, flag::WRITEBACK) else {
                // However long that takes: what keeps it busy ends by itself.
                while self
                    .writeback
                    .page_is_idle(object, frame, key)
                    .await
                    .is_err()
                {}
                continue;
            };
            let arena = self.memory.frames.arena();
            arena.zero(&mut hold, start, PAGE_BYTES - start);
            if hold.word() & flag::DIRTY == 0 {
                self.memory.clean_anonymous_is_gone();
                hold.set(flag::DIRTY);
            }
            self.pages.anonymous_dirtied(object, hold);
            return true;
        }
        object.swap_slot(page).load(Ordering::Acquire) == 0
    }
}
