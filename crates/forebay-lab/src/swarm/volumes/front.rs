//! A volume in a bucket as a store in virtual time: the scheduler of the store that ships, whose
//! jobs a few tasks carry out, as the threads of `forebay-bucket` do.

use super::CHUNK_PAGES;
use super::bucket_sim::BucketSim;
use super::history::{History, State as Stamps};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use forebay_store::{Durability, Failure, Geometry, Io, IoKind, Store};
use forebay_volume::{
    Append, Appended, Call, InlinePage, Opened, PAGE_BYTES, PageCodec, Progress, Reply, Twin,
    Writer, crc32c,
};
use forebay_volume_jobs::{Ended, Job, Limits, Piece, ReadJob, Removed, Scheduler, UploadJob};
use std::ops::Range;

pub(super) const PAGE: usize = PAGE_BYTES as usize;
const WORKERS: usize = 4;
/// The wait before a call without an answer is made again.
const AGAIN: Span = Span::from_millis(20);
/// Few pages are staged, maps are made often, and useless objects are removed at once.
const LIMITS: Limits = Limits {
    staged_pages: 96,
    uploads: 2,
    dead_percent: Some(0),
    free_dead_chunks: 0,
    map_records: Some(6),
};

/// See above.
pub(super) struct Front {
    rt: Rt,
    bucket: Arc<BucketSim>,
    codec: PageCodec,
    state: Mutex<State>,
    arrivals: WaitQueue,
}

struct State {
    /// None once the process is dead: no request succeeds any more, and the bucket gets no calls.
    scheduler: Option<Scheduler>,
    chance: Prng,
    history: Arc<Mutex<History>>,
    /// What was staged so far, and what of it the commit under way has.
    stamps: Stamps,
    frozen: Stamps,
    broken: Option<String>,
}

/// Why an object was not read or made.
#[derive(Clone, PartialEq, Eq)]
enum Trouble {
    GaveUp,
    /// The object with this key is not there, or is another one.
    Missing(String),
}

/// Whether another writer has the volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Successor {
    Found,
    NotThere,
    Unknown,
}

/// The stamp in a page.
pub(super) fn stamp_of(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("a page is longer"))
}

impl State {
    /// Notes what a call to the scheduler did, before which `begun` commits had begun and a record
    /// was being made or not.
    fn note(&mut self, begun: u64, was_recording: bool, ended: &Ended) {
        let Some(scheduler) = &self.scheduler else {
            return;
        };
        if scheduler.begun_commits() != begun {
            // Nothing was staged in that call before.
            self.frozen = self.stamps.clone();
        }
        for io in ended.succeeded() {
            note_change(&mut self.stamps, io);
        }
        let is_recording = scheduler.writer().is_recording();
        if is_recording && !was_recording {
            lock(&self.history).tries(self.frozen.clone());
        }
        if was_recording && !is_recording {
            lock(&self.history).records();
        }
    }
}

/// Notes in `stamps` what `io` has changed, if it has.
fn note_change(stamps: &mut Stamps, io: &Io) {
    let request = io.request();
    let first = request.offset_bytes / PAGE_BYTES;
    let end = (request.offset_bytes + request.length_bytes) / PAGE_BYTES;
    for page in first..end {
        let stamp = match request.kind {
            IoKind::Write => {
                let mut bytes = [0; 8];
                io.copy_page((page - first) as usize, 0, &mut bytes);
                stamp_of(&bytes)
            }
            IoKind::Discard => 0,
            IoKind::Read | IoKind::Commit | IoKind::SetLength => return,
        };
        if stamp == 0 {
            stamps.remove(&page);
        } else {
            stamps.insert(page, stamp);
        }
    }
}

