//! What every block front of a Forebay cache needs, whatever protocol its clients use.
//!
//! A [`Disk`] is a file of a cache with a length, a list of holes, and perhaps a ban on writes. A
//! front turns its clients' requests into [`Job`]s, each with at most [`PIECE_BYTES`] of data, and
//! [`perform`] does them. [`Slots`] keep many jobs under way in memory that was allocated before,
//! with buffers from a [`Pool`] that all clients share. A [`WakeFd`] wakes the thread that drives
//! them. Failures are [`BlockError`]s, which the front translates into its protocol.
//!
//! Nothing here knows a protocol, a socket, or the clients.
//!
//! ```
//! use forebay::{Cache, Settings};
//! use forebay_block::{WakeFd, Disk, Job, Pool, Slots, perform};
//! use forebay_store::{MemoryStore, ObjectId};
//! use std::sync::{Arc, atomic::AtomicBool};
//!
//! let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
//! let store = cache.attach(Arc::new(MemoryStore::new()))?;
//! let disk = Disk::new(cache.open(&store, ObjectId(1), 64 << 20)?);
//! let (file, wake_fd, ending) = (disk.handle(), Arc::new(WakeFd::new()?), AtomicBool::new(false));
//! let make = |job, buffer| perform(&disk, &file, job, buffer, &ending);
//! let mut slots = Slots::new(make, &wake_fd, Arc::new(Pool::new(1 << 20)).enter());
//!
//! let slot = slots.take(4).expect("all are free");
//! slots.buffer(slot)[..4].copy_from_slice(b"data");
//! assert_eq!(slots.start(slot, Job::Write(4096..4100)), Some(Ok(0)));
//! slots.release(slot);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// These would end a serving thread by a panic, in a place where nobody reads the message.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod disk;
mod error;
mod extents;
mod job;
mod perform;
mod pool;
mod slots;
mod wake_fd;
mod written;

pub use disk::Disk;
pub use error::BlockError;
pub use extents::{EXTENT_BYTES, encode_extent, extents};
pub use forebay_store::{Extent, FileHoles, Holes};
pub use job::{Finished, Job};
pub use perform::perform;
pub use pool::{Buffer, PIECE_BYTES, Pool, SMALL_BYTES, Share};
pub use slots::{SLOTS, Slots};
pub use wake_fd::WakeFd;
