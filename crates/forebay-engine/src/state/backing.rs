//! What is known of one store: its dirty pages, its measured rates, its flusher's lists.
//!
//! invariant B1: the sum over all backings of reclaimable pages is the number of dirty file
//! pages, and that of pages under writeback is at most the cache's.
//! invariant B2: an object with a dirty page, or with one that only waits for a commit, is on
//! exactly one list of its backing, or taken by the flusher, or a writer that has not returned yet
//! is about to put it there.

use crate::kernel::{CongestionSignal, InodeCache, ReclaimWrites};
use crate::settings::BackingSettings;
use crate::state::activity::Activity;
use crate::state::attachment::Attachment;
use crate::state::commit_line::Committed;
use crate::state::congestion::Congestion;
use crate::state::flusher_lists::FlusherLists;
use crate::state::flusher_requests::{FlusherRequests, FlusherWork};
use crate::state::knobs::StoreKnobs;
use crate::state::object::{ObjectState, QueuePlace, Queueing};
use crate::state::outstanding::Outstanding;
use crate::state::read_meter::ReadMeter;
use crate::state::refusals::Refusals;
use crate::state::stamp::Stamp;
use crate::state::times::RequestCounts;
use crate::state::vectors::IoVectors;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    lock,
};
use forebay_base::{Instant, Span};
use forebay_law::bandwidth::Bandwidth;
use forebay_law::drain::DrainLimit;
use forebay_law::rate::DirtyRate;
use forebay_law::share::StoreCompletions;
use forebay_law::steady::Steady;
use forebay_rt::wait::WaitQueue;
use forebay_store::{Durability, Failure, Geometry, Store};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Rates of a store and when they were last estimated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) bandwidth: Bandwidth,
    /// The last samples, as long as they are like each other.
    pub(crate) steady: Steady,
    pub(crate) rate: DirtyRate,
    pub(crate) completions: StoreCompletions,
    pub(crate) written_stamp: u64,
    pub(crate) refused_stamp: u64,
    pub(crate) dirtied_stamp: u64,
    pub(crate) updated_ms: u64,
    /// For how long the store had been busy by then.
    pub(crate) busy_stamp: Span,
    /// Samples of bandwidth so far; 0 means that the rate is still the initial guess.
    pub(crate) samples: u64,
    /// Samples in which the store had enough to do.
    pub(crate) full_samples: u64,
    /// How many of the last of them were too slow to be believed.
    pub(crate) doubted_samples: u64,
    /// What may be dirty for the promise of `drain`.
    pub(crate) drain: DrainLimit,
    /// How often more was dirty than could be written in that time.
    pub(crate) drain_overshoots: u64,
    /// How often a byte was not durable for longer than it may be, and whether one is now.
    pub(crate) at_risk_overshoots: u64,
    pub(crate) is_late: bool,
}

/// After this many samples a store counts as measured.
pub(crate) const SAMPLES_TO_TRUST: u64 = 4;

impl Rates {
    /// Whether enough is known about the store to pace its writers.
    pub(crate) fn is_measured(&self) -> bool {
        self.samples >= SAMPLES_TO_TRUST
    }
}

/// How an object was put on the list of objects with work left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddedLeft {
    /// The flusher had nothing else to write.
    pub(crate) was_idle: bool,
    pub(crate) is_put_off: bool,
}

/// Whether the flusher has to be notified of an object that was put on its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enqueued {
    /// It is the first, and the flusher may sleep without a bound.
    First,
    /// It is the first. The flusher looks again by itself, at its next interval at the latest
    /// (invariant B3).
    FirstOfArmed,
    /// There are others, or it was on a list.
    NotFirst,
}

/// A store that has refused everything for this long and then takes one write counts as recovered,
/// ms.
const REFUSING_MS: u64 = 500;
/// How often refused callers can cause another try, ms.
const ASKED_MS: u64 = 250;

/// Writes for which the lists of a store have room from the start.
const ROOM: usize = 128;

/// A commit that has begun and that a committer carries out. If it is dropped, the outcome of the
/// commit is unknown.
#[derive(Debug)]
pub(crate) struct CommitTurn {
    pub(crate) object: Arc<ObjectState>,
    is_over: bool,
}

impl CommitTurn {
    /// For the commit of `object` that has just begun.
    pub(crate) fn new(object: Arc<ObjectState>) -> CommitTurn {
        CommitTurn {
            object,
            is_over: false,
        }
    }

