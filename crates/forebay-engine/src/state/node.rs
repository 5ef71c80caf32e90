//! A node: some zones, their kswapd, and the queues in which reclaimers wait for events.
//!
//! invariant K1: `writeback_throttled` is the number of reclaimers that wait for writeback.
//! invariant K2: a request to kswapd stays until kswapd has worked for its class.

use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    lock,
};
use forebay_law::throttle::{MAX_RECLAIM_RETRIES, ThrottleReason};
use forebay_rt::wait::WaitQueue;
use std::ops::Range;

/// What reclaim found in its last pass over a node or a zone; cleared when that is balanced.
#[derive(Debug, Default)]
pub struct ReclaimFlags {
    /// Every page at the end of the lists was under writeback.
    pub writeback: AtomicBool,
    /// Every page at the end of the lists was dirty and not yet queued by a flusher.
    pub dirty: AtomicBool,
    /// Every dirty page was under writeback and had been seen there before.
    pub congested: AtomicBool,
}

impl ReclaimFlags {
    pub fn clear(&self) {
        self.writeback.store(false, Ordering::Relaxed);
        self.dirty.store(false, Ordering::Relaxed);
        self.congested.store(false, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Node {
    pub number: usize,
    /// Its zones, as indices into the cache's zones, in order of scarcity.
    pub zones: Range<usize>,
    pub flags: ReclaimFlags,
    /// Highest class asked of kswapd since it last looked.
    request: Mutex<Option<usize>>,
    pub wake_kswapd: WaitQueue,
    pub kswapd_sleeps: AtomicBool,
    /// Fruitless runs of kswapd in a row; 16 make the node hopeless.
    pub failures: AtomicU64,
    /// The queue in which callers wait until kswapd has refilled the reserve.
    pub(crate) gate: WaitQueue,
    throttled: [WaitQueue; 4],
    writeback_throttled: AtomicUsize,
    written: AtomicU64,
    written_at_first_wait: AtomicU64,
    /// Notified when frames were freed, of this node or of another whose frames its callers may
    /// take.
    pub(crate) freed: WaitQueue,
    /// Workingset activations at the end of the last run, anon and file.
    refaults_noted: [AtomicU64; 2],
    refaults: [AtomicU64; 2],
}

impl Node {
    pub(crate) fn new(number: usize, zones: Range<usize>) -> Node {
        Node {
            number,
            zones,
            flags: ReclaimFlags::default(),
            request: Mutex::new(None),
            wake_kswapd: WaitQueue::new(),
            kswapd_sleeps: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            gate: WaitQueue::new(),
            throttled: std::array::from_fn(|_| WaitQueue::new()),
            writeback_throttled: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            written_at_first_wait: AtomicU64::new(0),
            freed: WaitQueue::new(),
            refaults_noted: std::array::from_fn(|_| AtomicU64::new(0)),
            refaults: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The class of requests that may use all zones of the node.
    pub fn top_class(&self) -> usize {
        self.zones.len() - 1
    }

    /// Asks kswapd to work for `class`.
    pub fn request_class(&self, class: usize) {
        let mut request = lock(&self.request);
        *request = Some(request.map_or(class, |asked| asked.max(class)));
    }

    /// The class asked for, if any.
    pub fn requested_class(&self) -> Option<usize> {
        *lock(&self.request)
    }

    /// Takes the request away and returns it.
    pub fn take_request(&self) -> Option<usize> {
        lock(&self.request).take()
    }

    /// Reclaim of this node, by kswapd or by a caller, has freed pages. A kswapd that gave up goes
    /// on at once: the caller has its frame, and perhaps no other one comes that would wake kswapd.
    pub(crate) fn note_progress(&self) {
        if self.failures.swap(0, Ordering::Relaxed) >= MAX_RECLAIM_RETRIES {
            self.wake_kswapd.wake_all();
        }
    }

    /// A page that was activated came back too early.
    pub fn note_refault(&self, is_file: bool) {
        self.refaults[usize::from(is_file)].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether pages of this kind came back too early since the last run.
    pub(crate) fn has_refaulted(&self, is_file: bool) -> bool {
        let at = usize::from(is_file);
        let noted = self.refaults_noted[at].load(Ordering::Relaxed);
        self.refaults[at].load(Ordering::Relaxed) != noted
    }

    /// Remembers how much was refaulted, to see at the next run whether more was.
    pub fn note_refaults(&self) {
        for (noted, now) in self.refaults_noted.iter().zip(&self.refaults) {
            noted.store(now.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub fn queue(&self, reason: ThrottleReason) -> &WaitQueue {
        &self.throttled[match reason {
            ThrottleReason::Writeback => 0,
            ThrottleReason::Isolated => 1,
            ThrottleReason::NoProgress => 2,
            ThrottleReason::Congested => 3,
        }]
    }

    /// A reclaimer waits for writeback as long as the value lives.
    pub(crate) fn wait_for_writeback(&self) -> WritebackWait<'_> {
        if self.writeback_throttled.fetch_add(1, Ordering::AcqRel) == 0 {
            let written = self.written.load(Ordering::Relaxed);
            self.written_at_first_wait.store(written, Ordering::Relaxed);
        }
        WritebackWait(self)
    }

    /// Pages of this node were written; returns how many count as throttled (spec/reclaim.md 5.5).
    pub(crate) fn note_written(&self, pages: u64) -> u64 {
        let waiters = self.writeback_throttled.load(Ordering::Acquire) as u64;
        if waiters == 0 {
            return 0;
        }
        let written = self.written.fetch_add(pages, Ordering::Relaxed) + pages;
        // Meanwhile the first waiters may be gone, and later ones count from a higher number.
        let first = self.written_at_first_wait.load(Ordering::Relaxed);
        let since = written.saturating_sub(first);
        if forebay_law::throttle::wakes_writeback_waiters(since, waiters) {
            self.queue(ThrottleReason::Writeback).wake_all();
        }
        pages
    }
}

/// A reclaimer that waits for writeback, as invariant K1 counts them.
#[derive(Debug)]
pub(crate) struct WritebackWait<'a>(&'a Node);

impl Drop for WritebackWait<'_> {
    fn drop(&mut self) {
        self.0.writeback_throttled.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Prng;

    #[test]
    fn invariant_k1_pages_count_while_somebody_waits_for_them() {
        let node = Node::new(0, 0..1);
        assert_eq!(node.note_written(3), 0, "nobody waits");
        let first = node.wait_for_writeback();
        let second = node.wait_for_writeback();
        assert_eq!(node.writeback_throttled.load(Ordering::Relaxed), 2);
        drop(first);
        assert_eq!(node.note_written(3), 3, "one still waits");
        drop(second);
        assert_eq!(node.note_written(3), 0, "nobody waits any more");
    }

    #[test]
    fn enough_writes_wake_a_waiter_for_writeback() {
        let node = Node::new(0, 0..1);
        node.note_written(1_000);
        let queue = node.queue(ThrottleReason::Writeback);
        let listener = queue.listen();
        let _waits = node.wait_for_writeback();
        // Spec/reclaim.md 5.5: more than 32 pages for each waiter, counted from the first wait.
        for _ in 0..32 {
            node.note_written(1);
        }
        assert_eq!(queue.waiters(), 1, "32 are not enough");
        node.note_written(1);
        assert_eq!(queue.waiters(), 0);
        drop(listener);
    }

    #[test]
    fn invariant_k2_the_highest_class_asked_for_survives_until_it_is_taken() {
        let node = Node::new(0, 0..4);
        let mut chance = Prng::from_seed(1);
        let mut expected = None;
        for _ in 0..1_000 {
            if chance.chance(1, 3) {
                assert_eq!(node.take_request(), expected);
                expected = None;
            } else {
                let class = chance.below(4) as usize;
                node.request_class(class);
                expected = expected.max(Some(class));
            }
            assert_eq!(node.requested_class(), expected);
        }
    }
}
