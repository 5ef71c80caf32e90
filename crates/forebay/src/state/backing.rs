//! What is known of one store: its dirty pages, its measured rates, its flusher's lists.
//!
//! invariant B1: the sum over all backings of reclaimable pages is the number of dirty file
//! pages, and that of pages under writeback is at most the cache's.
//! invariant B2: an object with a dirty page, or with one that only waits for a commit, is on
//! exactly one list of its backing, or taken by the flusher, or a writer is about to put it there
//! who has not returned yet.

use crate::settings::BackingSettings;
use crate::state::activity::Activity;
use crate::state::flusher_lists::FlusherLists;
use crate::state::flusher_requests::FlusherRequests;
use crate::state::object::{ObjectState, QueuePlace};
use crate::state::outstanding::Outstanding;
use crate::state::vectors::IoVectors;
use forebay_base::Span;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    lock,
};
use forebay_law::bandwidth::Bandwidth;
use forebay_law::rate::DirtyRate;
use forebay_law::share::StoreCompletions;
use forebay_rt::wait::{OwnedPermit, WaitQueue};
use forebay_store::{Failure, Geometry, Store};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Rates of a store and when they were last estimated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) bandwidth: Bandwidth,
    pub(crate) rate: DirtyRate,
    pub(crate) completions: StoreCompletions,
    pub(crate) written_stamp: u64,
    pub(crate) dirtied_stamp: u64,
    pub(crate) updated_ms: u64,
    /// For how long the store had been busy by then.
    pub(crate) busy_stamp: Span,
    /// Samples of bandwidth so far: 0 means that the rate is the initial guess.
    pub(crate) samples: u64,
}

/// Writes for which the lists of a store have room from the start.
const ROOM: usize = 128;

/// A commit that was asked for.
#[derive(Debug)]
pub(crate) struct CommitTurn {
    pub(crate) object: Arc<ObjectState>,
    /// Nobody else commits the object meanwhile.
    pub(crate) turn: OwnedPermit,
}

/// The commits that wait for a committer.
#[derive(Debug)]
struct CommitQueue {
    waiting: VecDeque<CommitTurn>,
    /// The committers have ended.
    is_closed: bool,
}

