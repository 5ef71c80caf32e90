//! The line of an object's cuts: each cut takes its place when it is asked for, and has the object
//! to itself when its turn comes.

use crate::accounting::calls::Call;
use crate::error::AccessError;
use crate::handle::Handle;
use crate::marks::Mark;
use crate::parts::Writeback;
use crate::state::backing::Backing;
use crate::state::object::{CutPlace, ObjectState, ResizeGuard};
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_law::blame::Cause;
use forebay_store::{Failure, IoKind, StoreError};
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

/// A resize, as errors and the names of tasks show it.
pub(super) struct ResizeOf {
    pub(super) name: &'static str,
    /// The first page that it changes.
    pub(super) page_index: u64,
}

impl Writeback {
    /// A place in the line of the object's cuts. It is taken at once unless very many are in line.
    /// A write that the caller makes after it has left then comes after the cut, and stays.
    pub(crate) async fn place_in_line(
        &self,
        object: &Arc<ObjectState>,
        pages: Range<u64>,
    ) -> Result<CutPlace, AccessError> {
        loop {
            let listener = object.listen_for_cuts();
            if let Some(place) = object.join_cuts(pages.clone()) {
                return Ok(place);
            }
            self.accounts.a_cut_ends(object, listener).await?;
        }
    }

    /// Does a resize apart from its caller, which learns if the store is silent. `work` has its
    /// place in line already.
    pub(super) async fn resize_apart<T: Send + 'static>(
        &self,
        call: &Call<'_>,
        handle: &Handle,
        of: ResizeOf,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, AccessError> {
        let _waiting = self.accounts.waiting(&call.waits, Cause::Resize);
        // Guards are waited for first, then the store.
        let waited = self.settings.held_timeout + self.settings.answer_timeout;
        let done = self.apart(of.name, &handle.object, waited, work).await;
        done.ok_or_else(|| {
            self.accounts.mark(Mark::ResizeOverdue);
            AccessError::NotAnswering {
                object: handle.object.store_object().0,
                page_index: of.page_index,
                waited,
            }
        })
    }

    /// The right to resize, when it is the place's turn and every batch of insertions has ended.
    /// Batches wait for nothing, so that takes only their few microseconds.
    pub(crate) async fn resize_alone<'p>(&self, place: &'p CutPlace) -> ResizeGuard<'p> {
        let guard = loop {
            let listener = place.object().listen_for_cuts();
            if let Some(guard) = place.begin() {
                break guard;
            }
            // However long that takes: a resize that is given up is left to a task of its own.
            let _ = self.accounts.a_cut_ends(place.object(), listener).await;
        };
        while !guard.is_alone() {
            self.rt.yield_now().await;
        }
        guard
    }

    /// Reports to the store the length that the object has or will have. Nobody else changes it
    /// before the store answers: a length that arrives late would cut off what was written past it.
    /// While the store may not know the object's length, each sync reports it again.
    pub(crate) async fn report_length(
        &self,
        backing: &Backing,
        object: &ObjectState,
        length_bytes: u64,
        _alone: &ResizeGuard<'_>,
    ) -> Result<(), StoreError> {
        let request = object.request(IoKind::SetLength, length_bytes);
        let answer = self.ask(backing, request, Span::MAX).await;
        let result = answer.unwrap_or(Err(request.error(Failure::NoAnswer)));
        object.changed();
        if result.is_ok() {
            object.is_known_to_end_at(length_bytes);
        }
        object
            .length
            .unsynced
            .store(result.is_err(), Ordering::Release);
        result
    }
}
