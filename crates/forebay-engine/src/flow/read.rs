//! Reading: a hit copies and goes on; a miss fills and comes back.

use crate::accounting::calls::{Access, Call};
use crate::counters::Counter;
use crate::error::AccessError;
use crate::event::CallKind;
use crate::flow::fill::{FillPlan, Touch};
use crate::flow::writeout::Selection;
use crate::handle::Handle;
use crate::marks::Mark;
use crate::memory::Memory;
use crate::parts::Files;
use crate::state::dirty_index::Tag;
use crate::state::frame::{Refused, SharedHold, flag, is_crowded, is_holdable};
use crate::state::index::LONGEST_BYTES;
use crate::state::index::{key, page_of as index_of};
use crate::state::object::ObjectState;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::lock;
use forebay_base::units::{byte_of, page_of, pages_for};
use forebay_law::blame::Cause;
use std::ops::Range;

/// A page that another caller holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BusyPage {
    pub(crate) frame: u32,
    pub(crate) key: u64,
}

/// Why a look at a page did not yield its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is not there.
    Absent { page: u64 },
    /// It is being filled or written.
    Busy(BusyPage),
    /// It is anonymous and nobody has ever written it: zeros.
    Zeros { page: u64 },
}

/// Tries before a read failure counts as final: with the whole window, then the page alone.
const READ_TRIES: u32 = 2;

impl Memory {
    /// The page under a shared hold, if it can be had at once.
    #[inline]
    pub(crate) fn look(&self, object: &ObjectState, page: u64) -> Result<SharedHold<'_>, Missing> {
        let key = key(object.number, page);
        let Some(frame) = self.find_to_use(key) else {
            return Err(self.absent(object, page));
        };
        match self.frames.hold(frame, key) {
            Ok(hold) => Ok(hold),
            Err(Refused::Busy) => Err(Missing::Busy(BusyPage { frame, key })),
            Err(Refused::Gone) => Err(self.absent(object, page)),
        }
    }

    #[cold]
    fn absent(&self, object: &ObjectState, page: u64) -> Missing {
        // Its slot is checked again: it may have been written and have gone to swap in between.
        let is_zeros = object.is_in_no_slot(page)
            && self.find_surely(key(object.number, page)).is_none()
            && object.is_in_no_slot(page);
        if is_zeros {
            Missing::Zeros { page }
        } else {
            Missing::Absent { page }
        }
    }

    /// Copies the resident pages of the range into `buffer`, from its start, page by page. Returns
    /// the bytes copied and what stopped it.
    #[inline]
    pub(crate) fn read_resident(
        &self,
        handle: &Handle,
        buffer: &mut [u8],
        offset_bytes: u64,
    ) -> (usize, Option<Missing>) {
        let object = &*handle.object;
        let mut done = 0;
        while done < buffer.len() {
            let at = offset_bytes + done as u64;
            let page = page_of(at);
            let start = at as usize % PAGE_BYTES;
            let length = (PAGE_BYTES - start).min(buffer.len() - done);
            let hold = match self.look(object, page) {
                Ok(hold) => hold,
                Err(Missing::Zeros { .. }) => {
                    buffer[done..done + length].fill(0);
                    done += length;
                    continue;
                }
                Err(missing) => return (done, Some(missing)),
            };
            if done + length < buffer.len() {
                self.prefetch_page(object, page + 1);
            }
            self.frames
                .arena()
                .copy_out(&hold, start, &mut buffer[done..done + length]);
            self.touched(handle, &hold, page, start);
            done += length;
        }
        (done, None)
    }

    /// Fetches ahead the page of the byte at `offset_bytes`, if there is one.
    #[inline]
    pub(crate) fn prefetch_at(&self, object: &ObjectState, offset_bytes: u64) {
        if offset_bytes < LONGEST_BYTES {
            self.prefetch_page(object, page_of(offset_bytes));
        }
    }

    /// Fetches ahead the page that will be copied after the current one.
    #[inline]
    pub(super) fn prefetch_page(&self, object: &ObjectState, page: u64) {
        if let Some(frame) = self.index.candidate(key(object.number, page)) {
            self.frames.prefetch(frame);
        }
    }

    /// Notes that a handle touched a page: once for each page that it passes, however small its
    /// reads are.
    #[inline]
    fn touched(&self, handle: &Handle, hold: &SharedHold<'_>, page: u64, start: usize) {
        if start == 0 || handle.stream.previous_page() != Some(page) {
            hold.mark_accessed();
            handle.stream.set_previous_page(page);
        }
        if hold.word() & flag::READAHEAD != 0 {
            self.frames.clear(hold.frame(), flag::READAHEAD);
            self.ahead_touched(handle, page);
        }
    }

    /// A page that was read ahead is used: the next window of a file is due, or the window of swap
    /// was worth it.
    #[cold]
    fn ahead_touched(&self, handle: &Handle, page: u64) {
        match self.swap.get() {
            Some(swap) if handle.object.is_anonymous() => swap.ahead.hit(),
            _ => handle.stream.marker_touched(page),
        }
    }
}

