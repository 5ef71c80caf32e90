//! A writer: a task in virtual time, a thread of its own in real time.

use super::super::super::client::PAGE;
use super::super::super::scene::{Crew, SYNCER_RESTS, Syncing};
use super::super::super::verdict::Oracle;
use super::guard::Guard;
use super::meter::{Meter, VERSION_BYTES};
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_engine::File;
use forebay_rt::thread::{Joiner, spawn_small};
use forebay_rt::{Rt, Task, block_on};
use forebay_store::ObjectId;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;

/// Something that runs until it is told to stop.
pub(super) enum Running {
    Task(Task),
    Thread(Joiner),
}

impl Running {
    /// Starts `future` as a task if time is simulated, on a thread of its own if it is real.
    pub(super) fn start(
        rt: &Rt,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Running> {
        if rt.is_virtual() {
            return Ok(Running::Task(rt.spawn(name, future)));
        }
        spawn_small(name, move || block_on(future)).map(Running::Thread)
    }

    /// Waits until it has ended. The wait for a thread blocks.
    pub(super) async fn join(self) {
        match self {
            Running::Task(task) => task.join().await,
            Running::Thread(joiner) => joiner.join(),
        }
    }
}

/// One writer and its file.
pub(super) struct Writer {
    pub(super) rt: Rt,
    pub(super) file: File,
    pub(super) object: ObjectId,
    pub(super) crew: Crew,
    pub(super) meter: Arc<Meter>,
    pub(super) guard: Arc<Guard>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) tally: Arc<Tally>,
}

/// The sums of a writer.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pages: AtomicU64,
    syncs: AtomicU64,
    /// Pages that no sync has made durable yet, and the last call that wrote each.
    unsynced: Mutex<BTreeMap<u64, u64>>,
}

impl Tally {
    pub(super) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl Writer {
    /// Writes repeatedly, and syncs if its crew does.
    pub(super) async fn write(self: Arc<Writer>) {
        let pages = self.crew.call_pages;
        let mut bytes = vec![0; (pages * PAGE) as usize];
        let mut page = 0;
        for call in 1..=self.crew.calls {
            if self.stops() {
                break;
            }
            for of_page in bytes.chunks_mut(PAGE as usize) {
                of_page[..VERSION_BYTES].copy_from_slice(&call.to_le_bytes());
            }
            self.meter.call_begins(self.object, page..page + pages);
            let written = self.file.write_at(&bytes, page * PAGE).await;
            self.meter.call_ends();
            written.expect("no writer is refused");
            self.tally.pages.fetch_add(pages, Ordering::Relaxed);
            if self.crew.syncing != Syncing::Never {
                let of_call = (page..page + pages).map(|page| (page, call));
                lock(&self.tally.unsynced).extend(of_call);
            }
            page = (page + pages) % self.crew.file_pages;
            if self.crew.syncing == Syncing::AfterCalls {
                self.sync().await;
            }
            match self.crew.rest {
                Span::ZERO => self.rt.yield_now().await,
                rest => self.rt.sleep(rest).await,
            }
        }
    }

    /// Syncs the file repeatedly, with rests.
    pub(super) async fn sync_repeatedly(self: Arc<Writer>) {
        while !self.stops() {
            self.rt.sleep(SYNCER_RESTS).await;
            self.sync().await;
        }
    }

    /// Syncs, and judges which pages are durable then.
    async fn sync(&self) {
        let promised = lock(&self.tally.unsynced).clone();
        self.meter.call_begins(self.object, 0..0);
        let synced = self.file.sync().await;
        self.meter.call_ends();
        // On a slow store a sync may time out. Then it promises nothing.
        if synced.is_err() {
            return;
        }
        self.tally.syncs.fetch_add(1, Ordering::Relaxed);
        let wrong = self.meter.judge_sync(self.object, &promised);
        self.guard.keep(Oracle::Sync, wrong);
        let mut unsynced = lock(&self.tally.unsynced);
        unsynced.retain(|page, version| promised.get(page) != Some(version));
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
