//! Cutting an object and discarding parts of it, against pages that are in flight.
//!
//! Spec/writeback.md 10.2: nobody puts pages in while a resize is under way; each page of the
//! range is taken alone, after its write has ended, and dropped; only then the store is told, so
//! that no write in flight can land in what was given up.

use crate::engine::Engine;
use crate::error::AccessError;
use crate::file::{Handle, LONGEST_BYTES};
use crate::flow::commit::of_object;
use crate::state::backing::Backing;
use crate::state::frame::{HOLDS, flag};
use crate::state::index::{key, object_of, page_of as index_of};
use crate::state::object::{ObjectState, Origin, ResizeGuard};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::{byte_of, page_of, pages_for};
use forebay_store::{Failure, IoKind, Request, StoreError};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are written at a time where a store cannot discard.
static ZEROS: [u8; 16 * PAGE_BYTES] = [0; 16 * PAGE_BYTES];

impl Engine {
    /// Makes the object `length_bytes` long. What was behind is gone, in the store too.
    pub(crate) async fn truncate(
        self: &Arc<Self>,
        handle: &Handle,
        length_bytes: u64,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        self.check_resize(object, length_bytes)?;
        let guard = self.resize_alone(object).await;
        let before = guard.set_length(length_bytes);
        // Until the store has been told, which a held page may prevent.
        object.length_unsynced.store(true, Ordering::Release);
        if length_bytes < before {
            self.drop_pages(
                object,
                &handle.backing,
                pages_for(length_bytes)..pages_for(before),
            )
            .await?;
            self.zero_tail(handle, length_bytes).await?;
        }
        let result = match object.origin {
            // Its length is told to nobody.
            Origin::Anonymous { .. } => Ok(()),
            Origin::File { .. } => self.tell_length(&handle.backing, object, &guard).await,
        };
        drop(guard);
        Ok(result?)
    }

