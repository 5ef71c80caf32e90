//! `sync`: what was dirty at the call is written, and the store reports that it is durable.
//!
//! The pages that are dirty at the call are tagged first, so that a writer that goes on cannot
//! keep it from ending (the tag keeps I14 of the specification's list).
//!
//! Every sync of an object covers what was written before it, whoever wrote it. So beyond a few
//! callers one syncs the whole object for those that came before it began. It hands all pages to
//! the store at once and needs one commit, and the others sleep once. Only what went well is
//! shared: otherwise each caller syncs by itself, and finds its own failures. Whether and for how
//! long a sync waits for others is for the law `group_commit`.

use crate::accounting::calls::{Call, Waiting};
use crate::counters::Counter;
use crate::error::SyncError;
use crate::flow::writeout::Selection;
use crate::marks::Mark;
use crate::parts::Syncer;
use crate::state::backing::Backing;
use crate::state::commit_line::Committed;
use crate::state::dirty_index::{ALL_PAGES, Tag};
use crate::state::errseq::{Cursor, Mark as ErrorMark};
use crate::state::frame::{HALVINGS, flag, is_holdable};
use crate::state::index::key;
use crate::state::object::ObjectState;
use crate::state::sync_line::Shared;
use forebay_base::sync::atomic::{AtomicU32, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::units::{byte_of, pages_for};
use forebay_base::{Instant, Span};
use forebay_law::blame::Cause;
use forebay_law::group_commit::{
    RELIANCE_US, SyncInputs, SyncWait, shares_sync, wait_before_writing,
};
use forebay_store::Durability;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;

/// What a call makes durable, and which failures it has to report.
struct SyncRequest<'a> {
    call: &'a Call<'a>,
    object: &'a Arc<ObjectState>,
    backing: Arc<Backing>,
    pages: Range<u64>,
    cursor: &'a Mutex<Cursor>,
}

/// A caller among those that sync an object.
struct Counted<'a>(&'a AtomicU32);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a sync knows about commits that ended because the store had started again.
struct Repeats {
    /// How many there were at the last look.
    forgotten: u64,
    /// When the sync gives up; set at the first such commit.
    ends: Option<Instant>,
}

