//! What is known of one object: its length, its dirty pages, its errors.
//!
//! invariant O1: the length grows only inside a batch and shrinks only while no batch is open:
//! nobody inserts a page past a new end without having seen that end.
//! invariant O3: a resident page is in the range of pages that the object ever had, because the
//! range grows before the page is put into the index.

use crate::state::commit_line::CommitLine;
use crate::state::cut_line::CutLine;
use crate::state::dirty_index::DirtyIndex;
use crate::state::errseq::ErrorSequence;
use crate::state::retry::Retry;
use crate::state::stamp::Stamp;
use crate::state::sync_line::SyncLine;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    lock,
};
use forebay_base::units::{page_of, pages_for};
use forebay_rt::wait::{Listener, WaitQueue};
use forebay_store::{IoKind, ObjectId, Request, StoreError};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Where the pages of an object come from.
#[derive(Debug)]
pub enum Origin {
    /// An object of the store of backing `backing`.
    File { backing: usize, object: ObjectId },
    /// Anonymous memory, with the swap slot of each page; 0 where a page has none.
    Anonymous { slots: Box<[AtomicU32]> },
}

/// Bytes that belong to an object beside its state: its places in the tables, the room of its
/// queues, and one handle. Measured by tests/object_memory.rs.
const BESIDE_OBJECT_BYTES: usize = 900;

/// The memory that a file takes beside its pages.
pub(crate) const FILE_BYTES: u64 = (size_of::<ObjectState>() + BESIDE_OBJECT_BYTES) as u64;

impl Origin {
    /// The memory that an object of this origin takes beside its pages.
    pub(crate) fn object_bytes(&self) -> u64 {
        let slots = match self {
            Origin::File { .. } => 0,
            Origin::Anonymous { slots } => size_of_val::<[AtomicU32]>(slots),
        };
        FILE_BYTES + slots as u64
    }
}

/// On which list of its flusher an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuePlace {
    /// On none: clean.
    None,
    /// On the list of dirty objects, or on one of those of the present round.
    Queued,
    /// The flusher is writing it.
    Taken,
}

/// A resize is under way, or waits for the batches that are open.
const RESIZING: u32 = 1 << 31;

/// How many failed reads of an object are remembered.
const RECENT: u64 = 8;

/// Reads of an object that failed.
#[derive(Debug, Default)]
struct ReadFailures {
    /// So far.
    count: u64,
    /// The latest ones, each at its number modulo [`RECENT`], with the pages that it was for.
    recent: [Option<(Range<u64>, StoreError)>; RECENT as usize],
}

/// What the flusher knows of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queueing {
    pub(crate) place: QueuePlace,
    /// When failed writes are tried again.
    pub(crate) retry: Retry,
    /// The object's key in the list of those that are put off, if it is there.
    pub(crate) put_off_until_ms: u64,
    /// Where the next round of the flusher starts (writeback_index).
    pub(crate) next_page: u64,
}

/// How long the object is, here and in its store.
#[derive(Debug)]
pub struct ObjectLength {
    bytes: AtomicU64,
    /// The store may have another length and has to be given this one before the next commit. An
    /// object that grew by a write does not need this, because writing its last page makes the
    /// store's object as long.
    pub(crate) unsynced: AtomicBool,
    /// The store's object is at least this long.
    known_bytes: AtomicU64,
    /// The pages from the start of the object that were ever submitted to the store or were there
    /// before.
    pub stored_pages: AtomicU64,
}

/// How far the object is durable, and the queues of callers that sync it.
#[derive(Debug)]
pub(crate) struct Syncing {
    /// How many changes the store has made to the object so far, and how many of them a commit has
    /// covered.
    changes: AtomicU64,
    committed: AtomicU64,
    pub(crate) commits: CommitLine,
    /// Made for the first sync that is shared: few files see any.
    syncs: OnceLock<Box<SyncLine>>,
    /// Callers that sync the whole object.
    pub(crate) callers_in_sync: AtomicU32,
}

/// Requests of the object that its store refused.
#[derive(Debug)]
pub(crate) struct Failures {
    /// Pages whose last write failed. Each has a frame, and frames have numbers of 32 bits.
    pub(crate) pages: AtomicU32,
    pub(crate) errors: ErrorSequence,
    reads: Mutex<ReadFailures>,
}