    /// The commit has ended.
    pub(crate) fn end(mut self, result: Committed) {
        self.is_over = true;
        self.object.syncing.commits.end(result);
    }
}

impl Drop for CommitTurn {
    fn drop(&mut self) {
        if !self.is_over {
            self.object.syncing.commits.end(Committed::NoAnswer);
        }
    }
}

/// The commits that wait for a committer.
#[derive(Debug)]
struct CommitQueue {
    waiting: VecDeque<CommitTurn>,
    /// The committers have ended.
    is_closed: bool,
}

/// How a store's queue is used for writing.
pub(crate) struct WriteQueue {
    /// What the store is like.
    pub(crate) geometry: Geometry,
    /// Vectors for writes to this store alone: as many as may be under way.
    pub(crate) vectors: IoVectors,
    /// Writes that may always be under way, however slow the store is.
    pub(crate) least_writes: u64,
    /// For how many samples the first guess of its rate counts.
    pub(crate) samples: u64,
    /// What its file system answers when reclaim asks for the write of one page.
    pub(crate) reclaim_writes: ReclaimWrites,
    /// Pages that it writes then, that page included.
    pub(crate) reclaim_run_pages: u32,
    /// The inodes that it keeps in memory, if an older kernel asks for them.
    pub(crate) inodes: Option<Arc<dyn InodeCache>>,
    /// Where its congestion is noted and who knows of it, if an older kernel asks for that.
    pub(crate) congestion: Option<(Arc<Congestion>, CongestionSignal)>,
}

pub struct Backing {
    pub number: usize,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) geometry: Geometry,
    /// As it was attached. What changes since then is in `knobs`.
    pub settings: BackingSettings,
    pub(crate) knobs: StoreKnobs,
    pub(crate) owner: Owner,
    pub counts: PageCounts,
    pub(crate) failing: Failing,
    pub writers: Writers,
    pub(crate) rates: Mutex<Rates>,
    pub flushing: Flushing,
    pub(crate) writes: Writes,
    pub(crate) commits: Commits,
    pub(crate) activity: Activity,
    pub(crate) answers: Answers,
    pub older: OlderKernels,
}

/// Whose store it is.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// What the program calls it.
    pub(crate) name: OnceLock<Box<str>>,
    /// No other cache may be in front of the store until this one is closed.
    pub(crate) attachment: Mutex<Option<Attachment>>,
    /// Its program has panicked, and that was said.
    pub(crate) has_panicked: AtomicBool,
}

/// Pages of a store.
#[derive(Debug, Default)]
pub struct PageCounts {
    pub reclaimable: AtomicU64,
    pub(crate) writeback: AtomicU64,
    /// Pages of `writeback` that are written and wait for a commit.
    pub(crate) uncommitted: AtomicU64,
    pub(crate) dirtied: AtomicU64,
    /// Pages whose writes ended.
    pub(crate) written: AtomicU64,
    /// Those of them that the store refused.
    pub(crate) refused: AtomicU64,
    /// Pages whose last write failed: dirty, and kept.
    pub(crate) failed_pages: AtomicU64,
}

/// What a store refuses, and when it is asked again.
#[derive(Debug)]
pub(crate) struct Failing {
    /// Why the last failed write failed.
    last_failure: Mutex<Failure>,
    /// Since when (ms) every write that ended has failed; 0: the last one succeeded.
    refusing_since_ms: AtomicU64,
    /// How often everything that was put off became due at once, and when a caller last asked for
    /// that.
    pardons: AtomicU64,
    asked_ms: AtomicU64,
    pub(crate) refusals: Refusals,
}

/// The writers of a store.
#[derive(Debug, Default)]
pub struct Writers {
    pub exceeded: AtomicBool,
    /// Writers throttled here so far.
    pub(crate) seen: AtomicU64,
}

/// What the flusher of a store works on.
pub struct Flushing {
    pub(crate) lists: Mutex<FlusherLists>,
    pub requests: FlusherRequests,
    /// Objects that have their turn, of the flusher or of a writer that writes itself.
    pub(crate) taken: AtomicU64,
}

