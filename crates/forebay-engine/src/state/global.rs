//! Dirty pages of the whole cache, their limits, and the shares of the stores.

use crate::kernel::KernelValues;
use crate::state::backing::Backing;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use forebay_law::history::CountedPeriods;
use forebay_law::limits::SmoothedLimit;
use forebay_law::share::{GlobalCompletions, Share, StoreCompletions};

#[derive(Debug)]
pub struct GlobalDirty {
    /// Dirty file pages (NR_FILE_DIRTY).
    pub dirty: AtomicU64,
    /// Pages under writeback, or unstable (NR_WRITEBACK).
    pub writeback: AtomicU64,
    /// Pages that are written and wait for a commit.
    pub(crate) uncommitted: AtomicU64,
    /// Dirty pages whose last write failed.
    pub(crate) failed: AtomicU64,
    /// Pages dirtied since any writer was last evaluated, and how many may be.
    pub unevaluated: AtomicU64,
    pub(crate) ratelimit_pages: AtomicU64,
    /// Whether the hard limit was reached when a writer was last evaluated.
    is_full: AtomicBool,
    /// Whether writers ask for that.
    watches_full: bool,
    limit: Mutex<SmoothedLimit>,
    /// Pages that all writers dirtied lately.
    dirtyings: Mutex<Completions>,
    completions: Mutex<Completions>,
}

/// What all stores wrote lately, or all writers dirtied.
#[derive(Clone, Copy, Debug)]
enum Completions {
    Timed(GlobalCompletions),
    /// Before 3.6.
    Counted(CountedPeriods),
}

impl Completions {
    fn complete(
        &mut self,
        of: &mut StoreCompletions,
        pages: u64,
        max_ratio_1024: u64,
        now_ms: u64,
    ) {
        match self {
            Completions::Timed(all) => {
                forebay_law::share::complete(all, of, pages, max_ratio_1024, now_ms);
            }
            Completions::Counted(all) => all.complete(of, pages, max_ratio_1024),
        }
    }

    fn share(&mut self, of: &mut StoreCompletions, now_ms: u64) -> Share {
        match self {
            Completions::Timed(all) => {
                *all = all.advanced(now_ms);
                forebay_law::share::share(all, of)
            }
            Completions::Counted(all) => all.share(of),
        }
    }
}

impl GlobalDirty {
    /// No dirty pages yet; up to `limit_pages` may be dirty.
    pub(crate) fn new(kernel: &KernelValues, limit_pages: u64) -> GlobalDirty {
        let completions = if kernel.counts_periods {
            Completions::Counted(CountedPeriods::of_limit(limit_pages))
        } else {
            Completions::Timed(GlobalCompletions::default())
        };
        GlobalDirty {
            dirty: AtomicU64::new(0),
            writeback: AtomicU64::new(0),
            uncommitted: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            unevaluated: AtomicU64::new(0),
            ratelimit_pages: AtomicU64::new(forebay_law::pause::POLL_PAGES),
            is_full: AtomicBool::new(false),
            watches_full: kernel.is_paced,
            limit: Mutex::new(SmoothedLimit::default()),
            dirtyings: Mutex::new(completions),
            completions: Mutex::new(completions),
        }
    }

    /// Whether the hard limit is reached and every writer is checked.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Notes whether the hard limit is reached.
    pub(crate) fn note_full(&self, is_full: bool) {
        // All writers read it, so it is written only when it changes.
        if self.watches_full && self.is_full() != is_full {
            self.is_full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Dirty pages and pages under writeback.
    pub fn pages(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) + self.writeback.load(Ordering::Relaxed)
    }

    /// Pages that a flusher can work on: dirty, or waiting for a commit.
    pub(crate) fn reclaimable(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) + self.uncommitted.load(Ordering::Relaxed)
    }

    /// The present value of the slowly falling limit.
    pub fn smoothed(&self) -> SmoothedLimit {
        *lock(&self.limit)
    }

    /// Lets the limit follow `thresh` (spec/writeback.md 2.4).
    pub fn advance_limit(&self, thresh: u64, dirty: u64, now_ms: u64) -> SmoothedLimit {
        let mut limit = lock(&self.limit);
        *limit = limit.advanced(thresh, dirty, now_ms);
        *limit
    }

    /// Notes that `pages` of `backing` were written.
    pub(crate) fn complete(&self, backing: &Backing, pages: u64, now_ms: u64) {
        let max_ratio = 1024 * backing.knobs.max_ratio_percent() / 100;
        let mut rates = lock(&backing.rates);
        let mut completions = lock(&self.completions);
        let of_store = &mut rates.completions;
        completions.complete(of_store, pages, max_ratio, now_ms);
    }

    /// Notes that a writer, whose own count is `own`, dirtied `pages`.
    pub fn note_dirtied(&self, own: &Mutex<StoreCompletions>, pages: u64, now_ms: u64) {
        let (mut own, mut all) = (lock(own), lock(&self.dirtyings));
        all.complete(&mut own, pages, 1024, now_ms);
    }

    /// The share of that writer in all that was dirtied lately.
    pub fn dirtied_part(&self, own: &Mutex<StoreCompletions>, now_ms: u64) -> Share {
        let (mut own, mut all) = (lock(own), lock(&self.dirtyings));
        all.share(&mut own, now_ms)
    }

    /// The share of `backing` in all recent writes.
    pub(crate) fn share(&self, backing: &Backing, now_ms: u64) -> Share {
        let mut rates = lock(&backing.rates);
        let mut completions = lock(&self.completions);
        completions.share(&mut rates.completions, now_ms)
    }
}
