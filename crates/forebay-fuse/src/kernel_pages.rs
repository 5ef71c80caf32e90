//! The pages that the kernel has of one file, and the writes that pass them.
//!
//! Files are opened past the kernel's cache, but a program that maps one, or sends it to a socket,
//! has pages of it in the kernel. The kernel drops them before it sends us a write of their range.
//! A page that is fetched again in between holds the bytes from before that write, and would put
//! them back once it is stored to and returned. So a write is not answered before the kernel has
//! dropped such pages, and pages that return meanwhile do not cover it.
//!
//! invariant M6: no byte of a returned page replaces a change that was made after the page was
//! filled.

use forebay_base::sync::{Arc, Mutex, lock};
use forebay_rt::wait::WaitQueue;
use std::ops::Range;

/// What is known of these pages.
#[derive(Debug, Default)]
pub(crate) struct KernelPages {
    state: Mutex<State>,
    /// A call has made progress.
    progress: WaitQueue,
}

#[derive(Debug, Default)]
struct State {
    /// No page outside of it is in the kernel.
    filled: Range<u64>,
    /// What is under way, in the order of arrival.
    calls: Vec<Call>,
    last: u64,
}

#[derive(Debug)]
struct Call {
    number: u64,
    range: Range<u64>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// Bytes that pass the kernel's pages: not yet, or not all, in the cache.
    Changing,
    /// They are in the cache; the kernel may have older pages, except those that it has filled
    /// since.
    Changed { refilled: Vec<Range<u64>> },
    /// Pages that the kernel returns, which go to the cache.
    Returning,
}

/// A call under way. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Passage {
    pages: Arc<KernelPages>,
    number: u64,
}

impl Drop for Passage {
    fn drop(&mut self) {
        let mut state = lock(&self.pages.state);
        state.calls.retain(|call| call.number != self.number);
        let somebody_is_left = !state.calls.is_empty();
        drop(state);
        if somebody_is_left {
            self.pages.progress.wake_all();
        }
    }
}

impl KernelPages {
    /// The kernel fetches pages; to be called before their bytes are read.
    pub(crate) fn filling(&self, range: Range<u64>) {
        let mut state = lock(&self.state);
        state.filled = hull(&state.filled, &range);
        for call in &mut state.calls {
            if let Step::Changed { refilled } = &mut call.step
                && overlap(&call.range, &range)
                && !refilled.iter().any(|known| contains(known, &range))
            {
                refilled.push(range.clone());
            }
        }
    }

    /// Nobody has the file open: the kernel drops the pages that it still has at the next open.
    pub(crate) fn closed(&self) {
        lock(&self.state).filled = 0..0;
    }

    /// Begins a change of bytes past the kernel's pages. It waits for pages of the range that were
    /// returned before and are on their way.
    pub(crate) async fn change(self: &Arc<Self>, range: Range<u64>) -> Passage {
        let is_before = |call: &Call| matches!(call.step, Step::Returning);
        self.begin(range, Step::Changing, is_before).await
    }

    /// The change is in the cache. Returns whether the kernel may have pages from before it: then
    /// the passage must not end before these are dropped.
    pub(crate) fn changed(&self, passage: &Passage) -> bool {
        let mut guard = lock(&self.state);
        let State { calls, filled, .. } = &mut *guard;
        let own = calls.iter_mut().find(|call| call.number == passage.number);
        let Some(own) = own else { return false };
        let may_be_old = overlap(&own.range, filled);
        own.step = Step::Changed { refilled: vec![] };
        drop(guard);
        self.progress.wake_all();
        may_be_old
    }

    /// Begins to take pages that the kernel returns. It waits for changes of the range that came
    /// before and are not in the cache yet. Returns which parts may be taken.
    pub(crate) async fn take_back(
        self: &Arc<Self>,
        range: Range<u64>,
    ) -> (Passage, Vec<Range<u64>>) {
        let is_before = |call: &Call| matches!(call.step, Step::Changing);
        let passage = self.begin(range.clone(), Step::Returning, is_before).await;
        let parts = lock(&self.state).current_parts(range);
        (passage, parts)
    }

    /// Puts a call into the line, and returns when no overlapping one `is_before` it. Those that
    /// it waits for have all come earlier, so nobody waits in a circle.
    async fn begin(
        self: &Arc<Self>,
        range: Range<u64>,
        step: Step,
        is_before: impl Fn(&Call) -> bool,
    ) -> Passage {
        let number = lock(&self.state).enter(range.clone(), step);
        let passage = Passage {
            pages: self.clone(),
            number,
        };
        loop {
            if !self.has_before(number, &range, &is_before) {
                return passage;
            }
            let progress = self.progress.listen();
            if !self.has_before(number, &range, &is_before) {
                return passage;
            }
            progress.await;
        }
    }

    fn has_before(
        &self,
        number: u64,
        range: &Range<u64>,
        is_before: impl Fn(&Call) -> bool,
    ) -> bool {
        let state = lock(&self.state);
        let mut earlier = state.calls.iter().take_while(|call| call.number < number);
        earlier.any(|call| overlap(&call.range, range) && is_before(call))
    }
}

