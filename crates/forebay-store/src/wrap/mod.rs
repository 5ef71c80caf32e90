//! Stores around stores: each does one thing and keeps the geometry of the store that it wraps, and
//! they can be stacked.

/// What a wrapper leaves to the store that it wraps: all but `submit`.
macro_rules! forward_to {
    ($($inner:ident).+) => {
        fn geometry(&self) -> crate::Geometry {
            self.$($inner).+.geometry()
        }

        fn inner(&self) -> Vec<&dyn crate::Store> {
            vec![&*self.$($inner).+]
        }

        fn is_read_only(&self, object: crate::ObjectId) -> bool {
            self.$($inner).+.is_read_only(object)
        }

        fn attached(&self, unwritten: std::sync::Arc<dyn crate::Unwritten>) {
            self.$($inner).+.attached(unwritten);
        }

        fn length_bytes(&self, object: crate::ObjectId) -> Option<u64> {
            self.$($inner).+.length_bytes(object)
        }

        fn register_memory(&self, memory: &crate::io::Memory) {
            self.$($inner).+.register_memory(memory);
        }

        fn forget_memory(&self, memory: &crate::io::Memory) {
            self.$($inner).+.forget_memory(memory);
        }
    };
}

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
