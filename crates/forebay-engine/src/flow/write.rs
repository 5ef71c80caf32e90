//! Writing: find or make the page, copy, mark it dirty, and pay for it.

use crate::accounting::calls::{Access, Call};
use crate::counters::Counter;
use crate::error::AccessError;
use crate::event::CallKind;
use crate::flow::read::Missing;
use crate::handle::Handle;
use crate::marks::Mark;
use crate::memory::FrameRequest;
use crate::memory::FreshFrame;
use crate::parts::{Files, Pages, Throttle};
use crate::state::backing::Enqueued;
use crate::state::dirtier::OwedPause;
use crate::state::dirty_index::SlabFull;
use crate::state::flusher_requests::FlusherWork;
use crate::state::frame::{ExclusiveHold, Refused, flag};
use crate::state::index::LONGEST_BYTES;
use crate::state::index::key;
use crate::state::object::{BatchGuard, Origin};
use crate::state::payer::{DirtiedPages, Payer};
use crate::state::stamp::Stamp;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::{byte_of, page_of, pages_for};
use forebay_law::blame::Cause;
use std::ops::Range;
use std::pin::pin;

/// Pages that are written without checking whether a resize or a pause is due. No more of them
/// become dirty than the writer has left of its quota.
const STRETCH_PAGES: usize = 64;

/// How far ahead pages are fetched of which only the start is written.
const STARTS_AHEAD: u64 = 4;

/// How far ahead of a write of several pages the tables are fetched.
const WRITES_AHEAD: usize = 4;

/// What a write cannot do without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// Somebody holds the page, or a write of it is in flight and must not see it change.
    Busy { frame: u32, key: u64 },
    /// Part of a page that is not resident is to be written.
    NeedsFill { page: u64 },
    /// No frame is free.
    NeedsFrame,
    /// No dirty block is free.
    NeedsBlock,
    /// The object is being resized.
    Resizing,
}

/// What is to be written.
#[derive(Clone, Copy, Debug)]
struct Content<'a> {
    bytes: &'a [u8],
    /// Bytes past the object's end count as written, and the object gets no longer.
    keeps_length: bool,
}

impl<'a> Content<'a> {
    /// The description of the call that writes it at `offset_bytes`.
    fn access(self, offset_bytes: u64) -> Access {
        let kind = if self.keeps_length {
            CallKind::Discard
        } else {
            CallKind::Write
        };
        Access {
            kind,
            offset_bytes,
            bytes: self.bytes.len() as u64,
        }
    }

    /// What is left of it after the first `done` bytes.
    fn behind(self, done: usize) -> Content<'a> {
        Content {
            bytes: &self.bytes[done..],
            ..self
        }
    }
}

/// A part of one page that is to be written.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    page: u64,
    start: usize,
    bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// The first piece of `bytes`, which are to be written from `offset_bytes` on.
    fn first_of(bytes: &'a [u8], offset_bytes: u64) -> Piece<'a> {
        let start = offset_bytes as usize % PAGE_BYTES;
        let length = (PAGE_BYTES - start).min(bytes.len());
        Piece {
            page: page_of(offset_bytes),
            start,
            bytes: &bytes[..length],
        }
    }

    /// The part of it before the byte `end_bytes` of the object, if there is one.
    fn before(self, end_bytes: u64) -> Option<Piece<'a>> {
        let left = end_bytes.saturating_sub(byte_of(self.page) + self.start as u64);
        let length = left.min(self.bytes.len() as u64) as usize;
        (length > 0).then(|| Piece {
            bytes: &self.bytes[..length],
            ..self
        })
    }

    fn end_bytes(&self) -> u64 {
        byte_of(self.page) + (self.start + self.bytes.len()) as u64
    }

    fn is_whole(&self) -> bool {
        self.bytes.len() == PAGE_BYTES
    }
}

impl Files {
    /// Writes all of `bytes`.
    pub(crate) fn write(
        &self,
        handle: &Handle,
        bytes: &[u8],
        offset_bytes: u64,
    ) -> impl Future<Output = Result<(), AccessError>> {
        let content = Content {
            bytes,
            keeps_length: false,
        };
        self.write_content(handle, content, offset_bytes)
    }

    /// Writes those of `bytes` that lie before the object's end, wherever the end is when their
    /// turn comes: a caller that cuts the object meanwhile must not find it longer again.
    pub(super) fn overwrite(
        &self,
        handle: &Handle,
        bytes: &[u8],
        offset_bytes: u64,
    ) -> impl Future<Output = Result<(), AccessError>> {
        let content = Content {
            bytes,
            keeps_length: true,
        };
        self.write_content(handle, content, offset_bytes)
    }

