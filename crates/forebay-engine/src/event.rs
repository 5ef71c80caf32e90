//! Trace events by the names and fields of the kernel's tracepoints (spec/writeback.md 12,
//! spec/reclaim.md 8.3), and where they go.

use crate::caller::CallerKey;
use crate::elastic::MemoryStep;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_law::blame::Cause;
pub use forebay_law::decision::PauseLimit;
use forebay_law::pause::{DirtierClock, PauseSizing, Tick};
use forebay_law::position::PositionInputs;
use forebay_law::rate::RateInputs;
use forebay_law::throttle::ThrottleReason;
use std::collections::VecDeque;

/// A decision to let a writer pause, with every input of the laws that made it:
/// [`Event::BalanceDirtyPages`] can be recomputed with `forebay-law` alone, as
/// [`PauseRecord::recomputed`] does. The exception is a pause whose limit is
/// [`PauseLimit::Unmeasured`]: it ended when a write did, and says how long that took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseRecord {
    /// Which limit.
    pub limit: PauseLimit,
    /// Inputs of the position law.
    pub position: PositionInputs,
    /// The setpoint, in pages.
    pub setpoint: u64,
    /// The position ratio, 1024 for 1.
    pub pos_ratio: u64,
    /// Base rate of the store for one writer, pages/s.
    pub dirty_ratelimit: u64,
    /// That rate times the position ratio, pages/s.
    pub task_ratelimit: u64,
    /// Pages that the writer dirtied since its last evaluation.
    pub dirtied: u64,
    /// The writer's clock before the decision.
    pub clock: DirtierClock,
    /// The bounds that the pause law set.
    pub sizing: PauseSizing,
    /// Whether the pause has a fine clock. Kernels of the past count ticks of some milliseconds.
    pub is_paced: bool,
    /// The tick in which the pause was counted.
    pub tick: Tick,
    /// Virtual time up to which the writer had paid before, if it is paced.
    pub paused_when_us: Option<u64>,
    /// Time of the decision.
    pub now_us: u64,
    /// Length of the pause.
    pub pause_us: u64,
}

/// What a call was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A guard on a page.
    Page,
    /// A sync; its bytes are those that were dirty before it.
    Sync,
    /// A cut, or a longer object.
    Truncate,
    /// A discard, or an object that was given up.
    Discard,
    /// Advice.
    Advise,
    /// Another budget; its bytes are the budget.
    Memory,
}

impl CallKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [CallKind; 8] = [
        CallKind::Read,
        CallKind::Write,
        CallKind::Page,
        CallKind::Sync,
        CallKind::Truncate,
        CallKind::Discard,
        CallKind::Advise,
        CallKind::Memory,
    ];

    /// Its name for people and for programs.
    pub fn name(self) -> &'static str {
        match self {
            CallKind::Read => "read",
            CallKind::Write => "write",
            CallKind::Page => "page",
            CallKind::Sync => "sync",
            CallKind::Truncate => "truncate",
            CallKind::Discard => "discard",
            CallKind::Advise => "advise",
            CallKind::Memory => "memory",
        }
    }
}

/// The record of a call names at most this many causes: those for which it waited longest.
const CAUSES_KEPT: usize = 6;

/// How long a call waited for each cause, the longest first. A call that waited for more causes
/// than the record has room for has the sum of the others as [`CauseTimes::rest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseTimes {
    longest: [Option<(Cause, u32)>; CAUSES_KEPT],
    rest_us: u32,
}

impl CauseTimes {
    /// The longest of the times that `us` gives, and the sum of the others.
    pub(crate) fn of(us: impl Fn(Cause) -> u64) -> CauseTimes {
        let mut times = Cause::ALL.map(|cause| (cause, us(cause)));
        // Of equal times the first stays first.
        times.sort_by_key(|&(_, us)| std::cmp::Reverse(us));
        let (longest, others) = times.split_at(CAUSES_KEPT);
        let bounded = |us: u64| u32::try_from(us).unwrap_or(u32::MAX);
        let kept = |at: usize| Some(longest[at]).filter(|&(_, us)| us > 0);
        CauseTimes {
            longest: std::array::from_fn(|at| kept(at).map(|(cause, us)| (cause, bounded(us)))),
            rest_us: bounded(others.iter().map(|&(_, us)| us).sum()),
        }
    }

    /// Each cause and how long it was waited for.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, Span)> + '_ {
        let known = self.longest.iter().flatten();
        known.map(|&(cause, us)| (cause, Span::from_micros(u64::from(us))))
    }

    /// How long the call waited for causes that [`CauseTimes::iter`] leaves out.
    pub fn rest(&self) -> Span {
        Span::from_micros(u64::from(self.rest_us))
    }
}

