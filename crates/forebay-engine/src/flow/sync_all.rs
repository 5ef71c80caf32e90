//! Syncs of everything that a cache holds.

use crate::caller::CallerKey;
use crate::error::SyncError;
use crate::event::CallKind;
use crate::flow::side_by_side::side_by_side;
use crate::flow::sync::unanswered;
use crate::parts::Syncer;
use crate::state::dirty_index::ALL_PAGES;
use crate::state::object::ObjectState;
use crate::state::waits::CallOf;
use forebay_base::sync::Mutex;
use forebay_law::blame::Cause;

/// Objects that are synced at a time.
const SYNCS: usize = 16;

impl Syncer {
    /// Syncs every object. The first failure is returned. The others are synced all the same.
    pub(crate) async fn sync_all(&self) -> Result<(), SyncError> {
        let objects = self.pages.objects.all();
        let syncs = objects.iter().map(|object| async move {
            let cursor = Mutex::new(object.failures.errors.sample());
            let call = self.dirty.call_of(self.sync_of_all(object));
            self.sync_pages(&call, object, ALL_PAGES, &cursor).await
        });
        side_by_side(SYNCS, syncs).await
    }

    /// The sync of `object` among all.
    fn sync_of_all(&self, object: &ObjectState) -> CallOf {
        let is_of_file = !object.is_anonymous();
        CallOf {
            caller: CallerKey::CACHE,
            bdi: is_of_file.then(|| self.dirty.backing_of(object).number),
            kind: CallKind::Sync,
            offset_bytes: 0,
            bytes: 0,
        }
    }

    /// Waits for every cut that was asked for: no cut may come late when the store has other users.
    pub(crate) async fn all_cuts_end(&self) -> Result<(), SyncError> {
        for object in self.pages.objects.all() {
            let Some(last) = object.resizing.cuts.last_of(&ALL_PAGES) else {
                continue;
            };
            let call = self.dirty.call_of(self.sync_of_all(&object));
            let _waiting = self.accounts.waiting(&call.waits, Cause::Resize);
            if self
                .accounts
                .cuts_end(&object, last, &ALL_PAGES)
                .await
                .is_err()
            {
                let waited = self.settings.held_timeout + self.settings.answer_timeout;
                return Err(unanswered(&object, waited));
            }
        }
        Ok(())
    }
}