pub(crate) struct Backing {
    pub(crate) number: usize,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) geometry: Geometry,
    pub(crate) settings: BackingSettings,
    pub(crate) reclaimable: AtomicU64,
    pub(crate) writeback: AtomicU64,
    /// Pages of `writeback` that are written and wait for a commit.
    pub(crate) uncommitted: AtomicU64,
    pub(crate) dirtied: AtomicU64,
    pub(crate) written: AtomicU64,
    /// Pages whose last write failed: dirty, and kept.
    pub(crate) failed_pages: AtomicU64,
    /// Why the last write that failed did.
    last_failure: Mutex<Failure>,
    pub(crate) exceeded: AtomicBool,
    /// Writers that were throttled here so far.
    pub(crate) writers_seen: AtomicU64,
    pub(crate) rates: Mutex<Rates>,
    pub(crate) lists: Mutex<FlusherLists>,
    pub(crate) requests: FlusherRequests,
    outstanding: Mutex<Outstanding>,
    commits: Mutex<CommitQueue>,
    pub(crate) wake_committer: WaitQueue,
    /// Short vectors for writes of files to this store alone: it is written to whatever the others
    /// do, and whoever reads.
    pub(crate) vectors: IoVectors,
    pub(crate) writes_in_flight: AtomicU32,
    /// Those of them that are of files and not of swap.
    pub(crate) file_writes_in_flight: AtomicU32,
    /// Pages of files in them.
    pub(crate) pages_in_flight: AtomicU64,
    /// Told whenever a write ends.
    pub(crate) write_ended: WaitQueue,
    /// What the store last said of its congestion.
    pub(crate) congested: AtomicBool,
    pub(crate) activity: Activity,
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backing")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Backing {
    pub(crate) fn new(
        number: usize,
        store: Arc<dyn Store>,
        settings: BackingSettings,
        vectors: IoVectors,
        now_ms: u64,
    ) -> Backing {
        let bandwidth = Bandwidth::default();
        let initial = bandwidth.average_pages_per_s;
        Backing {
            number,
            geometry: store.geometry(),
            store,
            settings,
            reclaimable: AtomicU64::new(0),
            writeback: AtomicU64::new(0),
            uncommitted: AtomicU64::new(0),
            dirtied: AtomicU64::new(0),
            written: AtomicU64::new(0),
            failed_pages: AtomicU64::new(0),
            last_failure: Mutex::new(Failure::NoAnswer),
            exceeded: AtomicBool::new(false),
            writers_seen: AtomicU64::new(0),
            rates: Mutex::new(Rates {
                bandwidth,
                rate: DirtyRate {
                    ratelimit: initial,
                    balanced: initial,
                },
                completions: StoreCompletions::default(),
                written_stamp: 0,
                dirtied_stamp: 0,
                updated_ms: now_ms,
                busy_stamp: Span::ZERO,
                samples: 0,
            }),
            lists: Mutex::new(FlusherLists::new()),
            requests: FlusherRequests::new(),
            outstanding: Mutex::new(Outstanding::with_room(ROOM)),
            commits: Mutex::new(CommitQueue {
                waiting: VecDeque::with_capacity(ROOM),
                is_closed: false,
            }),
            wake_committer: WaitQueue::with_room(8),
            vectors,
            writes_in_flight: AtomicU32::new(0),
            file_writes_in_flight: AtomicU32::new(0),
            pages_in_flight: AtomicU64::new(0),
            write_ended: WaitQueue::with_room(8),
            congested: AtomicBool::new(false),
            activity: Activity::default(),
        }
    }

    /// Whether the store said last that it is congested.
    pub(crate) fn is_congested(&self) -> bool {
        self.congested.load(Ordering::Relaxed)
    }

    /// Notes why a write failed.
    pub(crate) fn note_failure(&self, failure: Failure) {
        *lock(&self.last_failure) = failure;
    }

    /// Why the last write that failed did; of no meaning where none has.
    pub(crate) fn last_failure(&self) -> Failure {
        *lock(&self.last_failure)
    }

    /// Pages dirty or under writeback (wb_dirty).
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.reclaimable.load(Ordering::Relaxed) + self.writeback.load(Ordering::Relaxed)
    }

    /// The same of files alone. What goes to swap here is not for their writers to wait for: it
    /// may never end.
    pub(crate) fn file_pages(&self) -> u64 {
        self.reclaimable.load(Ordering::Relaxed)
            + self.uncommitted.load(Ordering::Relaxed)
            + self.pages_in_flight.load(Ordering::Acquire)
    }

    /// Puts an object that has become dirty on the flusher's list, if it is on none. True if it
    /// is the first.
    pub(crate) fn enqueue(&self, object: &Arc<ObjectState>, now_ms: impl FnOnce() -> u64) -> bool {
        let mut queueing = lock(&object.queueing);
        if queueing.place != QueuePlace::None {
            return false;
        }
        queueing.place = QueuePlace::Queued;
        let mut lists = lock(&self.lists);
        let was_idle = lists.is_empty();
        if queueing.retry_after_ms > 0 {
            // A failed write waits for its own time and not until the page is old again.
            lists.add_left(now_ms(), &mut queueing, object.clone());
        } else {
            lists.add_dirty(now_ms(), object.clone());
        }
        was_idle
    }

    /// A write of `object` has ended well: its failed ones are tried again in the next round.
    pub(crate) fn forget_failures(&self, object: &ObjectState) {
        let mut queueing = lock(&object.queueing);
        if queueing.retry_after_ms > 0 {
            queueing.forget_failures();
            lock(&self.lists).hurry(&queueing, object.number);
        }
    }

    /// Leaves a commit to the committers, or gives it back if they have ended.
    pub(crate) fn ask_commit(&self, asked: CommitTurn) -> Result<(), CommitTurn> {
        {
            let mut commits = lock(&self.commits);
            if commits.is_closed {
                return Err(asked);
            }
            commits.waiting.push_back(asked);
        }
        self.wake_committer.wake_one();
        Ok(())
    }

    /// The next commit. If there is none and `is_closing`, none will come any more.
    pub(crate) fn next_commit(&self, is_closing: bool) -> Option<CommitTurn> {
        let mut commits = lock(&self.commits);
        let next = commits.waiting.pop_front();
        commits.is_closed |= next.is_none() && is_closing;
        next
    }

    /// Writes of `object` are about to be taken: their sequence number, which is outstanding until
    /// [`Backing::write_ends`] has been called for this and for each that joined.
    pub(crate) fn write_begins(&self, object: u32) -> u64 {
        lock(&self.outstanding).begin(object)
    }

    /// One more write under a sequence number that is outstanding.
    pub(crate) fn write_joins(&self, sequence: u64) {
        lock(&self.outstanding).join(sequence);
    }

    /// One write of `sequence` has ended; its lowest bits are enough to know it by.
    pub(crate) fn write_ends(&self, sequence: u64) {
        lock(&self.outstanding).end(sequence);
    }

    /// The sequence number that the next write will have.
    pub(crate) fn next_sequence(&self) -> u64 {
        lock(&self.outstanding).next()
    }

    /// Whether a write of `object` whose number is one of `sequences` has not ended.
    pub(crate) fn has_writes(&self, object: u32, sequences: Range<u64>) -> bool {
        lock(&self.outstanding).has_one_of(object, sequences)
    }
}
