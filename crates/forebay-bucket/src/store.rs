//! A volume in a bucket as a store with one object.

use crate::bucket::Bucket;
use crate::error::BucketError;
use crate::following::{Follower, Following};
use crate::gathering::{Commit, Gathering};
use crate::jobs::{PageClient, ReadEnd, Unmade};
use crate::retrying_client::RetryingClient;
use crate::statistics::BucketStatistics;
use crate::volume_client::VolumeClient;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::thread::SMALL_STACK_BYTES;
use forebay_rt::wait::{Slot, WaitQueue};
use forebay_rt::{block_on, say};
use forebay_store::{
    Durability, Extent, Failure, Geometry, Io, IoKind, ObjectId, Request, Store, ThreadGroup,
};
use forebay_volume::{
    Access, Call, INLINE_PAGES, Manifest, Map, OwnerKey, PAGE_BYTES, PageCodec, PageFormat,
    SnapshotName, Twin, VolumeFault, Writer,
};
use forebay_volume_jobs::{Ended, Job, Limits, ReadJob, Scheduler};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The most pages of one request.
const IO_PAGES_LIMIT: u64 = 256;
const UPLOADS_LIMIT: u64 = 16;
/// Threads for reads. Each upload has one more.
const READERS: usize = 8;
/// Threads for the two copies of a record, or a map, and for removals. One more may make records.
const KEEPERS: usize = 3;
/// Chunks in memory for each upload: as it is put together, as it was found or is sent, and one
/// that an answer which came too early leaves on its way.
const UPLOAD_CHUNKS: u64 = 3;
/// Chunks that are staged at least: half of them are uploaded while the others fill.
const LEAST_STAGED_CHUNKS: u64 = 4;

/// How a store of a volume behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketSettings {
    /// Memory for pages on their way to the bucket, for uploads, and for stacks of threads.
    pub memory_bytes: u64,
    /// A request is repeated for this long, if the bucket does not answer. Then it fails with
    /// [`Failure::NoAnswer`], and the caller may ask again.
    pub answer_timeout: Span,
    /// A writer removes objects that its commits have made useless, the oldest first, while these
    /// have more than this percentage of the bytes of those that are needed, and more than 64
    /// chunks. None: they stay until somebody runs `gc`.
    pub dead_percent: Option<u32>,
    /// Commits are answered at once, and recorded together after this time: a process that dies
    /// loses the last ones. None: a commit ends when its record is there.
    pub commit_interval: Option<Span>,
    /// The key of an encrypted volume's owner.
    pub key: Option<OwnerKey>,
    /// Read the volume as it was when this snapshot was taken. It cannot be written.
    pub snapshot: Option<SnapshotName>,
    /// A volume that is opened to be read follows its writer: the store looks for new records after
    /// this time. None: it stays at the state in which it was opened.
    pub follow_interval: Option<Span>,
}

impl BucketSettings {
    /// What is usual.
    pub const USUAL: BucketSettings = BucketSettings {
        memory_bytes: 64 << 20,
        answer_timeout: Span::from_secs(30),
        dead_percent: None,
        commit_interval: None,
        key: None,
        snapshot: None,
        follow_interval: None,
    };
}

impl Default for BucketSettings {
    fn default() -> BucketSettings {
        BucketSettings::USUAL
    }
}

/// A volume in a bucket that is open.
///
/// A write ends when its pages are staged in memory, so that the store is
/// [`Durability::Unstable`]: a cache keeps what it wrote until a commit. A commit ends when its
/// record is in the bucket. Once another writer has taken the volume over, every request ends with
/// [`Failure::Fenced`].
///
/// ```
/// use forebay::{Cache, Settings};
/// use forebay_bucket::{BucketSettings, BucketStore, FolderBucket};
/// use forebay_volume::{Access, Manifest, Writing};
/// use std::sync::Arc;
///
/// # let folder = tempfile::tempdir()?;
/// let bucket = Arc::new(FolderBucket::open(&folder.path().join("volume"), true)?);
/// let access = Access::Write(Writing {
///     writer: forebay_rt::fresh_number()?,
///     who: "host a".into(),
///     create: Some(Manifest::new(forebay_rt::fresh_number()?, 1 << 30, 1 << 20)?),
///     take_over: false,
/// });
/// let store = BucketStore::open(bucket, "my volume", access, BucketSettings::default())?;
/// let length_bytes = store.manifest().length_bytes;
/// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// let attached = cache.attach(store.clone())?;
/// let file = cache.open(&attached, BucketStore::OBJECT, length_bytes)?.blocking();
/// file.write_at(b"far away", 4096)?;
/// file.sync()?;
/// # drop((file, attached, cache));
/// assert!(store.close());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BucketStore {
    core: Arc<Core>,
    threads: ThreadGroup,
    manifest: Manifest,
    limits: Limits,
}