/// The last decision that made a call pause: the part of its [`PauseRecord`] that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseView {
    /// Which limit.
    pub limit: PauseLimit,
    /// Dirty pages and pages under writeback.
    pub dirty: u64,
    /// The level at which the laws hold them.
    pub setpoint: u64,
    /// The level at which writers stop.
    pub hard_limit: u64,
    /// The position ratio, 1024 for 1.
    pub pos_ratio: u64,
    /// The rate that the writer was allowed, pages/s; 0: nothing, or not known.
    pub task_ratelimit: u64,
    /// Pages that it had dirtied since its last evaluation.
    pub dirtied: u64,
    /// Estimate of its part of the dirty pages.
    pub own_dirty: u64,
    /// The other caller that had dirtied most lately.
    pub heaviest_other: Option<CallerKey>,
}

/// The record of a call that waited, made at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitedCall {
    /// The caller.
    pub caller: CallerKey,
    /// Number of the store, if the call was about one.
    pub bdi: Option<usize>,
    /// What the call did.
    pub kind: CallKind,
    /// The first byte that it was about.
    pub offset_bytes: u64,
    /// How many bytes it was about.
    pub bytes: u64,
    /// When it first waited.
    pub began: Instant,
    /// How long it took from then on, with all that it did between its waits.
    pub took: Span,
    /// What it waited for.
    pub causes: CauseTimes,
    /// The last decision that made it pause, if there was one.
    pub pause: Option<PauseView>,
}

/// Pages of a zone, or of all zones, at the time of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageLevels {
    /// Free frames.
    pub free: u64,
    /// Inactive file pages.
    pub inactive_file: u64,
    /// Active file pages.
    pub active_file: u64,
    /// File pages that reclaimers have taken off the lists.
    pub isolated_file: u64,
    /// Dirty file pages.
    pub dirty: u64,
    /// Pages under writeback or unstable.
    pub writeback: u64,
}

impl PageLevels {
    pub(crate) fn add(&mut self, other: PageLevels) {
        self.free += other.free;
        self.inactive_file += other.inactive_file;
        self.active_file += other.active_file;
        self.isolated_file += other.isolated_file;
        self.dirty += other.dirty;
        self.writeback += other.writeback;
    }
}

/// Something that happened, with the fields of the kernel's tracepoint of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A writer pauses.
    BalanceDirtyPages {
        /// Number of the store.
        bdi: usize,
        /// The writer.
        caller: CallerKey,
        /// Why and how long.
        record: PauseRecord,
    },
    /// A writer that is throttled by having to write itself takes a nap.
    BalanceForeground {
        /// Number of the store.
        bdi: usize,
        /// The writer.
        caller: CallerKey,
        /// Pages that it wrote since it was stopped.
        pages_written: u64,
        /// Length of the nap, us.
        nap_us: u64,
    },
    /// A store's base rate was estimated anew.
    BdiDirtyRatelimit {
        /// Number of the store.
        bdi: usize,
        /// Measured write bandwidth, pages/s.
        write_bw: u64,
        /// The same, averaged.
        avg_write_bw: u64,
        /// Inputs of the rate law.
        inputs: RateInputs,
        /// The new base rate, pages/s.
        dirty_ratelimit: u64,
    },
    /// The dirty pages of the whole cache against their limits.
    GlobalDirtyState {
        /// Dirty pages.
        nr_dirty: u64,
        /// Pages under writeback.
        nr_writeback: u64,
        /// Background threshold.
        background_thresh: u64,
        /// Dirty threshold.
        dirty_thresh: u64,
        /// Hard limit.
        dirty_limit: u64,
    },
    /// The flusher starts a piece of work.
    WritebackStart {
        /// Number of the store.
        bdi: usize,
        /// Why.
        reason: WritebackReason,
    },
    /// The flusher ended a piece of work.
    WritebackWritten {
        /// Number of the store.
        bdi: usize,
        /// Why it was begun.
        reason: WritebackReason,
        /// Pages submitted.
        pages: u64,
    },
    /// kswapd goes to sleep until it is woken.
    MmVmscanKswapdSleep {
        /// Node.
        nid: usize,
    },
    /// kswapd starts to balance.
    MmVmscanKswapdWake {
        /// Node.
        nid: usize,
        /// Highest zone class that it balances for.
        highest_zoneidx: usize,
    },
    /// An allocating caller starts to reclaim.
    MmVmscanDirectReclaimBegin {
        /// Node.
        nid: usize,
    },
    /// It ends.
    MmVmscanDirectReclaimEnd {
        /// Pages freed.
        nr_reclaimed: u64,
    },
    /// A batch of an inactive list was judged.
    MmVmscanLruShrinkInactive {
        /// Node.
        nid: usize,
        /// Pages judged.
        nr_scanned: u64,
        /// Pages freed.
        nr_reclaimed: u64,
        /// Dirty ones.
        nr_dirty: u64,
        /// Ones under writeback.
        nr_writeback: u64,
        /// Ones under writeback and met again.
        nr_immediate: u64,
        /// Ones activated.
        nr_activate: u64,
        /// Scan priority.
        priority: u32,
        /// File pages, or anonymous.
        is_file: bool,
    },
    /// A batch of an active list was judged.
    MmVmscanLruShrinkActive {
        /// Node.
        nid: usize,
        /// Pages judged.
        nr_taken: u64,
        /// Pages deactivated.
        nr_deactivated: u64,
        /// Scan priority.
        priority: u32,
    },
    /// A reclaimer waited for an event.
    MmVmscanThrottled {
        /// Node.
        nid: usize,
        /// Longest that it would have waited, us.
        usec_timeout: u64,
        /// How long it waited, us.
        usec_delayed: u64,
        /// For what.
        reason: ThrottleReason,
        /// Who waited: kswapd, or a caller.
        is_kswapd: bool,
    },
    /// Somebody waited until no store is congested, or for a time (before 5.16).
    WritebackCongestionWait {
        /// Longest that it would have waited, us.
        usec_timeout: u64,
        /// How long it waited, us.
        usec_delayed: u64,
        /// Who waited: kswapd, or a caller.
        is_kswapd: bool,
    },
    /// The same, but not at all where nothing is congested (before 5.16).
    WritebackWaitIffCongested {
        /// Longest that it would have waited, us.
        usec_timeout: u64,
        /// How long it waited, us.
        usec_delayed: u64,
        /// Who waited: kswapd, or a caller.
        is_kswapd: bool,
    },
    /// Reclaim submitted a page for writing.
    MmVmscanWriteFolio {
        /// Node.
        nid: usize,
        /// Number of the zone among all zones.
        zone: usize,
        /// A file page, or anonymous.
        is_file: bool,
        /// Who wrote: kswapd, or a caller.
        is_kswapd: bool,
        /// The zone at that time.
        levels: PageLevels,
        /// All zones together.
        levels_of_all: PageLevels,
    },
    /// A write failed; its pages are dirty again and kept.
    WritebackFailed {
        /// Number of the store.
        bdi: usize,
        /// The store's number of the object.
        ino: u64,
        /// Pages of the request.
        pages: u64,
        /// The failure as an `errno` value.
        errno: i32,
    },
    /// The budget follows the memory of the machine ([`Settings::elastic`]).
    ///
    /// [`Settings::elastic`]: crate::Settings::elastic
    MemoryTarget {
        /// The step.
        step: MemoryStep,
    },
    /// A call that waited at all has ended, or was dropped.
    CallWaited {
        /// Its record.
        call: WaitedCall,
    },
    /// A wait lasted longer than its bound.
    WaitOverdue {
        /// What was waited for.
        what: &'static str,
        /// The bound.
        bound: Span,
    },
}

