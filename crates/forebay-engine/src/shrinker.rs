//! Caches beside the pages that give objects up when memory is short.

use std::ops::ControlFlow;

/// A cache of objects that are not pages and can be made again: directory entries, maps of extents,
/// decoded blocks. After [`crate::Cache::add_shrinker`], reclaim asks it for its part
/// (spec/reclaim.md 2.11).
///
/// It is called while reclaim runs, by kswapd and by any task that needs a frame, for example
/// inside a read. So it must not wait, use the page cache, or take a lock that its owner holds
/// across a call on the page cache. If it panics, reclaim asks it no more and says so on standard
/// error ([`Counter::ShrinkerPanics`](crate::Counter::ShrinkerPanics)).
///
/// ```
/// # use forebay_engine as forebay;
/// use forebay::{Cache, Settings, Shrinker};
/// use std::collections::VecDeque;
/// use std::ops::ControlFlow;
/// use std::sync::{Arc, Mutex, PoisonError};
///
/// /// Names that were looked up, the oldest first.
/// #[derive(Default)]
/// struct Names(Mutex<VecDeque<String>>);
///
/// impl Shrinker for Names {
///     fn freeable(&self) -> u64 {
///         self.0.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
///     }
///
///     fn shrink(&self, offered: u64) -> ControlFlow<()> {
///         let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
///         let gone = names.len().min(offered as usize);
///         names.drain(..gone);
///         ControlFlow::Continue(())
///     }
/// }
///
/// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// let names = Arc::new(Names::default());
/// cache.add_shrinker(&names);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Shrinker: Send + Sync {
    /// Objects that could be given up now.
    fn freeable(&self) -> u64;

    /// Looks at up to `offered` objects, beginning with those unused for the longest time, and
    /// gives up those that were not used lately. `Break` means that no more can be given up in this
    /// pass.
    fn shrink(&self, offered: u64) -> ControlFlow<()>;

    /// What it costs to make an object again, in seeks of a disk: the more it costs, the fewer are
    /// asked for. 0 means that it costs nothing: half of the objects are asked for at once.
    fn seeks(&self) -> u64 {
        forebay_law::shrink::DEFAULT_SEEKS
    }
}
