//! Where bytes rest: the [`Store`] seam and the stores that ship; and the [`Opener`] seam, from a
//! name to one object of a store.
//!
//! A store has a [`Geometry`] and one verb, *submit this [`Io`]*. An `Io` owns its pages until the
//! store finishes it, in any order and on any thread; one that is dropped unfinished fails. A store
//! of safe code cannot see or change a page that is not its own, whatever it does with an `Io`
//! ([`io`] says why). That one form fits io_uring, a pool of threads, an object store
//! and a simulated disk alike. Wrappers are stores too, and can be stacked.
//!
//! The rule of this crate: it knows nothing of caching. It never retries, never reorders what it
//! promised to keep in order, and holds no page longer than its `Io`.

// If nobody reads the output, they would end a serving thread with a panic.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod claims;
mod commits;
pub mod error;
mod file;
mod files;
mod holes;
pub mod io;
mod memory;
mod positioned;
mod registered;
mod request;
mod stable;
mod thread_group;
mod transfer;
mod uring;
mod volume;
pub mod wrap;
mod write_through;

use std::fmt;
use std::sync::Arc;

pub use error::{Failure, StoreError};
pub use file::{FileStore, FileStoreSettings, LentFile, Method, StartError};
pub use files::{OpenError, OpenMode, Opened};
pub use holes::{Extent, FileHoles, Holes};
pub use io::{Ending, Finish, FinishedIo, Hedge, Intercept, Io, Memory, PagePointer};
pub use memory::MemoryStore;
pub use request::{IoKind, ObjectId, Request};
pub use thread_group::ThreadGroup;
pub use volume::{Figure, Medium, Opener, Openers, Volume, VolumeError, VolumeMode, VolumeUser};
pub use wrap::{
    CountStore, Counts, DelayStore, Delays, Fault, FaultAction, FaultStore, FaultWhen, Rate,
    RateStore,
};

/// When the bytes of a finished write are safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A finished write is durable.
    OnFinish,
    /// A finished write can be read back from the store, and is durable after the next finished
    /// [`IoKind::Commit`] of its object. Its page may be dropped meanwhile, and then nobody can
    /// write it again: a commit that fails may have lost it (contract, 6).
    OnCommit,
    /// A finished write is *unstable*: the store may forget it until a commit has finished without
    /// error (NFS, multipart uploads). Its page must be kept until then, and written again if the
    /// commit fails.
    Unstable,
}

/// What a store is like. It does not change while the store lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// A write is served without a copy if its offset and length are multiples of this many bytes;
    /// a power of two from 512 to 4096.
    pub block_bytes: u32,
    /// Pages that one `Io` may carry at most; at least 1.
    pub max_io_pages: u32,
    /// Writes that begin and end at multiples of this many pages are the cheapest; at least 1,
    /// which is no preference. It may be more than one `Io` carries: then a unit is several writes
    /// that follow each other. [`Geometry::WHOLE_OBJECTS`] asks for all that is dirty of an object.
    ///
    /// It is a preference. A cache that writes in the background honours it where neighbours are
    /// dirty; what a `sync` asks for, what memory cannot take together, and pages that somebody
    /// holds still come as they are.
    pub write_unit_pages: u32,
    /// Requests that keep the store busy without queueing long; at least 1. The cache submits more
    /// only if its callers need more.
    pub queue_depth: u32,
    /// When a finished write is safe.
    pub durability: Durability,
    /// Whether a page must not change while it is being written (checksums, mirrors, copies made
    /// by another thread). If not, a page may be changed meanwhile and is then written again.
    pub stable_pages: bool,
}

impl Geometry {
    /// The unit of a store that writes objects as a whole.
    pub const WHOLE_OBJECTS: u32 = u32::MAX;
}

/// What a store may ask of the cache before it, from calls of its own users and never while it
/// takes a request.
pub trait Unwritten: fmt::Debug + Send + Sync + 'static {
    /// Whether the cache has something of `object` that is not durable.
    fn has_unwritten(&self, object: ObjectId) -> bool;
}

/// A place where bytes rest, seen as numbered objects of bytes. Object-safe.
///
/// # Contract
/// Held over every store by `tests/contract.rs`:
/// 1. each submitted `Io` is finished exactly once, possibly before `submit` returns;
/// 2. a read sees every write of the same range that was finished before it was submitted;
/// 3. bytes never written, bytes past the end, and the part of the last page of a read that is not
///    asked for, read as zeros;
/// 4. a failed `Io` changes at most its own range, and the next one may succeed;
/// 5. after a commit finished without error, every write of the object that was finished before
///    the commit was submitted survives a crash;
/// 6. so if a failed commit may have lost such a write ([`Durability::OnCommit`]), every later
///    commit of the object fails too, until it is opened again;
/// 7. `submit` does not wait for the medium.
pub trait Store: Send + Sync + 'static {
    /// What this store is like.
    fn geometry(&self) -> Geometry;

    /// Takes `io` and finishes it at some time.
    fn submit(&self, io: Io);

    /// The stores whose objects this one gives out under its own name, if it is a wrapper: whoever
    /// has one of them in front of a cache may not have this one in front of another.
    fn inner(&self) -> Vec<&dyn Store> {
        Vec::new()
    }

    /// The length of `object` now, if the store knows it: a cache refuses to open the object as
    /// shorter. It does not wait for the medium.
    fn length_bytes(&self, object: ObjectId) -> Option<u64> {
        let _ = object;
        None
    }

    /// Whether `object` can only be read: a cache then refuses changes of it at once, and not when
    /// it writes them back. It is asked again for each change as long as it says yes.
    fn is_read_only(&self, object: ObjectId) -> bool {
        let _ = object;
        false
    }

    /// A cache was put in front of this store. While it has something of an object to write, the
    /// object has to be there: a store that lets its objects be closed asks `unwritten` first.
    fn attached(&self, unwritten: Arc<dyn Unwritten>) {
        let _ = unwritten;
    }

    /// Announces that pages of `memory` will come in many requests, so that a store that can
    /// register memory does so. It is a hint; a store may ignore it silently.
    ///
    /// A store may keep using the memory that the addresses stand for now, for requests with the
    /// number of `memory` ([`Io::memory`]) and for no others.
    fn register_memory(&self, memory: &Memory) {
        let _ = memory;
    }

    /// Takes [`Store::register_memory`] back: no request with the number of `memory` is submitted
    /// from now on.
    fn forget_memory(&self, memory: &Memory) {
        let _ = memory;
    }
}
