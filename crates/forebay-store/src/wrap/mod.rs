//! Stores around stores: each does one thing and keeps the geometry of the store that it wraps, and
//! they can be stacked.

mod count;
mod delay;
mod fault;
mod rate;

pub use count::{CountStore, Counts};
pub use delay::{DelayStore, Delays};
pub use fault::{Fault, FaultAction, FaultStore, FaultWhen};
pub use rate::{Rate, RateStore};

use crate::error::Failure;
use crate::io::Io;

/// A request that waits in a wrapper.
///
/// The runtime may end while it waits. Then nothing can be carried out, but the request must still
/// be finished: it fails with [`Failure::NoAnswer`].
#[derive(Debug)]
struct Held(Option<Io>);

impl Held {
    fn new(io: Io) -> Held {
        Held(Some(io))
    }

    fn io(&self) -> &Io {
        self.0.as_ref().expect("a request is held until released")
    }

    fn release(mut self) -> Io {
        self.0.take().expect("a request is held until released")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(io) = self.0.take() {
            io.fail(Failure::NoAnswer);
        }
    }
}
