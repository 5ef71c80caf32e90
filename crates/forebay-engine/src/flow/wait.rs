//! Waits of flows: for a page's word, for a resize, for a store's answer. Each has a bound, after
//! which the wait is reported (promise 7).

use crate::counters::Counter;
use crate::error::AccessError;
use crate::event::Event;
use crate::marks::Mark;
use crate::parts::{Accounts, Pages};
use crate::state::backing::Backing;
use crate::state::dirty_index::{ALL_PAGES, Tag};
use crate::state::index::page_of;
use crate::state::object::ObjectState;
use crate::state::waits::Waits;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::pages_for;
use forebay_base::{Instant, Span};
use forebay_law::blame::Cause;
use forebay_rt::wait::Listener;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

/// The writes of an object may wait behind those of others for this many times the time that the
/// store may take for an answer.
const TIMES_OF_OTHERS: u64 = 3;

impl Pages {
    /// Waits until `ready` accepts the word of `frame`, or the frame has another page. False if
    /// `longest` passed first.
    pub(crate) async fn word_becomes(
        &self,
        frame: u32,
        key: u64,
        longest: Span,
        ready: impl Fn(u64) -> bool,
    ) -> bool {
        let deadline = self.rt.now() + longest;
        loop {
            let (listener, word) = self.memory.frames.listen(frame);
            if ready(word) || self.memory.frames.owner(frame) != key {
                return true;
            }
            if self.accounts.until(deadline, listener).await.is_none() {
                self.accounts.mark(Mark::PageOverdue);
                self.accounts.overdue("a page", longest);
                return false;
            }
        }
    }

    /// Waits for a page that a store fills or a caller writes.
    pub(crate) async fn page_settles(
        &self,
        object: &ObjectState,
        frame: u32,
        key: u64,
        busy: u64,
    ) -> Result<(), AccessError> {
        let longest = self.settings.answer_timeout;
        if self
            .word_becomes(frame, key, longest, |word| word & busy == 0)
            .await
        {
            return Ok(());
        }
        Err(AccessError::NotAnswering {
            object: object.store_object().0,
            page_index: page_of(key),
            waited: longest,
        })
    }

    /// Waits for guards of a page until `ready` accepts its word, or the frame has another page.
    pub(crate) async fn guard_drops(
        &self,
        object: &ObjectState,
        frame: u32,
        key: u64,
        ready: impl Fn(u64) -> bool,
    ) -> Result<(), AccessError> {
        let waited = self.settings.held_timeout;
        if self.word_becomes(frame, key, waited, ready).await {
            return Ok(());
        }
        Err(AccessError::Held {
            object: object.store_object().0,
            page_index: page_of(key),
            waited,
        })
    }

    /// The output of a future that waits for writes of `object`, or none if they make no progress.
    /// They make none if `longest` passes without the store finishing anything, or a few times as
    /// much without a step of the object's own: a request may be lost while others end.
    pub(crate) async fn while_progressing<F: Future>(
        &self,
        backing: &Backing,
        object: &ObjectState,
        longest: Span,
        mut future: Pin<&mut F>,
    ) -> Option<F::Output> {
        // The oldest write ends, or there is none and the next page is another one.
        let progress = || {
            let oldest = backing.oldest_write(object.number);
            let next = || lock(&object.dirty).next_tagged(&self.slab, Tag::ToWrite, 0..u64::MAX);
            (oldest, oldest.is_none().then(next))
        };
        let mut seen = progress();
        let mut since = self.rt.now();
        loop {
            let before = backing.counts.written.load(Ordering::Relaxed);
            if let Ok(output) = self.rt.timeout(longest, future.as_mut()).await {
                return Some(output);
            }
            let is_silent = backing.counts.written.load(Ordering::Relaxed) == before;
            let (now, waited) = (progress(), self.rt.now().since(since));
            let is_stuck = now == seen && waited >= longest.saturating_mul(TIMES_OF_OTHERS);
            if is_silent || is_stuck {
                self.accounts.overdue("a store's answer", waited);
                return None;
            }
            if now != seen {
                (seen, since) = (now, self.rt.now());
            }
        }
    }

