//! A volume in a bucket: the format of its objects, and what to do next.
//!
//! ```text
//! volume                  the manifest: made once, never changed
//! log/<number>            one record a commit, dense numbers, made by put-if-absent
//! data/<xx>/<epoch>-<n>   the bytes of one chunk, made once, never changed
//! map/<number>            everything as of a record, made now and then
//! ```
//!
//! The writer that makes the next record of the log is the one that may commit. Nothing else
//! decides it: no clock, no lease, no lock. A commit makes chunk objects first, and then one record
//! that names them; a small commit is its record alone. After a crash the volume is as of its last
//! record, a prefix of its commits.
//!
//! The rule of this crate: bytes in, bytes out. It has no I/O, no clock, no threads and nothing
//! async. Each machine ([`Opening`], [`Writer`], [`Collecting`]) says which [`Call`] comes next
//! and takes the [`Reply`]; whoever drives it asks the bucket.

mod append;
mod call;
mod checksum;
mod collecting;
mod fault;
mod fields;
mod manifest;
mod map;
mod name;
mod opening;
mod probing;
mod reading;
mod record;
mod writer;

pub use append::{Append, Appended};
pub use call::{Call, Progress, Reply};
pub use checksum::crc32c;
pub use collecting::{Collected, Collecting};
pub use fault::VolumeFault;
pub use manifest::{CHUNKS_LIMIT, Manifest, PAGE_BYTES};
pub use map::{ChunkObject, InlinePage, Map};
pub use name::{ChunkName, DATA_PREFIX, LOG_PREFIX, MANIFEST_KEY, MAP_PREFIX, log_key, map_key};
pub use opening::{Access, Opened, Opening, Writing};
pub use record::{Body, Content, INLINE_PAGES, Record, WHO_BYTES};
pub use writer::{INLINE_TOTAL, Need, RECORDS_BETWEEN_MAPS, Source, Writer};
