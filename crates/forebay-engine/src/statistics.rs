//! The statistics of a cache: counters with the names of /proc/vmstat, gauges, limits, costs.

use crate::counters::Counter;
use crate::elastic::MemoryStep;
use crate::engine::Engine;
use crate::histogram::{Histograms, RequestTimes};
use crate::lists::List;
use crate::settings::PageMemory;
use crate::state::zone::Zone;
use crate::trouble::{KINDS, Refused, Trouble};
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::{PAGE_BYTES, Span};
use forebay_law::limits::DirtyLimits;
use std::collections::BTreeMap;

/// One zone at one instant, in pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneStatistics {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: usize,
    /// Its frames.
    pub managed: u64,
    /// Free frames.
    pub free: u64,
    /// Watermarks.
    pub min: u64,
    /// See `min`.
    pub low: u64,
    /// See `min`.
    pub high: u64,
    /// LRU lists.
    pub inactive_anon: u64,
    /// See `inactive_anon`.
    pub active_anon: u64,
    /// See `inactive_anon`.
    pub inactive_file: u64,
    /// See `inactive_anon`.
    pub active_file: u64,
    /// Pages that reclaimers have taken off the lists, anonymous.
    pub isolated_anon: u64,
    /// See `isolated_anon`.
    pub isolated_file: u64,
    /// Frames that requests of each class must leave.
    pub lowmem_reserve: Vec<u64>,
    /// Its part of the dirty limit, pages.
    pub dirty_limit: u64,
    /// Its memory that may be dirtied, pages.
    pub dirtyable: u64,
    /// Dirty file pages.
    pub dirty: u64,
    /// Pages under writeback or unstable.
    pub writeback: u64,
}

/// The promise of [`crate::settings::BackingSettings::drain`] at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainStatistics {
    /// What is dirty has to be written within this time.
    pub promise: Span,
    /// Pages that may be dirty for that.
    pub limit: u64,
    /// How long it would take now, at the rate that the store has.
    pub takes: Span,
    /// What the promise takes of the store's rate, percent; it is looked for about twice a minute
    /// while the promise holds writers.
    pub cost_percent: u64,
    /// Whether that is known to be a fifth of the rate or more.
    pub is_costly: bool,
    /// The other limits allow less, so that the promise changes nothing.
    pub is_idle: bool,
    /// How often more was dirty than a tenth above what can be written in that time, as seen every
    /// 200 ms at most while the store is written to.
    pub overshoots: u64,
}

/// The limit of [`crate::Settings::at_risk`], for one store at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtRiskStatistics {
    /// No byte may be older and not durable.
    pub limit: Span,
    /// The age of the oldest byte that is not durable; zero if all are.
    pub oldest: Span,
    /// How often bytes became older: once for each time in which the oldest one was.
    pub overshoots: u64,
}

/// One store at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingStatistics {
    /// Dirty pages (BdiReclaimable).
    pub reclaimable: u64,
    /// Pages under writeback (BdiWriteback).
    pub writeback: u64,
    /// Pages dirtied so far.
    pub dirtied: u64,
    /// Pages that it took so far; those that it refused do not count.
    pub written: u64,
    /// Its part of the dirty threshold (BdiDirtyThresh), pages.
    pub dirty_thresh: u64,
    /// Measured write bandwidth, pages/s.
    pub write_bandwidth: u64,
    /// Base rate of one writer, pages/s.
    pub dirty_ratelimit: u64,
    /// Write requests that the store has now.
    pub writes_in_flight: u32,
    /// Time in which at least one of its writers was paused (microseconds).
    pub throttled_us: u64,
    /// The part of it in which there were pages to write in the background and the store had no
    /// request to work on (microseconds): next to nothing while the flusher keeps the store busy.
    pub idle_while_throttled_us: u64,
    /// Its promise in seconds, if it has one.
    pub drain: Option<DrainStatistics>,
    /// The age of its oldest dirty page, or of one under writeback: since it was written to first.
    /// To find it all dirty pages are looked through, so without a limit on their age only
    /// [`Cache::statistics_with_ages`](crate::Cache::statistics_with_ages) does.
    pub oldest_dirty: Option<Span>,
    /// How old its bytes may be that are not durable, if there is a limit.
    pub at_risk: Option<AtRiskStatistics>,
    /// Whether its write bandwidth is measured, and not a first guess.
    pub is_measured: bool,
    /// For how long it has had requests and has answered none of them (microseconds); 0 while it
    /// has none. Reads count apart from writes and commits: it is the longer time of the two.
    pub silent_us: u64,
    /// How often it answered nothing for five seconds or longer and then did.
    pub silences: u64,
    /// How long the last of these times was (microseconds).
    pub last_silence_us: u64,
    /// The requests that it refused since the start.
    pub refused: Refused,
    /// The latest trouble of each kind of requests, also if it is over.
    pub troubles: [Option<Trouble>; KINDS.len()],
    /// Pages that it refused and that are kept in memory.
    pub failed_pages: u64,
}