/// Writes of a store that are under way.
pub(crate) struct Writes {
    outstanding: Mutex<Outstanding>,
    /// Short vectors for writes of files to this store alone, so that it can be written to whatever
    /// other stores and readers do.
    pub(crate) vectors: IoVectors,
    /// Writes that may always be under way, however slow it is.
    pub(crate) least: u64,
    pub(crate) in_flight: AtomicU32,
    /// Those of them that are of files and not of swap, and the pages in those.
    pub(crate) files_in_flight: AtomicU32,
    pub(crate) pages_in_flight: AtomicU64,
    /// Notified whenever a write ends.
    pub(crate) ended: WaitQueue,
}

/// Commits of a store.
pub(crate) struct Commits {
    queue: Mutex<CommitQueue>,
    pub(crate) wake_committer: WaitQueue,
    /// When a commit may begin beside the writes again.
    pub(crate) next_commit_beside: Mutex<Instant>,
    /// It has made a write durable by itself that was to be.
    pub(crate) makes_durable: AtomicBool,
}

/// How long a store took for its requests.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) reads: ReadMeter,
    pub(crate) times: RequestCounts,
}

/// What older kernels ask of a store.
pub struct OlderKernels {
    pub reclaim_writes: ReclaimWrites,
    pub(crate) reclaim_run_pages: u32,
    pub inodes: Option<Arc<dyn InodeCache>>,
    /// What the store last said about its congestion.
    pub congested: AtomicBool,
    congestion: Option<(Arc<Congestion>, CongestionSignal)>,
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backing")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Rates {
    /// Those of a store of which nothing is known; the first guess counts for `samples` samples.
    pub(crate) fn new(samples: u64, now_ms: u64) -> Rates {
        let bandwidth = Bandwidth::default();
        let initial = bandwidth.average_pages_per_s;
        Rates {
            bandwidth,
            steady: Steady::default(),
            rate: DirtyRate {
                ratelimit: initial,
                balanced: initial,
            },
            completions: StoreCompletions::default(),
            written_stamp: 0,
            refused_stamp: 0,
            dirtied_stamp: 0,
            updated_ms: now_ms,
            busy_stamp: Span::ZERO,
            samples,
            full_samples: samples,
            doubted_samples: 0,
            drain: DrainLimit::default(),
            drain_overshoots: 0,
            at_risk_overshoots: 0,
            is_late: false,
        }
    }
}

impl Backing {
    pub(crate) fn new(
        number: usize,
        store: Arc<dyn Store>,
        settings: BackingSettings,
        queue: WriteQueue,
        now_ms: u64,
    ) -> Backing {
        Backing {
            number,
            geometry: queue.geometry,
            store,
            knobs: StoreKnobs::new(&settings),
            settings,
            owner: Owner::default(),
            counts: PageCounts::default(),
            failing: Failing {
                last_failure: Mutex::new(Failure::NoAnswer),
                refusing_since_ms: AtomicU64::new(0),
                pardons: AtomicU64::new(0),
                asked_ms: AtomicU64::new(0),
                refusals: Refusals::default(),
            },
            writers: Writers::default(),
            rates: Mutex::new(Rates::new(queue.samples, now_ms)),
            flushing: Flushing {
                lists: Mutex::new(FlusherLists::new()),
                requests: FlusherRequests::new(),
                taken: AtomicU64::new(0),
            },
            writes: Writes {
                outstanding: Mutex::new(Outstanding::with_room(ROOM)),
                vectors: queue.vectors,
                least: queue.least_writes,
                in_flight: AtomicU32::new(0),
                files_in_flight: AtomicU32::new(0),
                pages_in_flight: AtomicU64::new(0),
                ended: WaitQueue::with_room(8),
            },
            commits: Commits {
                queue: Mutex::new(CommitQueue {
                    waiting: VecDeque::with_capacity(ROOM),
                    is_closed: false,
                }),
                wake_committer: WaitQueue::with_room(8),
                next_commit_beside: Mutex::new(Instant::ZERO),
                makes_durable: AtomicBool::new(false),
            },
            activity: Activity::default(),
            answers: Answers::default(),
            older: OlderKernels {
                reclaim_writes: queue.reclaim_writes,
                reclaim_run_pages: queue.reclaim_run_pages,
                inodes: queue.inodes,
                congested: AtomicBool::new(false),
                congestion: queue.congestion,
            },
        }
    }

