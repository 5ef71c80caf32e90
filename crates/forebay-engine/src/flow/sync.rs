//! `sync`: what was dirty at the call is written, and the store reports that it is durable.
//!
//! The pages that are dirty at the call are tagged first, so that a writer that goes on cannot
//! keep it from ending (the tag keeps I14 of the specification's list).
//!
//! Every sync of an object covers what was written before it, whoever wrote it. So beyond a few
//! callers one syncs the whole object for those that came before it began. It hands all pages to
//! the store at once and needs one commit, and the others sleep once. Only what went well is
//! shared: otherwise each caller syncs by itself, and finds its own failures.

use crate::accounting::calls::{Call, Waiting};
use crate::counters::Counter;
use crate::error::SyncError;
use crate::flow::commit::PATIENCE;
use crate::flow::writeout::Selection;
use crate::marks::Mark;
use crate::parts::Syncer;
use crate::state::backing::Backing;
use crate::state::commit_line::Committed;
use crate::state::dirty_index::Tag;
use crate::state::errseq::{Cursor, Mark as ErrorMark};
use crate::state::frame::{flag, is_holdable};
use crate::state::index::key;
use crate::state::object::ObjectState;
use crate::state::sync_line::Shared;
use forebay_base::sync::atomic::{AtomicU32, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::units::{byte_of, pages_for};
use forebay_base::{Instant, Span};
use forebay_law::blame::Cause;
use forebay_store::Durability;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

/// A request of the largest size cannot be halved this often.
const HALVINGS: u32 = 16;

/// Up to this many dirty pages, a sync would rather write all of them later than some of them now.
const LITTLE_PAGES: u64 = 32;

/// Records at the end of a file lie in so many pages.
const TAIL_PAGES: u64 = 2;

/// A sync waits for so many writes of its first page by others before it takes what it can.
const FLIGHTS: u32 = 8;

/// So many callers sync by themselves: their writes and flushes go beside each other, and waiting
/// for others would take longer than it saves.
const FEW: u32 = 4;

/// A caller among those that sync an object.
struct Counted<'a>(&'a AtomicU32);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a sync knows about commits that ended because the store had started anew.
struct Repeats {
    /// How many there were at the last look.
    forgotten: u64,
    /// When the sync gives up; set at the first such commit.
    ends: Option<Instant>,
}

/// All pages of an object.
pub(crate) const ALL_PAGES: Range<u64> = 0..u64::MAX;