/// Requests of the object that its store has.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Reads of this object that a store has.
    pub(crate) reads: AtomicU32,
    /// Its other requests that a store has, or that have yet to be accounted for.
    pub(crate) changes: AtomicU32,
    /// Notified whenever a write of this object ends, with the number of the write.
    pub(crate) written: WaitQueue,
}

/// The range that holds every page the object ever had: a walk need not look elsewhere.
#[derive(Debug)]
pub(crate) struct PageExtent {
    from: AtomicU64,
    to: AtomicU64,
}

/// How many handles are open on the object, and its places in the lists of closed files.
#[derive(Debug)]
pub struct OpenState {
    /// Its place among the unused files that reclaim asks; 0: not there. Changed under the lock of
    /// the table of objects.
    pub(crate) unused_place: AtomicU64,
    /// Its place among all files that nobody has open, in the order in which they were closed; 0:
    /// somebody has it open. Changed under the lock of the table of objects.
    pub closed_place: AtomicU64,
    /// Handles open on it.
    pub(crate) handles: AtomicU32,
}

/// The resizes of the object, and the batches of insertions that they exclude.
#[derive(Debug)]
pub(crate) struct Resizing {
    /// Open batches, and [`RESIZING`]: in one word, so that a batch and a resize always see each
    /// other.
    batches: AtomicU32,
    /// The resize that is under way has made the object shorter.
    is_cut: AtomicBool,
    /// The first page that the discard under way gives up, and the first page after the last one; 0
    /// if no discard is under way.
    discards_from: AtomicU64,
    discards_to: AtomicU64,
    /// The resizes of the object, in order.
    pub(crate) cuts: CutLine,
    resized: WaitQueue,
}

/// What the cache knows of an object: a file of a store, or anonymous memory.
#[derive(Debug)]
pub struct ObjectState {
    /// The object's number in keys.
    pub(crate) number: u32,
    pub origin: Origin,
    pub length: ObjectLength,
    /// The store may take no changes of it: it is asked before the next one.
    pub(crate) may_be_read_only: AtomicBool,
    pub(crate) syncing: Syncing,
    pub(crate) dirty: Mutex<DirtyIndex>,
    pub(crate) queueing: Mutex<Queueing>,
    pub(crate) failures: Failures,
    pub(crate) in_flight: InFlight,
    pub(crate) extent: PageExtent,
    pub opened: OpenState,
    pub(crate) resizing: Resizing,
}

impl ObjectState {
    pub(crate) fn new(number: u32, origin: Origin, length_bytes: u64) -> ObjectState {
        ObjectState {
            number,
            may_be_read_only: AtomicBool::new(matches!(origin, Origin::File { .. })),
            origin,
            length: ObjectLength {
                bytes: AtomicU64::new(length_bytes),
                unsynced: AtomicBool::new(false),
                known_bytes: AtomicU64::new(length_bytes),
                stored_pages: AtomicU64::new(pages_for(length_bytes)),
            },
            syncing: Syncing {
                changes: AtomicU64::new(0),
                committed: AtomicU64::new(0),
                commits: CommitLine::default(),
                syncs: OnceLock::new(),
                callers_in_sync: AtomicU32::new(0),
            },
            dirty: Mutex::new(DirtyIndex::default()),
            queueing: Mutex::new(Queueing {
                place: QueuePlace::None,
                retry: Retry::none(),
                put_off_until_ms: 0,
                next_page: 0,
            }),
            failures: Failures {
                pages: AtomicU32::new(0),
                errors: ErrorSequence::default(),
                reads: Mutex::new(ReadFailures::default()),
            },
            in_flight: InFlight {
                reads: AtomicU32::new(0),
                changes: AtomicU32::new(0),
                written: WaitQueue::with_room(2),
            },
            extent: PageExtent {
                from: AtomicU64::new(u64::MAX),
                to: AtomicU64::new(0),
            },
            opened: OpenState {
                unused_place: AtomicU64::new(0),
                closed_place: AtomicU64::new(0),
                handles: AtomicU32::new(0),
            },
            resizing: Resizing {
                batches: AtomicU32::new(0),
                is_cut: AtomicBool::new(false),
                discards_from: AtomicU64::new(0),
                discards_to: AtomicU64::new(0),
                cuts: CutLine::default(),
                resized: WaitQueue::new(),
            },
        }
    }

