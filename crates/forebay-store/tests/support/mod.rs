//! What the tests of stores share: an arena of pages and a driver that waits for requests.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod arena;
pub(crate) mod fixtures;

use arena::Arena;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::block_on;
use forebay_rt::wait::{Slot, WaitQueue};
use forebay_store::{
    Failure, Finish, FinishedIo, Io, IoKind, ObjectId, PagePointer, Request, Store,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::ThreadId;

/// The thread on which a request without an error was finished.
#[derive(Default)]
pub(crate) struct FinishingThread(Slot<ThreadId>);

impl FinishingThread {
    /// Waits until the request is finished.
    pub(crate) async fn take(&self) -> ThreadId {
        self.0.take().await
    }
}

impl Finish for FinishingThread {
    fn finished(&self, io: FinishedIo) {
        assert_eq!(io.result, Ok(()));
        self.0.set(std::thread::current().id());
    }
}

/// Finished requests by token. A token that is finished twice is noticed.
#[derive(Default)]
pub(crate) struct Desk {
    finished: Mutex<BTreeMap<u64, FinishedIo>>,
    arrival: WaitQueue,
}

impl Finish for Desk {
    fn finished(&self, io: FinishedIo) {
        let twice = lock(&self.finished).insert(io.token, io);
        assert!(twice.is_none(), "{twice:?} was finished twice");
        self.arrival.wake_all();
    }
}

impl Desk {
    pub(crate) async fn take(&self, token: u64) -> FinishedIo {
        loop {
            let arrival = self.arrival.listen();
            let found = lock(&self.finished).remove(&token);
            if let Some(io) = found {
                return io;
            }
            arrival.await;
        }
    }

    pub(crate) fn try_take(&self, token: u64) -> Option<FinishedIo> {
        lock(&self.finished).remove(&token)
    }
}

/// Submits requests to a store and waits for them.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) desk: Arc<Desk>,
    next_token: Arc<Mutex<u64>>,
    /// Requests are marked as those of a caller that waits.
    pub(crate) awaits: bool,
}

impl Driver {
    pub(crate) fn new(store: Arc<dyn Store>, arena_pages: usize) -> Driver {
        Driver {
            store,
            arena: Arc::new(Arena::new(arena_pages)),
            desk: Arc::default(),
            next_token: Arc::default(),
            awaits: false,
        }
    }

    pub(crate) fn submit(&self, request: Request, pages: Vec<PagePointer>) -> u64 {
        let token = {
            let mut next = lock(&self.next_token);
            *next += 1;
            *next
        };
        let desk = Arc::clone(&self.desk) as Arc<dyn Finish>;
        let io = Io::new(request, pages, desk, token);
        // Some come from memory that may be registered, and some do not say so.
        let io = if token.is_multiple_of(2) {
            io.in_memory(self.arena.memory())
        } else {
            io
        };
        self.store
            .submit(if self.awaits { io.awaited() } else { io });
        token
    }

    pub(crate) fn submit_write(&self, object: ObjectId, offset_bytes: u64, bytes: &[u8]) -> u64 {
        let request = Request {
            kind: IoKind::Write,
            object,
            offset_bytes,
            length_bytes: bytes.len() as u64,
        };
        self.submit(request, self.arena.lend_with(bytes))
    }

    pub(crate) fn submit_read(
        &self,
        object: ObjectId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> u64 {
        let request = Request {
            kind: IoKind::Read,
            object,
            offset_bytes,
            length_bytes,
        };
        let count = length_bytes.div_ceil(PAGE_BYTES as u64) as usize;
        self.submit(request, self.arena.lend(count, 0xAA))
    }

    /// Waits for `token`, takes its pages back and returns what was in them.
    pub(crate) async fn finish(&self, token: u64) -> Result<Vec<u8>, Failure> {
        let FinishedIo {
            request,
            pages,
            result,
            ..
        } = self.desk.take(token).await;
        let bytes = self.arena.take_back(pages);
        match result {
            Ok(()) => Ok(bytes),
            Err(error) => {
                assert_eq!(error.request, request, "an error names its request");
                Err(error.failure)
            }
        }
    }

    pub(crate) fn write(
        &self,
        object: ObjectId,
        offset_bytes: u64,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let done = block_on(async {
            let token = self.submit_write(object, offset_bytes, bytes);
            self.finish(token).await
        });
        done.map(|_| ())
    }

    /// All bytes of the pages of a read, also those past `length_bytes`.
    pub(crate) fn read(&self, object: ObjectId, offset_bytes: u64, length_bytes: u64) -> Vec<u8> {
        self.try_read(object, offset_bytes, length_bytes)
            .expect("the read succeeds")
    }

    pub(crate) fn try_read(
        &self,
        object: ObjectId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<Vec<u8>, Failure> {
        block_on(async {
            let token = self.submit_read(object, offset_bytes, length_bytes);
            self.finish(token).await
        })
    }

    /// A request without pages.
    pub(crate) fn order(
        &self,
        kind: IoKind,
        object: ObjectId,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), Failure> {
        let request = Request {
            kind,
            object,
            offset_bytes,
            length_bytes,
        };
        let done = block_on(async {
            let token = self.submit(request, Vec::new());
            self.finish(token).await
        });
        done.map(|_| ())
    }
}

/// Runs `check` on a file system of `size`, or says why it cannot.
pub(crate) fn on_a_tiny_file_system(size: &str, check: impl Fn(&Path)) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
        .arg(folder.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    }
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(folder.path())));
    let unmounted = Command::new("umount").arg("-l").arg(folder.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
