//! A volume in a bucket as a store: [`forebay_volume`] says what to ask, threads ask a [`Bucket`],
//! and a cache above keeps what no commit has covered yet.
//!
//! Here a write ends once its pages are staged in memory, and pages of one chunk that come together
//! become one object. A commit makes objects of the chunks that changed, many at a time, and then
//! the record that names them; a small one is its record alone.
//!
//! The rule of this crate: it knows nothing of the format. What is asked and what an answer means
//! is decided in `forebay-volume`; here are the threads, the memory, and the patience.

// If nobody reads the output, they would end a serving thread with a panic.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod abreast;
mod addresses;
mod answers;
mod bucket;
mod check;
mod cloning;
mod copy;
mod error;
mod folder;
mod following;
mod gathering;
mod jobs;
mod keys;
mod linked;
mod opener;
mod opening;
mod patience;
mod places;
mod remote;
mod retrying_client;
mod rewriting;
mod services;
mod silence;
mod snapshots;
mod statistics;
mod store;
mod upkeep;
mod volume_client;

pub use bucket::{Bucket, CallError, ParentVolume};
pub use check::Checked;
pub use cloning::{clone_volume, flatten};
pub use copy::{Progress, copy, remove};
pub use error::BucketError;
pub use folder::FolderBucket;
pub use keys::change_key;
pub use linked::bucket_at;
pub use opener::{BucketOpener, CHUNK_BYTES, is_chunk_size};
pub use places::{SCHEMES, parent_path};
pub use remote::RemoteBucket;
pub use rewriting::{copy_snapshot, resize, roll_back};
pub use snapshots::{remove_snapshot, take_snapshot};
pub use statistics::{BucketStatistics, CALLS};
pub use store::{BucketSettings, BucketStore};
pub use upkeep::{VolumeInfo, check, collect, info};

pub use forebay_volume::{OwnerKey, PageFormat, SnapshotName, VolumeFault};