/// Why the flusher writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WritebackReason {
    /// Too much is dirty.
    Background,
    /// Something has been dirty for too long.
    Periodic,
    /// Somebody asked for durability.
    Sync,
    /// A reclaimer met only dirty pages.
    Vmscan,
    /// A writer that is throttled writes itself.
    Foreground,
}

/// Takes events. It is called from hot paths and must be quick; it must not call the cache. One
/// that panics is not called again, and the cache goes on without it.
pub trait EventSink: Send + Sync {
    /// One event, at the time `at`.
    fn record(&self, at: Instant, event: &Event);
}

/// A sink that keeps the latest events.
///
/// ```
/// # use forebay_engine as forebay;
/// use forebay::event::{Event, EventRing, EventSink};
/// let ring = EventRing::new(2);
/// for nid in 0..3 {
///     ring.record(forebay_base::Instant::ZERO, &Event::MmVmscanKswapdSleep { nid });
/// }
/// assert_eq!(ring.latest().len(), 2);
/// ```
#[derive(Debug)]
pub struct EventRing {
    events: Mutex<VecDeque<(Instant, Event)>>,
    capacity: usize,
}

impl EventRing {
    /// A ring of `capacity` events.
    pub fn new(capacity: usize) -> EventRing {
        EventRing {
            events: Mutex::new(VecDeque::with_capacity(capacity)),
            capacity,
        }
    }

    /// The events kept, oldest first.
    pub fn latest(&self) -> Vec<(Instant, Event)> {
        lock(&self.events).iter().copied().collect()
    }
}

impl EventSink for EventRing {
    fn record(&self, at: Instant, event: &Event) {
        let mut events = lock(&self.events);
        if events.len() == self.capacity {
            events.pop_front();
        }
        if self.capacity > 0 {
            events.push_back((at, *event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_many_causes_names_the_longest_and_sums_up_the_others() {
        let us = |cause: Cause| match cause as u64 {
            number if number < 8 => 100 + number,
            _ => 0,
        };
        let times = CauseTimes::of(us);
        let kept: Vec<u64> = times.iter().map(|(_, span)| span.as_micros()).collect();
        assert_eq!(kept, [107, 106, 105, 104, 103, 102]);
        assert_eq!(times.rest(), Span::from_micros(100 + 101));
    }

    #[test]
    fn a_call_with_few_causes_has_no_rest() {
        let times = CauseTimes::of(|cause| u64::from(cause == Cause::StoreRead) * 7);
        let kept: Vec<(Cause, Span)> = times.iter().collect();
        assert_eq!(kept, [(Cause::StoreRead, Span::from_micros(7))]);
        assert_eq!(times.rest(), Span::ZERO);
    }
}