impl Files {
    /// Reads up to the object's end. The first `done` bytes of the buffer are read already: their
    /// pages are neither copied again nor touched again. Returns the bytes read.
    pub(crate) fn read(
        &self,
        handle: &Handle,
        buffer: &mut [u8],
        done: usize,
        offset_bytes: u64,
    ) -> impl Future<Output = Result<usize, AccessError>> {
        self.read_until_told::<true>(handle, buffer, done, offset_bytes)
    }

    /// The same. An error counts as one that the caller gets if `IS_TOLD`: it is not if the read is
    /// tried again.
    pub(super) async fn read_until_told<const IS_TOLD: bool>(
        &self,
        handle: &Handle,
        buffer: &mut [u8],
        mut done: usize,
        offset_bytes: u64,
    ) -> Result<usize, AccessError> {
        let told = |outcome: Result<(), AccessError>| {
            if !IS_TOLD {
                return outcome;
            }
            self.accounts.told(CallKind::Read, outcome)
        };
        let mut call = None;
        loop {
            // Checked after each wait: what was cut off meanwhile will never be there.
            let left = handle.object.length_bytes().saturating_sub(offset_bytes);
            let wanted = left.min(buffer.len() as u64) as usize;
            let rest = buffer.get_mut(done..wanted).unwrap_or_default();
            let (copied, missing) =
                self.memory
                    .read_resident(handle, rest, offset_bytes + done as u64);
            done += copied;
            let last = page_of((offset_bytes + wanted as u64).saturating_sub(1));
            if missing.is_none() && !handle.stream.has_marker() {
                return Ok(done);
            }
            let request = Access {
                kind: CallKind::Read,
                offset_bytes,
                bytes: wanted as u64,
            };
            let call = Call::in_place(&mut call, &self.dirty, handle, request);
            let planned = self.read_ahead(call, handle, last).await;
            let has_planned = matches!(planned, Ok(true));
            told(planned.map(drop))?;
            let Some(missing) = missing else {
                return Ok(done);
            };
            // What was missing may be on its way since: a window begins inside a long call.
            if !has_planned {
                told(self.bring_in(call, handle, missing, last).await)?;
            }
        }
    }