    /// Whether a store has requests of this object, or has answered some that have yet to be
    /// accounted for.
    pub(crate) fn has_requests(&self) -> bool {
        let counts = [&self.in_flight.reads, &self.in_flight.changes];
        counts.iter().any(|it| it.load(Ordering::Acquire) > 0)
    }

    #[inline]
    pub(crate) fn length_bytes(&self) -> u64 {
        self.length.bytes.load(Ordering::Acquire)
    }

    /// The page is about to be put in.
    pub(crate) fn note_page(&self, page: u64) {
        // Mostly the range has it already, and then nothing is written.
        if page < self.extent.from.load(Ordering::SeqCst) {
            self.extent.from.fetch_min(page, Ordering::SeqCst);
        }
        if page >= self.extent.to.load(Ordering::SeqCst) {
            self.extent.to.fetch_max(page + 1, Ordering::SeqCst);
        }
    }

    /// The pages from `first` to `last` are about to be put in.
    pub(crate) fn note_pages(&self, first: u64, last: u64) {
        self.note_page(first);
        self.note_page(last);
    }

    /// The part of `pages` that may ever have been resident.
    pub(crate) fn pages_had(&self, pages: &Range<u64>) -> Range<u64> {
        let from = self.extent.from.load(Ordering::SeqCst).max(pages.start);
        let to = self.extent.to.load(Ordering::SeqCst).min(pages.end);
        if from < to { from..to } else { 0..0 }
    }

    /// The store has finished a write that ends at `end_bytes`.
    pub(crate) fn is_known_up_to(&self, end_bytes: u64) {
        self.length
            .known_bytes
            .fetch_max(end_bytes, Ordering::AcqRel);
    }

    /// The store was given the length of the object.
    pub(crate) fn is_known_to_end_at(&self, length_bytes: u64) {
        self.length
            .known_bytes
            .store(length_bytes, Ordering::Release);
    }

    /// Whether the store has it up to `end_bytes`.
    pub(crate) fn is_known_to_reach(&self, end_bytes: u64) -> bool {
        end_bytes <= self.length.known_bytes.load(Ordering::Acquire)
    }

    /// Whether it has grown by writes that the store has not finished yet.
    pub(crate) fn is_longer_than_known(&self) -> bool {
        !self.is_known_to_reach(self.length_bytes())
    }

    /// Whether a cut is about to change the page: the page lies past the end, or the new end is
    /// inside it. Until the store has cut the object too, the old end may come back. So what lies
    /// past the new end is neither written nor forgotten, and nobody begins to hold the page.
    #[inline]
    pub(crate) fn is_cut_at(&self, page: u64) -> bool {
        let length = self.length_bytes();
        page >= pages_for(length)
            || page >= page_of(length) && self.resizing.is_cut.load(Ordering::Acquire)
            || self.is_discarded_at(page)
    }

