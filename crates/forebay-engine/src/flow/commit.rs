//! Making what was written durable: the store's commit, and the unstable pages that wait for it.
//!
//! The pages of an unstable store stay in memory, counted as under writeback, until a commit has
//! finished without error; if it fails they are dirty again (spec/writeback.md 1.2, T8 and T9). If
//! the store says that it started anew, nothing has failed: the pages are written again, and no
//! handle reports it.

use crate::flow::ticket::Ticket;
use crate::marks::Mark;
use crate::parts::Writeback;
use crate::state::activity::Part;
use crate::state::backing::{Backing, CommitTurn};
use crate::state::commit_line::{Committed, Joined};
use crate::state::dirty_index::Tag;
use crate::state::frame::{Refused, flag, is_holdable};
use crate::state::index::key;
use crate::state::object::ObjectState;
use crate::state::outstanding::token;
use crate::state::stamp::Stamp;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::{Instant, Span};
use forebay_law::group_commit::{LOOK_US, is_worth_a_commit, rest_ns};
use forebay_rt::wait::Listener;
use forebay_store::{Durability, Failure, Io, IoKind, StoreError};
use std::pin::pin;
use std::sync::Arc;

impl Writeback {
    /// Makes all finished writes of `object`, and its length, durable: by a commit of its own, or
    /// by one that it shares with others.
    pub(crate) fn commit<'a>(
        &'a self,
        backing: &'a Backing,
        object: &'a Arc<ObjectState>,
    ) -> impl Future<Output = Committed> + 'a {
        self.await_commit(backing, object, commit_for(backing, object))
    }

    /// Waits for commit `number` of `object`, and begins it if nobody has. None is one that has
    /// ended well.
    pub(crate) async fn await_commit(
        &self,
        backing: &Backing,
        object: &Arc<ObjectState>,
        number: Option<u64>,
    ) -> Committed {
        let Some(number) = number else {
            return Committed::Durable;
        };
        let asked = self.rt.now();
        let longest = self.settings.answer_timeout;
        loop {
            match object.syncing.commits.join(number) {
                // It may be a later commit, which covers what the expected one did. What failed in
                // between is in the object's sequence of errors.
                Joined::Ended(result) => return result,
                Joined::Begun => self.begin_commit(backing, object),
                Joined::UnderWay {
                    listener,
                    is_needed: true,
                } => {
                    if self.rt.timeout(longest, listener).await.is_err() {
                        self.accounts.mark(Mark::CommitOverdue);
                        self.accounts.overdue("commit", longest);
                        return Committed::NoAnswer;
                    }
                }
                Joined::UnderWay { listener, .. } => {
                    if !self.turn_comes(object, listener, asked + longest).await {
                        self.accounts.mark(Mark::CommitTurnOverdue);
                        return Committed::NoAnswer;
                    }
                }
            }
        }
    }

    /// Waits for the end of the commit before the one that the caller needs. `listener` wakes the
    /// caller if it is to begin its commit, or if that one has ended. If another caller was woken
    /// to begin it and does not, because its program has left its future alone, this caller does.
    /// False if none of that happened until `deadline`.
    async fn turn_comes(
        &self,
        object: &ObjectState,
        listener: Listener<'_>,
        deadline: Instant,
    ) -> bool {
        let look = Span::from_micros(LOOK_US).min(self.settings.answer_timeout);
        let mut listener = pin!(listener);
        let mut was_idle = false;
        while self.rt.timeout(look, listener.as_mut()).await.is_err() {
            let is_idle = !object.syncing.commits.is_under_way();
            if was_idle && is_idle {
                let what = "a caller that begins the next commit";
                self.accounts.overdue(what, look);
                return true;
            }
            if self.rt.now() >= deadline {
                return false;
            }
            was_idle = is_idle;
        }
        true
    }

    /// Begins a commit beside the writes of an unstable store, once at least `pages` pages wait for
    /// one, none is under way, and the last one was long enough ago. Does not wait for it.
    pub(crate) fn commit_beside(&self, backing: &Backing, object: &Arc<ObjectState>, pages: u64) {
        let uncommitted = backing.counts.uncommitted.load(Ordering::Relaxed);
        let under_way = backing.counts.writeback.load(Ordering::Relaxed);
        let to_free = backing.counts.reclaimable.load(Ordering::Relaxed) + under_way;
        let is_enough = is_worth_a_commit(uncommitted, to_free, pages);
        let is_time = || self.rt.now() >= *lock(&backing.commits.next_commit_beside);
        if !is_enough || object.syncing.commits.is_under_way() || !is_time() {
            return;
        }
        if backing.changes_to_commit(object).is_none() {
            return;
        }
        let number = object.syncing.commits.number_for(object.changes());
        if let Joined::Begun = object.syncing.commits.join(number) {
            self.begin_commit(backing, object);
        }
    }

    /// Carries out the commit that has begun. It goes on if the caller gives up: half of a commit
    /// would leave pages that no later commit covers. Mostly it is one request, which reports its
    /// own end. A commit of more steps is left to a task.
    pub(crate) fn begin_commit(&self, backing: &Backing, object: &Arc<ObjectState>) {
        // An object with requests in flight is not forgotten.
        object.in_flight.changes.fetch_add(1, Ordering::AcqRel);
        let is_reported = !object.length.unsynced.load(Ordering::Acquire);
        if is_reported && backing.geometry.durability == Durability::OnCommit {
            return self.submit_commit(backing, object);
        }
        if let Err(turn) = backing.ask_commit(CommitTurn::new(object.clone())) {
            let (writeback, backing) = (self.shared(), self.dirty.stores.get(backing.number));
            self.rt.spawn("commit", async move {
                let ticket = Ticket::new();
                let commit = writeback.commit_asked(&backing, turn, &ticket);
                // If it ends early, the turn says that its outcome is not known.
                let _ = writeback.accounts.watched("commit", commit).await;
            });
        }
    }

    fn submit_commit(&self, backing: &Backing, object: &ObjectState) {
        let Some(changes) = backing.commit_begins(object) else {
            object.in_flight.changes.fetch_sub(1, Ordering::AcqRel);
            return object.syncing.commits.end(Committed::Durable);
        };
        object.syncing.commits.covers(changes);
        self.dirty.activity_begins(backing, Part::Request);
        let request = object.request(IoKind::Commit, 0);
        let finisher = self.shared();
        let io = Io::new(request, Vec::new(), finisher, token(object.number, 0)).awaited();
        let io = io.submitted_at(self.rt.now());
        self.submit(backing, io);
    }

    /// The life of a task that carries out commits. It has all it needs before it starts, so that a
    /// commit needs no memory.
    pub(crate) async fn committer(self: Arc<Self>, backing: Arc<Backing>) {
        let ticket = Ticket::new();
        loop {
            let listener = backing.commits.wake_committer.listen();
            let is_closing = self.accounts.is_closing();
            if let Some(asked) = backing.next_commit(is_closing) {
                drop(listener);
                self.commit_asked(&backing, asked, &ticket).await;
            } else if is_closing {
                return;
            } else {
                listener.await;
            }
        }
    }

    async fn commit_asked(&self, backing: &Backing, turn: CommitTurn, ticket: &Arc<Ticket>) {
        let result = self.commit_alone(backing, &turn.object, ticket).await;
        turn.object.in_flight.changes.fetch_sub(1, Ordering::AcqRel);
        turn.end(result);
    }

    /// The commit itself, until the store has answered.
    async fn commit_alone(
        &self,
        backing: &Backing,
        object: &Arc<ObjectState>,
        ticket: &Arc<Ticket>,
    ) -> Committed {
        if let Err(error) = self.settle_length(backing, object).await {
            self.accounts.mark(Mark::CommitLengthFailed);
            object.failures.errors.set(error);
            return Committed::Failed(error);
        }
        let Some(changes) = backing.commit_begins(object) else {
            return Committed::Durable;
        };
        let is_unstable = backing.geometry.durability == Durability::Unstable;
        if is_unstable {
            self.for_unstable(object, |writeback, frame, _| {
                writeback.memory.frames.set(frame, flag::COMMITTING);
            })
            .await;
        }
        let request = object.request(IoKind::Commit, 0);
        let at_work = self.dirty.at_work(backing, Part::Request);
        let submitted = self.rt.now();
        let answered = self.answer(backing, request, ticket).await;
        let now = self.rt.now();
        let took = now.since(submitted);
        backing.answers.times.note(IoKind::Commit, took);
        *lock(&backing.commits.next_commit_beside) =
            now + Span::from_nanos(rest_ns(took.as_nanos()));
        drop(at_work);
        let result = match answered {
            Ok(()) => Committed::Durable,
            // Of other stores nobody has the pages any more: then it is a failure.
            Err(error) if is_unstable && error.failure == Failure::Forgotten => {
                self.accounts.mark(Mark::CommitForgotten);
                Committed::Forgotten
            }
            Err(error) => {
                self.accounts.mark(Mark::CommitFailed);
                Committed::Failed(error)
            }
        };
        let since = {
            let uncommitted = &mut lock(&object.dirty).uncommitted;
            match result {
                Committed::Durable => None,
                _ => uncommitted.commit_failed(),
            }
        };
        if is_unstable {
            self.settle_unstable(backing, object, result, since).await;
        }
        match result {
            Committed::Durable => object.note_committed(changes),
            // Set once its pages are dirty again: a sync that begins meanwhile finds them dirty, or
            // gets the failure.
            Committed::Failed(error) if is_unstable => object.failures.errors.set(error),
            Committed::Failed(error) => object.failures.errors.set_loss(error),
            Committed::Forgotten | Committed::NoAnswer => {}
        }
        if result == Committed::Durable {
            let since = lock(&object.dirty).uncommitted.commit_ends();
            self.dirty.note_durable(backing, since);
        }
        result
    }

    /// Reports the object's length to the store if the store may know another one. Nobody cuts or
    /// grows the object meanwhile: a length that arrives late would cut off what was written past
    /// it.
    async fn settle_length(
        &self,
        backing: &Backing,
        object: &Arc<ObjectState>,
    ) -> Result<(), StoreError> {
        if !object.length.unsynced.load(Ordering::Acquire) {
            return Ok(());
        }
        let place = loop {
            // However long that takes: a commit is left to a task of its own.
            if let Ok(place) = self.place_in_line(object, 0..0).await {
                break place;
            }
        };
        let alone = self.resize_alone(&place).await;
        if object.length.unsynced.load(Ordering::Acquire) {
            let length_bytes = object.length_bytes();
            self.report_length(backing, object, length_bytes, &alone)
                .await?;
        }
        Ok(())
    }

    /// A good commit covers the pages that were marked before it began. One that failed or that
    /// reports a loss speaks of every write that had ended when the store took it. Those may be
    /// more than were marked, and the store reports each loss once.
    async fn settle_unstable(
        &self,
        backing: &Backing,
        object: &ObjectState,
        result: Committed,
        since: Option<Stamp>,
    ) {
        let since = since.unwrap_or(Stamp::at(self.accounts.now_ms()));
        self.for_unstable(object, |writeback, frame, page| {
            let is_marked = writeback.memory.frames.word(frame) & flag::COMMITTING != 0;
            if !is_marked && matches!(result, Committed::Durable | Committed::NoAnswer) {
                return;
            }
            match result {
                Committed::Durable => {
                    lock(&object.dirty).landed(&writeback.pages.slab, page);
                    writeback.memory.rotate_reclaimable(frame);
                }
                Committed::Failed(_) | Committed::Forgotten => {
                    writeback.accounts.mark(Mark::CommitRedirtied);
                    // The flag first: a flusher that takes a tagged page without the flag believes
                    // it clean.
                    if writeback.memory.frames.set(frame, flag::DIRTY) & flag::DIRTY == 0 {
                        writeback.dirty.account_dirty(backing, frame);
                    }
                    lock(&object.dirty).untake(&writeback.pages.slab, page, Tag::Dirty, since);
                }
                Committed::NoAnswer => {
                    writeback.memory.frames.clear(frame, flag::COMMITTING);
                    return;
                }
            }
            writeback.dirty.account_unstable_ends(backing, frame);
            writeback
                .memory
                .frames
                .clear(frame, flag::UNSTABLE | flag::COMMITTING);
        })
        .await;
        if matches!(result, Committed::Failed(_)) {
            self.put_off(object, backing);
        }
        if matches!(result, Committed::Failed(_) | Committed::Forgotten) {
            self.requeue_dirty(object, backing);
        }
        object.in_flight.written.wake_all();
        self.pages.slab.freed.wake_all();
    }

    /// Calls `act` for each unstable page of the object, under a hold, because a cut may be
    /// dropping it.
    async fn for_unstable(&self, object: &ObjectState, act: impl Fn(&Writeback, u32, u64)) {
        let mut from = 0;
        loop {
            let left = from..u64::MAX;
            let next = lock(&object.dirty).next_tagged(&self.pages.slab, Tag::InFlight, left);
            let Some(page) = next else { return };
            from = page + 1;
            let key = key(object.number, page);
            while let Some(frame) = self.memory.find_surely(key) {
                match self.memory.frames.hold(frame, key) {
                    Ok(hold) if hold.word() & flag::UNSTABLE != 0 => act(self, frame, page),
                    Ok(_) | Err(Refused::Gone) => {}
                    Err(Refused::Busy) => {
                        // A writer or a cut holds it for a moment, or very many guards hold it for
                        // longer.
                        self.accounts.mark(Mark::CommitPageBusy);
                        let longest = self.settings.answer_timeout;
                        self.pages
                            .word_becomes(frame, key, longest, is_holdable)
                            .await;
                        continue;
                    }
                }
                break;
            }
        }
    }
}

/// The commit that covers all finished writes of `object`, and its length; none if they are
/// durable.
pub(super) fn commit_for(backing: &Backing, object: &ObjectState) -> Option<u64> {
    let is_reported = !object.length.unsynced.load(Ordering::Acquire);
    let is_owed = !is_reported || backing.changes_to_commit(object).is_some();
    // What was given up needs no commit. If a commit has already begun for it, the end of that
    // commit still has to be reported.
    if !is_owed && !object.syncing.commits.is_under_way() {
        return None;
    }
    let changes = if is_reported {
        object.changes()
    } else {
        u64::MAX
    };
    Some(object.syncing.commits.number_for(changes))
}