    async fn write_content(
        &self,
        handle: &Handle,
        content: Content<'_>,
        offset_bytes: u64,
    ) -> Result<(), AccessError> {
        let end_bytes = offset_bytes.saturating_add(content.bytes.len() as u64);
        let pages = page_of(offset_bytes)..pages_for(end_bytes);
        // A write that is refused in any case waits for nobody.
        let (request, mut call) = (content.access(offset_bytes), None);
        // The discard that it is a part of counts its own error.
        let told = |outcome: Result<(), AccessError>| {
            if content.keeps_length {
                return outcome;
            }
            self.accounts.told(CallKind::Write, outcome)
        };
        let may_be_done = end_bytes <= LONGEST_BYTES && !handle.is_read_only;
        if may_be_done && let Some(number) = handle.object.resizing.cuts.last_of(&pages) {
            // A cut that was asked for before this write ends before it, even if no caller waits
            // for that cut any more. Later cuts are independent of it.
            self.accounts.mark(Mark::WriteMetResize);
            let call = Call::in_place(&mut call, &self.dirty, handle, request);
            let _waiting = self.accounts.waiting(&call.waits, Cause::Resize);
            told(Box::pin(self.accounts.cuts_end(&handle.object, number, &pages)).await)?;
        }
        told(self.check_write(handle, content, offset_bytes))?;
        if handle.dirtier.owes_a_pause() {
            // Boxed: it is rare, and writers should not carry its size twice.
            let call = Call::in_place(&mut call, &self.dirty, handle, request);
            told(Box::pin(self.throttle.throttle_call(call, handle, offset_bytes)).await)?;
        }
        let mut spare = None;
        let mut done = 0;
        while done < content.bytes.len() {
            let from = offset_bytes + done as u64;
            let (written, dirtied, obstacle) =
                self.write_stretch(handle, content.behind(done), from, &mut spare);
            done += written;
            // Anonymous memory counts against no dirty limit: no flusher would make room.
            if dirtied > 0 && !handle.object.is_anonymous() {
                self.throttle.pages_are_dirty(handle, dirtied);
                let is_due = self.throttle.dirtied(&DirtiedPages {
                    backing: &handle.backing,
                    dirtier: &handle.dirtier,
                    pages: dirtied,
                    call_ends: done == content.bytes.len(),
                });
                if is_due || handle.dirtier.turn.is_taken() {
                    let call = Call::in_place(&mut call, &self.dirty, handle, request);
                    told(self.throttle.throttle_call(call, handle, from).await)?;
                }
            }
            if let Some(obstacle) = obstacle {
                let call = Call::in_place(&mut call, &self.dirty, handle, request);
                told(
                    self.wait_for_obstacle(call, handle, obstacle, &mut spare)
                        .await,
                )?;
            }
        }
        Ok(())
    }

    /// Writes all of `bytes` if that needs no waiting at all; otherwise says how far it came.
    #[inline]
    pub(crate) fn write_resident(&self, handle: &Handle, bytes: &[u8], offset_bytes: u64) -> usize {
        let content = Content {
            bytes,
            keeps_length: false,
        };
        let object = &*handle.object;
        if bytes.len() > PAGE_BYTES || !object.resizing.cuts.is_empty() {
            return 0;
        }
        if self.check_write(handle, content, offset_bytes).is_err() {
            return 0;
        }
        let mut done = 0;
        while done < bytes.len() {
            let piece = Piece::first_of(&bytes[done..], offset_bytes + done as u64);
            if !self.pages.overwrite_dirty(handle, piece) {
                break;
            }
            done += piece.bytes.len();
        }
        done
    }

    /// Writes `bytes` at the start of each of `pages` while these are resident and dirty, which
    /// needs no waiting; returns how many pages were written.
    pub(crate) fn write_starts(&self, handle: &Handle, bytes: &[u8], pages: Range<u64>) -> u64 {
        let content = Content {
            bytes,
            keeps_length: false,
        };
        let object = &*handle.object;
        let last = byte_of(pages.end.saturating_sub(1).max(pages.start));
        let is_possible = bytes.len() <= PAGE_BYTES
            && pages.end <= page_of(LONGEST_BYTES)
            && object.resizing.cuts.is_empty()
            && !handle.dirtier.owes_a_pause()
            && self.check_write(handle, content, last).is_ok();
        if !is_possible {
            return 0;
        }
        let mut done = 0;
        for page in pages.clone() {
            if page + STARTS_AHEAD < pages.end {
                self.memory.prefetch_page(object, page + STARTS_AHEAD);
            }
            let start = 0;
            if !self
                .pages
                .overwrite_dirty(handle, Piece { page, start, bytes })
            {
                break;
            }
            done += 1;
        }
        if done > 0 {
            handle.stream.set_previous_page(pages.start + done - 1);
        }
        done
    }

