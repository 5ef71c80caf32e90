//! Requests that one caller waits for (commit, set length, discard), and work that a caller may
//! leave but that must not stay half done.

use crate::parts::Writeback;
use crate::state::activity::Part;
use crate::state::backing::Backing;
use crate::state::object::ObjectState;
use forebay_base::Span;
use forebay_base::sync::atomic::Ordering;
use forebay_rt::wait::Slot;
use forebay_store::{Finish, FinishedIo, Io, IoKind, Request, StoreError};
use std::future::Future;
use std::sync::Arc;

/// Where the results of requests arrive, one after the other.
#[derive(Debug)]
pub(crate) struct Ticket(Slot<Result<(), StoreError>>);

impl Ticket {
    pub(crate) fn new() -> Arc<Ticket> {
        Arc::new(Ticket(Slot::new()))
    }
}

impl Finish for Ticket {
    fn finished(&self, io: FinishedIo) {
        self.0.set(io.result);
    }
}

impl Writeback {
    /// Submits a request without pages and waits for its end, however long that takes: a ticket
    /// that waits for the answer to one request cannot be used for the next.
    pub(crate) async fn answer(
        &self,
        backing: &Backing,
        request: Request,
        ticket: &Arc<Ticket>,
    ) -> Result<(), StoreError> {
        // A commit is at work as its caller says.
        let is_aside = request.kind != IoKind::Commit;
        let at_work = is_aside.then(|| self.dirty.at_work(backing, Part::Aside));
        let io = Io::new(request, Vec::new(), ticket.clone(), 0);
        self.submit(backing, io);
        let result = ticket.0.take().await;
        drop(at_work);
        self.accounts.note_outcome(backing, request.kind, &result);
        if result.is_ok() && matches!(request.kind, IoKind::SetLength | IoKind::Discard) {
            // There may be room now.
            backing.pardon();
        }
        result
    }

    /// Submits a request without pages and waits for its end. None if the store gives no answer
    /// within `longest`.
    pub(crate) async fn ask(
        &self,
        backing: &Backing,
        request: Request,
        longest: Span,
    ) -> Option<Result<(), StoreError>> {
        let ticket = Ticket::new();
        let answer = self.answer(backing, request, &ticket);
        let answer = self.rt.timeout(longest, answer).await;
        if answer.is_err() {
            self.accounts.overdue("a store's answer", longest);
        }
        answer.ok()
    }

    /// Does `work` on `object` as a task of its own: if the caller gives up, or `longest` passes,
    /// the work still comes to its end. None if it takes longer, and no other cut of the object,
    /// which it may have to wait for, ends meanwhile; or if it panics.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        name: &'static str,
        object: &Arc<ObjectState>,
        longest: Span,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let slot = Arc::new(Slot::new());
        let (reporter, of) = (slot.clone(), object.clone());
        // An object with requests in flight is not forgotten.
        of.in_flight.changes.fetch_add(1, Ordering::AcqRel);
        let accounts = self.accounts.clone();
        self.rt.spawn(name, async move {
            let result = accounts.watched(name, work).await;
            of.in_flight.changes.fetch_sub(1, Ordering::AcqRel);
            reporter.set(result);
        });
        loop {
            let ended = object.resizing.cuts.ended();
            if let Ok(result) = self.rt.timeout(longest, slot.take()).await {
                return result;
            }
            if object.resizing.cuts.ended() == ended {
                self.accounts.overdue(name, longest);
                return None;
            }
        }
    }
}
