//! Forebay: a page cache for userspace storage, with the control loops of the Linux VM.
//!
//! A program that does its own I/O (a database, a FUSE file system, a block server) puts a
//! [`Cache`] in front of its stores and gets what a buffered file gets from the kernel: reads
//! served from memory, writes that return at once, orderly write-back, memory reclaimed in time,
//! and writers that are slowed smoothly to the speed of the device.
//!
//! ```
//! use forebay::{Cache, Settings};
//! use forebay_store::{FileStore, FileStoreSettings, OpenMode};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("data");
//! let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
//! let files = FileStore::new(FileStoreSettings::default())?;
//! let opened = files.open(&path, OpenMode::Create { length_bytes: None })?;
//! let store = cache.attach(files)?;
//! let file = cache.open(&store, opened.object, opened.length_bytes)?.blocking();
//! file.write_at(b"hello", 0)?;
//! file.sync()?;
//! # assert_eq!(std::fs::read(&path)?, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every call is async and runs under any executor or none; [`blocking`] has the same calls for
//! threads. ARCHITECTURE.md in the repository explains how it works inside.

mod accounting;
mod budget;
mod cache;
mod caller;
mod check;
mod counters;
pub mod elastic;
mod engine;
mod error;
mod file;
mod flow;
mod guard;
mod handle;
mod layout;
mod lists;
mod marks;
mod memory;
mod parts;
mod recompute;
mod shrinker;
mod state;
mod store_key;
mod stores;
mod unwritten;

pub mod blocking;
pub mod event;
pub mod histogram;
pub mod incident;
pub mod policy;
pub mod retune;
pub mod settings;
pub mod statistics;
pub mod trouble;
pub mod why;

pub use cache::{AttachedStore, Cache};
pub use caller::{Caller, CallerKey, CallerKind};
pub use counters::{Counter, Unit};
pub use error::{AccessError, BuildError, MemoryError, SyncError};
pub use file::{Advice, File, ReadRequest};
pub use guard::PageGuard;
pub use marks::Mark;
pub use policy::Policy;
pub use retune::{Changes, StoreChanges};
pub use settings::{Parts, Settings};
pub use shrinker::Shrinker;
pub use state::index::LONGEST_BYTES;
pub use statistics::Statistics;
pub use store_key::StoreKey;
pub use why::Why;