/// What its threads share.
struct Core {
    scheduler: Mutex<Scheduler>,
    arrivals: WaitQueue,
    gathering: Option<Gathering>,
    following: Option<Following>,
    volume: Arc<VolumeClient>,
    pages: PageClient,
    object_bytes: u64,
    /// Several threads may find out that another writer has the volume.
    is_fence_said: AtomicBool,
}

impl fmt::Debug for BucketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketStore")
            .field("manifest", &self.manifest)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl BucketStore {
    /// The number of the volume as an object.
    pub const OBJECT: ObjectId = ObjectId(0);

    /// Opens the volume in `bucket` with `access`. People call it `name`.
    ///
    /// # Errors
    /// [`BucketError`].
    pub fn open(
        bucket: Arc<dyn Bucket>,
        name: &str,
        access: Access,
        settings: BucketSettings,
    ) -> Result<Arc<BucketStore>, BucketError> {
        let is_read_only = access == Access::Read;
        if let Some(name) = settings.snapshot.filter(|_| !is_read_only) {
            return Err(VolumeFault::ReadOnlySnapshot { name }.into());
        }
        let client = RetryingClient::new(bucket, name.to_owned(), settings.answer_timeout);
        let volume = VolumeClient::new(client);
        let mut unlocked = volume.unlocked(&access, &settings)?;
        let mut admit = |manifest: &Manifest| {
            let made = manifest.as_made();
            let codec = match unlocked.take().filter(|(known, _)| *known == made) {
                Some((_, codec)) => codec,
                None => volume.unlock(manifest, settings.key.as_ref())?,
            };
            unlocked = Some((made, codec.clone()));
            Ok::<_, BucketError>((codec, limits(manifest, &settings)?))
        };
        let opened = match settings.snapshot {
            Some(name) => volume.open_snapshot(name)?,
            None => volume.open_if(access, |manifest| admit(manifest).map(drop))?,
        };
        let manifest = opened.manifest;
        // What was opened to be written was admitted before, so this does not fail then.
        let (codec, limits) = admit(&manifest)?;
        volume.client.record_open();
        let following = settings.follow_interval;
        let following = following.filter(|_| is_read_only && settings.snapshot.is_none());
        let follower = following.map(|_| Follower::new(opened.clone()));
        let writer = Writer::with_codec(opened, codec.clone());
        let core = Arc::new(Core {
            scheduler: Mutex::new(Scheduler::new(writer, limits, is_read_only)),
            arrivals: WaitQueue::new(),
            gathering: settings
                .commit_interval
                .filter(|_| !is_read_only)
                .map(Gathering::new),
            following: following.map(Following::new),
            pages: PageClient::new(volume.clone(), codec),
            volume,
            object_bytes: manifest.whole_object_bytes(),
            is_fence_said: AtomicBool::new(false),
        });
        let mut threads = Core::start(&core, limits.uploads + READERS + KEEPERS)?;
        if let Some(follower) = follower {
            let core = core.clone();
            threads.start("forebay-follow", move || core.follow(follower))?;
        }
        Ok(Arc::new(BucketStore {
            core,
            threads,
            manifest,
            limits,
        }))
    }

    /// What never changes of the volume.
    pub fn manifest(&self) -> Manifest {
        self.manifest
    }

    /// Whether another writer has taken the volume over.
    pub fn is_fenced(&self) -> bool {
        lock(&self.core.scheduler).is_fenced()
    }

    /// Records what commits were answered for: see [`BucketSettings::commit_interval`]. Without an
    /// interval there is nothing to do.
    ///
    /// # Errors
    /// Why that cannot be done now. It is kept, and tried again after the interval, or by the next
    /// call.
    pub fn settle(&self) -> Result<(), Failure> {
        let Some(gathering) = &self.core.gathering else {
            return Ok(());
        };
        if self.is_fenced() {
            return Err(Failure::Fenced);
        }
        block_on(self.core.record(gathering))
    }

    /// Whether each commit that was answered is in a record.
    pub fn is_settled(&self) -> bool {
        let gathering = self.core.gathering.as_ref();
        gathering.is_none_or(Gathering::is_settled)
    }

    /// Leaves the volume to others, once everything is committed. False if that is not so, or if
    /// the bucket does not take it: then the next writer has to take the volume over.
    pub fn close(&self) -> bool {
        if let Some(following) = &self.core.following {
            following.stop();
        }
        if !self.is_settled() && self.settle().is_err() {
            return false;
        }
        let closing = Arc::new(Slot::new());
        let closed = closing.clone();
        lock(&self.core.scheduler).close(Box::new(move |is_left| closed.set(is_left)));
        self.core.arrivals.wake_one();
        block_on(closing.take())
    }

    /// Calls `drops` with bytes that the volume's writer has changed, until it says that nothing of
    /// them is left in memory: see [`BucketSettings::follow_interval`]. To be called before the
    /// first read. `drops` is kept until [`BucketStore::close`].
    pub fn follow(&self, drops: impl Fn(Range<u64>) -> bool + Send + Sync + 'static) {
        if let Some(following) = &self.core.following {
            following.tell(Arc::new(drops));
        }
    }

    /// What it has done, and what its volume takes.
    pub fn statistics(&self) -> BucketStatistics {
        let mut statistics = BucketStatistics::of(lock(&self.core.scheduler).writer());
        self.core.volume.client.count_into(&mut statistics);
        statistics
    }

    /// The run from byte `offset_bytes` to at most `end_bytes`.
    pub(crate) fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent {
        lock(&self.core.scheduler).extent_at(offset_bytes, end_bytes)
    }
}

