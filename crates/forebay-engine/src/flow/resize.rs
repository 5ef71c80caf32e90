//! Cutting an object and discarding parts of it, against pages that are in flight.
//!
//! Spec/writeback.md 10.2: nobody puts pages in while a resize is under way, and no write in flight
//! can land in what was given up. The store may carry out a cut or a discard late: the resize goes
//! on until the store has answered, even if no caller waits for it any more.

mod anonymous;
mod dropping;
mod line;

use crate::error::AccessError;
use crate::event::CallKind;
use crate::flow::resize::line::ResizeOf;
use crate::handle::Handle;
use crate::marks::Mark;
use crate::parts::Files;
use crate::state::backing::Backing;
use crate::state::dirty_index::ALL_PAGES;
use crate::state::frame::flag;
use crate::state::index::LONGEST_BYTES;
use crate::state::index::key;
use crate::state::object::{CutPlace, ObjectState, Origin, ResizeGuard};
use forebay_base::sync::atomic::Ordering;
use forebay_base::units::{byte_of, page_of, pages_for};
use forebay_base::{PAGE_BYTES, Span};
use forebay_law::blame::Cause;
use forebay_store::{Failure, IoKind, Request};
use std::ops::Range;

/// Zeros to write at a time if a store cannot discard.
static ZEROS: [u8; 16 * PAGE_BYTES] = [0; 16 * PAGE_BYTES];

impl Files {
    /// Makes the object `length_bytes` long. What was past that is gone, in the store too.
    pub(crate) async fn truncate(
        &self,
        handle: &Handle,
        length_bytes: u64,
    ) -> Result<(), AccessError> {
        self.check_resize(handle, length_bytes)?;
        if handle.object.is_anonymous() {
            return self.truncate_anonymous(handle, length_bytes).await;
        }
        let (files, backing) = (self.shared(), handle.backing.clone());
        let given_up = page_of(length_bytes)..u64::MAX;
        let call = self.dirty.call(handle, CallKind::Truncate, length_bytes, 0);
        let waiting = self.accounts.waiting(&call.waits, Cause::Resize);
        let place = self
            .writeback
            .place_in_line(&handle.object, given_up)
            .await?;
        drop(waiting);
        let cut = async move { files.truncate_file(&place, &backing, length_bytes).await };
        self.writeback
            .resize_apart(
                &call,
                handle,
                ResizeOf {
                    name: "truncate",
                    page_index: page_of(length_bytes),
                },
                cut,
            )
            .await?
    }

    /// Cuts or extends the object of a store. No page is dropped before the store has done it, so
    /// that nothing is lost if the store fails (promise 2).
    async fn truncate_file(
        &self,
        place: &CutPlace,
        backing: &Backing,
        length_bytes: u64,
    ) -> Result<(), AccessError> {
        let object = &**place.object();
        let guard = self.writeback.resize_alone(place).await;
        if length_bytes >= object.length_bytes() {
            return self.extend(object, backing, length_bytes, &guard).await;
        }
        // From now on nobody submits or holds a page past the new end.
        let before = guard.set_length(length_bytes);
        let behind = pages_for(length_bytes)..pages_for(before);
        if let Err(error) = self
            .writeback
            .guards_drop(object, page_of(length_bytes)..behind.end)
            .await
        {
            guard.set_length(before);
            return Err(error);
        }
        // What was submitted before must not land after the cut.
        self.pages.writes_end(backing, object, &ALL_PAGES).await;
        let reported = self
            .writeback
            .report_length(backing, object, length_bytes, &guard)
            .await;
        if let Err(error) = reported {
            self.accounts.mark(Mark::CutFailed);
            guard.set_length(before);
            return Err(error.into());
        }
        self.writeback.drop_surely(object, backing, &behind).await;
        while self.zero_tail(object, length_bytes).await.is_err() {}
        Ok(())
    }

