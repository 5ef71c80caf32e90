//! Where files come from: a file system of a simulated device, or a real folder.

use super::WorldError;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_store::ObjectId;
use std::future::Future;
use std::pin::Pin;

/// What a volume answers when it is through.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, WorldError>> + Send + 'a>>;

/// A place where files are made and removed.
pub(super) trait Volume: Send + Sync {
    /// Makes an empty file.
    fn create<'a>(&'a self, name: &'a str) -> Answer<'a, ObjectId>;

    /// Removes a file, which has been cut to nothing.
    fn remove(&self, object: ObjectId) -> Answer<'_, ()>;

    /// Bytes that fit on it.
    fn room_bytes(&self) -> u64;
}

/// A volume of numbered files without names.
pub(super) struct Numbered {
    next: AtomicU64,
    room_bytes: u64,
}

impl Numbered {
    pub(super) fn new(room_bytes: u64) -> Numbered {
        Numbered {
            next: AtomicU64::new(1),
            room_bytes,
        }
    }
}

impl Volume for Numbered {
    fn create<'a>(&'a self, _name: &'a str) -> Answer<'a, ObjectId> {
        let object = ObjectId(self.next.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move { Ok(object) })
    }

    fn remove(&self, _object: ObjectId) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn room_bytes(&self) -> u64 {
        self.room_bytes
    }
}