impl VolumeClient {
    /// Refuses what has no room, or another key, before its map is read. Returns what opens the
    /// pages of a volume that is there.
    fn unlocked(
        &self,
        access: &Access,
        settings: &BucketSettings,
    ) -> Result<Option<(Manifest, PageCodec)>, BucketError> {
        let key = settings.key.as_ref();
        let Some((manifest, is_there)) = self.manifest(access)? else {
            return Ok(None);
        };
        limits(&manifest, settings)?;
        if is_there {
            return Ok(Some((manifest, self.unlock(&manifest, key)?)));
        }
        self.make_key(&manifest, key)?;
        Ok(None)
    }
}

/// What fits into the memory of `settings`.
fn limits(manifest: &Manifest, settings: &BucketSettings) -> Result<Limits, BucketError> {
    let memory_bytes = settings.memory_bytes;
    let chunk_bytes = manifest.whole_object_bytes();
    let stack_bytes = SMALL_STACK_BYTES as u64;
    let upload_bytes = UPLOAD_CHUNKS * chunk_bytes + stack_bytes;
    let crew_bytes = (READERS + KEEPERS + 1) as u64 * stack_bytes;
    // A writer that removes objects reads the map of one snapshot after the other; a reader that
    // follows has the last state and the next one, and reads on from there.
    let is_following = settings.follow_interval.is_some();
    let maps = 1 + u64::from(settings.dead_percent.is_some()) + 2 * u64::from(is_following);
    let map_bytes = maps * Map::memory_bytes(manifest);
    let needed_bytes = LEAST_STAGED_CHUNKS * chunk_bytes
        + upload_bytes
        + crew_bytes
        + map_bytes
        + record_bytes(manifest);
    if memory_bytes < needed_bytes {
        return Err(BucketError::Memory {
            map_bytes,
            chunk_bytes: manifest.chunk_bytes,
            needed_bytes,
            memory_bytes,
        });
    }
    // Pages are encrypted one by one before their record is put together of them. No volume is
    // refused for that moment, so it has room only where there is more than the least.
    let is_encrypted = manifest.pages == PageFormat::Encrypted;
    let sealing_bytes = record_bytes(manifest) * u64::from(is_encrypted);
    let rest = (memory_bytes - needed_bytes).saturating_sub(sealing_bytes);
    let uploads = (rest / 2 / upload_bytes).min(UPLOADS_LIMIT - 1);
    let staged_bytes = LEAST_STAGED_CHUNKS * chunk_bytes + rest - uploads * upload_bytes;
    Ok(Limits {
        staged_pages: (staged_bytes / PAGE_BYTES) as usize,
        uploads: 1 + uploads as usize,
        dead_percent: settings.dead_percent,
        ..Limits::default()
    })
}

/// The pages of a record that is being made, as they lie there.
fn record_bytes(manifest: &Manifest) -> u64 {
    manifest.pages().min(INLINE_PAGES as u64) * manifest.pages.record_bytes()
}

