//! `sync`: what was dirty at the call is written, and the store says that it is durable.
//!
//! The pages that are dirty at the call are tagged first, so that a writer that goes on cannot
//! keep it from ending (the tag keeps I14 of the specification's list).

use crate::engine::Engine;
use crate::error::SyncError;
use crate::flow::commit::Committed;
use crate::flow::writeout::Selection;
use crate::state::backing::Backing;
use crate::state::dirty_index::Tag;
use crate::state::frame::flag;
use crate::state::index::key;
use crate::state::object::ObjectState;
use forebay_base::Span;
use forebay_base::sync::lock;
use forebay_base::units::pages_for;
use std::sync::Arc;

impl Engine {
    /// Writes what is dirty in `object` now and commits it. Errors of writes go to the object's
    /// sequence; the caller asks there. Returns an error only if the store does not answer.
    pub(crate) async fn sync_object(
        self: &Arc<Self>,
        object: &Arc<ObjectState>,
    ) -> Result<(), SyncError> {
        if object.is_anonymous() {
            return Ok(());
        }
        let backing = self.backing_of(object);
        let longest = self.settings.answer_timeout;
        lock(&object.dirty).tag_for_writing(&self.slab, 0..u64::MAX);
        loop {
            let written = async {
                self.writeout(&backing, object, Selection::all(Tag::ToWrite))
                    .await;
                self.writes_end(&backing, object).await;
            };
            if self
                .while_answering(&backing, longest, written)
                .await
                .is_none()
            {
                return Err(unanswered(object, longest));
            }
            match self.commit(&backing, object, longest).await {
                Committed::Durable => {}
                Committed::Failed(_) => return Ok(()),
                Committed::NoAnswer => return Err(unanswered(object, longest)),
            }
            if !self.has_left_to_write(object) {
                return Ok(());
            }
            if !self.busy_page_settles(object, longest).await {
                return Err(unanswered(object, longest));
            }
        }
    }

    /// Syncs every object. The first failure is returned; the others are synced all the same.
    pub(crate) async fn sync_all(self: &Arc<Self>) -> Result<(), SyncError> {
        let mut result = Ok(());
        for object in self.objects.all() {
            let mut cursor = object.errors.sample();
            let synced = self.sync_object(&object).await;
            let failed = object.errors.check_and_advance(&mut cursor);
            result = result
                .and(synced)
                .and(failed.map_or(Ok(()), |error| Err(error.into())));
        }
        result
    }

    fn has_left_to_write(&self, object: &ObjectState) -> bool {
        lock(&object.dirty)
            .next_tagged(&self.slab, Tag::ToWrite, 0)
            .is_some()
    }

    /// Waits until every write of the object that was submitted up to now has ended.
    pub(crate) async fn writes_end(&self, backing: &Backing, object: &ObjectState) {
        let sequence = backing.next_sequence();
        loop {
            let listener = object.written.listen();
            if !backing.has_writes_before(object.number, sequence) {
                return;
            }
            listener.await;
        }
    }

    /// A page that is to be written could not be taken: somebody has it. Waits for that one.
    async fn busy_page_settles(&self, object: &ObjectState, longest: Span) -> bool {
        let next = lock(&object.dirty).next_tagged(&self.slab, Tag::ToWrite, 0);
        let Some(page) = next else { return true };
        if page >= pages_for(object.length_bytes()) {
            // It is being cut off.
            return self.resize_ends(object).await.is_ok();
        }
        let key = key(object.number, page);
        let Some(frame) = self.index.find_surely(&self.frames, key) else {
            return true;
        };
        self.word_becomes(frame, key, longest, |word| {
            word & (flag::EXCLUSIVE | flag::WRITEBACK) == 0
        })
        .await
    }
}

fn unanswered(object: &ObjectState, waited: Span) -> SyncError {
    let pages_left = lock(&object.dirty).dirty_pages();
    SyncError::NotAnswering {
        object: object.store_object().0,
        waited,
        pages_left,
    }
}