    /// The page under a shared hold, brought in if need be.
    pub(crate) async fn hold_page(
        &self,
        handle: &Handle,
        page: u64,
    ) -> Result<SharedHold<'_>, AccessError> {
        let request = Access {
            kind: CallKind::Page,
            offset_bytes: byte_of(page),
            bytes: PAGE_BYTES as u64,
        };
        let mut call = None;
        loop {
            // Checked under the hold, if there is one: a cut of the object sets the new length
            // first, and then waits for the holders of pages past it.
            let looked = self.memory.look(&handle.object, page);
            let (offset_bytes, limit_bytes) = (byte_of(page), handle.object.length_bytes());
            if offset_bytes >= limit_bytes {
                // The page was cut off while this call waited.
                self.accounts.mark(Mark::HoldCut);
                return Err(AccessError::TooFar {
                    offset_bytes,
                    limit_bytes,
                });
            }
            match looked {
                // The part of it past a new end is zeroed by the cut, under a hold of its own.
                Ok(hold) if handle.object.is_cut_at(page) => {
                    drop(hold);
                    let call = Call::in_place(&mut call, &self.dirty, handle, request);
                    let _waiting = self.accounts.waiting(&call.waits, Cause::Resize);
                    self.accounts.resize_ends(&handle.object).await?;
                }
                Ok(hold) => {
                    self.memory.touched(handle, &hold, page, 0);
                    if handle.stream.has_marker() {
                        let call = Call::in_place(&mut call, &self.dirty, handle, request);
                        self.read_ahead(call, handle, page).await?;
                    }
                    return Ok(hold);
                }
                Err(Missing::Zeros { page }) => {
                    let call = Call::in_place(&mut call, &self.dirty, handle, request);
                    self.make_zeros(call, handle, page).await?;
                }
                Err(missing) => {
                    let call = Call::in_place(&mut call, &self.dirty, handle, request);
                    self.bring_in(call, handle, missing, page).await?;
                }
            }
        }
    }

    /// If a marked page was touched: starts the next window and goes on without waiting for it.
    /// `last` is the last page that the caller wants. Returns whether a window was begun: what was
    /// missing before it must be looked for again.
    async fn read_ahead(
        &self,
        call: &Call<'_>,
        handle: &Handle,
        last: u64,
    ) -> Result<bool, AccessError> {
        let Some(page) = handle.stream.take_marker() else {
            return Ok(false);
        };
        let object = &*handle.object;
        let touch = Touch::marked(page, pages_until(page, last));
        let Some(plan) = self.plan_fill(object, &handle.stream, touch) else {
            return Ok(false);
        };
        self.fill(call, handle, plan, 0..0).await?;
        Ok(true)
    }

    /// Does what is needed so that the next look at the page may succeed. `last` is the last page
    /// that the caller wants.
    pub(crate) async fn bring_in(
        &self,
        call: &Call<'_>,
        handle: &Handle,
        missing: Missing,
        last: u64,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        match missing {
            Missing::Busy(page) => {
                handle.stream.note_waited();
                let failures = object.read_failure_count();
                self.wait_for_fill(call, object, page, failures).await
            }
            Missing::Absent { page } => self.fill_and_wait(call, handle, page, last).await,
            Missing::Zeros { .. } => Ok(()),
        }
    }

    /// Starts reading a range that will be wanted soon.
    pub(crate) async fn will_need(
        &self,
        handle: &Handle,
        bytes: Range<u64>,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        let end = bytes.end.min(object.length_bytes());
        let pages = page_of(bytes.start)..pages_for(end);
        if pages.start >= pages.end || object.is_anonymous() {
            return Ok(());
        }
        let plan = FillPlan::unmarked(pages);
        let call = self.dirty.call(
            handle,
            CallKind::Advise,
            bytes.start,
            end.saturating_sub(bytes.start),
        );
        self.fill(&call, handle, plan, 0..0).await
    }

    /// Drops the clean pages of a range that is not wanted any more and begins to write the others.
    /// Those are freed first when they are written and memory is needed. Other dirty pages of the
    /// object or the store are left alone. Waits while the store has enough to do, no longer than
    /// for an answer.
    pub(crate) async fn dont_need(&self, handle: &Handle, bytes: Range<u64>) {
        let object = &*handle.object;
        let end = bytes.end.min(object.length_bytes());
        let pages = bytes.start.div_ceil(PAGE_BYTES as u64)..pages_for(end);
        if pages.start >= pages.end {
            return;
        }
        self.pages.drop_clean(object, pages.clone());
        if object.is_anonymous()
            || lock(&object.dirty)
                .next_untried(&self.pages.slab, &pages)
                .is_none()
        {
            return;
        }
        let dirty = Selection::all(Tag::Dirty, pages);
        let length_bytes = end.saturating_sub(bytes.start);
        let call = self
            .dirty
            .call(handle, CallKind::Advise, bytes.start, length_bytes);
        let _waiting = self
            .accounts
            .waiting(&call.waits, Cause::SyncWrites)
            .counted(Counter::SyncWaitedUs);
        let written = self.writeback.writeout(&handle.backing, object, dirty);
        // Advice has no answer: the flusher writes what the store takes too late.
        let _ = self.rt.timeout(self.settings.answer_timeout, written).await;
    }

    async fn fill_and_wait(
        &self,
        call: &Call<'_>,
        handle: &Handle,
        page: u64,
        last: u64,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        if page >= pages_for(object.length_bytes()) {
            return Ok(());
        }
        self.accounts.count(Counter::CacheMiss, 1);
        let mut result = Ok(());
        for attempt in 0..READ_TRIES {
            let failures = object.read_failure_count();
            let alone = FillPlan::unmarked(page..page + 1);
            let plan = if attempt == 0 {
                let touch = Touch::miss(page, pages_until(page, last));
                let planned = self.plan_fill(object, &handle.stream, touch);
                planned
                    .filter(|plan| plan.pages.contains(&page))
                    .unwrap_or(alone)
            } else {
                self.accounts.mark(Mark::ReadRetried);
                handle.stream.change(|state| {
                    state.max_pages /= 4;
                    state.reach_pages /= 4;
                });
                alone
            };
            self.fill(call, handle, plan, page..page + 1).await?;
            let key = key(object.number, page);
            result = match self.memory.find(key) {
                Some(frame) => {
                    let page = BusyPage { frame, key };
                    self.wait_for_fill(call, object, page, failures).await
                }
                None => object
                    .read_failure_since(failures, page)
                    .map_or(Ok(()), |e| Err(e.into())),
            };
            if !matches!(result, Err(AccessError::Store(_))) {
                return result;
            }
        }
        self.accounts.mark(Mark::ReadGivenUp);
        result
    }

    /// Waits for a page that a request holds. `failures` is how many reads had failed before.
    async fn wait_for_fill(
        &self,
        call: &Call<'_>,
        object: &ObjectState,
        page: BusyPage,
        failures: u64,
    ) -> Result<(), AccessError> {
        let BusyPage { frame, key } = page;
        // A page with content is held by a writer, or by a cut.
        let is_read = self.memory.frames.word(frame) & flag::UPTODATE == 0;
        let cause = if is_read {
            Cause::StoreRead
        } else {
            Cause::PageHeld
        };
        let waiting = self.accounts.waiting(&call.waits, cause);
        self.pages
            .page_settles(object, frame, key, flag::EXCLUSIVE)
            .await?;
        drop(waiting);
        if self.memory.frames.owner(frame) == key {
            if is_crowded(self.memory.frames.word(frame)) {
                let _waiting = self.accounts.waiting(&call.waits, Cause::PageHeld);
                return self
                    .pages
                    .guard_drops(object, frame, key, is_holdable)
                    .await;
            }
            return Ok(());
        }
        object
            .read_failure_since(failures, index_of(key))
            .map_or(Ok(()), |error| Err(error.into()))
    }
}

/// How many pages a caller wants from `page` on, if `last` is the last of them.
fn pages_until(page: u64, last: u64) -> u64 {
    last.max(page) - page + 1
}