impl Core {
    /// Starts its threads.
    fn start(core: &Arc<Core>, workers: usize) -> io::Result<ThreadGroup> {
        let mut threads = ThreadGroup::default();
        for _ in 0..workers {
            let core = core.clone();
            threads.start("forebay-bucket", move || core.work())?;
        }
        if core.gathering.is_some() {
            let core = core.clone();
            threads.start("forebay-commits", move || core.gather())?;
        }
        Ok(threads)
    }

    /// The life of a thread.
    fn work(&self) {
        while let Some(job) = block_on(self.next_job()) {
            // Perhaps there are more.
            self.arrivals.wake_one();
            self.carry_out(job);
        }
    }

    /// The life of the thread that makes the records of commits that were answered at once.
    fn gather(&self) {
        let Some(gathering) = &self.gathering else {
            return;
        };
        while block_on(gathering.owed()) {
            // The next commit hears of a failure, and the client has said it.
            let _ = block_on(self.record(gathering));
        }
    }

    /// The life of the thread that follows the volume's writer.
    fn follow(&self, mut follower: Follower) {
        let Some(following) = &self.following else {
            return;
        };
        while following.is_due(follower.has_failed()) {
            let newest = follower.look(&self.volume);
            let changed = newest.map(|opened| lock(&self.scheduler).follow(opened));
            following.looked(changed.unwrap_or_default());
        }
    }

    /// Records everything that came until now.
    async fn record(&self, gathering: &Gathering) -> Result<(), Failure> {
        let commit = Arc::new(Commit::default());
        let request = Request {
            kind: IoKind::Commit,
            object: BucketStore::OBJECT,
            offset_bytes: 0,
            length_bytes: 0,
        };
        gathering.begin();
        self.submit(Io::new(request, Vec::new(), commit.clone(), 0));
        let result = gathering.result_of(&commit).await;
        let result = result.unwrap_or(Err(Failure::Gone));
        gathering.end(result);
        result
    }

    fn submit(&self, io: Io) {
        let mut ended = Ended::default();
        lock(&self.scheduler).submit(io, &mut ended);
        self.arrivals.wake_one();
        ended.finish();
    }

    async fn next_job(&self) -> Option<Job> {
        loop {
            let arrival = self.arrivals.listen();
            let mut ended = Ended::default();
            let at_once = self.volume.client.uploads_at_once(self.object_bytes);
            let (job, is_stopped) = {
                let mut scheduler = lock(&self.scheduler);
                scheduler.limit_uploads(at_once);
                (scheduler.next_job(&mut ended), scheduler.is_stopped())
            };
            ended.finish();
            if job.is_some() || is_stopped {
                return job;
            }
            arrival.await;
        }
    }

    fn carry_out(&self, job: Job) {
        let mut ended = Ended::default();
        match job {
            Job::Read(job) => match self.pages.read(job) {
                ReadEnd::Done(job) => ended.push(job.filled(), Ok(())),
                ReadEnd::Failed(io, failure) => ended.push(io, Err(failure)),
                ReadEnd::Missing(job, key) => self.read_again(*job, &key, &mut ended),
            },
            Job::Upload(mut job) => {
                let mut made = self.pages.upload(&mut job, false);
                let is_missing = matches!(made, Err(Unmade::Missing(_)));
                if is_missing && lock(&self.scheduler).is_wanted(&job) && !self.is_succeeded() {
                    made = self.pages.upload(&mut job, true);
                }
                let result = made.map_err(|unmade| match unmade {
                    Unmade::Missing(_) if self.is_succeeded() => Failure::Fenced,
                    Unmade::Missing(_) if !lock(&self.scheduler).is_wanted(&job) => Failure::Gone,
                    Unmade::Missing(key) => self.pages.missing(&key),
                    Unmade::Failed(failure) => failure,
                });
                lock(&self.scheduler).uploaded(job, result, &mut ended);
            }
            Job::Record(twin) => {
                let next = || lock(&self.scheduler).next_call(twin);
                let answer = |reply| lock(&self.scheduler).answer(twin, reply);
                let result = self.volume.record(next, answer);
                if result == Err(Failure::Fenced) {
                    let number = lock(&self.scheduler).last_number();
                    self.say_fenced(number);
                }
                lock(&self.scheduler).copied(result, &mut ended);
            }
            Job::Move(pages) => {
                let read = pages.into_iter().filter_map(|(page, from)| {
                    let bytes = self.pages.page_of_record(page, from)?;
                    Some((page, from, bytes))
                });
                let read = read.collect();
                lock(&self.scheduler).moved(read);
            }
            Job::Map(mut append) => {
                // A map that could not be made is made some records later.
                let made = self.volume.client.append(&mut append);
                lock(&self.scheduler).mapped(append.key(), made.ok());
            }
            Job::Remove(keys) => {
                let manifest = lock(&self.scheduler).manifest();
                let removed = self.pages.remove(&manifest, &keys);
                lock(&self.scheduler).removed(keys.len(), removed);
            }
        }
        ended.finish();
    }