    /// Whether a discard that is under way gives up `page`. Until the store has discarded it too,
    /// the page is neither written nor forgotten, and nobody begins to hold it.
    fn is_discarded_at(&self, page: u64) -> bool {
        // The end is published last and withdrawn first.
        page < self.resizing.discards_to.load(Ordering::Acquire)
            && page >= self.resizing.discards_from.load(Ordering::Acquire)
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self.origin, Origin::Anonymous { .. })
    }

    /// The slots of anonymous memory, one for each page that it may have.
    pub(crate) fn swap_slots(&self) -> &[AtomicU32] {
        let Origin::Anonymous { slots } = &self.origin else {
            unreachable!("only anonymous objects have swap slots");
        };
        slots
    }

    /// The slot of a page of anonymous memory, or 0.
    pub(crate) fn swap_slot(&self, page: u64) -> &AtomicU32 {
        &self.swap_slots()[page as usize]
    }

    /// Whether a page of anonymous memory has nothing in swap: nobody wrote it, or it was given up,
    /// and a reader finds zeros.
    pub(crate) fn is_in_no_slot(&self, page: u64) -> bool {
        self.is_anonymous() && self.swap_slot(page).load(Ordering::Acquire) == 0
    }

    /// A request about the whole object.
    pub(crate) fn request(&self, kind: IoKind, offset_bytes: u64) -> Request {
        Request {
            kind,
            object: self.store_object(),
            offset_bytes,
            length_bytes: 0,
        }
    }

    /// The number by which the store, or the user, knows the object.
    pub(crate) fn store_object(&self) -> ObjectId {
        match &self.origin {
            Origin::File { object, .. } => *object,
            Origin::Anonymous { .. } => ObjectId(u64::from(self.number)),
        }
    }

    /// Opens a batch: until it is dropped, the object is not resized. None while a resize is under
    /// way.
    pub(crate) fn begin_batch(&self) -> Option<BatchGuard<'_>> {
        let before = self.resizing.batches.fetch_add(1, Ordering::Acquire);
        let guard = BatchGuard(self);
        (before & RESIZING == 0).then_some(guard)
    }

    /// Makes the object at least `end_bytes` long. True if it grew.
    pub(crate) fn grow(&self, _batch: &BatchGuard<'_>, end_bytes: u64) -> bool {
        self.length.bytes.fetch_max(end_bytes, Ordering::AcqRel) < end_bytes
    }

    /// The store wrote bytes that are not durable, dirty since `since` at the longest. In one step
    /// with [`ObjectState::changed`], under the lock that `dirty` holds.
    pub(crate) fn written_since(&self, dirty: &mut DirtyIndex, since: Stamp) {
        if self.to_commit().is_none() {
            // What is left there was given up without a commit, or is committed.
            dirty.uncommitted.forget();
        }
        dirty.uncommitted.add(since);
    }

    /// A commit begins: the changes that it covers, none if there is nothing to commit.
    pub(crate) fn commit_begins(&self) -> Option<u64> {
        let mut dirty = lock(&self.dirty);
        let changes = self.to_commit();
        dirty.uncommitted.commit_begins();
        changes
    }

    /// Since when bytes are written and wait for a commit.
    pub(crate) fn uncommitted_since(&self, dirty: &DirtyIndex) -> Option<Stamp> {
        self.to_commit().and_then(|_| dirty.uncommitted.oldest())
    }

    /// The store wrote, cut or discarded something, which the next commit makes durable.
    pub(crate) fn changed(&self) {
        self.syncing.changes.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn shared_syncs(&self) -> &SyncLine {
        self.syncing.syncs.get_or_init(Box::default)
    }

    /// Whether nothing that a store refused is left to be written.
    pub(crate) fn has_nothing_refused(&self) -> bool {
        self.failures.pages.load(Ordering::Relaxed) == 0
    }

    /// How many changes the store has made so far.
    pub(crate) fn changes(&self) -> u64 {
        self.syncing.changes.load(Ordering::Acquire)
    }

    /// The changes that a commit beginning now will cover, or none if a commit that has ended
    /// covers them already.
    pub(crate) fn to_commit(&self) -> Option<u64> {
        let changes = self.changes();
        (self.syncing.committed.load(Ordering::Acquire) < changes).then_some(changes)
    }

    /// A commit that covers the first `changes` has ended well.
    pub(crate) fn note_committed(&self, changes: u64) {
        self.syncing.committed.fetch_max(changes, Ordering::AcqRel);
    }

    /// Takes a place in the line of the object's resizes for one that gives up `pages`. None while
    /// the line is full.
    pub(crate) fn join_cuts(self: &Arc<Self>, pages: Range<u64>) -> Option<CutPlace> {
        self.resizing.cuts.join(pages).map(|number| CutPlace {
            object: self.clone(),
            number,
        })
    }

    /// Listens for a place in that line to be left.
    #[track_caller]
    pub(crate) fn listen_for_cuts(&self) -> Listener<'_> {
        self.resizing.resized.listen()
    }

    /// Listens for the end of a resize, and says whether one is under way.
    #[track_caller]
    pub(crate) fn listen_for_resize(&self) -> (Listener<'_>, bool) {
        let listener = self.resizing.resized.listen();
        (listener, self.is_resized())
    }

    /// Whether a resize is under way.
    pub(crate) fn is_resized(&self) -> bool {
        self.resizing.batches.load(Ordering::Acquire) & RESIZING != 0
    }

    /// Notes a failed read of `pages`; callers that waited for them look here.
    pub(crate) fn note_read_failure(&self, pages: Range<u64>, error: StoreError) {
        let mut failures = lock(&self.failures.reads);
        let at = (failures.count % RECENT) as usize;
        failures.recent[at] = Some((pages, error));
        failures.count += 1;
    }

    /// How many reads have failed so far.
    pub(crate) fn read_failure_count(&self) -> u64 {
        lock(&self.failures.reads).count
    }

    /// A read of the page `page_index` that failed after the first `noted` failures. If too many
    /// failed since then to remember them all, returns the latest one: a page whose read fails must
    /// not be asked for again and again.
    pub(crate) fn read_failure_since(&self, noted: u64, page_index: u64) -> Option<StoreError> {
        let failures = lock(&self.failures.reads);
        let since = failures.count - noted;
        let latest = (noted..failures.count).rev().take(RECENT as usize);
        let mut latest = latest.filter_map(|at| failures.recent[(at % RECENT) as usize].as_ref());
        if since > RECENT {
            return latest.next().map(|(_, error)| *error);
        }
        let found = latest.find(|(pages, _)| pages.contains(&page_index));
        found.map(|(_, error)| *error)
    }
}