    fn check_write(
        &self,
        handle: &Handle,
        content: Content<'_>,
        offset_bytes: u64,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        let limit_bytes = match &object.origin {
            Origin::Anonymous { .. } if !content.keeps_length => object.length_bytes(),
            Origin::File { .. } | Origin::Anonymous { .. } => LONGEST_BYTES,
        };
        let end = offset_bytes.checked_add(content.bytes.len() as u64);
        if end.is_none_or(|end| end > limit_bytes) {
            self.accounts.mark(Mark::TooFar);
            return Err(AccessError::TooFar {
                offset_bytes,
                limit_bytes,
            });
        }
        self.check_changeable(handle)?;
        self.throttle.check_failures(handle)
    }

    /// Refuses a change through a read-only handle, or of an object that nobody may use any more.
    pub(super) fn check_changeable(&self, handle: &Handle) -> Result<(), AccessError> {
        if handle.is_read_only || handle.is_read_only_below() {
            self.accounts.mark(Mark::ReadOnly);
            return Err(AccessError::ReadOnly {
                object: handle.object.store_object().0,
            });
        }
        if self.accounts.is_closing() {
            self.accounts.mark(Mark::Closed);
            return Err(AccessError::Closed);
        }
        Ok(())
    }

    /// Writes up to a stretch of pages without waiting. Returns the bytes written, the pages that
    /// became dirty, and what stood in the way.
    fn write_stretch<'a>(
        &'a self,
        handle: &Handle,
        content: Content<'_>,
        offset_bytes: u64,
        spare: &mut Option<FreshFrame<'a>>,
    ) -> (usize, u64, Option<Obstacle>) {
        let Content {
            bytes,
            keeps_length,
        } = content;
        let most_dirtied = self.throttle.quota_left(&handle.backing, &handle.dirtier);
        let (mut done, mut dirtied) = (0, 0);
        let mut batch = None;
        for _ in 0..STRETCH_PAGES {
            if done == bytes.len() || dirtied >= most_dirtied {
                break;
            }
            let piece = Piece::first_of(&bytes[done..], offset_bytes + done as u64);
            if bytes.len() - done > WRITES_AHEAD * PAGE_BYTES {
                let ahead = key(handle.object.number, piece.page + WRITES_AHEAD as u64);
                self.memory.prefetch_write(ahead);
            }
            let written = if keeps_length {
                self.overwrite_piece(handle, piece, &mut batch, spare)
            } else {
                self.write_piece(handle, piece, &mut batch, spare)
            };
            match written {
                Ok(is_new) => dirtied += u64::from(is_new),
                Err(obstacle) => return (done, dirtied, Some(obstacle)),
            }
            done += piece.bytes.len();
        }
        drop(batch);
        if done > 0 {
            handle
                .stream
                .set_previous_page(page_of(offset_bytes + done as u64 - 1));
        }
        (done, dirtied, None)
    }

    /// Writes the part of a piece before the object's end. During a batch the end comes no nearer.
    fn overwrite_piece<'a, 'o>(
        &'a self,
        handle: &'o Handle,
        piece: Piece<'_>,
        batch: &mut Option<BatchGuard<'o>>,
        spare: &mut Option<FreshFrame<'a>>,
    ) -> Result<bool, Obstacle> {
        let object = &*handle.object;
        if batch.is_none() {
            *batch = Some(object.begin_batch().ok_or(Obstacle::Resizing)?);
        }
        match piece.before(object.length_bytes()) {
            Some(piece) => self.write_piece(handle, piece, batch, spare),
            None => Ok(false),
        }
    }

    /// Writes one piece. True if its page was clean before.
    fn write_piece<'a, 'o>(
        &'a self,
        handle: &'o Handle,
        piece: Piece<'_>,
        batch: &mut Option<BatchGuard<'o>>,
        spare: &mut Option<FreshFrame<'a>>,
    ) -> Result<bool, Obstacle> {
        let object = &*handle.object;
        let key = key(object.number, piece.page);
        let grows = piece.end_bytes() > object.length_bytes();
        if grows && batch.is_none() {
            *batch = Some(object.begin_batch().ok_or(Obstacle::Resizing)?);
        }
        let found = self.memory.find(key);
        let is_new = match found.map(|frame| {
            (
                frame,
                self.memory.frames.exclude(frame, key, handle.unwritable),
            )
        }) {
            // It was cut between the look at its length and the hold: look again.
            Some((_, Ok(_))) if !grows && piece.end_bytes() > object.length_bytes() => {
                return Err(Obstacle::Resizing);
            }
            Some((_, Ok(hold))) => self.write_held(handle, hold, piece, batch.as_ref())?,
            Some((frame, Err(Refused::Busy))) => return Err(Obstacle::Busy { frame, key }),
            Some((_, Err(Refused::Gone))) | None => {
                if batch.is_none() {
                    *batch = Some(object.begin_batch().ok_or(Obstacle::Resizing)?);
                }
                let batch = batch.as_ref().expect("the batch was just opened");
                self.write_absent(handle, piece, batch, spare)?
            }
        };
        Ok(is_new)
    }

    fn write_held(
        &self,
        handle: &Handle,
        mut hold: ExclusiveHold<'_>,
        piece: Piece<'_>,
        batch: Option<&BatchGuard<'_>>,
    ) -> Result<bool, Obstacle> {
        let is_new = hold.word() & flag::DIRTY == 0;
        if is_new && handle.object.is_anonymous() {
            // A write to swap that fails in this moment makes it dirty too: one of the two counts.
            if self.memory.frames.set(hold.frame(), flag::DIRTY) & flag::DIRTY == 0 {
                self.memory.clean_anonymous_is_gone();
            }
        } else if is_new {
            self.pages.tag_dirty(handle, piece.page)?;
        }
        self.memory
            .frames
            .arena()
            .copy_in(&mut hold, piece.start, piece.bytes);
        if let Some(batch) = batch {
            handle.object.grow(batch, piece.end_bytes());
        }
        let news = if is_new { flag::DIRTY } else { 0 };
        Ok(self.finish_write(handle, hold, news))
    }

    /// Makes a page for a piece whose page is not resident.
    fn write_absent<'a>(
        &'a self,
        handle: &Handle,
        piece: Piece<'_>,
        batch: &BatchGuard<'_>,
        spare: &mut Option<FreshFrame<'a>>,
    ) -> Result<bool, Obstacle> {
        let object = &*handle.object;
        self.memory
            .lists
            .prefetch_shadow(key(object.number, piece.page));
        let is_behind_end = byte_of(piece.page) >= object.length_bytes();
        let is_blank = is_behind_end || object.is_in_no_slot(piece.page);
        if !piece.is_whole() && !is_blank {
            return Err(Obstacle::NeedsFill { page: piece.page });
        }
        let want = want_of(handle);
        let fresh = spare
            .take()
            .or_else(|| self.reclaim.frame_at_once(want))
            .ok_or(Obstacle::NeedsFrame)?;
        let key = key(object.number, piece.page);
        if !object.is_anonymous() {
            self.memory.lists.overwritten(key);
        }
        let Some(mut hold) = self.pages.insert(object, piece.page, fresh, batch) else {
            // Another caller was faster. The next try finds that page.
            self.accounts.mark(Mark::WriteOvertaken);
            let frame = self.memory.find_surely(key).unwrap_or(0);
            return Err(Obstacle::Busy { frame, key });
        };
        let is_empty = !object.is_anonymous() || object.is_in_no_slot(piece.page);
        if !piece.is_whole() && !is_empty {
            // It went to swap after the look at its slot. Now that it is in memory, its slot stays.
            self.memory.release_page(hold);
            return Err(Obstacle::NeedsFill { page: piece.page });
        }
        if let Err(obstacle) = self.pages.tag_dirty(handle, piece.page) {
            self.memory.release_page(hold);
            return Err(obstacle);
        }
        let arena = self.memory.frames.arena();
        if !piece.is_whole() {
            arena.zero(&mut hold, 0, PAGE_BYTES);
        }
        arena.copy_in(&mut hold, piece.start, piece.bytes);
        object.grow(batch, piece.end_bytes());
        Ok(self.finish_write(handle, hold, flag::UPTODATE | flag::DIRTY))
    }

    /// Lets go of a page that was written to, and returns whether that made it dirty. `news` are
    /// the flags that this write sets, none if the page was dirty before. The object has grown by
    /// then: a flusher that took the page sooner would write it up to the old end and believe it
    /// clean.
    fn finish_write(&self, handle: &Handle, mut hold: ExclusiveHold<'_>, news: u64) -> bool {
        if news == 0 {
            hold.mark_accessed();
            return false;
        }
        if hold.word() & flag::RECLAIM != 0 {
            hold.unset(flag::RECLAIM);
        }
        let frame = hold.frame();
        // If a page may change under its write, that write may fail while this hold is there. Then
        // the page is dirty by now, and in the books as such.
        let was_dirty = hold.set_accessed(news) & flag::DIRTY != 0;
        if handle.object.is_anonymous() {
            self.pages.anonymous_dirtied(&handle.object, hold);
        } else if !was_dirty {
            self.dirty.account_dirty(&handle.backing, frame);
        }
        !was_dirty
    }

    async fn wait_for_obstacle<'a>(
        &'a self,
        call: &Call<'_>,
        handle: &Handle,
        obstacle: Obstacle,
        spare: &mut Option<FreshFrame<'a>>,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        match obstacle {
            Obstacle::Busy { frame, key } => {
                let _waiting = self.accounts.waiting(&call.waits, Cause::PageHeld);
                self.pages.page_is_free(handle, frame, key).await
            }
            Obstacle::NeedsFill { page } => {
                let missing = Missing::Absent { page };
                self.bring_in(call, handle, missing, page).await
            }
            Obstacle::NeedsFrame => {
                let want = want_of(handle);
                *spare = Some(self.reclaim.frame(call, want).await?);
                Ok(())
            }
            Obstacle::NeedsBlock => {
                self.accounts.mark(Mark::NoDirtyBlock);
                let _waiting = self.accounts.waiting(&call.waits, Cause::DirtyBlocks);
                self.block_is_free().await
            }
            Obstacle::Resizing => {
                self.accounts.mark(Mark::WriteMetResize);
                let _waiting = self.accounts.waiting(&call.waits, Cause::Resize);
                self.accounts.resize_ends(object).await
            }
        }
    }

    /// Waits until a block is free again, whichever store it comes from. A write that fails wakes
    /// the caller as well and gives nothing back: the wait then goes on, with its old bound.
    async fn block_is_free(&self) -> Result<(), AccessError> {
        let longest = self.settings.answer_timeout;
        let deadline = self.rt.now() + longest;
        loop {
            let listener = self.pages.slab.freed.listen();
            if self.pages.slab.free_count() > 0 {
                return Ok(());
            }
            self.dirty.stores.ask_flushers(FlusherWork::ALL);
            if self.accounts.until(deadline, listener).await.is_none() {
                break;
            }
        }
        self.accounts.mark(Mark::NoDirtyBlockInTime);
        self.accounts.count(Counter::WaitsOverdue, 1);
        Err(AccessError::NoFrames {
            waited: longest,
            held_pages: self.memory.held_pages(),
            dirty_pages: self.dirty.global.pages(),
        })
    }
}