    /// Reads again what a commit and `gc` may have moved: the object `key` is not there.
    fn read_again(&self, job: ReadJob, key: &str, ended: &mut Ended) {
        if self.is_succeeded() {
            return ended.push(job.io, Err(Failure::Fenced));
        }
        let number = job.number;
        if let Some(following) = &self.following {
            if lock(&self.scheduler).last_number() == number {
                block_on(following.look());
            }
            let mut scheduler = lock(&self.scheduler);
            if scheduler.last_number() > number {
                return scheduler.read_newer(job, ended);
            }
        }
        let again = lock(&self.scheduler).read_again(job, key, ended);
        if let Err(io) = again {
            ended.push(io, Err(self.pages.missing(key)));
        }
    }

    /// Whether another writer has the volume. An object that is missing may be one that it does not
    /// need.
    fn is_succeeded(&self) -> bool {
        let (successors, number) = {
            let scheduler = lock(&self.scheduler);
            if scheduler.is_fenced() {
                return true;
            }
            let successors = Twin::BOTH.map(|twin| scheduler.successor(twin));
            (successors, scheduler.last_number() + 1)
        };
        let is_there = |call: &Call| matches!(self.volume.client.get(call), Ok(Some(_)));
        if !successors.iter().flatten().any(is_there) {
            return false;
        }
        let mut ended = Ended::default();
        {
            let mut scheduler = lock(&self.scheduler);
            // It may be a record of our own, made since the question was put.
            if scheduler.successor(Twin::First).is_none() || scheduler.last_number() + 1 != number {
                return scheduler.is_fenced();
            }
            scheduler.succeeded(&mut ended);
        }
        ended.finish();
        self.say_fenced(number);
        true
    }

    /// Record `number` is another writer's.
    fn say_fenced(&self, number: u64) {
        if self.is_fence_said.swap(true, Ordering::AcqRel) {
            return;
        }
        let who = self.volume.writer_of(number);
        say(format_args!(
            "{}: {} has taken the volume over; nothing more is written to it, and data that was \
             not {} before is not there",
            self.volume.client.name(),
            who.as_deref().unwrap_or("another writer"),
            // A FLUSH may have been answered before its record.
            self.gathering.as_ref().map_or("flushed", |_| "recorded"),
        ));
    }
}

impl Store for BucketStore {
    fn geometry(&self) -> Geometry {
        let chunk_pages = self.manifest.chunk_pages();
        Geometry {
            block_bytes: PAGE_BYTES as u32,
            max_io_pages: chunk_pages.min(IO_PAGES_LIMIT) as u32,
            write_unit_pages: chunk_pages as u32,
            queue_depth: 4 * self.limits.uploads as u32,
            durability: Durability::Unstable,
            stable_pages: true,
        }
    }

    fn is_read_only(&self, _object: ObjectId) -> bool {
        lock(&self.core.scheduler).is_read_only()
    }

    fn length_bytes(&self, object: ObjectId) -> Option<u64> {
        (object == BucketStore::OBJECT).then_some(self.manifest.length_bytes)
    }

    fn submit(&self, io: Io) {
        if io.request().object != BucketStore::OBJECT {
            return io.fail(Failure::Gone);
        }
        if io.page_count() > self.geometry().max_io_pages as usize {
            return io.fail(Failure::OutOfRange);
        }
        if io.request().kind == IoKind::Commit
            && let Some(gathering) = &self.core.gathering
            && !self.is_fenced()
        {
            return match gathering.answer() {
                Ok(()) => io.succeed(),
                Err(failure) => io.fail(failure),
            };
        }
        self.core.submit(io);
    }
}

impl Drop for BucketStore {
    fn drop(&mut self) {
        if let Some(gathering) = &self.core.gathering {
            gathering.stop();
        }
        if let Some(following) = &self.core.following {
            following.stop();
        }
        lock(&self.core.scheduler).stop();
        self.core.volume.client.stop();
        self.core.arrivals.wake_all();
        self.threads.join();
    }
}
