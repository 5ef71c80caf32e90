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

pub use forebay_engine::{
    AccessError, Advice, AttachedStore, BuildError, Cache, Caller, CallerKey, CallerKind, Changes,
    Counter, File, LONGEST_BYTES, MemoryError, PageGuard, Parts, ReadRequest, Settings, Shrinker,
    Statistics, StoreChanges, StoreKey, SyncError, Unit, Why, blocking, elastic, event, histogram,
    incident, retune, settings, statistics, trouble, why,
};
