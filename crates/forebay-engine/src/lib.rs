//! The engine of Forebay: reclaim, write-back and throttling over any store.
//!
//! A program links the crate `forebay`, which shows what users need of this one. What is public
//! here and not there is for the lab and for tests, and may change with any commit. Modules that
//! are public and hidden are so for `forebay-kernels`, whose flows are made of the same parts.

#[doc(hidden)]
pub mod accounting;
mod budget;
mod cache;
mod caller;
mod check;
#[doc(hidden)]
pub mod counters;
pub mod elastic;
#[doc(hidden)]
pub mod engine;
mod error;
mod file;
#[doc(hidden)]
pub mod flow;
mod guard;
mod handle;
pub mod lab;
mod layout;
#[doc(hidden)]
pub mod lists;
mod marks;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod parts;
mod recompute;
mod shrinker;
#[doc(hidden)]
pub mod state;
mod store_key;
#[doc(hidden)]
pub mod stores;
mod unwritten;

pub mod blocking;
pub mod event;
pub mod histogram;
pub mod incident;
pub mod kernel;
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
pub use retune::{Changes, StoreChanges};
pub use settings::{Parts, Settings};
pub use shrinker::Shrinker;
pub use state::index::LONGEST_BYTES;
pub use statistics::Statistics;
pub use store_key::StoreKey;
pub use why::Why;