    /// The store's queue has become longer or shorter: asks the store whether it is congested, if
    /// an older kernel wants to know.
    pub(crate) fn queue_changed(&self) {
        if let Some((congestion, is_congested)) = &self.older.congestion {
            congestion.note(&self.older.congested, is_congested());
        }
    }

    /// A write is no longer under way.
    pub(crate) fn write_is_over(&self) {
        self.writes.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.queue_changed();
        self.writes.ended.wake_all();
    }

    /// Whether the store last said that it is congested.
    pub fn is_congested(&self) -> bool {
        self.older.congested.load(Ordering::Relaxed)
    }

    /// A write of `pages` pages has ended; the store took them or not.
    pub(crate) fn count_written(&self, pages: u64, is_taken: bool) {
        if !is_taken {
            self.counts.refused.fetch_add(pages, Ordering::Relaxed);
        }
        self.counts.written.fetch_add(pages, Ordering::Relaxed);
    }

    /// Pages that the store took so far.
    pub(crate) fn taken_pages(&self) -> u64 {
        let written = self.counts.written.load(Ordering::Relaxed);
        written.saturating_sub(self.counts.refused.load(Ordering::Relaxed))
    }

    /// Notes that a write failed, and why.
    pub(crate) fn note_failure(&self, failure: Failure, now_ms: u64) {
        *lock(&self.failing.last_failure) = failure;
        let since = &self.failing.refusing_since_ms;
        let _ = since.compare_exchange(0, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Why the last failed write failed; meaningless if none has failed.
    pub(crate) fn last_failure(&self) -> Failure {
        *lock(&self.failing.last_failure)
    }

    /// Pages dirty or under writeback (wb_dirty).
    pub fn dirty_pages(&self) -> u64 {
        self.counts.reclaimable.load(Ordering::Relaxed)
            + self.counts.writeback.load(Ordering::Relaxed)
    }

    /// The same, of files alone. Writers of files do not wait for what goes to swap here, because
    /// that may never end.
    pub(crate) fn file_pages(&self) -> u64 {
        self.counts.reclaimable.load(Ordering::Relaxed)
            + self.counts.uncommitted.load(Ordering::Relaxed)
            + self.writes.pages_in_flight.load(Ordering::Acquire)
    }

    /// Puts an object that has become dirty on the flusher's list, if it is on none.
    pub(crate) fn enqueue(
        &self,
        object: &Arc<ObjectState>,
        now_ms: impl FnOnce() -> u64,
    ) -> Enqueued {
        let mut queueing = lock(&object.queueing);
        if queueing.place != QueuePlace::None {
            if queueing.retry.is_on() && !self.waits(&queueing, object, now_ms()) {
                // The object now has other pages beside those that wait for their next try.
                lock(&self.flushing.lists).hurry(&queueing, object.number);
            }
            return Enqueued::NotFirst;
        }
        queueing.place = QueuePlace::Queued;
        if queueing.retry.is_on() {
            // A failed write waits until its retry is due, not until the page is old again.
            let added = self.add_left(&mut queueing, object, now_ms());
            return if added.was_idle {
                Enqueued::First
            } else {
                Enqueued::NotFirst
            };
        }
        let mut lists = lock(&self.flushing.lists);
        let enqueued = match (lists.is_empty(), lists.is_armed()) {
            (true, false) => Enqueued::First,
            (true, true) => Enqueued::FirstOfArmed,
            (false, _) => Enqueued::NotFirst,
        };
        lists.add_dirty(now_ms(), object.clone());
        enqueued
    }

    /// Whether `object` has nothing to write before its next try.
    fn waits(&self, queueing: &Queueing, object: &ObjectState, now_ms: u64) -> bool {
        let has_untried = lock(&object.dirty).has_untried();
        queueing.retry.waits(now_ms, self.pardons(), has_untried)
    }

    /// Puts an object on the list of objects with work left, or on the list of those put off.
    pub(crate) fn add_left(
        &self,
        queueing: &mut Queueing,
        object: &Arc<ObjectState>,
        now_ms: u64,
    ) -> AddedLeft {
        let is_put_off = self.waits(queueing, object, now_ms);
        let until_ms = is_put_off.then(|| queueing.retry.due_ms(self.pardons()));
        let mut lists = lock(&self.flushing.lists);
        let was_idle = lists.is_empty();
        lists.add_left(until_ms, queueing, object.clone());
        AddedLeft {
            was_idle,
            is_put_off,
        }
    }

    /// How often everything that was put off became due at once.
    pub(crate) fn pardons(&self) -> u64 {
        self.failing.pardons.load(Ordering::Relaxed)
    }

    /// Makes everything that is put off due at once: there may be room again.
    pub(crate) fn pardon(&self) {
        self.failing.pardons.fetch_add(1, Ordering::Relaxed);
        if lock(&self.flushing.lists).hurry_all() {
            self.flushing.requests.ask(FlusherWork {
                retry: true,
                ..FlusherWork::default()
            });
        }
    }

    /// Whether every write that ended lately has failed.
    pub(crate) fn refuses_all(&self, now_ms: u64) -> bool {
        let since_ms = self.failing.refusing_since_ms.load(Ordering::Relaxed);
        since_ms != 0 && now_ms.saturating_sub(since_ms) >= REFUSING_MS
    }

    /// A refused caller asks for another try, which is granted a few times a second.
    pub(crate) fn ask_for_retry(&self, now_ms: u64) {
        let last = self.failing.asked_ms.load(Ordering::Relaxed);
        let is_first = now_ms >= last + ASKED_MS
            && self
                .failing
                .asked_ms
                .compare_exchange(last, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_first {
            self.pardon();
        }
    }

    /// A write of `object` has ended well.
    pub(crate) fn write_taken(&self, object: &ObjectState, now_ms: u64) {
        {
            let mut queueing = lock(&object.queueing);
            if queueing.retry.is_on() {
                queueing.retry.write_taken();
            }
        }
        let since = &self.failing.refusing_since_ms;
        if since.load(Ordering::Relaxed) != 0 {
            let since_ms = since.swap(0, Ordering::Relaxed);
            // Where good pages lie beside bad ones, good writes end between failures, so one of
            // them says nothing new.
            if since_ms != 0 && now_ms.saturating_sub(since_ms) >= REFUSING_MS {
                self.pardon();
            }
        }
    }

    /// Ends the back-off of `object` if nothing of it has failed and nothing is under way: a page
    /// counts as failed until it is written again, and that write may be refused as well.
    pub(crate) fn end_retry(&self, object: &ObjectState) {
        if object.failures.pages.load(Ordering::Relaxed) > 0 {
            return;
        }
        let mut queueing = lock(&object.queueing);
        if queueing.retry.is_on() && !self.has_writes(object.number, 0..u64::MAX) {
            queueing.retry.forget();
            lock(&self.flushing.lists).hurry(&queueing, object.number);
        }
    }

    /// The changes of the object that a commit has to cover, if any.
    pub(crate) fn changes_to_commit(&self, object: &ObjectState) -> Option<u64> {
        match self.geometry.durability {
            Durability::OnFinish => None,
            Durability::OnCommit | Durability::Unstable => object.to_commit(),
        }
    }

    /// The same for a commit that begins now.
    pub(crate) fn commit_begins(&self, object: &ObjectState) -> Option<u64> {
        match self.geometry.durability {
            Durability::OnFinish => None,
            Durability::OnCommit | Durability::Unstable => object.commit_begins(),
        }
    }

    /// Hands a commit to the committers, or gives it back if they have ended.
    pub(crate) fn ask_commit(&self, asked: CommitTurn) -> Result<(), CommitTurn> {
        {
            let mut commits = lock(&self.commits.queue);
            if commits.is_closed {
                return Err(asked);
            }
            commits.waiting.push_back(asked);
        }
        self.commits.wake_committer.wake_one();
        Ok(())
    }

    /// The next commit. If there is none and `is_closing`, no more will come.
    pub(crate) fn next_commit(&self, is_closing: bool) -> Option<CommitTurn> {
        let mut commits = lock(&self.commits.queue);
        let next = commits.waiting.pop_front();
        commits.is_closed |= next.is_none() && is_closing;
        next
    }

    /// Writes of `object` are about to begin. Returns their sequence number, which is outstanding
    /// until [`Backing::write_ends`] has been called for this write and for each that joined.
    pub(crate) fn write_begins(&self, object: u32) -> u64 {
        lock(&self.writes.outstanding).begin(object)
    }

    /// Another write under a sequence number that is outstanding, of pages that are dirty since
    /// `since`.
    pub(crate) fn write_joins(&self, sequence: u64, since: Stamp) {
        lock(&self.writes.outstanding).join(sequence, since);
    }

    /// Since when the oldest page is dirty of the writes with this number; the lowest bits of the
    /// number are enough.
    pub(crate) fn dirty_since(&self, sequence: u64) -> Stamp {
        let since = lock(&self.writes.outstanding).since(sequence);
        since.expect("a write that ends has begun")
    }

    /// Since when the oldest page is dirty of all writes under way.
    pub(crate) fn oldest_write_since(&self) -> Option<Stamp> {
        lock(&self.writes.outstanding).oldest_since()
    }

    /// A write of `object` with number `sequence` has ended; the lowest bits of the number are
    /// enough. Returns the number of the object's oldest write that is left, else the largest
    /// number: a caller that waits for writes before that number need not wait any longer.
    pub(crate) fn write_ends(&self, object: u32, sequence: u64) -> u64 {
        let mut outstanding = lock(&self.writes.outstanding);
        outstanding.end(sequence);
        outstanding.oldest(object).unwrap_or(u64::MAX)
    }

    /// The sequence number that the next write will have.
    pub(crate) fn next_sequence(&self) -> u64 {
        lock(&self.writes.outstanding).next()
    }

    /// The oldest write of `object` that has not ended.
    pub(crate) fn oldest_write(&self, object: u32) -> Option<u64> {
        lock(&self.writes.outstanding).oldest(object)
    }

    /// Whether a write of `object` whose number is one of `sequences` has not ended.
    pub(crate) fn has_writes(&self, object: u32, sequences: Range<u64>) -> bool {
        lock(&self.writes.outstanding).has_one_of(object, sequences)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::state::object::Origin;
    use forebay_store::{MemoryStore, ObjectId};

    fn backing() -> Backing {
        let store = Arc::new(MemoryStore::new());
        let queue = WriteQueue {
            geometry: store.geometry(),
            samples: 0,
            reclaim_run_pages: 0,
            inodes: None,
            vectors: IoVectors::new(1, 1),
            least_writes: 1,
            reclaim_writes: ReclaimWrites::Always,
            congestion: None,
        };
        Backing::new(0, store, BackingSettings::default(), queue, 0)
    }

    #[test]
    fn a_write_makes_everything_due_if_the_store_had_refused_all_for_a_while() {
        let backing = backing();
        let origin = Origin::File {
            backing: 0,
            object: ObjectId(1),
        };
        let object = ObjectState::new(1, origin, 0);
        backing.write_taken(&object, 500);
        assert_eq!(backing.pardons(), 0, "nothing had failed");
        // A good write beside a bad one says nothing new.
        backing.note_failure(Failure::NoSpace, 1_000);
        backing.write_taken(&object, 1_000 + REFUSING_MS - 1);
        assert_eq!(backing.pardons(), 0);
        backing.note_failure(Failure::NoSpace, 2_000);
        backing.write_taken(&object, 2_000 + REFUSING_MS);
        assert_eq!(backing.pardons(), 1);
        backing.write_taken(&object, 9_000);
        assert_eq!(backing.pardons(), 1, "it had taken one since");
    }

    #[test]
    fn a_store_refuses_all_since_the_first_failure_and_not_the_last() {
        let backing = backing();
        assert!(!backing.refuses_all(10_000), "no write has failed");
        for now_ms in (1_000..1_000 + REFUSING_MS).step_by(100) {
            backing.note_failure(Failure::NoSpace, now_ms);
            assert!(!backing.refuses_all(now_ms));
        }
        let now_ms = 1_000 + REFUSING_MS;
        backing.note_failure(Failure::NoSpace, now_ms);
        assert!(backing.refuses_all(now_ms));
    }

    /// What fails after that begins with the shortest back-off again.
    #[test]
    fn the_back_off_of_an_object_ends_when_nothing_of_it_has_failed() {
        let backing = backing();
        let origin = Origin::File {
            backing: 0,
            object: ObjectId(1),
        };
        let object = ObjectState::new(1, origin, 0);
        lock(&object.queueing).retry.put_off(1_000, 0, 0);
        let is_on = || lock(&object.queueing).retry.is_on();
        assert!(is_on());
        object.failures.pages.store(1, Ordering::Relaxed);
        backing.end_retry(&object);
        assert!(is_on(), "a page is still to be tried");
        object.failures.pages.store(0, Ordering::Relaxed);
        backing.end_retry(&object);
        assert!(!is_on());
    }
}