impl State {
    fn enter(&mut self, range: Range<u64>, step: Step) -> u64 {
        self.last += 1;
        self.calls.push(Call {
            number: self.last,
            range,
            step,
        });
        self.last
    }

    /// The parts of a returned range that are not from before a change.
    fn current_parts(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut parts = vec![range];
        for call in &self.calls {
            let Step::Changed { refilled } = &call.step else {
                continue;
            };
            let mut old = vec![call.range.clone()];
            for fresh in refilled {
                old = without(old, fresh);
            }
            for old in &old {
                parts = without(parts, old);
            }
        }
        parts
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn contains(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn hull(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    if one.is_empty() {
        return other.clone();
    }
    one.start.min(other.start)..one.end.max(other.end)
}

/// `parts` without what lies in `hole`.
fn without(parts: Vec<Range<u64>>, hole: &Range<u64>) -> Vec<Range<u64>> {
    let cut = |part: Range<u64>| {
        let before = part.start..part.end.min(hole.start);
        let after = part.start.max(hole.end)..part.end;
        [before, after]
    };
    let left = parts.into_iter().flat_map(cut);
    left.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(future).poll(&mut context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_page_from_before_a_write_does_not_cover_it() {
        let pages = Arc::new(KernelPages::default());
        let (page, other) = (0..4096, 4096..8192);
        pages.filling(0..8192);
        let write = now(pages.change(100..108)).unwrap();
        assert!(pages.changed(&write), "the kernel has an older page");
        let (returned, parts) = now(pages.take_back(0..4096)).unwrap();
        assert_eq!(parts, [0..100, 108..4096]);
        drop(returned);
        pages.filling(0..4096);
        let (_, parts) = now(pages.take_back(0..4096)).unwrap();
        assert_eq!(
            parts,
            std::slice::from_ref(&page),
            "filled after it (invariant M6)"
        );
        let (_, parts) = now(pages.take_back(other.clone())).unwrap();
        assert_eq!(parts, [other], "no write touched it");
        drop(write);
        assert!(lock(&pages.state).calls.is_empty());
    }

    #[test]
    fn a_write_covers_what_was_filled_before_it_and_returns_after_it_alone() {
        let pages = Arc::new(KernelPages::default());
        let first = now(pages.change(0..8)).unwrap();
        // The page is filled while the first write is not in the cache: it may lack it.
        pages.filling(0..4096);
        assert!(pages.changed(&first));
        pages.filling(0..4096);
        let second = now(pages.change(8..16)).unwrap();
        assert!(pages.changed(&second));
        let (_, parts) = now(pages.take_back(0..4096)).unwrap();
        assert_eq!(
            parts,
            [0..8, 16..4096],
            "it has the first and lacks the second"
        );
    }

    #[test]
    fn writes_and_returned_pages_of_one_range_wait_for_each_other() {
        let pages = Arc::new(KernelPages::default());
        let (returned, _) = now(pages.take_back(0..4096)).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut write = pin!(pages.change(8..16));
        assert!(
            write.as_mut().poll(&mut context).is_pending(),
            "it is on its way"
        );
        let mut later = pin!(pages.take_back(0..4096));
        assert!(later.as_mut().poll(&mut context).is_pending());
        assert!(now(pages.change(4096..4100)).is_some(), "another page");
        drop(returned);
        let Poll::Ready(write) = write.as_mut().poll(&mut context) else {
            panic!("nothing is on its way");
        };
        assert!(
            later.as_mut().poll(&mut context).is_pending(),
            "not in the cache"
        );
        pages.filling(0..4096);
        assert!(pages.changed(&write));
        let Poll::Ready((_, parts)) = later.as_mut().poll(&mut context) else {
            panic!("it is in the cache");
        };
        assert_eq!(parts, [0..8, 16..4096]);
    }

    #[test]
    fn a_write_that_failed_covers_nothing() {
        let pages = Arc::new(KernelPages::default());
        let page = 0..4096;
        pages.filling(page.clone());
        drop(now(pages.change(0..8)).unwrap());
        let (_, parts) = now(pages.take_back(page.clone())).unwrap();
        assert_eq!(parts, [page]);
    }

    #[test]
    fn nothing_is_dropped_where_the_kernel_has_nothing() {
        let pages = Arc::new(KernelPages::default());
        let write = now(pages.change(0..8)).unwrap();
        assert!(!pages.changed(&write));
        pages.filling(4096..8192);
        let write = now(pages.change(0..8)).unwrap();
        assert!(!pages.changed(&write), "other pages");
        let write = now(pages.change(5000..5001)).unwrap();
        assert!(pages.changed(&write));
        drop(write);
        pages.closed();
        let write = now(pages.change(5000..5001)).unwrap();
        assert!(!pages.changed(&write), "nobody has it open");
    }
}
