//! Cutting an object and discarding parts of it, against pages that are in flight.
//!
//! Spec/writeback.md 10.2: nobody puts pages in while a resize is under way, and no write in flight
//! can land in what was given up. What a store has been asked to cut or discard it may do late:
//! the resize goes on until it has answered, whether or not somebody still waits for it.

mod anonymous;

use crate::engine::Engine;
use crate::error::AccessError;
use crate::file::Handle;
use crate::flow::sync::ALL_PAGES;
use crate::marks::Mark;
use crate::state::backing::Backing;
use crate::state::frame::{HOLDS, flag};
use crate::state::index::LONGEST_BYTES;
use crate::state::index::key;
use crate::state::object::{CutPlace, ObjectState, Origin, ResizeGuard};
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::{byte_of, page_of, pages_for};
use forebay_base::{PAGE_BYTES, Span};
use forebay_store::{Failure, IoKind, Request, StoreError};
use std::future::Future;
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
        self.check_resize(handle, length_bytes)?;
        if handle.object.is_anonymous() {
            return self.truncate_anonymous(handle, length_bytes).await;
        }
        let (engine, backing) = (self.clone(), handle.backing.clone());
        let given_up = page_of(length_bytes)..u64::MAX;
        let place = self.place_in_line(&handle.object, given_up).await?;
        let cut = async move { engine.truncate_file(&place, &backing, length_bytes).await };
        self.resize_apart("truncate", handle, page_of(length_bytes), cut)
            .await?
    }

    /// A place in the line of the object's cuts. It is taken at once unless very many are in line:
    /// what the caller is told of after it has left is then behind the cut, and stays.
    pub(crate) async fn place_in_line(
        &self,
        object: &Arc<ObjectState>,
        pages: Range<u64>,
    ) -> Result<CutPlace, AccessError> {
        loop {
            let listener = object.listen_for_cuts();
            if let Some(place) = object.join_cuts(pages.clone()) {
                return Ok(place);
            }
            self.a_cut_ends(object, listener).await?;
        }
    }

    /// Does a resize apart from its caller, who hears if the store is silent. `work` has its place
    /// in line already.
    async fn resize_apart<T: Send + 'static>(
        &self,
        name: &'static str,
        handle: &Handle,
        page_index: u64,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, AccessError> {
        // Guards are waited for first, then the store.
        let waited = self.settings.held_timeout + self.settings.answer_timeout;
        let done = self.apart(name, &handle.object, waited, work).await;
        done.ok_or_else(|| {
            self.mark(Mark::ResizeOverdue);
            AccessError::NotAnswering {
                object: handle.object.store_object().0,
                page_index,
                waited,
            }
        })
    }

    /// Cuts or extends the object of a store. Until the store has done it no page is dropped, so
    /// that nothing is lost if it does not (promise 2).
    async fn truncate_file(
        &self,
        place: &CutPlace,
        backing: &Backing,
        length_bytes: u64,
    ) -> Result<(), AccessError> {
        let object = &**place.object();
        let guard = self.resize_alone(place).await;
        if length_bytes >= object.length_bytes() {
            return self.extend(object, backing, length_bytes, &guard).await;
        }
        // From now on nobody submits or holds a page behind the new end.
        let before = guard.set_length(length_bytes);
        let behind = pages_for(length_bytes)..pages_for(before);
        if let Err(error) = self
            .guards_drop(object, page_of(length_bytes)..behind.end)
            .await
        {
            guard.set_length(before);
            return Err(error);
        }
        // What was submitted before must not land after the cut.
        self.writes_end(backing, object, &ALL_PAGES).await;
        let told = self
            .tell_length(backing, object, length_bytes, &guard)
            .await;
        if let Err(error) = told {
            self.mark(Mark::CutFailed);
            guard.set_length(before);
            return Err(error.into());
        }
        self.drop_surely(object, backing, &behind).await;
        while self.zero_tail(object, length_bytes).await.is_err() {}
        Ok(())
    }

    /// Makes an object longer, or leaves it as long as it is. The store is told first: what is
    /// written behind the old end meanwhile waits, and would be behind the end once more if the
    /// store refused a longer one.
    async fn extend(
        &self,
        object: &ObjectState,
        backing: &Backing,
        length_bytes: u64,
        guard: &ResizeGuard<'_>,
    ) -> Result<(), AccessError> {
        self.writes_end(backing, object, &ALL_PAGES).await;
        let told = self.tell_length(backing, object, length_bytes, guard).await;
        told.inspect_err(|_| self.mark(Mark::CutFailed))?;
        guard.set_length(length_bytes);
        Ok(())
    }

    /// Gives an object up that nobody will look for again: its pages are dropped, dirty or not, and
    /// nothing more is asked of the store for it.
    pub(crate) async fn abandon(self: &Arc<Self>, handle: &Handle) -> Result<(), AccessError> {
        let (engine, backing) = (self.clone(), handle.backing.clone());
        let place = self.place_in_line(&handle.object, ALL_PAGES).await?;
        let give_up = async move {
            let object = &**place.object();
            let guard = engine.resize_alone(&place).await;
            let before = guard.set_length(0);
            let pages = 0..pages_for(before);
            if let Err(error) = engine.guards_drop(object, pages.clone()).await {
                guard.set_length(before);
                return Err(error);
            }
            engine.writes_end(&backing, object, &ALL_PAGES).await;
            engine.drop_surely(object, &backing, &pages).await;
            object.length_unsynced.store(false, Ordering::Release);
            if let Some(changes) = object.to_commit() {
                object.note_committed(changes);
            }
            Ok(())
        };
        self.resize_apart("abandon", handle, 0, give_up).await?
    }

    /// Waits until no guard holds a page of the range.
    async fn guards_drop(
        &self,
        object: &ObjectState,
        pages: Range<u64>,
    ) -> Result<(), AccessError> {
        for page in self.memory.pages_to_visit(object, pages) {
            let key = key(object.number, page);
            if let Some(frame) = self.memory.index.find_surely(&self.memory.frames, key) {
                self.last_guard_drops(object, frame, key).await?;
            }
        }
        Ok(())
    }

    async fn last_guard_drops(
        &self,
        object: &ObjectState,
        frame: u32,
        key: u64,
    ) -> Result<(), AccessError> {
        let is_free = |word| word & HOLDS == 0;
        let dropped = self.guard_drops(object, frame, key, is_free).await;
        dropped.inspect_err(|_| self.mark(Mark::CutHeld))
    }

    /// Gives a range up: it reads as zeros from now on.
    pub(crate) async fn discard(
        self: &Arc<Self>,
        handle: &Handle,
        range: Range<u64>,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        let end = range.end.min(self.settled_length(object).await?);
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
        let place = self.place_in_line(&handle.object, whole.clone()).await?;
        if object.is_anonymous() {
            let guard = self.resize_alone(&place).await;
            self.drop_pages(object, &handle.backing, whole).await?;
            drop(guard);
            return Ok(());
        }
        let bytes = byte_of(whole.start)..byte_of(whole.end);
        let (engine, backing) = (self.clone(), handle.backing.clone());
        let first = whole.start;
        let give_up = async move { engine.discard_pages(&place, &backing, whole).await };
        match self.resize_apart("discard", handle, first, give_up).await? {
            Err(AccessError::Store(error)) if error.failure == Failure::Unsupported => {
                self.mark(Mark::DiscardUnsupported);
                self.write_zeros(handle, bytes).await
            }
            Err(error @ AccessError::Store(_)) => {
                self.mark(Mark::DiscardFailed);
                Err(error)
            }
            other => other,
        }
    }

    /// The object's length once no resize is under way: a cut may still put another one back.
    async fn settled_length(&self, object: &ObjectState) -> Result<u64, AccessError> {
        loop {
            // In a batch nobody resizes. A look at the length and one at the resize, in whichever
            // order, could have the beginning or the end of a cut between them.
            if let Some(_batch) = object.begin_batch() {
                return Ok(object.length_bytes());
            }
            self.resize_ends(object).await?;
        }
    }

    /// Lets the store discard pages and then drops them. Until it has, none is dropped, so that
    /// nothing is lost if it does not (promise 2).
    async fn discard_pages(
        &self,
        place: &CutPlace,
        backing: &Backing,
        pages: Range<u64>,
    ) -> Result<(), AccessError> {
        let object = &**place.object();
        let guard = self.resize_alone(place).await;
        // What was cut off since somebody looked is gone.
        let end = pages.end.min(pages_for(object.length_bytes()));
        let pages = pages.start.min(end)..end;
        if pages.is_empty() {
            return Ok(());
        }
        guard.discards(&pages);
        self.guards_drop(object, pages.clone()).await?;
        // What was submitted before must not land after the discard.
        self.writes_end(backing, object, &pages).await;
        let request = Request {
            kind: IoKind::Discard,
            object: object.store_object(),
            offset_bytes: byte_of(pages.start),
            length_bytes: byte_of(pages.end - pages.start),
        };
        let answer = self.ask(backing, request, Span::MAX).await;
        object.changed();
        answer.unwrap_or(Err(request.error(Failure::NoAnswer)))?;
        // What was dirty there may have been all that made the store's object this long. Nothing is
        // left behind it whose write would make it so again, and whoever closes the object without
        // a sync does not commit. A sync that finds nothing dirty there any more finds this.
        let at_end = pages.end >= pages_for(object.length_bytes());
        if at_end {
            object.length_unsynced.store(true, Ordering::Release);
        }
        self.drop_surely(object, backing, &pages).await;
        if at_end {
            let length_bytes = object.length_bytes();
            let told = self.tell_length(backing, object, length_bytes, &guard);
            // What the store refuses each sync asks again.
            if told.await.is_err() {
                self.mark(Mark::CommitLengthFailed);
            }
        }
        Ok(())
    }

    /// Drops pages that nobody submits, puts in or begins to hold: whatever keeps one busy now
    /// ends by itself.
    async fn drop_surely(&self, object: &ObjectState, backing: &Backing, pages: &Range<u64>) {
        while self
            .drop_pages(object, backing, pages.clone())
            .await
            .is_err()
        {
            self.mark(Mark::CutTriedAgain);
        }
    }

    /// Tells the store the length that the object has or is to have. Nobody else changes it before
    /// the store answers: a length that arrives late would cut off what was written behind it.
    /// While the store may not know the object's length, each sync tells it again.
    pub(crate) async fn tell_length(
        &self,
        backing: &Backing,
        object: &ObjectState,
        length_bytes: u64,
        _alone: &ResizeGuard<'_>,
    ) -> Result<(), StoreError> {
        let request = object.request(IoKind::SetLength, length_bytes);
        let answer = self.ask(backing, request, Span::MAX).await;
        let result = answer.unwrap_or(Err(request.error(Failure::NoAnswer)));
        object.changed();
        if result.is_ok() {
            object.is_known_to_end_at(length_bytes);
        }
        object
            .length_unsynced
            .store(result.is_err(), Ordering::Release);
        result
    }

    fn check_resize(&self, handle: &Handle, end_bytes: u64) -> Result<(), AccessError> {
        let limit_bytes = match &handle.object.origin {
            Origin::File { .. } => LONGEST_BYTES,
            Origin::Anonymous { slots } => byte_of(slots.len() as u64),
        };
        if end_bytes > limit_bytes {
            self.mark(Mark::TooFar);
            return Err(AccessError::TooFar {
                offset_bytes: end_bytes,
                limit_bytes,
            });
        }
        self.check_changeable(handle)
    }

    /// The right to resize when it is the place's turn and every batch of insertions has ended.
    /// Batches wait for nothing, so that takes their few microseconds.
    pub(crate) async fn resize_alone<'p>(&self, place: &'p CutPlace) -> ResizeGuard<'p> {
        let guard = loop {
            let listener = place.object().listen_for_cuts();
            if let Some(guard) = place.begin() {
                break guard;
            }
            // However long that takes: who gives up a resize leaves it to a task of its own.
            let _ = self.a_cut_ends(place.object(), listener).await;
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
        for page in self.memory.pages_to_visit(object, pages.clone()) {
            self.drop_page(object, backing, page).await?;
            self.slab.freed.wake_all();
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
        while let Some(frame) = self.memory.index.find_surely(&self.memory.frames, key) {
            let Ok(mut hold) = self.memory.frames.exclude(frame, key, flag::WRITEBACK) else {
                self.page_is_idle(object, frame, key).await?;
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
                    self.account_unstable_ends(backing, frame);
                }
            }
            if word & flag::ANON != 0 {
                self.anonymous_is_dropped(word);
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

    /// Zeros what a cut left of the last page.
    async fn zero_tail(&self, object: &ObjectState, length_bytes: u64) -> Result<(), AccessError> {
        let start = length_bytes as usize % PAGE_BYTES;
        if start == 0 {
            return Ok(());
        }
        let key = key(object.number, page_of(length_bytes));
        while let Some(frame) = self.memory.index.find_surely(&self.memory.frames, key) {
            if let Ok(mut hold) = self.memory.frames.exclude(frame, key, flag::WRITEBACK) {
                let arena = self.memory.frames.arena();
                arena.zero(&mut hold, start, PAGE_BYTES - start);
                break;
            }
            self.page_is_idle(object, frame, key).await?;
        }
        Ok(())
    }

    /// Waits until nobody fills, writes or holds the page.
    async fn page_is_idle(
        &self,
        object: &ObjectState,
        frame: u32,
        key: u64,
    ) -> Result<(), AccessError> {
        let busy = flag::EXCLUSIVE | flag::WRITEBACK;
        self.page_settles(object, frame, key, busy).await?;
        self.last_guard_drops(object, frame, key).await
    }

    /// Zeros what of `bytes` lies before the object's end: it may have been cut since somebody
    /// looked at it.
    async fn write_zeros(
        self: &Arc<Self>,
        handle: &Handle,
        bytes: Range<u64>,
    ) -> Result<(), AccessError> {
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
