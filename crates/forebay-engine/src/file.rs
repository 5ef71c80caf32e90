//! A handle on an object: what a program reads and writes.

use crate::caller::{Caller, CallerKey};
use crate::engine::Engine;
use crate::error::{AccessError, SyncError};
use crate::event::CallKind;
use crate::flow::Missing;
use crate::guard::PageGuard;
use crate::handle::Handle;
use crate::memory::NodePolicy;
use crate::state::index::LONGEST_BYTES;
use crate::state::object::ObjectState;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::{byte_of, page_of, pages_for};
use forebay_store::Durability;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

/// Reads of the store that one call keeps under way at most: the usual depth of a queue. Those that
/// the ring of the thread has no room for go by the ring thread.
pub(crate) const MOST_UNDER_WAY: usize = 128;

/// One read of [`File::read_many`].
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// First byte to read.
    pub offset_bytes: u64,
    /// Where it goes. It is filled up to the object's end.
    pub buffer: &'a mut [u8],
    /// Bytes read, set by the call. If it fails, those bytes are in the buffer for sure.
    pub done_bytes: usize,
}

/// What a program expects to do with a range (spec/writeback.md 9.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing special: readahead as usual.
    Normal,
    /// Reads from front to back: windows twice as large.
    Sequential,
    /// Reads without order: no readahead.
    Random,
    /// The range is wanted soon: it is read now.
    WillNeed,
    /// The range is no longer wanted: its clean pages are dropped, and its dirty pages begin to be
    /// written and go first when memory is needed. Nothing else is written for it.
    DontNeed,
}

/// A handle on an object of a cache. A clone is another handle on the same object, with its own
/// readahead, its own place in write throttling and its own view of write errors; give each
/// thread or task its own.
///
/// ```
/// # forebay_rt::block_on(async {
/// # use forebay_engine as forebay;
/// use forebay::{Cache, Settings};
/// use forebay_store::{MemoryStore, ObjectId};
/// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// let backing = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
/// let file = cache.open(&backing, ObjectId(1), 0)?;
/// file.write_at(b"so shall it be", 0).await?;
/// let mut word = [0; 5];
/// assert_eq!(file.read_at(&mut word, 3).await?, 5);
/// assert_eq!(&word, b"shall");
/// file.sync().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct File {
    pub(crate) handle: Arc<Handle>,
}

impl Clone for File {
    fn clone(&self) -> File {
        File {
            handle: Arc::new(self.handle.beside(self.handle.node_policy)),
        }
    }
}

impl File {
    /// A handle that owns one count of `object.handles`.
    pub(crate) fn new(
        engine: Arc<Engine>,
        object: Arc<ObjectState>,
        is_read_only: bool,
        caller: CallerKey,
    ) -> File {
        File {
            handle: Arc::new(Handle::new(
                engine,
                object,
                NodePolicy::near(0),
                is_read_only,
                caller,
            )),
        }
    }