impl Pages {
    /// Overwrites a part of a page that is resident and dirty: nobody has to learn of it.
    #[inline]
    fn overwrite_dirty(&self, handle: &Handle, piece: Piece<'_>) -> bool {
        let object = &*handle.object;
        let key = key(object.number, piece.page);
        let Some(frame) = self.memory.find_to_use(key) else {
            return false;
        };
        let Ok(mut hold) = self.memory.frames.exclude(frame, key, handle.unwritable) else {
            return false;
        };
        // The length is checked under the hold: a cut of the object sets the new length first and
        // clears the rest of the last page under a hold of its own.
        if hold.word() & flag::DIRTY == 0 || piece.end_bytes() > object.length_bytes() {
            return false;
        }
        self.memory
            .frames
            .arena()
            .copy_in(&mut hold, piece.start, piece.bytes);
        hold.mark_accessed();
        true
    }

    /// Tags a page dirty before its bytes change, so that it cannot be dirty and unknown
    /// (invariant D1).
    fn tag_dirty(&self, handle: &Handle, page: u64) -> Result<(), Obstacle> {
        if handle.object.is_anonymous() {
            return Ok(());
        }
        let since = || Stamp::at(self.accounts.now_ms());
        let tagged = lock(&handle.object.dirty).set_dirty(&self.slab, page, since);
        tagged.map(|_| ()).map_err(|SlabFull| Obstacle::NeedsBlock)
    }

