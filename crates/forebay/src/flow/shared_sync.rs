//! Syncs of a whole object by many callers at a time: one of them writes and commits for all that
//! came before it began.
//!
//! Every sync of an object covers what was written before it, whoever wrote it. So if many are
//! under way, callers that come meanwhile wait, and then one of them syncs for all. It hands all
//! pages to the store at once and needs one commit, and the others sleep once.
//!
//! Only what went well is shared. If that sync fails, is dropped or takes long, each caller syncs
//! by itself, and finds its own failures.

use crate::books::calls::Call;
use crate::engine::Engine;
use crate::error::SyncError;
use crate::flow::commit::PATIENCE;
use crate::flow::sync::ALL_PAGES;
use crate::state::errseq::Cursor;
use crate::state::object::ObjectState;
use crate::state::sync_line::Shared;
use forebay_base::sync::atomic::{AtomicU32, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_law::blame::Cause;
use std::sync::Arc;

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

impl Engine {
    /// Makes all pages of `object` that are dirty now durable, as [`Engine::sync_pages`] does, by a
    /// sync of this caller or of another one that begins after now.
    pub(crate) async fn sync_whole(
        self: &Arc<Self>,
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
                    self.sync_in_steps(call, object, ALL_PAGES, cursor, written)
                        .await?;
                    turn.ends_well();
                    return Ok(());
                }
                // It may be a later one, which covers what the expected one did.
                Shared::Ended { went_well: true } => {
                    let failed = object.errors.check_and_advance(&mut lock(cursor), mark);
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
}