/// A budget that follows the memory of the machine ([`crate::Settings::elastic`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElasticStatistics {
    /// The least budget, bytes.
    pub floor_bytes: u64,
    /// The largest budget, bytes.
    pub ceiling_bytes: u64,
    /// The budget now, bytes; what the cache has beyond it is [`Statistics::pages_over`].
    pub target_bytes: u64,
    /// What was left for others at the last look, bytes.
    pub headroom_bytes: u64,
    /// How often the budget fell after it had risen, or rose after it had fallen.
    pub turns: u64,
    /// The last change, and how long ago it was.
    pub last: Option<(Span, MemoryStep)>,
}

/// A cache at one instant. Gauges are read one after the other and may differ by what happened in
/// between.
///
/// ```
/// # use forebay_engine as forebay;
/// use forebay::{Cache, Counter, Settings};
/// let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// let statistics = cache.statistics();
/// assert_eq!(statistics.get(Counter::Pgpgin), 0);
/// assert!(statistics.overhead_bytes_per_page <= 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The counters.
    pub counters: BTreeMap<Counter, u64>,
    /// Dirty file pages (nr_dirty).
    pub nr_dirty: u64,
    /// Pages under writeback or unstable (nr_writeback).
    pub nr_writeback: u64,
    /// The dirty threshold, pages.
    pub nr_dirty_threshold: u64,
    /// The background threshold, pages.
    pub nr_dirty_background_threshold: u64,
    /// The level at which the laws hold dirty pages and pages under writeback together.
    pub dirty_setpoint: u64,
    /// The hard limit.
    pub dirty_limit: u64,
    /// Zones.
    pub zones: Vec<ZoneStatistics>,
    /// Stores, in the order in which they were attached.
    pub backings: Vec<BackingStatistics>,
    /// Frames that the cache has.
    pub frames: u64,
    /// Frames that were given up for a smaller budget ([`crate::Cache::set_memory`]).
    pub nr_balloon_pages: u64,
    /// Frames that are still to be given up for it.
    pub pages_over: u64,
    /// The budget and what it follows, if it is elastic.
    pub elastic: Option<ElasticStatistics>,
    /// All memory that the cache has, bytes: what was taken at start, less what was given up, and
    /// what objects take. Objects may put it over the budget by a 256th of that, and by more if
    /// zones say how many frames they have, if the budget was made smaller under open objects, or
    /// if closed files cannot be forgotten before they are durable. Beyond half of the budget no
    /// further object is opened.
    pub memory_bytes: u64,
    /// The part of it that objects take beside their pages, bytes: open objects, and closed files
    /// of which something is remembered.
    pub object_bytes: u64,
    /// What each page taken at start costs beside its own bytes, rounded up.
    pub overhead_bytes_per_page: u64,
    /// About how many shadows of evicted pages are kept now.
    pub shadows: u64,
    /// Slots of the swap store in use.
    pub swap_slots_used: u64,
    /// Read requests that stores have now.
    pub reads_in_flight: u64,
}

impl Statistics {
    /// The value of one counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters.get(&counter).copied().unwrap_or(0)
    }

    /// Dirty pages and pages under writeback: the sum to which the limits apply.
    pub fn dirty(&self) -> u64 {
        self.nr_dirty + self.nr_writeback
    }

    /// Free frames.
    pub fn free(&self) -> u64 {
        self.zones.iter().map(|zone| zone.free).sum()
    }
}