impl Syncer {
    /// Makes all pages of `object` that are dirty now durable, as [`Syncer::sync_pages`] does, by a
    /// sync of this caller or of another one that begins after now.
    pub(crate) async fn sync_whole(
        &self,
        call: &Call<'_>,
        object: &Arc<ObjectState>,
        cursor: &Mutex<Cursor>,
    ) -> Result<(), SyncError> {
        let others = object.callers_in_sync.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&object.callers_in_sync);
        if others < FEW || object.is_anonymous() {
            return self.sync_pages(call, object, ALL_PAGES, cursor).await;
        }
        let mark = object.errors.mark();
        let syncs = object.shared_syncs();
        let number = syncs.next_number();
        loop {
            match syncs.join(number) {
                Shared::Begun(turn) => {
                    let written = || turn.written();
                    self.sync_in_steps(call, object, (ALL_PAGES, written), cursor)
                        .await?;
                    turn.ends_well();
                    return Ok(());
                }
                // It may be a later one, which covers what the expected one did.
                Shared::Ended { went_well: true } => {
                    let is_good = object.has_nothing_refused();
                    let errors = &object.errors;
                    let failed = errors.check_and_advance(&mut lock(cursor), mark, is_good);
                    return failed.map_or(Ok(()), |error| Err(error.into()));
                }
                Shared::Ended { went_well: false } => break,
                Shared::UnderWay(listener) => {
                    let _waiting = self.sync_waits(call, Cause::SyncWrites);
                    if self.rt.timeout(PATIENCE, listener).await.is_err() {
                        break;
                    }
                }
            }
        }
        self.sync_pages(call, object, ALL_PAGES, cursor).await
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
        self.sync_in_steps(call, object, (pages, || {}), cursor)
            .await
    }

    /// As [`Syncer::sync_pages`]. Calls `written` when the writes have ended, before the commit.
    async fn sync_in_steps(
        &self,
        call: &Call<'_>,
        object: &Arc<ObjectState>,
        (pages, written): (Range<u64>, impl Fn()),
        cursor: &Mutex<Cursor>,
    ) -> Result<(), SyncError> {
        if object.is_anonymous() {
            return Ok(());
        }
        // The number is read before the pages are tagged. If a commit makes pages dirty again, they
        // are tagged, or the number changes.
        let forgotten = object.commits.forgotten();
        let length_bytes = object.length_bytes();
        let mark = {
            // In one step: a write that fails also reports it and makes its pages dirty again in
            // one step, so the write is either tagged here or reported below.
            let mut dirty = lock(&object.dirty);
            dirty.tag_for_writing(&self.pages.slab, pages.clone());
            call.waits.is_about(byte_of(dirty.dirty_pages()));
            object.errors.mark()
        };
        if pages.end < pages_for(object.length_bytes()) && object.is_longer_than_known() {
            // The pages that made it longer lie past the range and may stay unwritten for a long
            // time: the length is reported separately, before the commit.
            object.length_unsynced.store(true, Ordering::Release);
        }
        let writes_ended = || {
            note_length_left(object, length_bytes);
            written();
        };
        self.sync_tagged(call, object, (&pages, writes_ended), forgotten)
            .await?;
        self.try_halves(call, object, &pages, mark).await?;
        let is_good = object.has_nothing_refused();
        let errors = &object.errors;
        match errors.check_and_advance(&mut lock(cursor), mark, is_good) {
            None => Ok(()),
            Some(error) => {
                self.accounts.mark(Mark::SyncTold);
                Err(error.into())
            }
        }
    }

    /// Pages of a request that failed are tried again in halves, down to those that the store
    /// refuses. The failure is reported once that is done. Otherwise halves that fail after the
    /// report would be reported as another failure.
    async fn try_halves(
        &self,
        call: &Call<'_>,
        object: &Arc<ObjectState>,
        pages: &Range<u64>,
        mark: ErrorMark,
    ) -> Result<(), SyncError> {
        let backing = self.dirty.backing_of(object);
        let longest = self.settings.answer_timeout;
        let ends = self.rt.now() + longest;
        for _ in 0..HALVINGS {
            let has_news = object.errors.mark() != mark;
            let has_failed = object.failed_pages.load(Ordering::Relaxed) > 0;
            let untried = lock(&object.dirty).next_untried(&self.pages.slab, pages);
            if !has_news || !has_failed || untried.is_none() || self.rt.now() > ends {
                break;
            }
            let written = pin!(async {
                let untried = Selection::all(Tag::Dirty, pages.clone()).awaited();
                self.writeback.writeout(&backing, object, untried).await;
                self.pages.writes_end(&backing, object, pages).await;
            });
            let waiting = self.sync_waits(call, Cause::SyncWrites);
            let written = self
                .pages
                .while_progressing(&backing, object, longest, written);
            let is_written = written.await.is_some();
            drop(waiting);
            if !is_written {
                self.accounts.mark(Mark::SyncWritesUnanswered);
                return Err(unanswered(object, longest));
            }
        }
        Ok(())
    }

    /// Writes the tagged pages and commits them. Errors of writes go to the object's sequence.
    /// Fails only if the store does not answer. `forgotten` is the number of forgotten commits
    /// before the pages were tagged.
    async fn sync_tagged(
        &self,
        call: &Call<'_>,
        object: &Arc<ObjectState>,
        (pages, written): (&Range<u64>, impl Fn()),
        forgotten: u64,
    ) -> Result<(), SyncError> {
        let backing = self.dirty.backing_of(object);
        let longest = self.settings.answer_timeout;
        let mut repeats = Repeats {
            forgotten,
            ends: None,
        };
        loop {
            let tagged = Selection::all(Tag::ToWrite, pages.clone()).synced();
            let put_back = || lock(&object.dirty).put_back();
            let writes = pin!(async {
                self.commit_under_way_ends(&backing, object, pages).await;
                self.first_page_lands(&backing, object, pages).await;
                let before = put_back();
                self.writeback.writeout(&backing, object, tagged).await;
                let is_all_taken = self.next_to_write(object, pages).is_none();
                self.pages.writes_end(&backing, object, pages).await;
                is_all_taken && put_back() == before
            });
            let waiting = self.sync_waits(call, Cause::SyncWrites);
            let ended = self
                .pages
                .while_progressing(&backing, object, longest, writes);
            let Some(is_all_written) = ended.await else {
                self.accounts.mark(Mark::SyncWritesUnanswered);
                return Err(unanswered(object, longest));
            };
            drop(waiting);
            written();
            let waiting = self.sync_waits(call, Cause::Commit);
            let committed = self.writeback.commit(&backing, object).await;
            drop(waiting);
            match committed {
                Committed::Durable | Committed::Forgotten => {}
                Committed::Failed(_) => return Ok(()),
                Committed::NoAnswer => {
                    self.accounts.mark(Mark::SyncCommitUnanswered);
                    return Err(unanswered(object, longest));
                }
            }
            if self.is_forgotten(object, pages, &mut repeats)? {
                continue;
            }
            // Checked before the commit: the commit covers nothing that a flusher has taken since,
            // nor a cut that has ended since.
            if is_all_written {
                return Ok(());
            }
            let Some(left) = self.next_to_write(object, pages) else {
                continue;
            };
            let cause = if object.is_cut_at(left) {
                Cause::Resize
            } else {
                Cause::PageHeld
            };
            let _waiting = self.sync_waits(call, cause);
            if !self.busy_page_settles(object, left, longest).await {
                self.accounts.mark(Mark::SyncPageUnanswered);
                return Err(unanswered(object, longest));
            }
        }
    }

    /// If there is little to write, waits until the first page of it is not in flight: nobody can
    /// take it before. Then all of it is one request, which may be durable by itself, and it has
    /// the bytes of all that wait with this caller. If it tried to take the page it would put it
    /// back, and each of them would believe that a page of its own is still to be written.
    /// Unstable pages count as in flight until they are committed, and are taken meanwhile.
    async fn first_page_lands(&self, backing: &Backing, object: &ObjectState, pages: &Range<u64>) {
        if backing.geometry.durability == Durability::Unstable {
            return;
        }
        for _ in 0..FLIGHTS {
            let Some(first) = self.first_if_few(object, pages, LITTLE_PAGES) else {
                return;
            };
            let first = first..first + 1;
            if self.next_in(object, Tag::InFlight, &first).is_none() {
                return;
            }
            self.pages.writes_end(backing, object, &first).await;
        }
    }

    /// If there is one write to make, and the store makes such a write durable by itself, a commit
    /// that is under way ends first. What is written beside it needs the next commit, and so does
    /// what is written beside that: appends of several callers would need commits for ever. Callers
    /// that write here and there need them anyway.
    async fn commit_under_way_ends(
        &self,
        backing: &Backing,
        object: &Arc<ObjectState>,
        pages: &Range<u64>,
    ) {
        let is_spared = backing.commits.makes_durable.load(Ordering::Relaxed)
            && object.commits.is_under_way()
            && self.first_if_few(object, pages, TAIL_PAGES).is_some();
        if is_spared {
            // A failure is in the object's sequence of errors, and the write's own commit says if
            // there is no answer.
            self.writeback.commit(backing, object).await;
        }
    }

    /// The first of `pages` that is to be written, if at most `few` pages of the object are dirty.
    fn first_if_few(&self, object: &ObjectState, pages: &Range<u64>, few: u64) -> Option<u64> {
        let dirty = lock(&object.dirty);
        let are_few = dirty.dirty_pages() <= few;
        let first = || dirty.next_tagged(&self.pages.slab, Tag::ToWrite, pages.clone());
        are_few.then(first).flatten()
    }

    /// Whether a commit since the last look has ended because the store had started anew. Then the
    /// pages are tagged again: some of them are dirty again, and no later commit covers them before
    /// they are written. Fails if this repeats for too long.
    fn is_forgotten(
        &self,
        object: &ObjectState,
        pages: &Range<u64>,
        repeats: &mut Repeats,
    ) -> Result<bool, SyncError> {
        let forgotten = object.commits.forgotten();
        if forgotten == repeats.forgotten {
            return Ok(false);
        }
        let (now, longest) = (self.rt.now(), self.settings.answer_timeout);
        if now > *repeats.ends.get_or_insert(now + longest) {
            self.accounts.mark(Mark::SyncForgottenTooOften);
            return Err(unanswered(object, longest));
        }
        repeats.forgotten = forgotten;
        lock(&object.dirty).tag_for_writing(&self.pages.slab, pages.clone());
        Ok(true)
    }

    /// The sync `call` waits for `cause`.
    fn sync_waits<'a>(&'a self, call: &'a Call<'_>, cause: Cause) -> Waiting<'a> {
        let waiting = self.accounts.waiting(&call.waits, cause);
        waiting.counted(Counter::SyncWaitedUs)
    }

    /// The first of `pages` that is still to be written.
    fn next_to_write(&self, object: &ObjectState, pages: &Range<u64>) -> Option<u64> {
        self.next_in(object, Tag::ToWrite, pages)
    }

    fn next_in(&self, object: &ObjectState, tag: Tag, pages: &Range<u64>) -> Option<u64> {
        lock(&object.dirty).next_tagged(&self.pages.slab, tag, pages.clone())
    }

    /// The page `page` is to be written and could not be taken, because somebody holds it. Waits
    /// for that holder.
    async fn busy_page_settles(&self, object: &ObjectState, page: u64, longest: Span) -> bool {
        if object.is_cut_at(page) {
            // It is being cut off, or is about to be.
            self.accounts.mark(Mark::SyncMetCut);
            return self.accounts.resize_ends(object).await.is_ok();
        }
        let key = key(object.number, page);
        let Some(frame) = self.memory.find_surely(key) else {
            return true;
        };
        self.pages
            .word_becomes(frame, key, longest, |word| {
                is_holdable(word) && word & flag::WRITEBACK == 0
            })
            .await
    }
}

/// Pages that made the object `length_bytes` long may have been discarded before they were written,
/// and those past them may be dirty since after the sync began. Then the length is reported
/// separately. Pages that the store refused are still there.
fn note_length_left(object: &ObjectState, length_bytes: u64) {
    let length_bytes = length_bytes.min(object.length_bytes());
    let has_failed = object.failed_pages.load(Ordering::Relaxed) > 0;
    if !has_failed && !object.is_known_to_reach(length_bytes) {
        object.length_unsynced.store(true, Ordering::Release);
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
