//! How a request reaches a store.

use crate::marks::Mark;
use crate::parts::Writeback;
use crate::state::backing::Backing;
use forebay_base::sync::atomic::Ordering;
use forebay_store::{Io, IoKind, PagePointer, Request};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Writeback {
    /// A request for pages of this cache to the store of `backing`.
    pub(crate) fn page_io(
        &self,
        backing: &Backing,
        request: Request,
        pages: Vec<PagePointer>,
        token: u64,
    ) -> Io {
        let arena = self.memory.frames.arena();
        let io = if arena.is_phantom() {
            Io::without_bytes(request, pages, self.shared(), token)
        } else {
            Io::new(request, pages, self.shared(), token).in_memory(arena.memory())
        };
        let io = io.submitted_at(self.rt.now());
        let may_change = request.kind == IoKind::Write && !backing.geometry.stable_pages;
        if may_change { io.changing() } else { io }
    }

    /// Gives `io` to the store of `backing`, whose panics end here: they are the fault of the
    /// store, and its other requests and other stores have no part in it.
    pub(crate) fn submit(&self, backing: &Backing, io: Io) {
        let submit = AssertUnwindSafe(|| backing.store.submit(io));
        if catch_unwind(submit).is_err() {
            self.accounts.mark(Mark::StorePanicked);
            if !backing.owner.has_panicked.swap(true, Ordering::Relaxed) {
                let number = backing.number;
                forebay_rt::say(format_args!(
                    "store {number} panicked when a request was submitted; if it still had the \
                     request, that has failed, and the store gets others as before"
                ));
            }
        }
    }
}
