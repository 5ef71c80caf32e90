//! Counters with the names of /proc/vmstat, spread over slots so that threads do not contend.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// A cumulative counter, in pages unless its line says otherwise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Counter {
            $($(#[$doc])* $variant,)*
        }

        impl Counter {
            /// Every counter.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant,)*];

            /// Its name in /proc/vmstat, or a similar one if Linux has no such counter.
            pub fn name(self) -> &'static str {
                match self {
                    $(Counter::$variant => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Pages that were asked for and not in memory.
    CacheMiss => "cache_miss",
    /// Pages read from stores.
    Pgpgin => "pgpgin",
    /// Pages written to stores.
    Pgpgout => "pgpgout",
    /// Pages that became dirty.
    NrDirtied => "nr_dirtied",
    /// Pages whose writeback ended.
    NrWritten => "nr_written",
    /// Pages whose writeback ended while a reclaimer waited for writeback.
    NrThrottledWritten => "nr_throttled_written",
    /// Pages that reclaim submitted for writing.
    NrVmscanWrite => "nr_vmscan_write",
    /// File pages among those; always 0 under the default policy (promise 4).
    NrVmscanWriteFile => "nr_vmscan_write_file",
    /// File pages among those that allocating callers submitted.
    NrVmscanWriteFileDirect => "nr_vmscan_write_file_direct",
    /// File pages among those that their file system refused to write for reclaim.
    NrVmscanWriteRefused => "nr_vmscan_write_refused",
    /// Dirty file pages that reclaim met and left, under the policies that count them.
    NrVmscanWriteSkip => "nr_vmscan_write_skip",
    /// Dirty file pages that reclaim marked for reclaim at the end of their writeback.
    NrVmscanImmediateReclaim => "nr_vmscan_immediate_reclaim",
    /// Pages that kswapd took off inactive lists to judge them.
    PgscanKswapd => "pgscan_kswapd",
    /// Pages that allocating callers took off inactive lists to judge them.
    PgscanDirect => "pgscan_direct",
    /// Anonymous pages among both.
    PgscanAnon => "pgscan_anon",
    /// File pages among both.
    PgscanFile => "pgscan_file",
    /// Pages that kswapd freed.
    PgstealKswapd => "pgsteal_kswapd",
    /// Pages that allocating callers freed.
    PgstealDirect => "pgsteal_direct",
    /// Pages taken off active lists to judge them.
    Pgrefill => "pgrefill",
    /// Pages moved to an active list.
    Pgactivate => "pgactivate",
    /// Pages moved from an active to an inactive list.
    Pgdeactivate => "pgdeactivate",
    /// Pages moved to the old end of their list when their writeback ended.
    Pgrotated => "pgrotated",
    /// Direct reclaims entered.
    Allocstall => "allocstall",
    /// Callers that waited at the gate for kswapd before they reclaimed.
    PgscanDirectThrottle => "pgscan_direct_throttle",
    /// Runs of kswapd's balance loop.
    Pageoutrun => "pageoutrun",
    /// Naps of kswapd that a wake-up cut short.
    KswapdLowWmarkHitQuickly => "kswapd_low_wmark_hit_quickly",
    /// Naps of kswapd after which a zone was below its high mark again.
    KswapdHighWmarkHitQuickly => "kswapd_high_wmark_hit_quickly",
    /// Naps that kswapd skipped because a zone was below its min mark (Linux 3.0).
    KswapdSkipCongestionWait => "kswapd_skip_congestion_wait",
    /// Allocations for writing that found every zone over its dirty limit.
    AllocDirtyFallback => "alloc_dirty_fallback",
    /// Frames taken for pages.
    Pgalloc => "pgalloc",
    /// Frames given back.
    Pgfree => "pgfree",
    /// Frames given up for a smaller budget.
    BalloonInflate => "balloon_inflate",
    /// Frames taken back for a larger one.
    BalloonDeflate => "balloon_deflate",
    /// Looks at the memory of the machine (events).
    MemoryLooks => "memory_looks",
    /// Looks that found pressure (events).
    MemoryPressure => "memory_pressure",
    /// Pages by which the budget fell because little memory was left.
    MemoryGivenRoom => "memory_given_room",
    /// Pages by which the budget fell because programs waited for memory.
    MemoryGivenPressure => "memory_given_pressure",
    /// Pages by which the budget rose again.
    MemoryTaken => "memory_taken",
    /// Objects that caches beside the pages were asked for.
    SlabsScanned => "slabs_scanned",
    /// Caches of the program that panicked when reclaim asked them, and are asked no more.
    ShrinkerPanics => "shrinker_panics",
    /// Pages of closed files that allocating callers dropped with the file.
    Pginodesteal => "pginodesteal",
    /// Pages of closed files that kswapd dropped with the file.
    KswapdInodesteal => "kswapd_inodesteal",
    /// Pages read back that had been evicted, file.
    WorkingsetRefaultFile => "workingset_refault_file",
    /// Pages read back that had been evicted, anonymous.
    WorkingsetRefaultAnon => "workingset_refault_anon",
    /// Refaults close enough to be activated at once, file.
    WorkingsetActivateFile => "workingset_activate_file",
    /// Refaults close enough to be activated at once, anonymous.
    WorkingsetActivateAnon => "workingset_activate_anon",
    /// Refaults of pages that had been active, file.
    WorkingsetRestoreFile => "workingset_restore_file",
    /// Refaults of pages that had been active, anonymous.
    WorkingsetRestoreAnon => "workingset_restore_anon",
    /// Anonymous pages read from swap.
    Pswpin => "pswpin",
    /// Anonymous pages written to swap.
    Pswpout => "pswpout",
    /// Pages whose write the store refused.
    NrWriteFailed => "nr_write_failed",
    /// Writers' pauses (events).
    BalancePauses => "balance_dirty_pauses",
    /// Time that writers paused (microseconds).
    BalancePausedUs => "balance_dirty_paused_us",
    /// Time that calls waited for the pause of another call of the same writer (microseconds).
    BalanceAlongUs => "balance_dirty_along_us",
    /// Pages that throttled writers wrote themselves, under the policies that let them.
    BalanceForegroundWrites => "balance_dirty_foreground_writes",
    /// Waits for congestion to end, up to a time-out (events).
    CongestionWaits => "congestion_wait",
    /// Time that they took (microseconds).
    CongestionWaitedUs => "congestion_wait_us",
    /// Waits for congestion that were skipped because there was none (events).
    WaitIffCongested => "wait_iff_congested",
    /// Time that they took (microseconds).
    WaitIffCongestedUs => "wait_iff_congested_us",
    /// Waits of reclaimers for writeback (events).
    ThrottledWriteback => "reclaim_throttled_writeback",
    /// Waits of reclaimers for isolated pages (events).
    ThrottledIsolated => "reclaim_throttled_isolated",
    /// Waits of reclaimers for progress (events).
    ThrottledNoProgress => "reclaim_throttled_noprogress",
    /// Waits of reclaimers because of congestion (events).
    ThrottledCongested => "reclaim_throttled_congested",
    /// Time that reclaimers waited for any of these reasons (microseconds).
    ThrottledUs => "reclaim_throttled_us",
    /// Time that callers took to get a frame, with the reclaim that they did for it (microseconds).
    AllocstallUs => "allocstall_us",
    /// Time that syncs waited for writes and commits (microseconds).
    SyncWaitedUs => "sync_waited_us",
    /// Waits that lasted longer than their bound and were reported (events).
    WaitsOverdue => "waits_overdue",
}

const SLOTS: usize = 8;
const COUNT: usize = Counter::ALL.len();

/// One slot fills whole cache lines, so that two threads never share one.
#[repr(align(128))]
#[derive(Debug)]
struct SlotOfCounters([AtomicU64; COUNT]);

#[derive(Debug)]
pub(crate) struct Counters {
    slots: Box<[SlotOfCounters]>,
}

/// Hidden from the schedule explorer: it deals out slots, which are right in any order.
static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SLOT: Cell<usize> = Cell::new(NEXT_SLOT.fetch_add(1, Ordering::Relaxed) % SLOTS);
}

impl Counters {
    pub(crate) fn new() -> Counters {
        let slot = || SlotOfCounters(std::array::from_fn(|_| AtomicU64::new(0)));
        Counters {
            slots: (0..SLOTS).map(|_| slot()).collect(),
        }
    }

    pub(crate) fn add(&self, counter: Counter, count: u64) {
        if count > 0 {
            let slot = SLOT.with(Cell::get);
            self.slots[slot].0[counter as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, counter: Counter) -> u64 {
        let values = self
            .slots
            .iter()
            .map(|slot| slot.0[counter as usize].load(Ordering::Relaxed));
        values.fold(0, u64::wrapping_add)
    }
}

/// Bytes of all counters of one cache.
pub(crate) const BYTES: usize = SLOTS * size_of::<SlotOfCounters>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_threads_added_is_summed() {
        let counters = std::sync::Arc::new(Counters::new());
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let counters = counters.clone();
                forebay_rt::thread::spawn("count", move || {
                    (0..1_000).for_each(|_| counters.add(Counter::Pgpgin, 2));
                })
                .expect("a thread starts")
            })
            .collect();
        threads
            .into_iter()
            .for_each(forebay_rt::thread::Joiner::join);
        assert_eq!(counters.get(Counter::Pgpgin), 8_000);
        assert_eq!(counters.get(Counter::Pgpgout), 0);
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), COUNT);
    }
}
