//! Requests that one caller waits for: commit, set length, discard.

use crate::engine::Engine;
use crate::state::backing::Backing;
use forebay_base::Span;
use forebay_rt::wait::Slot;
use forebay_store::{Finish, FinishedIo, Io, Request, StoreError};
use std::sync::Arc;

/// Where the result of one request arrives.
#[derive(Debug)]
struct Ticket(Slot<Result<(), StoreError>>);

impl Finish for Ticket {
    fn finished(&self, io: FinishedIo) {
        self.0.set(io.result);
    }
}

impl Engine {
    /// Submits a request without pages and waits for its end. None if the store gives no answer
    /// in `longest`.
    pub(crate) async fn ask(
        &self,
        backing: &Backing,
        request: Request,
        longest: Span,
    ) -> Option<Result<(), StoreError>> {
        let ticket = Arc::new(Ticket(Slot::new()));
        backing
            .store
            .submit(Io::new(request, Vec::new(), ticket.clone(), 0));
        let answer = self.rt.timeout(longest, ticket.0.take()).await;
        if answer.is_err() {
            self.overdue("a store's answer", longest);
        }
        answer.ok()
    }
}
