//! Bringing pages in: which ones the readahead law asks for, a frame for each, one request a run.
//!
//! A page that is being filled is held exclusively by its request; whoever wants it waits for the
//! word to change. A caller that gives up leaves the request to end by itself.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::error::AccessError;
use crate::flow::alloc::Want;
use crate::marks::Mark;
use crate::memory::FreshFrame;
use crate::state::frame::{ExclusiveHold, flag};
use crate::state::index::key;
use crate::state::object::{BatchGuard, ObjectState, Origin};
use crate::state::outstanding::token;
use crate::state::stream::Stream;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::atomic::Ordering;
use forebay_base::units::{byte_of, pages_for};
use forebay_law::readahead::{ReadaheadDecision, ReadaheadInputs, Window, decide};
use forebay_rt::Work;
use forebay_store::{IoKind, PagePointer, Request};
use std::ops::Range;
use std::sync::Arc;

/// What made a handle ask for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) page: u64,
    /// Pages that are wanted from there on.
    pub(crate) request_pages: u64,
    /// The page is there and carries the readahead mark.
    pub(crate) hit_marker: bool,
}

impl Touch {
    /// A page that is not there.
    pub(crate) fn miss(page: u64, request_pages: u64) -> Touch {
        Touch {
            page,
            request_pages,
            hit_marker: false,
        }
    }

    /// A page that is there and marked.
    pub(crate) fn marked(page: u64, request_pages: u64) -> Touch {
        Touch {
            page,
            request_pages,
            hit_marker: true,
        }
    }
}

/// Pages to read and where the readahead mark goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FillPlan {
    pub(crate) pages: Range<u64>,
    pub(crate) marker: Option<u64>,
}

/// Neighbouring pages that wait to be put into one request.
struct PendingRun<'a> {
    engine: &'a Arc<Engine>,
    object: &'a ObjectState,
    first: u64,
    /// Pages that one request may have.
    most: u64,
    pages: Vec<PagePointer>,
    /// Requests submitted so far, and their pages.
    requests: u64,
    submitted_pages: u64,
}

impl<'a> PendingRun<'a> {
    fn new(engine: &'a Arc<Engine>, object: &'a ObjectState) -> PendingRun<'a> {
        PendingRun {
            engine,
            object,
            first: 0,
            most: engine.most_pages_of_a_read(object),
            pages: engine.vectors.take(),
            requests: 0,
            submitted_pages: 0,
        }
    }

    /// Adds a page that was put in, or ends the run before one that was there.
    fn add(&mut self, page: u64, empty: Option<ExclusiveHold<'_>>, is_ahead: bool) {
        let Some(mut hold) = empty else {
            return self.submit();
        };
        if is_ahead {
            hold.set(flag::READAHEAD);
        }
        self.push(page, hold);
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
            .push(self.engine.memory.frames.arena().pointer(hold.leave()));
        if self.pages.len() as u64 >= self.most {
            self.submit();
        }
    }

    /// Whether a page lies behind the run in its store. Neighbours in anonymous memory need not be
    /// neighbours in swap; where they are is asked when they are in: then it cannot change.
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
        let pages = std::mem::replace(&mut self.pages, self.engine.vectors.take());
        self.engine.submit_read(self.object, self.first, pages);
    }
}

impl Drop for PendingRun<'_> {
    fn drop(&mut self) {
        // Pages that wait here are held and nobody fills them, so whatever waits submits first.
        let is_submitted = self.pages.is_empty() || std::thread::panicking();
        assert!(
            is_submitted,
            "a fill waits for nothing with pages of its own"
        );
        let pages = std::mem::take(&mut self.pages);
        self.engine.vectors.give_back(pages);
    }
}

impl Engine {
    /// What a miss of `page`, or a touch of a marked page, should bring in.
    pub(crate) fn plan_fill(
        &self,
        object: &ObjectState,
        stream: &Stream,
        touch: Touch,
    ) -> Option<FillPlan> {
        let Touch {
            page,
            request_pages,
            hit_marker,
        } = touch;
        let end = pages_for(object.length_bytes());
        let state = stream.state();
        if object.is_anonymous() && request_pages <= 1 {
            return (!hit_marker).then(|| FillPlan {
                pages: self.pages_with(object, page),
                marker: None,
            });
        }
        if object.is_anonymous() || state.is_random {
            let pages = page..(page + request_pages.max(1)).min(end);
            return (!hit_marker).then_some(FillPlan {
                pages,
                marker: None,
            });
        }
        let max_pages = self.longest_window(object, state.max_pages, request_pages);
        let is_cached = |page| self.memory.find(key(object.number, page)).is_some();
        let inputs = ReadaheadInputs {
            page_index: page,
            request_pages,
            max_pages,
            previous_page: stream.previous_page(),
            hit_marker,
            first_missing_after: if hit_marker {
                (page + 1..(page + 1 + max_pages).min(end)).find(|&next| !is_cached(next))
            } else {
                None
            },
            cached_before: if hit_marker {
                0
            } else {
                let before = page.saturating_sub(max_pages)..page;
                before
                    .rev()
                    .take_while(|&earlier| is_cached(earlier))
                    .count() as u64
            },
        };
        match decide(state.window, &inputs) {
            ReadaheadDecision::Nothing => None,
            ReadaheadDecision::Exactly { start, pages } => Some(FillPlan {
                pages: start..(start + pages).min(end),
                marker: None,
            }),
            ReadaheadDecision::Window { window, marker } => {
                stream.change(|state| state.window = window);
                let Window { start, size, .. } = window;
                Some(FillPlan {
                    pages: start..(start + size).min(end),
                    marker,
                })
            }
        }
    }

