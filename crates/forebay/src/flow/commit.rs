//! Making what was written durable: the store's commit, and the unstable pages that wait for it.
//!
//! The pages of an unstable store stay in memory, counted as under writeback, until a commit has
//! finished without error; if it fails they are dirty again (spec/writeback.md 1.2, T8 and T9).

use crate::engine::Engine;
use crate::state::backing::Backing;
use crate::state::dirty_index::Tag;
use crate::state::frame::flag;
use crate::state::index::key;
use crate::state::object::ObjectState;
use forebay_base::Span;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_store::{Durability, IoKind, Request, StoreError};

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Committed {
    /// Everything that was written before is durable.
    Durable,
    /// The store refused; what was unstable is dirty again.
    Failed(StoreError),
    /// The store gave no answer in time; nothing is known.
    NoAnswer,
}

impl Engine {
    /// Makes all finished writes of `object`, and its length, durable.
    pub(crate) async fn commit(
        &self,
        backing: &Backing,
        object: &ObjectState,
        longest: Span,
    ) -> Committed {
        let length_bytes = object.length_bytes();
        if object.length_unsynced.swap(false, Ordering::AcqRel) {
            let request = of_object(object, IoKind::SetLength, length_bytes);
            match self.ask(backing, request, longest).await {
                Some(Ok(())) => object.uncommitted.store(true, Ordering::Release),
                Some(Err(error)) => {
                    object.length_unsynced.store(true, Ordering::Release);
                    object.errors.set(error);
                    return Committed::Failed(error);
                }
                None => {
                    object.length_unsynced.store(true, Ordering::Release);
                    return Committed::NoAnswer;
                }
            }
        }
        let uncommitted = object.uncommitted.swap(false, Ordering::AcqRel);
        if !uncommitted || backing.geometry.durability == Durability::OnFinish {
            return Committed::Durable;
        }
        if backing.geometry.durability == Durability::Unstable {
            self.for_unstable(object, |engine, frame, _| {
                engine.frames.set(frame, flag::COMMITTING);
            });
        }
        let answer = self
            .ask(backing, of_object(object, IoKind::Commit, 0), longest)
            .await;
        let result = match answer {
            Some(Ok(())) => Committed::Durable,
            Some(Err(error)) => {
                object.errors.set(error);
                Committed::Failed(error)
            }
            None => Committed::NoAnswer,
        };
        if result != Committed::Durable {
            object.uncommitted.store(true, Ordering::Release);
        }
        if backing.geometry.durability == Durability::Unstable {
            self.settle_unstable(backing, object, result);
        }
        result
    }

    fn settle_unstable(&self, backing: &Backing, object: &ObjectState, result: Committed) {
        self.for_unstable(object, |engine, frame, page| {
            if engine.frames.word(frame) & flag::COMMITTING == 0 {
                return;
            }
            match result {
                Committed::Durable => {
                    lock(&object.dirty).landed(&engine.slab, page);
                    engine.rotate_reclaimable(frame);
                    engine.account_writeback_ends(backing, frame);
                    engine
                        .frames
                        .clear(frame, flag::UNSTABLE | flag::COMMITTING);
                }
                Committed::Failed(_) => {
                    lock(&object.dirty).untake(&engine.slab, page, Tag::Dirty);
                    if engine.frames.set(frame, flag::DIRTY) & flag::DIRTY == 0 {
                        engine.account_redirtied(backing, frame);
                    }
                    engine.account_writeback_ends(backing, frame);
                    engine
                        .frames
                        .clear(frame, flag::UNSTABLE | flag::COMMITTING);
                }
                Committed::NoAnswer => {
                    engine.frames.clear(frame, flag::COMMITTING);
                }
            }
        });
        if matches!(result, Committed::Failed(_)) {
            self.put_off(object);
            self.requeue_dirty(object, backing);
        }
        object.written.wake_all();
    }

    /// Calls `act` for each resident unstable page of the object.
    fn for_unstable(&self, object: &ObjectState, act: impl Fn(&Engine, u32, u64)) {
        let mut from = 0;
        loop {
            let next = lock(&object.dirty).next_tagged(&self.slab, Tag::InFlight, from);
            let Some(page) = next else { return };
            from = page + 1;
            let found = self
                .index
                .find_surely(&self.frames, key(object.number, page));
            if let Some(frame) = found
                && self.frames.word(frame) & flag::UNSTABLE != 0
            {
                act(self, frame, page);
            }
        }
    }

    /// Puts an object that has dirty pages again on its flusher's list.
    pub(crate) fn requeue_dirty(&self, object: &ObjectState, backing: &Backing) {
        let object = self
            .objects
            .get(object.number)
            .expect("an object with dirty pages is known");
        if backing.enqueue(&object, || self.now_ms()) {
            backing.wake_flusher.wake_all();
        }
    }
}

/// A request about a whole object.
pub(crate) fn of_object(object: &ObjectState, kind: IoKind, offset_bytes: u64) -> Request {
    Request {
        kind,
        object: object.store_object(),
        offset_bytes,
        length_bytes: 0,
    }
}