    /// Makes an object longer, or leaves it as long as it is. The store learns of it first.
    /// Meanwhile writes past the old end wait: they would be past the end again if the store
    /// refused a longer object.
    async fn extend(
        &self,
        object: &ObjectState,
        backing: &Backing,
        length_bytes: u64,
        guard: &ResizeGuard<'_>,
    ) -> Result<(), AccessError> {
        self.pages.writes_end(backing, object, &ALL_PAGES).await;
        let reported = self
            .writeback
            .report_length(backing, object, length_bytes, guard)
            .await;
        reported.inspect_err(|_| self.accounts.mark(Mark::CutFailed))?;
        guard.set_length(length_bytes);
        Ok(())
    }

    /// Gives up an object that nobody will look for again: its pages are dropped, dirty or not, and
    /// the store is asked for nothing more.
    pub(crate) async fn abandon(&self, handle: &Handle) -> Result<(), AccessError> {
        let (files, backing) = (self.shared(), handle.backing.clone());
        let call = self
            .dirty
            .call(handle, CallKind::Discard, 0, handle.object.length_bytes());
        let waiting = self.accounts.waiting(&call.waits, Cause::Resize);
        let place = self
            .writeback
            .place_in_line(&handle.object, ALL_PAGES)
            .await?;
        drop(waiting);
        let give_up = async move {
            let object = &**place.object();
            let guard = files.writeback.resize_alone(&place).await;
            let before = guard.set_length(0);
            let pages = 0..pages_for(before);
            if let Err(error) = files.writeback.guards_drop(object, pages.clone()).await {
                guard.set_length(before);
                return Err(error);
            }
            files.pages.writes_end(&backing, object, &ALL_PAGES).await;
            files.writeback.drop_surely(object, &backing, &pages).await;
            object.length.unsynced.store(false, Ordering::Release);
            if let Some(changes) = object.to_commit() {
                object.note_committed(changes);
            }
            Ok(())
        };
        self.writeback
            .resize_apart(
                &call,
                handle,
                ResizeOf {
                    name: "abandon",
                    page_index: 0,
                },
                give_up,
            )
            .await?
    }

    /// Gives a range up: it reads as zeros from now on.
    pub(crate) async fn discard(
        &self,
        handle: &Handle,
        range: Range<u64>,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        let length_bytes = range.end.saturating_sub(range.start);
        let call = self
            .dirty
            .call(handle, CallKind::Discard, range.start, length_bytes);
        let waiting = self.accounts.waiting(&call.waits, Cause::Resize);
        let end = range.end.min(self.settled_length(object).await?);
        drop(waiting);
        if range.start >= end {
            return Ok(());
        }
        self.check_resize(handle, end)?;
        let whole = range.start.div_ceil(PAGE_BYTES as u64)..page_of(end);
        if whole.start >= whole.end {
            return self.write_zeros(handle, range.start..end).await;
        }
        self.write_zeros(handle, range.start..byte_of(whole.start))
            .await?;
        self.write_zeros(handle, byte_of(whole.end)..end).await?;
        let waiting = self.accounts.waiting(&call.waits, Cause::Resize);
        let place = self
            .writeback
            .place_in_line(&handle.object, whole.clone())
            .await?;
        if object.is_anonymous() {
            let guard = self.writeback.resize_alone(&place).await;
            self.writeback
                .drop_pages(object, &handle.backing, whole)
                .await?;
            drop(guard);
            return Ok(());
        }
        drop(waiting);
        let bytes = byte_of(whole.start)..byte_of(whole.end);
        let (files, backing) = (self.shared(), handle.backing.clone());
        let first = whole.start;
        let give_up = async move { files.discard_pages(&place, &backing, whole).await };
        match self
            .writeback
            .resize_apart(
                &call,
                handle,
                ResizeOf {
                    name: "discard",
                    page_index: first,
                },
                give_up,
            )
            .await?
        {
            Err(AccessError::Store(error)) if error.failure == Failure::Unsupported => {
                self.accounts.mark(Mark::DiscardUnsupported);
                self.write_zeros(handle, bytes).await
            }
            Err(error @ AccessError::Store(_)) => {
                self.accounts.mark(Mark::DiscardFailed);
                Err(error)
            }
            other => other,
        }
    }

