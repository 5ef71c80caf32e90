//! Where files come from: a file system of a simulated device, or a real folder.

use super::WorldError;
use crate::device::Bucket;
use crate::filesystem::{FileSystem, NoRoom};
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_store::ObjectId;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// What a volume answers when it is done.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, WorldError>> + Send + 'a>>;

/// A place where files are made and removed.
pub(super) trait Volume: Send + Sync {
    /// Makes an empty file in the directory of that number.
    fn create<'a>(&'a self, directory: u64, name: &'a str) -> Answer<'a, ObjectId>;

    /// Makes a file that has been there for ever, of `length_bytes`.
    fn lay_out<'a>(&'a self, name: &'a str, length_bytes: u64) -> Answer<'a, ObjectId>;

    /// Somebody opens a file that is there already.
    fn look_up(&self, _object: ObjectId) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Removes a file, which has been cut to nothing.
    fn remove(&self, object: ObjectId) -> Answer<'_, ()>;

    /// Nobody writes the file any more.
    fn close(&self, object: ObjectId);

    /// The cache has the file up to `end_bytes` from now on.
    fn reaches(&self, object: ObjectId, bytes: Range<u64>) -> Result<(), WorldError>;

    /// Bytes that fit on it.
    fn room_bytes(&self) -> u64;
}

/// File numbers that were never used before.
pub(super) struct Numbers(AtomicU64);

impl Numbers {
    pub(super) fn new() -> Numbers {
        Numbers(AtomicU64::new(1))
    }

    fn next(&self) -> ObjectId {
        ObjectId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The volume of a simulated file system.
pub(super) struct LaidOut {
    numbers: Numbers,
    name: String,
    file_system: FileSystem,
}

impl LaidOut {
    pub(super) fn new(name: &str, file_system: FileSystem) -> LaidOut {
        LaidOut {
            numbers: Numbers::new(),
            name: name.into(),
            file_system,
        }
    }

    fn full(&self, needed_bytes: u64) -> impl Fn(NoRoom) -> WorldError {
        move |NoRoom| WorldError::NoRoom {
            what: "a file".into(),
            needed_bytes,
            file_system: self.name.clone(),
            room_bytes: self.file_system.free_bytes(),
        }
    }
}

impl Volume for LaidOut {
    fn create<'a>(&'a self, directory: u64, _name: &'a str) -> Answer<'a, ObjectId> {
        let object = self.numbers.next();
        Box::pin(async move {
            let made = self.file_system.create(object, directory).await;
            made.map_err(self.full(0)).map(|()| object)
        })
    }

    fn lay_out<'a>(&'a self, _name: &'a str, length_bytes: u64) -> Answer<'a, ObjectId> {
        let object = self.numbers.next();
        let laid = self.file_system.lay_out(object, 0, length_bytes);
        let laid = laid.map_err(self.full(length_bytes)).map(|()| object);
        Box::pin(async move { laid })
    }

    fn look_up(&self, object: ObjectId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.file_system.look_up(object).await;
            Ok(())
        })
    }

    fn remove(&self, object: ObjectId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.file_system.remove(object).await;
            Ok(())
        })
    }

    fn close(&self, object: ObjectId) {
        self.file_system.close(object);
    }

    fn reaches(&self, object: ObjectId, bytes: Range<u64>) -> Result<(), WorldError> {
        let end_bytes = bytes.end;
        self.file_system
            .reaches(object, bytes)
            .map_err(self.full(end_bytes))
    }

    fn room_bytes(&self) -> u64 {
        self.file_system.free_bytes()
    }
}

/// A volume without metadata: a block device under a user's file system, or a server.
pub(super) struct Plain {
    numbers: Numbers,
    room_bytes: u64,
}

impl Plain {
    pub(super) fn new(room_bytes: u64) -> Plain {
        Plain {
            numbers: Numbers::new(),
            room_bytes,
        }
    }
}

impl Volume for Plain {
    fn create<'a>(&'a self, _directory: u64, _name: &'a str) -> Answer<'a, ObjectId> {
        let object = self.numbers.next();
        Box::pin(async move { Ok(object) })
    }

    fn lay_out<'a>(&'a self, name: &'a str, _length_bytes: u64) -> Answer<'a, ObjectId> {
        self.create(0, name)
    }

    fn remove(&self, _object: ObjectId) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self, _object: ObjectId) {}

    fn reaches(&self, _object: ObjectId, _bytes: Range<u64>) -> Result<(), WorldError> {
        Ok(())
    }

    fn room_bytes(&self) -> u64 {
        self.room_bytes
    }
}

/// A volume in a bucket, which knows the chunks of files that have been there for ever.
pub(super) struct InBucket {
    plain: Plain,
    bucket: Arc<Bucket>,
}

impl InBucket {
    pub(super) fn new(bucket: Arc<Bucket>) -> InBucket {
        InBucket {
            plain: Plain::new(u64::MAX),
            bucket,
        }
    }
}

impl Volume for InBucket {
    fn create<'a>(&'a self, directory: u64, name: &'a str) -> Answer<'a, ObjectId> {
        self.plain.create(directory, name)
    }

    fn lay_out<'a>(&'a self, name: &'a str, length_bytes: u64) -> Answer<'a, ObjectId> {
        Box::pin(async move {
            let object = self.plain.create(0, name).await?;
            self.bucket.lay_out(object, length_bytes);
            Ok(object)
        })
    }

    fn remove(&self, object: ObjectId) -> Answer<'_, ()> {
        self.plain.remove(object)
    }

    fn close(&self, object: ObjectId) {
        self.plain.close(object);
    }

    fn reaches(&self, object: ObjectId, bytes: Range<u64>) -> Result<(), WorldError> {
        self.plain.reaches(object, bytes)
    }

    fn room_bytes(&self) -> u64 {
        self.plain.room_bytes()
    }
}
