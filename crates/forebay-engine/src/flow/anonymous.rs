//! Anonymous memory from its making to its last handle: it begins as zeros, and at its end its
//! pages and slots are given back. What goes to swap in between is in `swap`.

use crate::accounting::calls::Call;
use crate::error::{AccessError, BuildError};
use crate::handle::Handle;
use crate::marks::Mark;
use crate::memory::FrameRequest;
use crate::parts::Files;
use crate::state::frame::flag;
use crate::state::object::{ObjectState, Origin};
use crate::state::zone::Zone;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::atomic::AtomicU32;
use forebay_base::units::{byte_of, pages_for};
use forebay_law::blame::Cause;
use std::sync::Arc;

impl Files {
    /// Makes anonymous memory of `pages` pages.
    pub(crate) fn anonymous(&self, pages: u64) -> Result<Arc<ObjectState>, BuildError> {
        let swap = self.memory.swap.get().ok_or(BuildError::NoSwap { pages })?;
        // Memory holds what swap cannot hold.
        let memory_pages: u64 = self.memory.zones.iter().map(Zone::managed_pages).sum();
        if pages > swap.slots.total() + memory_pages {
            return Err(BuildError::NoSwap { pages });
        }
        let slots = (0..pages).map(|_| AtomicU32::new(0)).collect();
        self.open(Origin::Anonymous { slots }, byte_of(pages))
    }

    /// Puts in a page of zeros for an anonymous page that nobody has written yet.
    pub(crate) async fn make_zeros(
        &self,
        call: &Call<'_>,
        handle: &Handle,
        page: u64,
    ) -> Result<(), AccessError> {
        let object = &*handle.object;
        let fresh = self
            .reclaim
            .frame(call, FrameRequest::to_read(handle.node_policy))
            .await?;
        let Some(batch) = object.begin_batch() else {
            drop(fresh);
            let _waiting = self.accounts.waiting(&call.waits, Cause::Resize);
            self.accounts.resize_ends(object).await?;
            return Ok(());
        };
        if page >= pages_for(object.length_bytes()) {
            self.accounts.mark(Mark::FillCut);
            return Ok(());
        }
        if let Some(mut hold) = self.pages.insert(object, page, fresh, &batch) {
            // It may have been written and have gone to swap while this call waited. Only a page
            // that is in memory can be checked for that: its slot does not change any more.
            if !object.is_in_no_slot(page) {
                self.memory.release_page(hold);
                return Ok(());
            }
            self.memory.frames.arena().zero(&mut hold, 0, PAGE_BYTES);
            // Its content is nowhere else, so it is dirty from the start.
            hold.set(flag::UPTODATE | flag::DIRTY);
        }
        Ok(())
    }

    /// The last handle of anonymous memory is gone. Its pages and slots are given back in the
    /// background, because a page may be on its way to swap.
    pub(crate) fn drop_anonymous(&self, object: &Arc<ObjectState>) {
        if self.accounts.is_closing() {
            return;
        }
        let (files, object) = (self.shared(), object.clone());
        let name = "drop anonymous memory";
        let dropping = async move {
            let backing = files.dirty.backing_of(&object);
            // All slots that it may ever have had: another object gets its number next.
            let pages = 0..object.swap_slots().len() as u64;
            loop {
                let dropped = files
                    .writeback
                    .drop_pages(&object, &backing, pages.clone())
                    .await;
                if dropped.is_err() {
                    // A swap store does not answer: its requests hold the pages until it does.
                    files.accounts.mark(Mark::AnonymousDropRetried);
                    files.rt.sleep(files.settings.held_timeout).await;
                } else if object.has_requests() {
                    // A cut whose caller has left uses the number, which stays this memory's.
                    files.rt.sleep(files.settings.tick).await;
                } else {
                    break;
                }
            }
            files.pages.objects.remove(&object);
            files.reclaim.capacity.charge_objects();
        };
        let files = self.shared();
        self.rt.spawn(name, async move {
            // If it ends early its memory stays taken, and the incident says so.
            let _ = files.accounts.watched(name, dropping).await;
        });
    }
}