    /// Waits until every write of `pages` that was submitted up to now has ended. The caller bounds
    /// this wait, or has a task of its own.
    pub(crate) async fn writes_end(
        &self,
        backing: &Backing,
        object: &ObjectState,
        pages: &Range<u64>,
    ) {
        let sequence = backing.next_sequence();
        // If all pages are wanted, nothing is over before the writes up to that number are. If a
        // part of them is wanted, each write that ends may have been the last.
        let number = if *pages == ALL_PAGES { sequence } else { 0 };
        let next_in_flight =
            || lock(&object.dirty).next_tagged(&self.slab, Tag::InFlight, pages.clone());
        loop {
            let listener = object.in_flight.written.listen_for(number);
            // A page that is written again and again is in flight at every look. Unstable pages are
            // in flight until they are committed.
            if next_in_flight().is_none() || !backing.has_writes(object.number, 0..sequence) {
                return;
            }
            listener.await;
        }
    }
}

impl Accounts {
    /// Waits until the object is not being resized, which a silent store may prevent.
    pub(crate) async fn resize_ends(&self, object: &ObjectState) -> Result<(), AccessError> {
        loop {
            let (listener, under_way) = object.listen_for_resize();
            if !under_way {
                return Ok(());
            }
            self.a_cut_ends(object, listener).await?;
        }
    }

    /// Waits until the cuts up to `number` that give up some of `pages` have left the line.
    pub(crate) async fn cuts_end(
        &self,
        object: &ObjectState,
        number: u64,
        pages: &Range<u64>,
    ) -> Result<(), AccessError> {
        loop {
            let listener = object.listen_for_cuts();
            if !object.resizing.cuts.has_up_to(number, pages) {
                return Ok(());
            }
            self.a_cut_ends(object, listener).await?;
        }
    }

    /// Waits for the end of one cut. However long the line is, each cut has the time that a guard
    /// and a store may take.
    pub(crate) async fn a_cut_ends(
        &self,
        object: &ObjectState,
        ended: Listener<'_>,
    ) -> Result<(), AccessError> {
        let waited = self.settings.held_timeout + self.settings.answer_timeout;
        if self.rt.timeout(waited, ended).await.is_ok() {
            return Ok(());
        }
        self.mark(Mark::ResizeWaitOverdue);
        self.overdue("a resize", waited);
        Err(AccessError::NotAnswering {
            object: object.store_object().0,
            page_index: pages_for(object.length_bytes()),
            waited,
        })
    }

    /// The future's output, or none if the deadline comes first.
    pub(crate) async fn until<F: Future>(&self, deadline: Instant, future: F) -> Option<F::Output> {
        let left = deadline.since(self.rt.now());
        self.rt.timeout(left, future).await.ok()
    }

    /// Sleeps for `span`, or until the cache is closed.
    pub async fn rest(&self, span: Span) {
        // Whichever came first, the caller looks again.
        let _ = self.rt.timeout(span, self.closed.listen()).await;
    }

    /// The future's output, or none if `longest` passes without the store finishing anything: a
    /// slow store is waited for, a silent one is not. This is for writers, which wait for pages of
    /// any object to be written and not for one request.
    pub(crate) async fn while_answering<F: Future>(
        &self,
        backing: &Backing,
        longest: Span,
        mut future: Pin<&mut F>,
    ) -> Option<F::Output> {
        loop {
            let before = backing.counts.written.load(Ordering::Relaxed);
            if let Ok(output) = self.rt.timeout(longest, future.as_mut()).await {
                return Some(output);
            }
            if backing.counts.written.load(Ordering::Relaxed) == before {
                self.overdue("a store's answer", longest);
                return None;
            }
        }
    }

    /// A wait came to its bound.
    pub(crate) fn overdue(&self, what: &'static str, bound: Span) {
        self.count(Counter::WaitsOverdue, 1);
        self.record(&Event::WaitOverdue { what, bound });
    }

    /// Lets the writer whose call has `waits` sleep for `span`, or until the cache is closed.
    pub async fn sleep_counted(&self, waits: &Waits, cause: Cause, span: Span) {
        let _paused = self.waiting(waits, cause).counted(Counter::BalancePausedUs);
        self.rest(span).await;
        self.count(Counter::BalancePauses, 1);
    }
}