impl Engine {
    pub(crate) fn statistics(&self, with_ages: bool) -> Statistics {
        self.accounts.note_overdue();
        let limits = self.dirty.dirty_limits();
        let (dirty_setpoint, dirty_limit) = self.dirty.dirty_setpoint();
        let overhead_bytes = self.budget.overhead_bytes();
        let spanned_pages = u64::from(self.budget.frames);
        let frames = self.memory.zones.iter().map(Zone::present_pages).sum();
        let object_bytes = self.pages.objects.bytes();
        Statistics {
            counters: Counter::ALL
                .iter()
                .map(|&c| (c, self.accounts.records.counters.get(c)))
                .collect(),
            nr_dirty: self.dirty.global.dirty.load(Ordering::Relaxed),
            nr_writeback: self.dirty.global.writeback.load(Ordering::Relaxed),
            nr_dirty_threshold: limits.thresh,
            nr_dirty_background_threshold: limits.background,
            dirty_setpoint,
            dirty_limit,
            zones: self.zone_statistics(),
            backings: self.backing_statistics(&limits, with_ages),
            frames,
            nr_balloon_pages: spanned_pages - frames,
            pages_over: self.memory.pages_over(),
            elastic: self.elastic_statistics(),
            memory_bytes: frames * self.page_bytes() + self.budget.beside_bytes() + object_bytes,
            object_bytes,
            overhead_bytes_per_page: overhead_bytes.div_ceil(spanned_pages),
            shadows: self.memory.lists.shadows() as u64,
            swap_slots_used: self
                .memory
                .swap
                .get()
                .map_or(0, |swap| swap.slots.total() - swap.slots.free_slots()),
            reads_in_flight: self.writeback.reads_in_flight.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn histograms(&self) -> Histograms {
        let mut requests = Vec::new();
        self.dirty.stores.for_each(|backing| {
            let bdi = backing.number;
            let of_kind = |(kind, times)| RequestTimes { bdi, kind, times };
            requests.extend(backing.answers.times.requests().into_iter().map(of_kind));
        });
        Histograms {
            waits: self.accounts.times.waits(),
            calls: self.accounts.times.calls(),
            requests,
        }
    }

    /// The system memory that a page takes beside its overhead.
    fn page_bytes(&self) -> u64 {
        match self.settings.page_memory {
            PageMemory::Real => PAGE_BYTES as u64,
            PageMemory::Phantom => 0,
        }
    }

    fn zone_statistics(&self) -> Vec<ZoneStatistics> {
        let lists = |zone: &Zone| self.memory.lists.of(zone.number);
        let of_zone = |zone: &Zone| ZoneStatistics {
            name: zone.name.clone(),
            node: zone.node,
            managed: zone.present_pages(),
            free: zone.free_pages(),
            min: zone.marks().min,
            low: zone.marks().low,
            high: zone.marks().high,
            inactive_anon: lists(zone).size(List::InactiveAnon),
            active_anon: lists(zone).size(List::ActiveAnon),
            inactive_file: lists(zone).size(List::InactiveFile),
            active_file: lists(zone).size(List::ActiveFile),
            isolated_anon: lists(zone).isolated(false),
            isolated_file: lists(zone).isolated(true),
            lowmem_reserve: zone.lowmem_reserves(),
            dirty_limit: self.pages.zone_dirty_limit(zone),
            dirtyable: self.memory.dirtyable_pages_of(zone),
            dirty: zone.dirty.load(Ordering::Relaxed),
            writeback: zone.writeback.load(Ordering::Relaxed),
        };
        self.memory.zones.iter().map(of_zone).collect()
    }

    fn backing_statistics(&self, limits: &DirtyLimits, with_ages: bool) -> Vec<BackingStatistics> {
        // First the ages: a store that is attached meanwhile has none.
        let is_limited = self.knobs.at_risk().is_some();
        let oldest = if with_ages || is_limited {
            self.dirty.oldest()
        } else {
            Vec::new()
        };
        let (backings, dirty) = (self.dirty.stores.all(), self.dirty.global.pages());
        let of_backing = |backing: &std::sync::Arc<crate::state::backing::Backing>| {
            let rates = *lock(&backing.rates);
            let now = self.rt.now();
            let times = backing.activity.times(now);
            let silences = backing.activity.silences();
            let failed_pages = backing.counts.failed_pages.load(Ordering::Relaxed);
            let oldest = oldest.get(backing.number).copied().unwrap_or_default();
            BackingStatistics {
                reclaimable: backing.counts.reclaimable.load(Ordering::Relaxed),
                writeback: backing.counts.writeback.load(Ordering::Relaxed),
                dirtied: backing.counts.dirtied.load(Ordering::Relaxed),
                written: backing.taken_pages(),
                dirty_thresh: self.dirty.store_part(backing, limits, dirty).thresh,
                write_bandwidth: rates.bandwidth.average_pages_per_s,
                dirty_ratelimit: rates.rate.ratelimit,
                writes_in_flight: backing.writes.in_flight.load(Ordering::Relaxed),
                throttled_us: times.throttled.as_micros(),
                idle_while_throttled_us: times.idle_while_throttled.as_micros(),
                drain: self.dirty.drain_statistics(backing),
                oldest_dirty: self.dirty.age_of(oldest.dirty),
                at_risk: self.dirty.at_risk_statistics(backing, oldest),
                is_measured: rates.is_measured(),
                silent_us: backing.activity.silent(now).as_micros(),
                silences: silences.count,
                last_silence_us: silences.last.as_micros(),
                refused: backing.failing.refusals.counts(),
                troubles: backing.failing.refusals.latest(failed_pages, now),
                failed_pages,
            }
        };
        backings.iter().map(of_backing).collect()
    }
}
