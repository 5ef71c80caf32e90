//! What the lab and tests ask of a cache and no product does. The crate `forebay` does not show it.

use crate::cache::{AttachedStore, Cache};
use crate::engine::Engine;
use crate::error::BuildError;
use crate::file::File;
use crate::kernel::PastFileSystem;
use crate::marks::Mark;
use crate::memory::NodePolicy;
pub use crate::parts::Kernel;
use crate::settings::{BackingSettings, Parts, Settings};
use forebay_store::Store;
use std::ops::Range;
use std::sync::Arc;

/// A cache as the lab and tests see it.
pub trait LabCache: Sized {
    /// As [`Cache::with_parts`]: a cache that works like `kernel`.
    ///
    /// # Errors
    /// As [`Cache::new`].
    fn of_kernel(settings: Settings, parts: Parts, kernel: Kernel) -> Result<Self, BuildError>;

    /// What the cache is made of.
    #[doc(hidden)]
    fn engine(&self) -> &Arc<Engine>;

    /// As [`Cache::attach_with`], with what an older kernel asks of the store's file system.
    ///
    /// # Errors
    /// [`BuildError::BadSetting`], `AlreadyAttached`, `Closed`.
    fn attach_past(
        &self,
        store: Arc<dyn Store>,
        settings: BackingSettings,
        file_system: PastFileSystem,
    ) -> Result<AttachedStore, BuildError>;

    /// How often each branch that handles a failure was taken, for tests that have to reach them
    /// all.
    fn times_reached(&self, mark: Mark) -> u32;

    /// Walks all state and says what is inconsistent, a sentence each. It locks the lists one after
    /// the other, so the result means something only while nothing else uses the cache.
    fn check(&self) -> Vec<String>;

    /// Says which pages lie past the end of their object, a sentence each. There are none while no
    /// thread runs between two waits, even if tasks of a virtual runtime are under way.
    fn check_ends(&self) -> Vec<String>;

    /// Says which marks pages have that they may not have, a sentence each. This is not a part of
    /// [`LabCache::check`]: it holds only while no thread is between two waits.
    fn check_marks(&self) -> Vec<String>;

    /// Says which nodes keep flags of reclaim though their kswapd sleeps, a sentence each. One that
    /// was given up while a store hung may keep them.
    fn check_flags(&self) -> Vec<String>;
}

impl LabCache for Cache {
    fn of_kernel(settings: Settings, parts: Parts, kernel: Kernel) -> Result<Cache, BuildError> {
        Ok(Cache::over(Engine::new(settings, parts, kernel)?))
    }

    fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn attach_past(
        &self,
        store: Arc<dyn Store>,
        settings: BackingSettings,
        file_system: PastFileSystem,
    ) -> Result<AttachedStore, BuildError> {
        self.attach_over(store, settings, file_system)
    }

    fn times_reached(&self, mark: Mark) -> u32 {
        self.engine.accounts.records.times_reached(mark)
    }

    fn check(&self) -> Vec<String> {
        self.engine.check()
    }

    fn check_ends(&self) -> Vec<String> {
        self.engine.check_ends()
    }

    fn check_marks(&self) -> Vec<String> {
        self.engine.check_marks()
    }

    fn check_flags(&self) -> Vec<String> {
        self.engine.check_flags()
    }
}

/// A file as the lab and tests use it.
pub trait LabFile {
    /// Another handle on the same object, whose frames come from node `node` if that has any.
    ///
    /// # Panics
    /// If the cache has no such node.
    #[must_use]
    fn on_node(&self, node: usize) -> File;

    /// Another handle on the same object, whose frames come from node `node` and from no other: a
    /// call that finds none there reclaims there, and fails if that does not help.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay_engine::lab::LabFile;
    /// # use forebay_engine::settings::{NodeSettings, ZoneSettings};
    /// # use forebay_engine::{Cache, Settings};
    /// # use forebay_store::{MemoryStore, ObjectId};
    /// let node = || NodeSettings { zones: vec![ZoneSettings::default()] };
    /// let memory_bytes = 32 << 20;
    /// let nodes = vec![node(), node()];
    /// let cache = Cache::new(Settings { memory_bytes, nodes, ..Settings::default() })?;
    /// let store = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// let file = cache.open(&store, ObjectId(1), 0)?.bound_to_node(1);
    /// file.write_at(b"here", 0).await?;
    /// let zones = cache.statistics().zones;
    /// assert_eq!((zones[0].inactive_file, zones[1].inactive_file), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Panics
    /// If the cache has no such node.
    #[must_use]
    fn bound_to_node(&self, node: usize) -> File;

    /// Writes `bytes`, at most a page of them, at the start of each of `pages`, in order, while one
    /// is in memory and dirty already. Nothing is waited for. Returns how many pages were written:
    /// the next one needs [`File::write_at`], or is refused there.
    ///
    /// ```
    /// # forebay_rt::block_on(async {
    /// # use forebay_engine::lab::LabFile;
    /// # use forebay_engine::{Cache, Settings};
    /// # use forebay_store::{MemoryStore, ObjectId};
    /// # let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
    /// # let store = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
    /// let file = cache.open(&store, ObjectId(1), 0)?;
    /// file.write_at(&[0; 2 * 4096], 0).await?;
    /// assert_eq!(file.write_starts(b"word", 0..3), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    fn write_starts(&self, bytes: &[u8], pages: Range<u64>) -> u64;
}

impl LabFile for File {
    fn on_node(&self, node: usize) -> File {
        self.with_node_policy(NodePolicy::near(node))
    }

    fn bound_to_node(&self, node: usize) -> File {
        let node_policy = NodePolicy {
            node,
            is_bound: true,
        };
        self.with_node_policy(node_policy)
    }

    fn write_starts(&self, bytes: &[u8], pages: Range<u64>) -> u64 {
        let files = &self.handle.engine.files;
        files.write_starts(&self.handle, bytes, pages)
    }
}