impl Front {
    /// The store of the volume that was `opened`, whose pages `codec` opens.
    pub(super) fn new(
        rt: &Rt,
        bucket: &Arc<BucketSim>,
        opened: Opened,
        codec: PageCodec,
        chance: Prng,
    ) -> Arc<Front> {
        let writer = Writer::with_codec(opened, codec.clone());
        let front = Arc::new(Front {
            rt: rt.clone(),
            bucket: bucket.clone(),
            codec,
            state: Mutex::new(State {
                scheduler: Some(Scheduler::new(writer, LIMITS, false)),
                chance,
                history: Arc::default(),
                stamps: Stamps::new(),
                frozen: Stamps::new(),
                broken: None,
            }),
            arrivals: WaitQueue::new(),
        });
        for _ in 0..WORKERS {
            rt.spawn("volume", front.clone().work());
        }
        front
    }

    /// The volume has `found`. Nothing was written yet.
    pub(super) fn begin(&self, found: Stamps) -> Arc<Mutex<History>> {
        let mut state = lock(&self.state);
        state.history = Arc::new(Mutex::new(History::new(found.clone())));
        state.stamps = found;
        state.history.clone()
    }

    /// The process is gone: it makes no calls any more, and no request succeeds.
    pub(super) fn kill(&self) {
        let scheduler = lock(&self.state).scheduler.take();
        drop(scheduler);
        self.arrivals.wake_all();
    }

    /// What no bucket may do to a volume.
    pub(super) fn broken(&self) -> Option<String> {
        lock(&self.state).broken.clone()
    }

    /// Calls `change`, and finishes what has ended. None if the process is dead.
    fn with<T>(&self, change: impl FnOnce(&mut Scheduler, &mut Ended) -> T) -> Option<T> {
        let mut ended = Ended::default();
        let changed = {
            let mut state = lock(&self.state);
            let scheduler = state.scheduler.as_mut()?;
            let begun = scheduler.begun_commits();
            let was_recording = scheduler.writer().is_recording();
            let changed = change(scheduler, &mut ended);
            state.note(begun, was_recording, &ended);
            changed
        };
        ended.finish();
        Some(changed)
    }

    async fn work(self: Arc<Front>) {
        loop {
            let arrival = self.arrivals.listen();
            let Some(job) = self.with(Scheduler::next_job) else {
                return;
            };
            let Some(job) = job else {
                arrival.await;
                continue;
            };
            // Perhaps there are more.
            self.arrivals.wake_one();
            self.carry_out(job).await;
            self.arrivals.wake_all();
        }
    }

    async fn carry_out(&self, job: Job) {
        match job {
            Job::Read(job) => self.read(*job).await,
            Job::Upload(job) => self.upload(job).await,
            Job::Record(twin) => self.record(twin).await,
            Job::Move(pages) => self.read_to_move(pages).await,
            Job::Map(mut append) => {
                let made = self.append(&mut append).await;
                self.with(|scheduler, _| scheduler.mapped(append.key(), made.ok()));
            }
            Job::Remove(keys) => {
                let count = keys.len();
                let mut removed = Removed::Done;
                for key in keys {
                    if self.bucket.ask(Call::Remove { key }).await == Reply::Unknown {
                        removed = Removed::NotNow;
                    }
                }
                self.with(|scheduler, _| scheduler.removed(count, removed));
            }
        }
    }

    /// Now and then the caller gives up after a call without an answer.
    fn gives_up(&self) -> bool {
        let mut state = lock(&self.state);
        state.scheduler.is_none() || state.chance.chance(1, 8)
    }

    /// Asks until there is an answer, or it gives up.
    async fn ask(&self, call: &Call) -> Result<Reply, Trouble> {
        loop {
            let reply = self.bucket.ask(call.clone()).await;
            if reply != Reply::Unknown {
                return Ok(reply);
            }
            if self.gives_up() {
                return Err(Trouble::GaveUp);
            }
            self.rt.sleep(AGAIN).await;
        }
    }

    async fn get(&self, key: String, range: Option<Range<u64>>) -> Result<Vec<u8>, Trouble> {
        let call = Call::Get {
            key: key.clone(),
            range,
        };
        match self.ask(&call).await? {
            Reply::Bytes(bytes) => Ok(bytes),
            _ => Err(Trouble::Missing(key)),
        }
    }