impl Syncer {
    /// Makes all pages of `object` that are dirty now durable, as [`Syncer::sync_pages`] does, by a
    /// sync of this caller or of another one that begins after now.
    pub(crate) async fn sync_whole(
        &self,
        call: &Call<'_>,
        object: &Arc<ObjectState>,
        cursor: &Mutex<Cursor>,
    ) -> Result<(), SyncError> {
        let Some(sync) = self.request_of(call, object, ALL_PAGES, cursor) else {
            return Ok(());
        };
        let others = object
            .syncing
            .callers_in_sync
            .fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&object.syncing.callers_in_sync);
        if shares_sync(others)
            && let Some(outcome) = self.share_sync(&sync).await
        {
            return outcome;
        }
        self.sync_in_steps(&sync, || {}).await
    }

    /// The outcome of a sync that is shared with other callers. None if it failed for another
    /// caller, or if that caller does not go on.
    async fn share_sync(&self, sync: &SyncRequest<'_>) -> Option<Result<(), SyncError>> {
        let object = sync.object;
        let mark = object.failures.errors.mark();
        let syncs = object.shared_syncs();
        let number = syncs.next_number();
        loop {
            match syncs.join(number) {
                Shared::Begun(turn) => {
                    let outcome = self.sync_in_steps(sync, || turn.written()).await;
                    if outcome.is_ok() {
                        turn.ends_well();
                    }
                    return Some(outcome);
                }
                // It may be a later one, which covers what the expected one did.
                Shared::Ended { went_well: true } => {
                    return Some(self.report_failures(sync, mark));
                }
                Shared::Ended { went_well: false } => return None,
                Shared::UnderWay(listener) => {
                    let _waiting = self.sync_waits(sync, Cause::SyncWrites);
                    let reliance = Span::from_micros(RELIANCE_US);
                    self.rt.timeout(reliance, listener).await.ok()?;
                }
            }
        }
    }

    /// Makes the pages of `pages` of `object` that are dirty now durable. Reports a failure during
    /// the call, and one that the handle of `cursor` has not reported yet.
    pub(crate) async fn sync_pages(
        &self,
        call: &Call<'_>,
        object: &Arc<ObjectState>,
        pages: Range<u64>,
        cursor: &Mutex<Cursor>,
    ) -> Result<(), SyncError> {
        match self.request_of(call, object, pages, cursor) {
            Some(sync) => self.sync_in_steps(&sync, || {}).await,
            None => Ok(()),
        }
    }

    /// None for anonymous memory, which nothing makes durable.
    fn request_of<'a>(
        &self,
        call: &'a Call<'_>,
        object: &'a Arc<ObjectState>,
        pages: Range<u64>,
        cursor: &'a Mutex<Cursor>,
    ) -> Option<SyncRequest<'a>> {
        (!object.is_anonymous()).then(|| SyncRequest {
            call,
            object,
            backing: self.dirty.backing_of(object),
            pages,
            cursor,
        })
    }

    /// As [`Syncer::sync_pages`]. Calls `written` when the writes have ended, before the commit.
    async fn sync_in_steps(
        &self,
        sync: &SyncRequest<'_>,
        written: impl Fn(),
    ) -> Result<(), SyncError> {
        let (object, pages) = (sync.object, &sync.pages);
        // The number is read before the pages are tagged. If a commit makes pages dirty again, they
        // are tagged, or the number changes.
        let forgotten = object.syncing.commits.forgotten();
        let length_bytes = object.length_bytes();
        let mark = {
            // In one step: a write that fails also reports it and makes its pages dirty again in
            // one step, so the write is either tagged here or reported below.
            let mut dirty = lock(&object.dirty);
            dirty.tag_for_writing(&self.pages.slab, pages.clone());
            sync.call.waits.is_about(byte_of(dirty.dirty_pages()));
            object.failures.errors.mark()
        };
        if pages.end < pages_for(object.length_bytes()) && object.is_longer_than_known() {
            // The pages that made it longer lie past the range and may stay unwritten for a long
            // time: the length is reported separately, before the commit.
            object.length.unsynced.store(true, Ordering::Release);
        }
        let writes_ended = || {
            note_length_left(object, length_bytes);
            written();
        };
        self.sync_tagged(sync, forgotten, writes_ended).await?;
        self.try_halves(sync, mark).await?;
        self.report_failures(sync, mark)
    }

    /// Writes the tagged pages and commits them. Errors of writes go to the object's sequence.
    /// Fails only if the store does not answer. `forgotten` is the number of forgotten commits
    /// before the pages were tagged.
    async fn sync_tagged(
        &self,
        sync: &SyncRequest<'_>,
        forgotten: u64,
        written: impl Fn(),
    ) -> Result<(), SyncError> {
        let ends = None;
        let mut repeats = Repeats { forgotten, ends };
        loop {
            let is_all_written = self.write_tagged(sync).await?;
            written();
            if !self.commit(sync).await? {
                return Ok(());
            }
            if self.is_forgotten(sync, &mut repeats)? {
                continue;
            }
            // Checked before the commit: the commit covers nothing that a flusher has taken since,
            // nor a cut that has ended since.
            if is_all_written {
                return Ok(());
            }
            self.busy_page_settles(sync).await?;
        }
    }

    /// Writes the tagged pages that can be taken. False if some could not, or if one was dirtied
    /// again while its earlier content was in flight.
    async fn write_tagged(&self, sync: &SyncRequest<'_>) -> Result<bool, SyncError> {
        let (object, backing, pages) = (sync.object, &sync.backing, &sync.pages);
        let tagged = Selection::all(Tag::ToWrite, pages.clone()).synced();
        let put_back = || lock(&object.dirty).put_back();
        let writes = pin!(async {
            self.others_end(sync).await;
            let before = put_back();
            self.writeback.writeout(backing, object, tagged).await;
            let is_all_taken = self.next_in(object, Tag::ToWrite, pages).is_none();
            self.pages.writes_end(backing, object, pages).await;
            is_all_taken && put_back() == before
        });
        self.await_writes(sync, writes).await
    }

    /// Waits for writes and commits of others, as the law says.
    async fn others_end(&self, sync: &SyncRequest<'_>) {
        let (object, backing) = (sync.object, &sync.backing);
        let mut waits = 0;
        while let Some((first, inputs)) = self.sync_inputs(sync, waits) {
            match wait_before_writing(&inputs) {
                SyncWait::Nothing => return,
                SyncWait::Commit => {
                    // A failure is in the object's sequence of errors, and the write's own commit
                    // says if there is no answer.
                    self.writeback.commit(backing, object).await;
                }
                SyncWait::FirstPage => {
                    self.pages
                        .writes_end(backing, object, &(first..first + 1))
                        .await;
                }
            }
            waits += 1;
        }
    }

    /// The first page that the sync has to write, and what decides whether it waits for others.
    fn sync_inputs(&self, sync: &SyncRequest<'_>, waits: u32) -> Option<(u64, SyncInputs)> {
        let (object, backing, slab) = (sync.object, &sync.backing, &self.pages.slab);
        // Unstable pages have the tag until they are committed, and can be taken meanwhile.
        let is_stable = backing.geometry.durability != Durability::Unstable;
        let dirty = lock(&object.dirty);
        let first = dirty.next_tagged(slab, Tag::ToWrite, sync.pages.clone())?;
        let in_flight = || dirty.next_tagged(slab, Tag::InFlight, first..first + 1);
        let inputs = SyncInputs {
            dirty_pages: dirty.dirty_pages(),
            is_first_in_flight: is_stable && in_flight().is_some(),
            is_commit_under_way: object.syncing.commits.is_under_way(),
            makes_durable: backing.commits.makes_durable.load(Ordering::Relaxed),
            waits,
        };
        Some((first, inputs))
    }

    /// Commits what was written. False if the commit failed, which is in the object's sequence of
    /// errors.
    async fn commit(&self, sync: &SyncRequest<'_>) -> Result<bool, SyncError> {
        let _waiting = self.sync_waits(sync, Cause::Commit);
        let commit = self.writeback.commit(&sync.backing, sync.object);
        match commit.await {
            Committed::Durable | Committed::Forgotten => Ok(true),
            Committed::Failed(_) => Ok(false),
            Committed::NoAnswer => Err(self.gives_up(sync, Mark::SyncCommitUnanswered)),
        }
    }

    /// Whether a commit since the last look has ended because the store had started again. Then the
    /// pages are tagged again: some of them are dirty again, and no later commit covers them before
    /// they are written. Fails if this repeats for too long.
    fn is_forgotten(
        &self,
        sync: &SyncRequest<'_>,
        repeats: &mut Repeats,
    ) -> Result<bool, SyncError> {
        let object = sync.object;
        let forgotten = object.syncing.commits.forgotten();
        if forgotten == repeats.forgotten {
            return Ok(false);
        }
        let (now, longest) = (self.rt.now(), self.settings.answer_timeout);
        if now > *repeats.ends.get_or_insert(now + longest) {
            return Err(self.gives_up(sync, Mark::SyncForgottenTooOften));
        }
        repeats.forgotten = forgotten;
        lock(&object.dirty).tag_for_writing(&self.pages.slab, sync.pages.clone());
        Ok(true)
    }

    /// If a page is still to be written, waits for the cut or the holder that kept it from being
    /// taken.
    async fn busy_page_settles(&self, sync: &SyncRequest<'_>) -> Result<(), SyncError> {
        let (object, longest) = (sync.object, self.settings.answer_timeout);
        let Some(page) = self.next_in(object, Tag::ToWrite, &sync.pages) else {
            return Ok(());
        };
        let has_settled = if object.is_cut_at(page) {
            // It is being cut off, or is about to be.
            self.accounts.mark(Mark::SyncMetCut);
            let _waiting = self.sync_waits(sync, Cause::Resize);
            self.accounts.resize_ends(object).await.is_ok()
        } else if let key = key(object.number, page)
            && let Some(frame) = self.memory.find_surely(key)
        {
            let _waiting = self.sync_waits(sync, Cause::PageHeld);
            let is_free = |word| is_holdable(word) && word & flag::WRITEBACK == 0;
            self.pages.word_becomes(frame, key, longest, is_free).await
        } else {
            true
        };
        if has_settled {
            return Ok(());
        }
        Err(self.gives_up(sync, Mark::SyncPageUnanswered))
    }

    /// Pages of a request that failed are tried again in halves, down to those that the store
    /// refuses. The failure is reported once that is done. Otherwise halves that fail after the
    /// report would be reported as another failure.
    async fn try_halves(&self, sync: &SyncRequest<'_>, mark: ErrorMark) -> Result<(), SyncError> {
        let (object, backing, pages) = (sync.object, &sync.backing, &sync.pages);
        let ends = self.rt.now() + self.settings.answer_timeout;
        for _ in 0..HALVINGS {
            let has_news = object.failures.errors.mark() != mark;
            let has_failed = object.failures.pages.load(Ordering::Relaxed) > 0;
            let untried = lock(&object.dirty).next_untried(&self.pages.slab, pages);
            if !has_news || !has_failed || untried.is_none() || self.rt.now() > ends {
                break;
            }
            let writes = pin!(async {
                let untried = Selection::all(Tag::Dirty, pages.clone()).awaited();
                self.writeback.writeout(backing, object, untried).await;
                self.pages.writes_end(backing, object, pages).await;
            });
            self.await_writes(sync, writes).await?;
        }
        Ok(())
    }

    /// The first failure since `mark` that the handle of `cursor` has not reported yet.
    fn report_failures(&self, sync: &SyncRequest<'_>, mark: ErrorMark) -> Result<(), SyncError> {
        let is_good = sync.object.has_nothing_refused();
        let (errors, mut cursor) = (&sync.object.failures.errors, lock(sync.cursor));
        let Some(error) = errors.check_and_advance(&mut cursor, mark, is_good) else {
            return Ok(());
        };
        self.accounts.mark(Mark::SyncTold);
        Err(error.into())
    }

    /// The output of `writes`. Fails if the store makes no progress.
    async fn await_writes<T>(
        &self,
        sync: &SyncRequest<'_>,
        writes: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, SyncError> {
        let (object, longest) = (sync.object, self.settings.answer_timeout);
        let _waiting = self.sync_waits(sync, Cause::SyncWrites);
        let ended = self
            .pages
            .while_progressing(&sync.backing, object, longest, writes);
        let no_progress = || self.gives_up(sync, Mark::SyncWritesUnanswered);
        ended.await.ok_or_else(no_progress)
    }

    /// The error of a sync that ends without an answer; `mark` says of what.
    fn gives_up(&self, sync: &SyncRequest<'_>, mark: Mark) -> SyncError {
        self.accounts.mark(mark);
        unanswered(sync.object, self.settings.answer_timeout)
    }

    /// The call of the sync waits for `cause`.
    fn sync_waits<'a>(&'a self, sync: &'a SyncRequest<'_>, cause: Cause) -> Waiting<'a> {
        let waiting = self.accounts.waiting(&sync.call.waits, cause);
        waiting.counted(Counter::SyncWaitedUs)
    }

    /// The first of `pages` with `tag`.
    fn next_in(&self, object: &ObjectState, tag: Tag, pages: &Range<u64>) -> Option<u64> {
        lock(&object.dirty).next_tagged(&self.pages.slab, tag, pages.clone())
    }
}

/// Pages that made the object `length_bytes` long may have been discarded before they were written,
/// and those past them may be dirty since after the sync began. Then the length is reported
/// separately. Pages that the store refused are still there.
fn note_length_left(object: &ObjectState, length_bytes: u64) {
    let length_bytes = length_bytes.min(object.length_bytes());
    let has_failed = object.failures.pages.load(Ordering::Relaxed) > 0;
    if !has_failed && !object.is_known_to_reach(length_bytes) {
        object.length.unsynced.store(true, Ordering::Release);
    }
}

pub(super) fn unanswered(object: &ObjectState, waited: Span) -> SyncError {
    let pages_left = lock(&object.dirty).dirty_pages();
    SyncError::NotAnswering {
        object: object.store_object().0,
        waited,
        pages_left,
    }
}
