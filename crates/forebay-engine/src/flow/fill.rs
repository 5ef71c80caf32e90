//! Bringing pages in: the pages that the readahead law asks for, a frame for each, one request a
//! run.
//!
//! A page that is being filled is held exclusively by its request. A caller that wants the page
//! waits for its word to change. A caller that gives up leaves the request to end by itself.

mod plan;

pub(crate) use self::plan::{FillPlan, Touch};

use crate::accounting::calls::Call;
use crate::counters::Counter;
use crate::error::AccessError;
use crate::handle::Handle;
use crate::marks::Mark;
use crate::memory::FrameRequest;
use crate::memory::{FreshFrame, FreshRun, NodePolicy};
use crate::parts::{Files, Pages};
use crate::state::activity::Part;
use crate::state::batch::Batch;
use crate::state::frame::{ExclusiveHold, flag};
use crate::state::index::key;
use crate::state::object::{BatchGuard, ObjectState, Origin};
use crate::state::outstanding::token;
use crate::state::read_meter::MEASURED;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::atomic::Ordering;
use forebay_base::units::{byte_of, pages_for};
use forebay_law::blame::Cause;
use forebay_rt::Work;
use forebay_store::{IoKind, PagePointer, Request};
use std::ops::Range;

/// Neighbouring pages that wait to be put into one request.
struct PendingRun<'a> {
    files: &'a Files,
    object: &'a ObjectState,
    /// Where its frames come from.
    node_policy: NodePolicy,
    first: u64,
    /// The most pages that one request may have.
    most: u64,
    /// Whether memory is reclaimed for pages that nobody needs yet. Once that freed nothing, it is
    /// not tried again.
    may_reclaim: bool,
    pages: Vec<PagePointer>,
    /// Pages that the caller waits for.
    needed: Range<u64>,
    /// Requests submitted so far, and their pages.
    requests: u64,
    submitted_pages: u64,
}

impl<'a> PendingRun<'a> {
    fn new(files: &'a Files, handle: &'a Handle, needed: Range<u64>) -> PendingRun<'a> {
        let object = &*handle.object;
        PendingRun {
            files,
            object,
            node_policy: handle.node_policy,
            first: 0,
            most: files.most_pages_of_a_read(object),
            may_reclaim: false,
            pages: files.pages.vectors.take(),
            needed,
            requests: 0,
            submitted_pages: 0,
        }
    }

    /// Puts pages in from `page` on, as many as there are fresh frames and none past the object's
    /// end, and adds them to the run. A page that was there already ends the run before it.
    /// Returns how many pages it has dealt with: none past the end.
    fn put_in(
        &mut self,
        page: u64,
        marker: Option<u64>,
        fresh: FreshRun<'_>,
        _batch: &BatchGuard<'_>,
    ) -> u64 {
        let object = self.object;
        let end = pages_for(object.length_bytes()).min(page + fresh.len() as u64);
        let to_read = (page..end).take_while(|&page| !object.is_in_no_slot(page));
        let count = to_read.count();
        if count == 0 {
            self.submit();
            return u64::from(page < end);
        }
        object.note_pages(page, page + count as u64 - 1);
        let of_swap = object.is_anonymous();
        let flags = if of_swap { flag::ANON } else { 0 };
        let memory = &self.files.memory;
        let frames = fresh.into_frames(count);
        let placed = memory.put_in(key(object.number, page), &frames, flags);
        for (at, &frame) in frames.as_slice().iter().enumerate() {
            if placed & 1 << at == 0 {
                self.submit();
                continue;
            }
            let page = page + at as u64;
            let mut hold = memory.frames.adopt(frame);
            if marker == Some(page) || of_swap && !self.needed.contains(&page) {
                hold.set(flag::READAHEAD);
            }
            self.push(page, hold);
        }
        count as u64
    }

    /// Adds an empty page to the run, which is submitted first if the page cannot join it.
    fn push(&mut self, page: u64, hold: ExclusiveHold<'_>) {
        if !self.follows(page) {
            self.submit();
        }
        if self.pages.is_empty() {
            self.first = page;
        }
        self.pages
            .push(self.files.memory.frames.arena().pointer(hold.leave()));
        if self.pages.len() as u64 >= self.most {
            self.submit();
        }
    }

    /// Whether a page follows the run in its store. Neighbours in anonymous memory need not be
    /// neighbours in swap. Their slots are compared when the pages are in, because then they cannot
    /// change.
    fn follows(&self, page: u64) -> bool {
        if !self.object.is_anonymous() {
            return true;
        }
        let slot = |page| self.object.swap_slot(page).load(Ordering::Acquire);
        self.pages.is_empty() || slot(page) == slot(self.first) + self.pages.len() as u32
    }

    fn submit(&mut self) {
        if self.pages.is_empty() {
            return;
        }
        self.requests += 1;
        self.submitted_pages += self.pages.len() as u64;
        let end = self.first + self.pages.len() as u64;
        let is_awaited = self.first < self.needed.end && self.needed.start < end;
        let pages = std::mem::replace(&mut self.pages, self.files.pages.vectors.take());
        self.files
            .submit_read(self.object, self.first, pages, is_awaited);
    }
}

impl Drop for PendingRun<'_> {
    fn drop(&mut self) {
        // Pages that wait here are held and nobody fills them, so a run is submitted before any
        // wait.
        let is_submitted = self.pages.is_empty() || std::thread::panicking();
        assert!(
            is_submitted,
            "a fill waits for nothing with pages of its own"
        );
        let pages = std::mem::take(&mut self.pages);
        self.files.pages.vectors.give_back(pages);
    }
}