    /// The pages of `piece`. Where a record was removed, a slow opening may have put its own, which
    /// is another one.
    async fn fetch(&self, piece: &Piece) -> Result<Vec<u8>, Trouble> {
        for key in piece.keys() {
            match self.get(key, Some(piece.range(&self.codec))).await {
                Ok(stored) => {
                    if let Some(pages) = piece.open(&self.codec, stored) {
                        return Ok(pages);
                    }
                }
                Err(Trouble::Missing(_)) => {}
                Err(Trouble::GaveUp) => return Err(Trouble::GaveUp),
            }
        }
        Err(Trouble::Missing(piece.key()))
    }

    async fn fill(&self, job: &mut ReadJob) -> Result<(), Trouble> {
        for piece in std::mem::take(&mut job.pieces) {
            let pages = self.fetch(&piece).await?;
            for (index, page) in pages.chunks(PAGE).enumerate() {
                job.io.fill_page(piece.first + index, 0, page);
            }
        }
        Ok(())
    }

    async fn read(&self, mut job: ReadJob) {
        let (io, failure) = match self.fill(&mut job).await {
            Ok(()) => {
                self.with(|_, ended| ended.push(job.filled(), Ok(())));
                return;
            }
            Err(Trouble::GaveUp) => (job.io, Failure::NoAnswer),
            Err(Trouble::Missing(key)) => {
                if self.successor().await == Successor::Found {
                    (job.io, Failure::Fenced)
                } else {
                    // A commit and `gc` may have moved it.
                    let again = |scheduler: &mut Scheduler, ended: &mut Ended| {
                        scheduler.read_again(job, &key, ended)
                    };
                    match self.with(again) {
                        Some(Err(io)) => (io, self.missing(&key).await),
                        _ => return,
                    }
                }
            }
        };
        self.with(|_, ended| ended.push(io, Err(failure)));
    }

    async fn read_to_move(&self, pages: Vec<(u64, InlinePage)>) {
        let mut read = Vec::new();
        for (page, from) in pages {
            if let Ok(bytes) = self.fetch(&Piece::in_record(page, from)).await {
                read.push((page, from, bytes));
            }
        }
        self.with(|scheduler, _| scheduler.moved(read));
    }

    /// Makes the object of a chunk.
    async fn upload(&self, mut job: UploadJob) {
        let result = match self.make(&mut job).await {
            Ok(made) => Ok(made),
            Err(Trouble::Missing(key)) => {
                let is_wanted =
                    |scheduler: &mut Scheduler, _: &mut Ended| scheduler.is_wanted(&job);
                match self.with(is_wanted) {
                    Some(true) => Err(self.missing(&key).await),
                    _ => Err(Failure::Gone),
                }
            }
            Err(Trouble::GaveUp) => Err(Failure::NoAnswer),
        };
        self.with(|scheduler, ended| scheduler.uploaded(job, result, ended));
    }

    /// Returns its checksum, or none if it would be zeros.
    async fn make(&self, job: &mut UploadJob) -> Result<Option<u32>, Trouble> {
        if let Some(key) = job.base() {
            let stored = self.get(key.clone(), None).await?;
            let found = job.open_base(&self.codec, stored);
            job.take_base(&found.ok_or(Trouble::Missing(key))?);
        }
        for piece in job.inline() {
            let found = self.fetch(&piece).await?;
            job.take_inline(&piece, &found);
        }
        if job.is_zeros() {
            return Ok(None);
        }
        let bytes = job.object(&self.codec);
        let crc = crc32c(&bytes);
        let mut append = Append::new(job.name.to_string(), bytes);
        match self.append(&mut append).await? {
            Appended::Ours => Ok(Some(crc)),
            Appended::Theirs => {
                lock(&self.state).broken = Some(format!("{} was made twice", job.name));
                Err(Trouble::GaveUp)
            }
        }
    }