/// An open batch of insertions.
#[derive(Debug)]
pub(crate) struct BatchGuard<'a>(&'a ObjectState);

impl Drop for BatchGuard<'_> {
    fn drop(&mut self) {
        self.0.resizing.batches.fetch_sub(1, Ordering::Release);
    }
}

/// A place in the line of the resizes of an object. Dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct CutPlace {
    object: Arc<ObjectState>,
    number: u64,
}

impl CutPlace {
    /// The object that is resized.
    pub(crate) fn object(&self) -> &Arc<ObjectState> {
        &self.object
    }

    /// Starts the resize if it is its turn (invariant O2).
    pub(crate) fn begin(&self) -> Option<ResizeGuard<'_>> {
        if !self.object.resizing.cuts.is_first(self.number) {
            return None;
        }
        let before = self
            .object
            .resizing
            .batches
            .fetch_or(RESIZING, Ordering::AcqRel);
        assert!(
            before & RESIZING == 0,
            "a resize ends before its place is left"
        );
        Some(ResizeGuard(&self.object))
    }
}

impl Drop for CutPlace {
    fn drop(&mut self) {
        self.object.resizing.cuts.leave(self.number);
        self.object.resizing.resized.wake_all();
    }
}

/// The right to resize an object. Callers that wait for the end of the resize are woken when its
/// place in line is dropped, which happens right after this.
#[derive(Debug)]
pub(crate) struct ResizeGuard<'a>(&'a ObjectState);

impl ResizeGuard<'_> {
    /// Whether every batch that was open when the resize began has ended.
    pub(crate) fn is_alone(&self) -> bool {
        self.0.resizing.batches.load(Ordering::Acquire) & !RESIZING == 0
    }

    /// Sets the length and returns the one before.
    pub(crate) fn set_length(&self, length_bytes: u64) -> u64 {
        let stored_pages = &self.0.length.stored_pages;
        stored_pages.fetch_min(pages_for(length_bytes), Ordering::Relaxed);
        if length_bytes < self.0.length_bytes() {
            self.0.resizing.is_cut.store(true, Ordering::Release);
        }
        self.0.length.bytes.swap(length_bytes, Ordering::AcqRel)
    }

    /// Gives up `pages` as long as the resize is under way.
    pub(crate) fn discards(&self, pages: &Range<u64>) {
        self.0
            .resizing
            .discards_from
            .store(pages.start, Ordering::Release);
        // A swap, as for a new length: if a hold was taken without seeing this value, the search
        // for holds that comes next sees the hold.
        self.0
            .resizing
            .discards_to
            .swap(pages.end, Ordering::AcqRel);
    }
}

impl Drop for ResizeGuard<'_> {
    fn drop(&mut self) {
        self.0.resizing.is_cut.store(false, Ordering::Release);
        self.0.resizing.discards_to.store(0, Ordering::Release);
        self.0
            .resizing
            .batches
            .fetch_and(!RESIZING, Ordering::AcqRel);
    }
}