    /// The object's length once no resize is under way: until then a cut may still restore another
    /// one.
    async fn settled_length(&self, object: &ObjectState) -> Result<u64, AccessError> {
        loop {
            // Nobody resizes during a batch. Two separate looks at the length and at the resize, in
            // either order, could have the beginning or the end of a cut between them.
            if let Some(_batch) = object.begin_batch() {
                return Ok(object.length_bytes());
            }
            self.accounts.resize_ends(object).await?;
        }
    }

    /// Lets the store discard pages and then drops them. None is dropped before the store has done
    /// it, so that nothing is lost if the store fails (promise 2).
    async fn discard_pages(
        &self,
        place: &CutPlace,
        backing: &Backing,
        pages: Range<u64>,
    ) -> Result<(), AccessError> {
        let object = &**place.object();
        let guard = self.writeback.resize_alone(place).await;
        // What was cut off since the caller looked is gone.
        let end = pages.end.min(pages_for(object.length_bytes()));
        let pages = pages.start.min(end)..end;
        if pages.is_empty() {
            return Ok(());
        }
        guard.discards(&pages);
        self.writeback.guards_drop(object, pages.clone()).await?;
        // What was submitted before must not land after the discard.
        self.pages.writes_end(backing, object, &pages).await;
        let request = Request {
            kind: IoKind::Discard,
            object: object.store_object(),
            offset_bytes: byte_of(pages.start),
            length_bytes: byte_of(pages.end - pages.start),
        };
        let answer = self.writeback.ask(backing, request, Span::MAX).await;
        object.changed();
        answer.unwrap_or(Err(request.error(Failure::NoAnswer)))?;
        // The dirty pages there may have been the only reason for the length of the store's object.
        // No page is left past them whose write would make it that long again, and a caller that
        // closes the object without a sync does not commit. A sync that finds no dirty page there
        // any more finds this flag.
        let at_end = pages.end >= pages_for(object.length_bytes());
        if at_end {
            object.length.unsynced.store(true, Ordering::Release);
        }
        self.writeback.drop_surely(object, backing, &pages).await;
        if at_end {
            let length_bytes = object.length_bytes();
            let reported = self
                .writeback
                .report_length(backing, object, length_bytes, &guard);
            // If the store refuses, each sync asks again.
            if reported.await.is_err() {
                self.accounts.mark(Mark::CommitLengthFailed);
            }
        }
        Ok(())
    }

    fn check_resize(&self, handle: &Handle, end_bytes: u64) -> Result<(), AccessError> {
        let limit_bytes = match &handle.object.origin {
            Origin::File { .. } => LONGEST_BYTES,
            Origin::Anonymous { slots } => byte_of(slots.len() as u64),
        };
        if end_bytes > limit_bytes {
            self.accounts.mark(Mark::TooFar);
            return Err(AccessError::TooFar {
                offset_bytes: end_bytes,
                limit_bytes,
            });
        }
        self.check_changeable(handle)
    }

    /// Zeros the part of the last page that a cut left.
    async fn zero_tail(&self, object: &ObjectState, length_bytes: u64) -> Result<(), AccessError> {
        let start = length_bytes as usize % PAGE_BYTES;
        if start == 0 {
            return Ok(());
        }
        let key = key(object.number, page_of(length_bytes));
        while let Some(frame) = self.memory.find_surely(key) {
            if let Ok(mut hold) = self.memory.frames.exclude(frame, key, flag::WRITEBACK) {
                let arena = self.memory.frames.arena();
                arena.zero(&mut hold, start, PAGE_BYTES - start);
                break;
            }
            self.writeback.page_is_idle(object, frame, key).await?;
        }
        Ok(())
    }

    /// Zeros the part of `bytes` before the object's end, which may have been cut since the caller
    /// looked at it.
    async fn write_zeros(&self, handle: &Handle, bytes: Range<u64>) -> Result<(), AccessError> {
        let mut at = bytes.start;
        while at < bytes.end {
            let length = (bytes.end - at).min(ZEROS.len() as u64);
            let zeros = &ZEROS[..length as usize];
            self.overwrite(handle, zeros, at).await?;
            at += length;
        }
        Ok(())
    }
}