    /// The longest window for a read of so many pages: one that asks for more than a stream may
    /// have in advance gets it in requests as long as the store takes (spec/writeback.md 9).
    fn longest_window(&self, object: &ObjectState, usual: u64, request_pages: u64) -> u64 {
        if usual == 0 || request_pages <= usual {
            return usual;
        }
        usual.max(request_pages.min(self.most_pages_of_a_read(object)))
    }

    /// Submits reads for the pages of `plan` that are not there. For those of `needed` it waits
    /// for frames; the others are left out when memory is short.
    pub(crate) async fn fill(
        self: &Arc<Self>,
        object: &ObjectState,
        plan: FillPlan,
        needed: Range<u64>,
        node: usize,
    ) -> Result<(), AccessError> {
        let want = Want::to_read(node);
        let mut run = PendingRun::new(self, object);
        let mut page = plan.pages.start;
        while page < plan.pages.end {
            let there = self.memory.find(key(object.number, page));
            if there.is_some() {
                run.submit();
                page += 1;
                continue;
            }
            let fresh = match self.frame_at_once(want) {
                Some(fresh) => fresh,
                None if needed.contains(&page) => {
                    run.submit();
                    self.frame(want).await?
                }
                None => {
                    self.mark(Mark::FillShort);
                    run.submit();
                    if page >= needed.start {
                        break;
                    }
                    page = needed.start;
                    continue;
                }
            };
            let Some(batch) = object.begin_batch() else {
                self.mark(Mark::FillMetResize);
                run.submit();
                drop(fresh);
                if !needed.contains(&page) {
                    // Whoever reads ahead may hold a page for which the resize waits.
                    break;
                }
                self.resize_ends(object).await?;
                continue;
            };
            if page >= pages_for(object.length_bytes()) {
                self.mark(Mark::FillCut);
                break;
            }
            if object.is_in_no_slot(page) {
                run.submit();
            } else {
                let of_swap = object.is_anonymous();
                let is_ahead = plan.marker == Some(page) || of_swap && !needed.contains(&page);
                let empty = self.insert(object, page, fresh, &batch);
                run.add(page, empty, is_ahead);
            }
            drop(batch);
            page += 1;
        }
        run.submit();
        let (count, pages) = (run.requests, run.submitted_pages);
        let charge = self.rt.charge(Work::Request { count });
        let swapped = if object.is_anonymous() { pages } else { 0 };
        charge.and(Work::SwapIn { pages: swapped }).await;
        Ok(())
    }

    fn most_pages_of_a_read(&self, object: &ObjectState) -> u64 {
        let geometry = self.backing_of(object).geometry;
        (self.vectors.pages() as u64).min(u64::from(geometry.max_io_pages))
    }

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
        self.memory.list_new(&mut hold);
        Some(hold)
    }

    fn submit_read(self: &Arc<Self>, object: &ObjectState, first: u64, pages: Vec<PagePointer>) {
        object.requests_in_flight.fetch_add(1, Ordering::AcqRel);
        let length_bytes = (pages.len() * PAGE_BYTES) as u64;
        let (store, store_object, offset_bytes) = match &object.origin {
            Origin::File {
                backing, object, ..
            } => (
                self.stores.get(*backing).store.clone(),
                *object,
                byte_of(first),
            ),
            Origin::Anonymous { slots } => {
                let swap = self.memory.swap.get().expect("anonymous memory needs swap");
                let slot = slots[first as usize].load(Ordering::Acquire);
                self.count(Counter::Pswpin, pages.len() as u64);
                (
                    swap.backing.store.clone(),
                    swap.object,
                    byte_of(u64::from(slot)),
                )
            }
        };
        let request = Request {
            kind: IoKind::Read,
            object: store_object,
            offset_bytes,
            length_bytes,
        };
        self.reads_in_flight.fetch_add(1, Ordering::Relaxed);
        store.submit(self.page_io(request, pages, token(object.number, 0)));
    }
}