    async fn append(&self, append: &mut Append) -> Result<Appended, Trouble> {
        loop {
            let reply = self.bucket.ask(append.next()).await;
            if reply == Reply::Unknown && self.gives_up() {
                return Err(Trouble::GaveUp);
            }
            if let Progress::Done(appended) = append.answer(reply) {
                return Ok(appended);
            }
            self.rt.sleep(AGAIN).await;
        }
    }

    /// Makes a copy of a record.
    async fn record(&self, twin: Twin) {
        let result = loop {
            let call = self.with(|scheduler, _| scheduler.next_call(twin));
            let Some(call) = call.flatten() else {
                break Ok(());
            };
            let reply = self.bucket.ask(call).await;
            let is_unknown = reply == Reply::Unknown;
            match self.with(|scheduler, _| scheduler.answer(twin, reply)) {
                Some(Err(_)) => break Err(Failure::Fenced),
                Some(Ok(Progress::Done(()))) | None => break Ok(()),
                Some(Ok(Progress::More)) if is_unknown && self.gives_up() => {
                    break Err(Failure::NoAnswer);
                }
                Some(Ok(Progress::More)) => {}
            }
        };
        self.with(|scheduler, ended| scheduler.copied(result, ended));
    }

    /// The failure for the object `key`, which is missing: another writer may have the volume.
    async fn missing(&self, key: &str) -> Failure {
        match self.successor().await {
            Successor::Found => Failure::Fenced,
            Successor::Unknown => Failure::NoAnswer,
            Successor::NotThere => {
                let what = format!("{key} is gone, which the volume needs");
                lock(&self.state).broken = Some(what);
                Failure::NoAnswer
            }
        }
    }

    /// Whether there is a record that only another writer can have made.
    async fn successor(&self) -> Successor {
        let question = |scheduler: &mut Scheduler, _: &mut Ended| {
            let calls = Twin::BOTH.map(|twin| scheduler.successor(twin));
            (scheduler.is_fenced(), calls)
        };
        let Some((is_fenced, calls)) = self.with(question) else {
            return Successor::Unknown;
        };
        if is_fenced {
            return Successor::Found;
        }
        for call in &calls {
            // There is no call while a record of our own is in doubt. Its outcome will tell.
            let reply = match call {
                Some(call) => self.ask(call).await,
                None => return Successor::Unknown,
            };
            match reply {
                Ok(Reply::Bytes(_)) => return self.succeeded(&calls),
                Ok(_) => {}
                Err(_) => return Successor::Unknown,
            }
        }
        match self.with(question) {
            Some((false, now)) if now == calls => Successor::NotThere,
            Some((true, _)) => Successor::Found,
            _ => Successor::Unknown,
        }
    }

    /// The record that `calls` asked for is there, unless it is a later one of our own.
    fn succeeded(&self, calls: &[Option<Call>; 2]) -> Successor {
        let is_found = self.with(|scheduler, ended| {
            if scheduler.successor(Twin::First) == calls[0] {
                scheduler.succeeded(ended);
            }
            scheduler.is_fenced()
        });
        match is_found {
            Some(true) => Successor::Found,
            _ => Successor::Unknown,
        }
    }
}

impl Store for Front {
    fn geometry(&self) -> Geometry {
        Geometry {
            block_bytes: PAGE as u32,
            max_io_pages: CHUNK_PAGES,
            write_unit_pages: CHUNK_PAGES,
            queue_depth: 8,
            durability: Durability::Unstable,
            stable_pages: true,
        }
    }

    fn submit(&self, io: Io) {
        let mut io = Some(io);
        self.with(|scheduler, ended| {
            let io = io.take().expect("it is submitted once");
            scheduler.submit(io, ended);
        });
        if let Some(io) = io {
            io.fail(Failure::Gone);
        }
        self.arrivals.wake_one();
    }
}
