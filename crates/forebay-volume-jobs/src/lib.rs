//! Requests to a volume in a bucket, and the jobs that they need.
//!
//! The [`Scheduler`] takes reads, writes, discards and commits, and says which [`Job`] can be done
//! now. Its driver asks the bucket, and brings back how that ended: threads of
//! `forebay-bucket`, and tasks in virtual time of the lab's swarm. So what the swarm simulates is
//! what ships.
//!
//! ```
//! use forebay_store::{Io, IoKind, ObjectId, Request};
//! use forebay_volume::{Access, Manifest, Opening, Progress, Writer, Writing};
//! use forebay_volume_jobs::{Ended, Limits, Scheduler};
//! # use forebay_volume::{Call, Reply};
//! # let mut objects = std::collections::BTreeMap::new();
//! # let mut ask = |call| match call {
//! #     Call::Make { key, .. } if objects.contains_key(&key) => Reply::Exists,
//! #     Call::Make { key, bytes } => {
//! #         objects.insert(key, bytes.to_vec());
//! #         Reply::Done
//! #     }
//! #     Call::Get { key, .. } => objects.get(&key).cloned().map_or(Reply::Missing, Reply::Bytes),
//! #     Call::List { .. } => {
//! #         Reply::Keys(objects.keys().map(|key: &String| (key.clone(), 1)).collect())
//! #     }
//! #     Call::Remove { key } => objects.remove(&key).map_or(Reply::Missing, |_| Reply::Done),
//! # };
//! # let mut opening = Opening::new(Access::Write(Writing {
//! #     writer: 1,
//! #     who: "host a".into(),
//! #     create: Some(Manifest::new(1, 64 << 20, 64 << 10)?),
//! #     take_over: false,
//! # }));
//! # let opened = loop {
//! #     if let Progress::Done(opened) = opening.answer(ask(opening.next()))? {
//! #         break opened;
//! #     }
//! # };
//! # struct Nobody;
//! # impl forebay_store::Finish for Nobody {
//! #     fn finished(&self, io: forebay_store::FinishedIo) {
//! #         assert!(io.result.is_ok());
//! #     }
//! # }
//! # let io = |kind, length_bytes| {
//! #     let request = Request { kind, object: ObjectId(0), offset_bytes: 0, length_bytes };
//! #     Io::new(request, Vec::new(), std::sync::Arc::new(Nobody), 0)
//! # };
//! let limits = Limits { staged_pages: 256, uploads: 2, ..Limits::default() };
//! let mut scheduler = Scheduler::new(Writer::new(opened), limits, false);
//! let mut ended = Ended::default();
//! scheduler.submit(io(IoKind::Commit, 0), &mut ended);
//! // Nothing was written, so there is nothing to do for the commit, and it ends.
//! assert!(scheduler.next_job(&mut ended).is_none());
//! ended.finish();
//! # Ok::<(), forebay_volume::VolumeFault>(())
//! ```

mod job;
mod limits;
mod record_copies;
mod requests;
mod scheduler;
mod upkeep;

pub use job::{Job, Piece, ReadJob, Removed, UploadJob};
pub use limits::{Limits, REMOVED_AT_ONCE};
pub use requests::Ended;
pub use scheduler::{Closing, Scheduler};