    /// Waits until nobody holds the page and no write in flight forbids changing it.
    async fn page_is_free(&self, handle: &Handle, frame: u32, key: u64) -> Result<(), AccessError> {
        let object = &*handle.object;
        self.page_settles(object, frame, key, flag::EXCLUSIVE | handle.unwritable)
            .await?;
        let is_free = |word| word & crate::state::frame::HOLDS == 0;
        let dropped = self.guard_drops(object, frame, key, is_free).await;
        dropped.inspect_err(|_| self.accounts.mark(Mark::WriteHeld))
    }
}

impl Throttle {
    /// Lets a writer pause for what it dirtied, as long as the store finishes anything at all.
    async fn throttle_call(
        &self,
        call: &Call<'_>,
        handle: &Handle,
        offset_bytes: u64,
    ) -> Result<(), AccessError> {
        let Handle {
            object,
            backing,
            dirtier,
            ..
        } = handle;
        let mut turn = dirtier.turn.take();
        if turn.is_none() {
            let is_over = self.pause_along(dirtier, &call.waits).await;
            if is_over && !dirtier.owes_a_pause() {
                return self.check_failures(handle);
            }
            // The pause was not over in time, or was given up: this call is evaluated itself, with
            // the turn if it is free. Otherwise all calls except one would pass the hard limit.
            turn = dirtier.turn.take();
        }
        let longest = self.settings.answer_timeout;
        let owed = OwedPause::of(dirtier);
        let is_answered = {
            let payer = Payer {
                backing,
                dirtier,
                waits: &call.waits,
                turn: turn.as_ref(),
            };
            let balance = pin!(self.throttle(payer));
            let answered = self
                .accounts
                .while_answering(backing, longest, balance)
                .await;
            answered.is_some()
        };
        if is_answered {
            owed.end();
            drop(turn);
            // A pause that waits for pages that cannot be written ends in a refusal.
            return self.check_failures(handle);
        }
        self.accounts.mark(Mark::PauseUnanswered);
        Err(AccessError::NotAnswering {
            object: object.store_object().0,
            page_index: page_of(offset_bytes),
            waited: longest,
        })
    }

