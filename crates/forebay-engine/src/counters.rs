//! Counters with the names of /proc/vmstat, spread over slots so that threads do not contend.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Pages.
    Pages,
    /// Things that happened, or other things that are counted one by one.
    Events,
    /// Microseconds; the name of the counter ends with `_us`.
    Microseconds,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident => $name:literal, $unit:ident;)*) => {
        /// A cumulative counter.
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

            /// What it counts.
            pub fn unit(self) -> Unit {
                match self {
                    $(Counter::$variant => Unit::$unit,)*
                }
            }
        }
    };
}

counters! {
    /// Pages that were asked for and not in memory.
    CacheMiss => "cache_miss", Pages;
    /// Pages read from stores.
    Pgpgin => "pgpgin", Pages;
    /// Pages written to stores.
    Pgpgout => "pgpgout", Pages;
    /// Pages that became dirty.
    NrDirtied => "nr_dirtied", Pages;
    /// Pages whose writeback ended.
    NrWritten => "nr_written", Pages;
    /// Pages whose writeback ended while a reclaimer waited for writeback.
    NrThrottledWritten => "nr_throttled_written", Pages;
    /// Pages that reclaim submitted for writing.
    NrVmscanWrite => "nr_vmscan_write", Pages;
    /// File pages among those; only older kernels write them (promise 4).
    NrVmscanWriteFile => "nr_vmscan_write_file", Pages;
    /// File pages among those that allocating callers submitted.
    NrVmscanWriteFileDirect => "nr_vmscan_write_file_direct", Pages;
    /// File pages among those that their file system refused to write for reclaim.
    NrVmscanWriteRefused => "nr_vmscan_write_refused", Pages;
    /// Dirty file pages that reclaim met and left, under the policies that count them.
    NrVmscanWriteSkip => "nr_vmscan_write_skip", Pages;
    /// Dirty file pages that reclaim marked for reclaim at the end of their writeback.
    NrVmscanImmediateReclaim => "nr_vmscan_immediate_reclaim", Pages;
    /// Pages that kswapd took off inactive lists to judge them.
    PgscanKswapd => "pgscan_kswapd", Pages;
    /// Pages that allocating callers took off inactive lists to judge them.
    PgscanDirect => "pgscan_direct", Pages;
    /// Anonymous pages among both.
    PgscanAnon => "pgscan_anon", Pages;
    /// File pages among both.
    PgscanFile => "pgscan_file", Pages;
    /// Pages that kswapd freed.
    PgstealKswapd => "pgsteal_kswapd", Pages;
    /// Pages that allocating callers freed.
    PgstealDirect => "pgsteal_direct", Pages;
    /// Pages taken off active lists to judge them.
    Pgrefill => "pgrefill", Pages;
    /// Pages moved to an active list.
    Pgactivate => "pgactivate", Pages;
    /// Pages moved from an active to an inactive list.
    Pgdeactivate => "pgdeactivate", Pages;
    /// Pages moved to the old end of their list when their writeback ended.
    Pgrotated => "pgrotated", Pages;
    /// Direct reclaims entered.
    Allocstall => "allocstall", Events;
    /// Callers that waited at the gate for kswapd before they reclaimed.
    PgscanDirectThrottle => "pgscan_direct_throttle", Events;
    /// Runs of kswapd's balance loop.
    Pageoutrun => "pageoutrun", Events;
    /// Naps of kswapd that a wake-up cut short.
    KswapdLowWmarkHitQuickly => "kswapd_low_wmark_hit_quickly", Events;
    /// Naps of kswapd after which a zone was below its high mark again.
    KswapdHighWmarkHitQuickly => "kswapd_high_wmark_hit_quickly", Events;
    /// Naps that kswapd skipped because a zone was below its min mark (Linux 3.0).
    KswapdSkipCongestionWait => "kswapd_skip_congestion_wait", Events;
    /// Allocations for writing that found every zone over its dirty limit.
    AllocDirtyFallback => "alloc_dirty_fallback", Events;
    /// Frames taken for pages.
    Pgalloc => "pgalloc", Pages;
    /// Frames given back.
    Pgfree => "pgfree", Pages;
    /// Frames given up for a smaller budget.
    BalloonInflate => "balloon_inflate", Pages;
    /// Frames taken back for a larger one.
    BalloonDeflate => "balloon_deflate", Pages;
    /// Looks at the memory of the machine.
    MemoryLooks => "memory_looks", Events;
    /// Looks that found pressure.
    MemoryPressure => "memory_pressure", Events;
    /// Pages by which the budget fell because little memory was left.
    MemoryGivenRoom => "memory_given_room", Pages;
    /// Pages by which the budget fell because programs waited for memory.
    MemoryGivenPressure => "memory_given_pressure", Pages;
    /// Pages by which the budget rose again.
    MemoryTaken => "memory_taken", Pages;
    /// Objects that caches of the program were asked for.
    SlabsScanned => "slabs_scanned", Events;
    /// Caches of the program that panicked when reclaim asked them, and are asked no more.
    ShrinkerPanics => "shrinker_panics", Events;
    /// Pages of closed files that allocating callers dropped with the file.
    Pginodesteal => "pginodesteal", Pages;
    /// Pages of closed files that kswapd dropped with the file.
    KswapdInodesteal => "kswapd_inodesteal", Pages;
    /// Pages read back that had been evicted, file.
    WorkingsetRefaultFile => "workingset_refault_file", Pages;
    /// Pages read back that had been evicted, anonymous.
    WorkingsetRefaultAnon => "workingset_refault_anon", Pages;
    /// Refaults close enough to be activated at once, file.
    WorkingsetActivateFile => "workingset_activate_file", Pages;
    /// Refaults close enough to be activated at once, anonymous.
    WorkingsetActivateAnon => "workingset_activate_anon", Pages;
    /// Refaults of pages that had been active, file.
    WorkingsetRestoreFile => "workingset_restore_file", Pages;
    /// Refaults of pages that had been active, anonymous.
    WorkingsetRestoreAnon => "workingset_restore_anon", Pages;
    /// Anonymous pages read from swap.
    Pswpin => "pswpin", Pages;
    /// Anonymous pages written to swap.
    Pswpout => "pswpout", Pages;
    /// Pages whose read the store refused.
    NrReadFailed => "nr_read_failed", Pages;
    /// Pages whose write the store refused.
    NrWriteFailed => "nr_write_failed", Pages;
    /// Writers' pauses.
    BalancePauses => "balance_dirty_pauses", Events;
    /// Time that writers paused.
    BalancePausedUs => "balance_dirty_paused_us", Microseconds;
    /// Time that calls waited for the pause of another call of the same writer.
    BalanceAlongUs => "balance_dirty_along_us", Microseconds;
    /// Pages that throttled writers wrote themselves, under the policies that let them.
    BalanceForegroundWrites => "balance_dirty_foreground_writes", Pages;
    /// Waits for congestion to end, up to a time-out.
    CongestionWaits => "congestion_wait", Events;
    /// Time that they took.
    CongestionWaitedUs => "congestion_wait_us", Microseconds;
    /// Waits for congestion that were skipped because there was none.
    WaitIffCongested => "wait_iff_congested", Events;
    /// Time that they took.
    WaitIffCongestedUs => "wait_iff_congested_us", Microseconds;
    /// Waits of reclaimers for writeback.
    ThrottledWriteback => "reclaim_throttled_writeback", Events;
    /// Waits of reclaimers for isolated pages.
    ThrottledIsolated => "reclaim_throttled_isolated", Events;
    /// Waits of reclaimers for progress.
    ThrottledNoProgress => "reclaim_throttled_noprogress", Events;
    /// Waits of reclaimers because of congestion.
    ThrottledCongested => "reclaim_throttled_congested", Events;
    /// Time that reclaimers waited for any of these reasons.
    ThrottledUs => "reclaim_throttled_us", Microseconds;
    /// Time that callers took to get a frame, with the reclaim that they did for it.
    AllocstallUs => "allocstall_us", Microseconds;
    /// Time that syncs waited for writes and commits.
    SyncWaitedUs => "sync_waited_us", Microseconds;
    /// Tasks of the cache that ended unexpectedly.
    TaskEnds => "task_ends", Events;
    /// Reads of callers that ended in an error.
    ReadErrors => "read_errors", Events;
    /// Writes of callers that ended in an error.
    WriteErrors => "write_errors", Events;
    /// Syncs of callers that ended in an error.
    SyncErrors => "sync_errors", Events;
    /// Other calls of callers that ended in an error: cuts, discards, pages that they asked to hold
    ///.
    OtherErrors => "other_errors", Events;
    /// Waits of callers that went on for longer than five seconds, counted while they go on, and
    /// waits of all kinds that came to their bound.
    WaitsOverdue => "waits_overdue", Events;
}

/// As many as a small cache has room for beside its ledger.
const SLOTS: usize = 6;
const COUNT: usize = Counter::ALL.len();

/// One slot fills whole cache lines, so that two threads never share one.
#[repr(align(128))]
#[derive(Debug)]
struct SlotOfCounters([AtomicU64; COUNT]);

#[derive(Debug)]
pub struct Counters {
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

    pub fn get(&self, counter: Counter) -> u64 {
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
    fn counters_of_time_say_so_in_their_names() {
        for counter in Counter::ALL {
            let is_time = counter.unit() == Unit::Microseconds;
            assert_eq!(counter.name().ends_with("_us"), is_time, "{counter:?}");
        }
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), COUNT);
    }
}