    /// Gives a range up: it reads as zeros from now on.
    pub(crate) async fn discard(
        self: &Arc<Self>,
        handle: &Handle,
        range: Range<u64>,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        let end = range.end.min(object.length_bytes());
        if range.start >= end {
            return Ok(());
        }
        self.check_resize(object, end)?;
        let whole = range.start.div_ceil(PAGE_BYTES as u64)..page_of(end);
        if whole.start >= whole.end {
            return self.write_zeros(handle, range.start..end).await;
        }
        self.write_zeros(handle, range.start..byte_of(whole.start))
            .await?;
        self.write_zeros(handle, byte_of(whole.end)..end).await?;
        if object.is_anonymous() {
            let guard = self.resize_alone(object).await;
            self.drop_pages(object, &handle.backing, whole).await?;
            drop(guard);
            return Ok(());
        }
        let bytes = byte_of(whole.start)..byte_of(whole.end);
        match self.discard_whole(handle, whole).await? {
            Ok(()) => Ok(()),
            Err(error) if error.failure == Failure::Unsupported => {
                self.write_zeros(handle, bytes).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn discard_whole(
        self: &Arc<Self>,
        handle: &Handle,
        pages: Range<u64>,
    ) -> Result<Result<(), StoreError>, AccessError> {
        let object = &*handle.object;
        let guard = self.resize_alone(object).await;
        self.drop_pages(object, &handle.backing, pages.clone())
            .await?;
        let request = Request {
            kind: IoKind::Discard,
            object: object.store_object(),
            offset_bytes: byte_of(pages.start),
            length_bytes: byte_of(pages.end - pages.start),
        };
        let answer = self
            .ask(&handle.backing, request, self.settings.answer_timeout)
            .await;
        object.changed();
        // What was dirty there may have been all that made the store's object this long.
        object.length_unsynced.store(true, Ordering::Release);
        drop(guard);
        Ok(answer.unwrap_or(Err(request.error(Failure::NoAnswer))))
    }

    /// Makes the store's length that of the object, which cannot change meanwhile. While the store
    /// does not know it, each sync asks for it again.
    pub(crate) async fn tell_length(
        &self,
        backing: &Backing,
        object: &ObjectState,
        _alone: &ResizeGuard<'_>,
    ) -> Result<(), StoreError> {
        let request = of_object(object, IoKind::SetLength, object.length_bytes());
        let answer = self
            .ask(backing, request, self.settings.answer_timeout)
            .await;
        let result = answer.unwrap_or(Err(request.error(Failure::NoAnswer)));
        object.changed();
        object
            .length_unsynced
            .store(result.is_err(), Ordering::Release);
        result
    }

    fn check_resize(&self, object: &ObjectState, end_bytes: u64) -> Result<(), AccessError> {
        let limit_bytes = match &object.origin {
            Origin::File { .. } => LONGEST_BYTES,
            Origin::Anonymous { slots } => byte_of(slots.len() as u64),
        };
        if end_bytes > limit_bytes {
            return Err(AccessError::TooFar {
                offset_bytes: end_bytes,
                limit_bytes,
            });
        }
        if object.is_read_only() {
            return Err(AccessError::ReadOnly {
                object: object.store_object().0,
            });
        }
        if self.is_closing() {
            Err(AccessError::Closed)
        } else {
            Ok(())
        }
    }

    /// The right to resize, once every batch of insertions has ended. Batches wait for nothing,
    /// so this takes their few microseconds.
    pub(crate) async fn resize_alone<'o>(&self, object: &'o ObjectState) -> ResizeGuard<'o> {
        let guard = loop {
            if let Some(guard) = object.begin_resize() {
                break guard;
            }
            self.resize_ends(object).await;
        };
        while !guard.is_alone() {
            self.rt.yield_now().await;
        }
        guard
    }

    /// Takes every page of the range out of the cache, dirty or not.
    pub(crate) async fn drop_pages(
        &self,
        object: &ObjectState,
        backing: &Backing,
        pages: Range<u64>,
    ) -> Result<(), AccessError> {
        if pages.end.saturating_sub(pages.start) <= u64::from(self.frames.len()) {
            for page in pages {
                self.drop_page(object, backing, page).await?;
            }
            return Ok(());
        }
        // A long range is mostly holes: look at the frames instead.
        for frame in 0..self.frames.len() {
            let owner = self.frames.owner(frame);
            let page = index_of(owner);
            if owner != 0 && object_of(owner) == object.number && pages.contains(&page) {
                self.drop_page(object, backing, page).await?;
            }
        }
        if object.is_anonymous() {
            for page in pages.start..pages.end.min(pages_for(object.length_bytes())) {
                self.give_slot_back(object, page);
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
        loop {
            let Some(frame) = self.index.find_surely(&self.frames, key) else {
                break;
            };
            let Ok(mut hold) = self.frames.exclude(frame, key, flag::WRITEBACK) else {
                self.page_settles(object, frame, key, flag::EXCLUSIVE | flag::WRITEBACK)
                    .await?;
                let longest = self.settings.held_timeout;
                if !self
                    .word_becomes(frame, key, longest, |word| word & HOLDS == 0)
                    .await
                {
                    let object = object.store_object().0;
                    return Err(AccessError::Held {
                        object,
                        page_index: page,
                        waited: longest,
                    });
                }
                continue;
            };
            let word = hold.word();
            if !object.is_anonymous() {
                let mut dirty = lock(&object.dirty);
                dirty.cancel(&self.slab, page);
                if word & flag::UNSTABLE != 0 {
                    // Else the mark is that of a flusher which has yet to find the page gone.
                    dirty.landed(&self.slab, page);
                }
                drop(dirty);
                if word & flag::DIRTY != 0 {
                    self.account_cancelled(backing, frame);
                }
                if word & flag::FAILED != 0 {
                    self.account_failure_over(backing, object);
                }
                if word & flag::UNSTABLE != 0 {
                    self.account_writeback_ends(backing, frame);
                }
            }
            hold.unset(flag::DIRTY | flag::UNSTABLE | flag::FAILED);
            self.release_page(hold);
            break;
        }
        if object.is_anonymous() {
            self.give_slot_back(object, page);
        }
        Ok(())
    }

    /// Zeros what a cut left of the last page.
    async fn zero_tail(&self, handle: &Handle, length_bytes: u64) -> Result<(), AccessError> {
        let object = &*handle.object;
        let start = length_bytes as usize % PAGE_BYTES;
        if start == 0 {
            return Ok(());
        }
        let key = key(object.number, page_of(length_bytes));
        loop {
            let Some(frame) = self.index.find_surely(&self.frames, key) else {
                return Ok(());
            };
            match self.frames.exclude(frame, key, flag::WRITEBACK) {
                Ok(mut hold) => {
                    self.frames
                        .arena()
                        .zero(&mut hold, start, PAGE_BYTES - start);
                    return Ok(());
                }
                Err(_) => {
                    const BUSY: u64 = flag::EXCLUSIVE | flag::WRITEBACK;
                    self.page_settles(object, frame, key, BUSY).await?;
                    let longest = self.settings.held_timeout;
                    if !self
                        .word_becomes(frame, key, longest, |word| word & HOLDS == 0)
                        .await
                    {
                        let page_index = index_of(key);
                        let object = object.store_object().0;
                        return Err(AccessError::Held {
                            object,
                            page_index,
                            waited: longest,
                        });
                    }
                }
            }
        }
    }

    async fn write_zeros(
        self: &Arc<Self>,
        handle: &Handle,
        bytes: Range<u64>,
    ) -> Result<(), AccessError> {
        let mut at = bytes.start;
        while at < bytes.end {
            let length = (bytes.end - at).min(ZEROS.len() as u64);
            self.write(handle, &ZEROS[..length as usize], at).await?;
            at += length;
        }
        Ok(())
    }

    /// Drops the pages of a closed object, if none is dirty, in flight or held. True if it has
    /// none left.
    pub(crate) fn forget_object(&self, object: &ObjectState) -> bool {
        if !lock(&object.dirty).is_clean() || object.requests_in_flight.load(Ordering::Acquire) > 0
        {
            return false;
        }
        let mut left = 0;
        for frame in 0..self.frames.len() {
            let owner = self.frames.owner(frame);
            if owner == 0 || object_of(owner) != object.number {
                continue;
            }
            let kept = flag::WRITEBACK | flag::DIRTY | flag::UNSTABLE;
            match self.frames.exclude(frame, owner, kept) {
                Ok(hold) => self.release_page(hold),
                Err(_) => left += 1,
            }
        }
        left == 0
    }
}
