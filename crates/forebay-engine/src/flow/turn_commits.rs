//! The commits that a flusher's turns owe (docs/decisions/sync-and-commits.md).
//!
//! Pages of an unstable store become free by commits alone. So commits begin beside its writes, and
//! each turn is followed by one. After a full turn the flusher waits for that one turn later: the
//! store has the writes of the next turn while it flushes. If the writes of the turn have ended by
//! then, because its store has only noted them, the commit begins before that wait
//! (docs/decisions/sync-and-commits.md).

use crate::flow::commit::commit_for;
use crate::parts::Writeback;
use crate::state::backing::Backing;
use crate::state::commit_line::{Committed, Joined};
use crate::state::object::ObjectState;
use forebay_base::sync::atomic::Ordering;
use forebay_base::sync::lock;
use forebay_law::group_commit::is_short_turn;
use std::ops::Range;
use std::sync::Arc;

/// A turn whose writes a commit has to follow. Its object is not forgotten meanwhile.
#[derive(Debug)]
pub(crate) struct WrittenTurn {
    object: Arc<ObjectState>,
    /// The numbers of its writes.
    writes: Range<u64>,
    /// This many pages that are written are worth a commit while the others are under way.
    step_pages: u64,
    /// The commit that covers it, if all its writes had ended as soon as they had begun.
    commit: Option<u64>,
}

impl WrittenTurn {
    pub(crate) fn of(object: Arc<ObjectState>, writes: Range<u64>, step_pages: u64) -> WrittenTurn {
        // An object with requests in flight is not forgotten.
        object.in_flight.changes.fetch_add(1, Ordering::AcqRel);
        WrittenTurn {
            object,
            writes,
            step_pages,
            commit: None,
        }
    }
}

/// How many pages a turn wrote, of those that it might have written.
#[derive(Clone, Copy)]
pub(crate) struct TurnPages {
    pub(crate) written: u64,
    pub(crate) limit: u64,
}

impl TurnPages {
    /// Whether the turn ended because of its limit.
    pub(crate) fn is_full(self) -> bool {
        self.written >= self.limit
    }
}

impl Drop for WrittenTurn {
    fn drop(&mut self) {
        let requests = &self.object.in_flight.changes;
        requests.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Writeback {
    /// Waits for the commit of the turn before `turn`, and for that of `turn` itself unless it
    /// wrote as many pages as its limit allows. A turn of fewer has written all there was: under
    /// a small limit nothing more comes before its pages are free.
    pub(crate) async fn turn_is_written(
        &self,
        backing: &Backing,
        owed: &mut Option<WrittenTurn>,
        mut turn: WrittenTurn,
        wrote: TurnPages,
    ) {
        let is_full = wrote.is_full();
        if is_full {
            turn.commit = self.early_commit_of(backing, &turn, wrote.written);
        }
        if let Some(before) = owed.replace(turn) {
            self.commit_turn(backing, before).await;
        }
        if !is_full {
            return self.commit_owed(backing, owed).await;
        }
        let Some(turn) = owed else { return };
        if let Some(number) = turn.commit
            && let Joined::Begun = turn.object.syncing.commits.join(number)
        {
            self.begin_commit(backing, &turn.object);
            // It begins before the writes of the next turn: it would have to wait for these too.
            self.rt.yield_now().await;
        }
    }

    /// The number of the commit that covers the `pages` of `turn`, if its writes have ended already
    /// and the store needs something to do soon.
    fn early_commit_of(&self, backing: &Backing, turn: &WrittenTurn, pages: u64) -> Option<u64> {
        // A kernel that lets queues run full commits when a turn is over.
        let is_late = self.pages.kernel.values.write_depth.fills_queues();
        let object = &turn.object;
        let has_ended = !backing.has_writes(object.number, turn.writes.clone());
        let average = lock(&backing.rates).bandwidth.average_pages_per_s;
        let is_short = is_short_turn(pages, average);
        (has_ended && is_short && !is_late && backing.changes_to_commit(object).is_some())
            .then(|| object.syncing.commits.number_for(object.changes()))
    }

    pub(crate) async fn commit_owed(&self, backing: &Backing, owed: &mut Option<WrittenTurn>) {
        if let Some(turn) = owed.take() {
            self.commit_turn(backing, turn).await;
        }
    }

    /// Commits what a turn wrote, once its writes have ended. If there are many, commits begin
    /// before. It does not wait for writes that others began before or after the turn, nor for a
    /// silent store: no object may keep the rest of the store from its turns.
    pub(crate) async fn commit_turn(&self, backing: &Backing, turn: WrittenTurn) {
        let object = &turn.object;
        let longest = self.settings.answer_timeout;
        let deadline = self.rt.now() + longest;
        loop {
            let listener = object.in_flight.written.listen();
            if !backing.has_writes(object.number, turn.writes.clone()) {
                break;
            }
            self.commit_beside(backing, object, turn.step_pages);
            if self.accounts.until(deadline, listener).await.is_none() {
                self.accounts.overdue("a store's answer", longest);
                self.put_off(object, backing);
                return;
            }
        }
        let number = turn.commit.or_else(|| commit_for(backing, object));
        if self.await_commit(backing, object, number).await == Committed::NoAnswer {
            self.put_off(object, backing);
        }
    }
}