    /// Another handle on the same object that belongs to `caller`: [`crate::Cache::why`] shows its
    /// name.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Caller, Settings};
    /// # use forebay_store::{MemoryStore, ObjectId};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let store = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// let backup = cache.open(&store, ObjectId(1), 0)?.for_caller(&Caller::named("backup"));
    /// backup.write_at(b"all of it", 0).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn for_caller(&self, caller: &Caller) -> File {
        self.handle.engine.accounts.ledger.remember(caller);
        File {
            handle: Arc::new(
                self.handle
                    .beside_for(self.handle.node_policy, caller.key()),
            ),
        }
    }

    /// Whose handle it is.
    pub fn caller(&self) -> CallerKey {
        self.handle.caller
    }

    /// Another handle on the same object, whose frames come from where `node_policy` says.
    pub(crate) fn with_node_policy(&self, node_policy: NodePolicy) -> File {
        let nodes = self.handle.engine.memory.nodes.len();
        assert!(node_policy.node < nodes, "the cache has {nodes} nodes");
        File {
            handle: Arc::new(self.handle.beside(node_policy)),
        }
    }

    /// The number of its store ([`crate::AttachedStore::number`]); of anonymous memory, that of
    /// swap.
    pub fn store_number(&self) -> usize {
        self.handle.backing.number
    }

    /// The length of the object, bytes.
    pub fn len(&self) -> u64 {
        self.handle.object.length_bytes()
    }

    /// Whether the object has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads into `buffer` from byte `offset_bytes` on, and returns how many bytes there were:
    /// fewer than the buffer only at the object's end.
    ///
    /// # Errors
    /// [`AccessError::Store`] if the store failed, `NotAnswering` if it gave no answer in time,
    /// `NoFrames` if no frame came free, `Held` if a page already has 65 280 guards. What was read
    /// before the failure is in the buffer.
    // Here and in `write_at` the engine's own future is returned: a future around it would move it
    // twice more in each call.
    pub fn read_at(
        &self,
        buffer: &mut [u8],
        offset_bytes: u64,
    ) -> impl Future<Output = Result<usize, AccessError>> {
        self.read_rest(buffer, offset_bytes, 0)
    }

    /// The same for a buffer with its first `done` bytes already read.
    pub(crate) fn read_rest(
        &self,
        buffer: &mut [u8],
        offset_bytes: u64,
        done: usize,
    ) -> impl Future<Output = Result<usize, AccessError>> {
        let engine = &self.handle.engine;
        engine.files.read(&self.handle, buffer, done, offset_bytes)
    }

    /// Reads into each of `buffers`, one after the other, from byte `offset_bytes` on.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub async fn read_vectored_at(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        offset_bytes: u64,
    ) -> Result<usize, AccessError> {
        self.read_vectored_rest(buffers, offset_bytes, 0).await
    }

    /// The same for buffers with their first `begun` bytes, counted together, already read.
    pub(crate) async fn read_vectored_rest(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        offset_bytes: u64,
        begun: usize,
    ) -> Result<usize, AccessError> {
        let mut done = 0;
        for buffer in buffers {
            let (at, begun) = (offset_bytes + done as u64, begun.saturating_sub(done));
            // A buffer that was copied whole may have ended at the mark of the next window, which
            // is not read yet.
            let read = if begun <= buffer.len() {
                self.read_rest(buffer, at, begun).await?
            } else {
                buffer.len()
            };
            done += read;
            if read < buffer.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Reads many places at once: while one page is copied the next ones are fetched into the
    /// processor's cache, and pages that are missing are read from the store side by side, up to
    /// 128 at a time. A thread that blocks in this call asks the kernel for 32 of them itself,
    /// several at once.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, ReadRequest, Settings};
    /// # use forebay_store::{MemoryStore, ObjectId};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let backing = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// let file = cache.open(&backing, ObjectId(1), 0)?.blocking();
    /// file.write_at(b"forebay", 70_000)?;
    /// let (mut first, mut second) = ([9; 4], [9; 4]);
    /// let mut requests = [(0, &mut first), (70_003, &mut second)].map(|(offset_bytes, buffer)| {
    ///     ReadRequest { offset_bytes, buffer, done_bytes: 0 }
    /// });
    /// file.read_many(&mut requests)?;
    /// assert_eq!((first, &second), ([0; 4], b"ebay"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`File::read_at`]. If the store failed, the other requests are read all the same, and the
    /// first failure in their order is returned; any other failure ends the call.
    pub async fn read_many(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), AccessError> {
        self.read_many_within(requests, MOST_UNDER_WAY).await
    }

    /// As [`File::read_many`], with at most `most_under_way` reads of the store under way, from 1
    /// to 128. With 32 or fewer, a thread that blocks in this call asks the kernel for all of them
    /// itself.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, ReadRequest, Settings};
    /// # use forebay_store::{MemoryStore, ObjectId};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let backing = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// let file = cache.open(&backing, ObjectId(1), 0)?.blocking();
    /// file.write_at(b"forebay", 0)?;
    /// let mut buffer = [0; 7];
    /// let request = ReadRequest { offset_bytes: 0, buffer: &mut buffer, done_bytes: 0 };
    /// file.read_many_within(&mut [request], 32)?;
    /// assert_eq!(&buffer, b"forebay");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub async fn read_many_within(
        &self,
        requests: &mut [ReadRequest<'_>],
        most_under_way: usize,
    ) -> Result<(), AccessError> {
        if self.read_many_resident(requests) {
            return Ok(());
        }
        self.read_many_rest(requests, most_under_way).await
    }

    /// Serves the requests whose pages are resident. True if that was all of them.
    pub(crate) fn read_many_resident(&self, requests: &mut [ReadRequest<'_>]) -> bool {
        let engine = &self.handle.engine;
        engine.memory.read_many_resident(&self.handle, requests)
    }

    /// Reads what is left of them.
    pub(crate) fn read_many_rest(
        &self,
        requests: &mut [ReadRequest<'_>],
        most_under_way: usize,
    ) -> impl Future<Output = Result<(), AccessError>> {
        let engine = &self.handle.engine;
        engine
            .files
            .read_many(&self.handle, requests, most_under_way)
    }

    /// Writes all of `bytes` from byte `offset_bytes` on; the object grows if need be. Returns
    /// when the bytes are in the cache and the writer has paid for them by its pause;
    /// [`File::sync`] makes them durable.
    ///
    /// # Errors
    /// [`AccessError::NoFrames`], `Held`, `NotAnswering`, `Store` (a page that is written in part
    /// had to be read first), `TooManyFailed`, `TooFar`, `ReadOnly`, `Closed`.
    pub fn write_at(
        &self,
        bytes: &[u8],
        offset_bytes: u64,
    ) -> impl Future<Output = Result<(), AccessError>> {
        self.handle
            .engine
            .files
            .write(&self.handle, bytes, offset_bytes)
    }

    /// Writes each of `buffers`, one after the other.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn write_vectored_at(
        &self,
        buffers: &[IoSlice<'_>],
        offset_bytes: u64,
    ) -> Result<(), AccessError> {
        let mut at = offset_bytes;
        for buffer in buffers {
            self.write_at(buffer, at).await?;
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// The page `page_index` itself, without a copy. While the guard lives, the page is neither
    /// written nor evicted. Bytes past the object's end are zeros.
    ///
    /// # Errors
    /// As [`File::read_at`]; [`AccessError::TooFar`] if the page is past the end.
    pub async fn page(&self, page_index: u64) -> Result<PageGuard<'_>, AccessError> {
        let limit_bytes = self.len();
        let engine = &self.handle.engine;
        if page_index >= LONGEST_BYTES / PAGE_BYTES as u64 || byte_of(page_index) >= limit_bytes {
            let offset_bytes = page_index.saturating_mul(PAGE_BYTES as u64);
            let refused = Err(AccessError::TooFar {
                offset_bytes,
                limit_bytes,
            });
            return engine.accounts.told(CallKind::Page, refused);
        }
        let held = engine.files.hold_page(&self.handle, page_index).await;
        let hold = engine.accounts.told(CallKind::Page, held)?;
        Ok(PageGuard::new(&engine.memory, hold))
    }

    /// Returns when everything that was written before the call is durable, with the length.
    ///
    /// # Errors
    /// [`SyncError::Store`] if a write or the commit has failed since this handle last asked. What
    /// could not be written is kept and tried again. A failure from before this handle was opened
    /// is reported only if nobody has seen it and not everything was written since: what was made
    /// good is no news to it. `NotAnswering` if the store is silent.
    pub async fn sync(&self) -> Result<(), SyncError> {
        let handle = &*self.handle;
        let call = handle.engine.dirty.call(handle, CallKind::Sync, 0, 0);
        let synced = handle
            .engine
            .syncer
            .sync_whole(&call, &handle.object, &handle.cursor);
        handle.engine.accounts.told(CallKind::Sync, synced.await)
    }

    /// Returns when what was written to a range of bytes before the call is durable, with the
    /// length. Pages beside it are left to the flusher.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Settings};
    /// # use forebay_store::{MemoryStore, ObjectId};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let backing = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// let journal = cache.open(&backing, ObjectId(1), 0)?;
    /// journal.write_at(&[7; 65_536], 0).await?;
    /// journal.sync_range(0..4096).await?;
    /// assert_eq!(cache.statistics().nr_dirty, 15);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::sync`], also for failures of pages outside the range.
    pub async fn sync_range(&self, range: Range<u64>) -> Result<(), SyncError> {
        let pages = page_of(range.start)..pages_for(range.end);
        let handle = &*self.handle;
        let call = handle
            .engine
            .dirty
            .call(handle, CallKind::Sync, byte_of(pages.start), 0);
        let synced = handle
            .engine
            .syncer
            .sync_pages(&call, &handle.object, pages, &handle.cursor);
        handle.engine.accounts.told(CallKind::Sync, synced.await)
    }

    /// Makes the object `length_bytes` long; what lies past that is dropped, dirty or not. If the
    /// call is dropped, it may still be carried out, but before anything that is written to that
    /// part afterwards.
    ///
    /// # Errors
    /// [`AccessError::Store`] if the store cannot, `Held` if a page past the new end is held by a
    /// guard, `TooFar`, `ReadOnly`, `NotAnswering`, `Closed`.
    pub async fn truncate(&self, length_bytes: u64) -> Result<(), AccessError> {
        let engine = &self.handle.engine;
        let cut = engine.files.truncate(&self.handle, length_bytes).await;
        engine.accounts.told(CallKind::Truncate, cut)
    }

    /// Gives the whole object up, because it was deleted and nobody will look for it again: dirty
    /// pages are dropped, its length becomes 0, and the store gets no more requests for it. The
    /// store keeps what it has.
    ///
    /// # Errors
    /// [`AccessError::Held`] if a page is held by a guard, `NotAnswering` if a write that is under
    /// way does not end.
    pub async fn abandon(&self) -> Result<(), AccessError> {
        let engine = &self.handle.engine;
        let given_up = engine.files.abandon(&self.handle).await;
        engine.accounts.told(CallKind::Discard, given_up)
    }

    /// Drops what the cache has of a range, because the store has other bytes there by now: for
    /// those who serve what somebody else writes. Returns how many pages stay for the moment: those
    /// that are being read or are held, until the caller tries again, and dirty ones, whose bytes
    /// are newer. Pages that the store is asked for after this call are the new ones.
    ///
    /// ```
    /// # use forebay_engine as forebay;
    /// use forebay::{Cache, Settings};
    /// use forebay_store::{MemoryStore, ObjectId};
    /// use std::sync::Arc;
    ///
    /// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// let store = cache.attach(Arc::new(MemoryStore::new()))?;
    /// let file = cache.open(&store, ObjectId(1), 64 << 10)?;
    /// file.clone().blocking().write_at(b"newer", 0)?;
    /// assert_eq!(file.invalidate(0..64 << 10), 1, "the page is dirty");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invalidate(&self, range: Range<u64>) -> u64 {
        let Handle { engine, object, .. } = &*self.handle;
        let end = range.end.min(object.length_bytes());
        let first = range.start / PAGE_BYTES as u64;
        let pages = first..pages_for(end).max(first);
        engine.pages.drop_clean(object, pages).kept
    }

    /// Stops asking the store to make durable what it has taken so far and could not make durable,
    /// because it never will: [`File::sync`] and [`crate::Cache::close`] go on without it. That
    /// data may be lost, and the caller should inform those that wrote it.
    ///
    /// What an unstable store has taken stays in memory until a commit, so it is not lost: such a
    /// store is asked for commits as before.
    pub fn waive_commit(&self) {
        let Handle {
            object, backing, ..
        } = &*self.handle;
        if backing.geometry.durability == Durability::Unstable {
            return;
        }
        if let Some(changes) = object.to_commit() {
            object.note_committed(changes);
        }
    }

    /// Gives a range of bytes up, in the cache and in the store: it reads as zeros. After an error
    /// each byte is zero or what it was; a discard that was not answered in time may still be
    /// carried out. So may a discard whose call is dropped, but before anything that is written
    /// there afterwards.
    ///
    /// # Errors
    /// As [`File::truncate`], and as [`File::write_at`] for the partial pages at both ends.
    pub async fn discard(&self, range: Range<u64>) -> Result<(), AccessError> {
        let engine = &self.handle.engine;
        let given_up = engine.files.discard(&self.handle, range).await;
        engine.accounts.told(CallKind::Discard, given_up)
    }

    /// Announces what the program is about to do with a range of bytes.
    ///
    /// # Errors
    /// As [`File::read_at`] for `WillNeed`; none for the others.
    pub async fn advise(&self, advice: Advice, range: Range<u64>) -> Result<(), AccessError> {
        let Handle { engine, stream, .. } = &*self.handle;
        let usual = engine.pages.readahead_pages();
        match advice {
            Advice::Normal => stream.change(|state| {
                (state.max_pages, state.is_random) = (usual, false);
                state.reach_pages = 0;
            }),
            Advice::Sequential => stream.change(|state| {
                (state.max_pages, state.is_random) = (2 * usual, false);
            }),
            Advice::Random => stream.change(|state| state.is_random = true),
            Advice::WillNeed => {
                let begun = engine.files.will_need(&self.handle, range).await;
                engine.accounts.told(CallKind::Advise, begun)?;
            }
            Advice::DontNeed => engine.files.dont_need(&self.handle, range).await,
        }
        Ok(())
    }

    /// Pages of this object whose last write failed: they are dirty, kept and tried again.
    pub fn failed_pages(&self) -> u64 {
        u64::from(self.handle.object.failures.pages.load(Ordering::Relaxed))
    }

    /// Pages of this object that are dirty, not counting those that are being written.
    pub fn dirty_pages(&self) -> u64 {
        lock(&self.handle.object.dirty).dirty_pages()
    }

    /// Whether the store has every byte that was written and knows the length, durable or not, and
    /// no truncate or discard is under way, not even one whose caller has given up.
    pub fn is_written(&self) -> bool {
        let object = &self.handle.object;
        object.resizing.cuts.is_empty()
            && lock(&object.dirty).is_clean()
            && !object.length.unsynced.load(Ordering::Acquire)
    }

    /// Whether the store still has to commit something that it was given, or to be given the
    /// length: this is what [`File::sync`] would still ask for if the store has every byte. Until
    /// then the store must not close the object, or every later sync would fail.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay_engine as forebay;
    /// # use forebay::{Cache, Settings};
    /// # use forebay_store::{FileStore, FileStoreSettings, OpenMode};
    /// # let folder = tempfile::tempdir()?;
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let files = FileStore::new(FileStoreSettings::default())?;
    /// # let store = cache.attach(files.clone())?;
    /// # let mode = OpenMode::Create { length_bytes: None };
    /// let opened = files.open(&folder.path().join("data"), mode)?;
    /// let file = cache.open(&store, opened.object, 0)?;
    /// file.truncate(4096).await?;
    /// assert!(file.is_written() && file.owes_commit());
    /// file.sync().await?;
    /// assert!(!file.owes_commit());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn owes_commit(&self) -> bool {
        self.handle.engine.dirty.is_owed(&self.handle.object)
    }

    /// Returns the write failure that this handle's next [`File::sync`] will report, without
    /// writing anything and without marking it as reported. A program wants this when it closes a
    /// file: a descriptor can be closed more than once, by every process that inherited it, and a
    /// sync through another copy still has to report the failure. What could not be written is kept
    /// and tried again.
    ///
    /// # Errors
    /// [`SyncError::Store`] until a sync of this handle has reported it.
    pub fn unreported_failure(&self) -> Result<(), SyncError> {
        let Handle { object, cursor, .. } = &*self.handle;
        let is_good = object.has_nothing_refused() && self.is_written();
        match object.failures.errors.check(*lock(cursor), is_good) {
            None => Ok(()),
            Some(error) => Err(error.into()),
        }
    }

    /// A read that needs no waiting, for the blocking face. Otherwise how many bytes are in the
    /// buffer already.
    pub(crate) fn try_read(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize, usize> {
        let left = self.len().saturating_sub(offset_bytes);
        let wanted = left.min(buffer.len() as u64) as usize;
        let engine = &self.handle.engine;
        let (done, missing): (usize, Option<Missing>) =
            engine
                .memory
                .read_resident(&self.handle, &mut buffer[..wanted], offset_bytes);
        if missing.is_none() && !self.handle.stream.has_marker() {
            Ok(done)
        } else {
            Err(done)
        }
    }

    /// A vectored read that needs no waiting, for the blocking face. Otherwise how many bytes are
    /// in the buffers already.
    pub(crate) fn try_read_vectored(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        offset_bytes: u64,
    ) -> Result<usize, usize> {
        let mut done = 0;
        for buffer in buffers {
            let at = offset_bytes + done as u64;
            let end_bytes = at.saturating_add(buffer.len() as u64);
            self.handle
                .engine
                .memory
                .prefetch_at(&self.handle.object, end_bytes);
            let read = self.try_read(buffer, at).map_err(|begun| done + begun)?;
            done += read;
            if read < buffer.len() {
                break;
            }
        }
        Ok(done)
    }

    /// A guard on a page that is resident, for the blocking calls.
    #[inline]
    pub(crate) fn try_page(&self, page_index: u64) -> Option<PageGuard<'_>> {
        if page_index >= LONGEST_BYTES / PAGE_BYTES as u64 {
            return None;
        }
        let engine = &*self.handle.engine;
        let object = &*self.handle.object;
        let hold = engine.memory.look(object, page_index).ok()?;
        // Read under the hold: a cut or discard is announced first and then waits for the holds on
        // the pages that it gives up.
        if object.is_cut_at(page_index) {
            return None;
        }
        hold.mark_accessed();
        Some(PageGuard::new(&engine.memory, hold))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "file_tests.rs"]
mod tests;