    /// Refuses a writer if its object has so many pages that cannot be written that they would fill
    /// the cache, or if its store has such pages and takes nothing of any object. While the store
    /// takes other objects, one bad object does not stop its neighbours, however large it is.
    fn check_failures(&self, handle: &Handle) -> Result<(), AccessError> {
        let of_store = handle.backing.counts.failed_pages.load(Ordering::Relaxed);
        if of_store == 0 || handle.object.is_anonymous() {
            return Ok(());
        }
        let of_object = u64::from(handle.object.failures.pages.load(Ordering::Relaxed));
        let thresh = self.dirty.dirty_limits().thresh;
        let is_one_of_many = of_object > 0 && of_store > thresh / 2;
        let is_refused = of_object > thresh / 4 || is_one_of_many;
        if is_refused || self.dirty.store_is_lost(&handle.backing, thresh) {
            self.accounts.mark(Mark::TooManyFailed);
            // A later call may succeed.
            handle.backing.ask_for_retry(self.accounts.now_ms());
            return Err(AccessError::TooManyFailed {
                object: handle.object.store_object().0,
                failed_pages: of_object,
                failed_pages_of_store: of_store,
                failure: handle.backing.last_failure(),
            });
        }
        Ok(())
    }

    /// What is left to report of pages that a stretch made dirty. They are tagged and in the books
    /// by now, so the flusher, which learns of them last, finds them.
    fn pages_are_dirty(&self, handle: &Handle, pages: u64) {
        self.dirty.account_written_to(&handle.backing, pages);
        let backing = &handle.backing;
        let wakes = match backing.enqueue(&handle.object, || self.accounts.now_ms()) {
            Enqueued::NotFirst => false,
            // The flusher's clock runs, but it may have to write at once.
            Enqueued::FirstOfArmed => self.dirty.is_over_background(backing),
            // The first dirty object starts the flusher's clock.
            Enqueued::First => true,
        };
        if wakes {
            backing.flushing.requests.wake();
        }
    }
}

/// The frame for a page that `handle` writes. Anonymous memory has no place in the dirty limits of
/// zones, and its writer is not writing to a store.
fn want_of(handle: &Handle) -> FrameRequest {
    if handle.object.is_anonymous() {
        return FrameRequest::to_read(handle.node_policy);
    }
    FrameRequest::to_write(handle.node_policy, handle.backing.number)
}