impl Files {
    /// Submits reads for the pages of `plan` that are not there. For those of `needed` it waits for
    /// frames. The others are left out when memory is short, or, in a plan that is due, when
    /// reclaim frees nothing.
    pub(crate) async fn fill(
        &self,
        call: &Call<'_>,
        handle: &Handle,
        plan: FillPlan,
        needed: Range<u64>,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        let mut run = PendingRun::new(self, handle, needed.clone());
        run.may_reclaim = plan.is_due;
        let mut page = plan.pages.start;
        while page < plan.pages.end {
            let reach = page..plan.pages.end.min(page + Batch::LIMIT as u64);
            let absent = self.memory.absent_pages(object.number, reach);
            if absent == 0 {
                run.submit();
                page += 1;
                continue;
            }
            let is_needed = needed.contains(&page);
            let wanted = absent as usize;
            let Some(fresh) = self
                .frames_to_fill(call, &mut run, wanted, is_needed)
                .await?
            else {
                self.accounts.mark(Mark::FillShort);
                run.submit();
                if page >= needed.start {
                    break;
                }
                page = needed.start;
                continue;
            };
            let Some(batch) = object.begin_batch() else {
                self.accounts.mark(Mark::FillMetResize);
                run.submit();
                drop(fresh);
                if !is_needed {
                    // A caller that reads ahead may hold a page that the resize waits for.
                    break;
                }
                let _waiting = self.accounts.waiting(&call.waits, Cause::Resize);
                self.accounts.resize_ends(object).await?;
                continue;
            };
            let passed = run.put_in(page, plan.marker, fresh, &batch);
            drop(batch);
            if passed == 0 {
                self.accounts.mark(Mark::FillCut);
                break;
            }
            page += passed;
        }
        run.submit();
        let (count, pages) = (run.requests, run.submitted_pages);
        let charge = self.rt.charge(Work::Request { count });
        let swapped = if object.is_anonymous() { pages } else { 0 };
        charge.and(Work::SwapIn { pages: swapped }).await;
        Ok(())
    }

    /// Up to `wanted` frames for the next pages of `run`, which is submitted before any wait. None
    /// if memory is short and the first of the pages is not needed.
    async fn frames_to_fill(
        &self,
        call: &Call<'_>,
        run: &mut PendingRun<'_>,
        wanted: usize,
        is_needed: bool,
    ) -> Result<Option<FreshRun<'_>>, AccessError> {
        let want = FrameRequest::to_read(run.node_policy);
        loop {
            if let Some(fresh) = self.reclaim.run_at_once(want.node_policy, wanted) {
                return Ok(Some(fresh));
            }
            if is_needed {
                run.submit();
                let fresh = self.reclaim.frame(call, want).await?;
                return Ok(Some(fresh.into()));
            }
            if !run.may_reclaim {
                return Ok(None);
            }
            run.submit();
            let waiting = self
                .accounts
                .waiting(&call.waits, Cause::DirectReclaim)
                .counted(Counter::AllocstallUs);
            run.may_reclaim = Box::pin(self.reclaim.reclaim_for(&call.waits, want)).await > 0;
            drop(waiting);
        }
    }

    pub(crate) fn most_pages_of_a_read(&self, object: &ObjectState) -> u64 {
        let geometry = self.dirty.backing_of(object).geometry;
        (self.pages.vectors.pages() as u64).min(u64::from(geometry.max_io_pages))
    }

    fn submit_read(
        &self,
        object: &ObjectState,
        first: u64,
        pages: Vec<PagePointer>,
        is_awaited: bool,
    ) {
        object.in_flight.reads.fetch_add(1, Ordering::AcqRel);
        let length_bytes = (pages.len() * PAGE_BYTES) as u64;
        let backing = self.dirty.backing_of(object);
        let (store_object, offset_bytes) = match &object.origin {
            Origin::File { object, .. } => (*object, byte_of(first)),
            Origin::Anonymous { slots } => {
                let swap = self.memory.swap.get().expect("anonymous memory needs swap");
                let slot = slots[first as usize].load(Ordering::Acquire);
                self.accounts.count(Counter::Pswpin, pages.len() as u64);
                (swap.object, byte_of(u64::from(slot)))
            }
        };
        let request = Request {
            kind: IoKind::Read,
            object: store_object,
            offset_bytes,
            length_bytes,
        };
        self.writeback
            .reads_in_flight
            .fetch_add(1, Ordering::Relaxed);
        self.dirty.activity_begins(&backing, Part::Aside);
        let is_measured = backing
            .answers
            .reads
            .begins(pages.len() as u64, || self.rt.now());
        let sequence = if is_measured { MEASURED } else { 0 };
        let io = self
            .writeback
            .page_io(&backing, request, pages, token(object.number, sequence));
        self.writeback
            .submit(&backing, if is_awaited { io.awaited() } else { io });
    }
}

impl Pages {
    /// Puts an empty page in. None if it is there already; then the frame goes back.
    pub(crate) fn insert<'a>(
        &'a self,
        object: &ObjectState,
        page: u64,
        fresh: FreshFrame<'a>,
        _batch: &BatchGuard<'_>,
    ) -> Option<ExclusiveHold<'a>> {
        let key = key(object.number, page);
        let mut hold = fresh.into_hold();
        if object.is_anonymous() {
            hold.set(flag::ANON);
        }
        object.note_page(page);
        if self
            .memory
            .index
            .insert(&self.memory.frames, key, &mut hold)
            .is_err()
        {
            let frame = hold.blank();
            self.memory.free_frame(frame);
            return None;
        }
        self.memory.list_new(&[hold.frame()]);
        Some(hold)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "fill_tests.rs"]
mod tests;
