//! A volume in a bucket: the format of its objects, and what to do next.
//!
//! ```text
//! volume                  the manifest: made once, never changed
//! log/<number>            one record a commit, dense numbers, made by put-if-absent
//! twin/<number>           the same record once more
//! data/<xx>/<epoch>-<n>   the bytes of one chunk, made once, never changed
//! map/<number>            everything as of a record, made now and then; two of them stay
//! key/<volume>-<number>   the key of an encrypted volume, wrapped with its owner's
//! key/twin/..             the same once more
//! mapped                  says that records were removed
//! snap/<name>/..          a map that is kept under a name, twice
//! pin/<number>..          such a map is being made
//! ```
//!
//! The writer that makes the next record of the log is the one that may commit. Nothing else
//! decides it: no clock, no lease, no lock. A commit makes chunk objects first, and then one record
//! that names them; a small commit is its record alone. After a crash the volume is as of its last
//! record, a prefix of its commits. Whichever single object is lost, the rest shows it.
//!
//! The rule of this crate: bytes in, bytes out. It has no I/O, no clock, no threads and nothing
//! async. Each machine ([`Opening`], [`Writer`], [`Collecting`]) says which [`Call`] comes next
//! and takes the [`Reply`]; its driver asks the bucket.
//!
//! ```
//! use forebay_volume::{
//!     Access, Call, Collecting, Manifest, Need, Opening, Pins, Progress, Reply, Source, Twin,
//!     Writer, Writing,
//! };
//! use std::collections::BTreeMap;
//!
//! // A bucket that never fails.
//! let mut objects = BTreeMap::new();
//! let mut ask = |call| match call {
//!     Call::Make { key, .. } if objects.contains_key(&key) => Reply::Exists,
//!     Call::Make { key, bytes } => {
//!         objects.insert(key, bytes.to_vec());
//!         Reply::Done
//!     }
//!     Call::Get { key, .. } => objects.get(&key).cloned().map_or(Reply::Missing, Reply::Bytes),
//!     Call::List { prefix } => {
//!         let of_prefix = objects.iter().filter(|(key, _)| key.starts_with(prefix));
//!         Reply::Keys(of_prefix.map(|(key, bytes)| (key.clone(), bytes.len() as u64)).collect())
//!     }
//!     Call::Remove { key } => objects.remove(&key).map_or(Reply::Missing, |_| Reply::Done),
//! };
//!
//! let mut opening = Opening::new(Access::Write(Writing {
//!     writer: 0x5eed,
//!     who: "host a, process 812".into(),
//!     create: Some(Manifest::new(1, 2 << 30, 1 << 20)?),
//!     take_over: false,
//! }));
//! let opened = loop {
//!     if let Progress::Done(opened) = opening.answer(ask(opening.next()))? {
//!         break opened;
//!     }
//! };
//!
//! // One page is committed, in one call.
//! let mut writer = Writer::new(opened);
//! writer.stage(17, &[7; 4096]);
//! assert_eq!(writer.need(), Need::Record);
//! writer.seal();
//! for twin in Twin::BOTH {
//!     let record = writer.next(twin).expect("a record is being made");
//!     writer.answer(twin, ask(record))?;
//! }
//! assert!(!writer.is_recording());
//! assert!(matches!(writer.source(17), Source::Record { record: 2, .. }));
//!
//! // What nobody needs any more is removed: nothing here.
//! let mut collecting = Collecting::new(Pins::Respect);
//! let collected = loop {
//!     if let Progress::Done(collected) = collecting.answer(ask(collecting.next()))? {
//!         break collected;
//!     }
//! };
//! assert_eq!(collected.objects, 0);
//! # Ok::<(), forebay_volume::VolumeFault>(())
//! ```

mod append;
mod call;
mod checksum;
mod chunk_table;
mod collecting;
mod copying;
mod fault;
mod fields;
mod holding;
mod keys;
mod layer;
mod manifest;
mod map;
mod name;
mod opening;
mod page_format;
mod pages;
mod parent;
mod probing;
mod reading;
mod record;
mod snapshot;
mod snapshot_name;
mod snapshotting;
mod twins;
mod uploads;
mod waste;
mod writer;

pub use append::{Append, Appended};
pub use call::{Call, Progress, Reply};
pub use checksum::crc32c;
pub use chunk_table::ChunkObject;
pub use collecting::{Collected, Collecting, MAPPED, unneeded};
pub use fault::VolumeFault;
pub use holding::{Held, Holding, Pins};
pub use keys::{OwnerKey, VolumeKey, check_wrapped, wrapped_key, wrapped_number};
pub use layer::{Scope, Source};
pub use manifest::{CHUNKS_LIMIT, Manifest, Shared};
pub use map::{INLINE_TOTAL, InlinePage, Map};
pub use name::{
    ChunkName, DATA_PREFIX, DETACHED_KEY, KEY_PREFIX, LOG_PREFIX, MANIFEST_KEY, MAP_PREFIX,
    MAPPED_KEY, PARENT_KEY, PIN_PREFIX, PREFIXES, PROBE_PREFIX, SNAPSHOT_PREFIX, TWIN_PREFIX, Twin,
    log_key, map_key, number_of,
};
pub use opening::{Access, Opened, Opening, Writing};
pub use page_format::{PAGE_BYTES, PageFormat};
pub use pages::{Holder, ObjectPages, PageCodec};
pub use parent::Parent;
pub use record::{Body, Content, INLINE_PAGES, Record, WHO_BYTES};
pub use snapshot::Snapshot;
pub use snapshot_name::SnapshotName;
pub use snapshotting::Snapshotting;
pub use uploads::Uploads;
pub use writer::{Need, RECORDS_BETWEEN_MAPS, Writer};
