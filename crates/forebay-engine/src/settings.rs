//! Settings are values that a user tunes; parts are pieces that a program replaces.

use crate::error::BuildError;
use crate::event::EventSink;
pub use crate::state::arena::PageMemory;
use crate::state::index::FRAMES_LIMIT;
use forebay_base::Span;
pub use forebay_law::limits::DirtyKnobs;
pub use forebay_law::watermark::Watermarks;
use forebay_rt::Rt;
use std::fmt;
use std::sync::Arc;

/// The most frames that a cache can have: no zone needs a mark or a reserve above this.
const MOST_PAGES: u64 = FRAMES_LIMIT as u64;
/// The longest readahead window: 4 GiB.
const MOST_READAHEAD_PAGES: u64 = 1 << 20;
/// A flusher that looked more often would do nothing else.
const LEAST_INTERVAL: Span = Span::from_millis(1);
/// A shorter promise is shorter than a writer's longest pause, and nothing could keep it.
const LEAST_DRAIN: Span = Span::from_millis(100);
/// A quarter of it is the least drain.
const LEAST_AT_RISK: Span = Span::from_millis(400);

/// One zone of a node: a run of frames of one kind of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSettings {
    /// Its name in statistics.
    pub name: String,
    /// Its part of the memory, relative to the parts of the other zones.
    pub weight: u64,
    /// Frames of lower zones that requests for higher ones leave alone: one in this many of the
    /// higher zones' frames; 0 for none (lowmem_reserve_ratio).
    pub lowmem_reserve_ratio: u64,
    /// Its exact number of frames, in place of a part by weight. Give it for every zone of the
    /// cache or for none; if given, `memory_bytes` does not count. A zone without frames exists
    /// only for its class.
    pub managed_pages: Option<u64>,
    /// Its watermarks, in place of those that follow from its size.
    pub marks: Option<Watermarks>,
    /// Frames that requests of each class must leave, by class, in place of what
    /// `lowmem_reserve_ratio` says. A class that is not listed leaves none.
    pub lowmem_reserve_pages: Option<Vec<u64>>,
}

impl Default for ZoneSettings {
    fn default() -> ZoneSettings {
        ZoneSettings {
            name: "Normal".into(),
            weight: 1,
            lowmem_reserve_ratio: 0,
            managed_pages: None,
            marks: None,
            lowmem_reserve_pages: None,
        }
    }
}

/// One node: zones in order of scarcity, the most preferred last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// Its zones.
    pub zones: Vec<ZoneSettings>,
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings {
            zones: vec![ZoneSettings::default()],
        }
    }
}

/// The values with which a cache is built.
///
/// ```
/// # use forebay_engine as forebay;
/// let settings = forebay::Settings { memory_bytes: 64 << 20, ..Default::default() };
/// assert_eq!(settings.dirty.dirty_ratio_percent, 20);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// All memory of the cache: pages and their overhead.
    pub memory_bytes: u64,
    /// Nodes and zones. Default: one node with one zone.
    pub nodes: Vec<NodeSettings>,
    /// Limits on dirty pages (vm.dirty_*).
    pub dirty: DirtyKnobs,
    /// How often the flusher looks for old dirty pages, at least 1 ms; zero for never
    /// (dirty_writeback_centisecs; 5 s).
    pub writeback_interval: Span,
    /// Pages dirty for longer than this are written (dirty_expire_centisecs; 30 s).
    pub dirty_expire: Span,
    /// Largest readahead window, pages (read_ahead_kb / 4; 32). At most 1 048 576; a stream uses
    /// no more than a quarter of the cache's frames, or 32.
    pub readahead_pages: u64,
    /// 0 to 200: how strongly reclaim prefers anonymous pages to file pages (60).
    pub swappiness: u64,
    /// Distance of the watermarks, in 1/10 000 of a zone (watermark_scale_factor).
    pub watermark_scale_factor: u64,
    /// Free memory to keep, KiB; 0 to compute it from the size (min_free_kbytes).
    pub min_free_kib: u64,
    /// Length of the tick, the unit of reclaim's shortest waits (4 ms).
    pub tick: Span,
    /// A call that waits for a store fails after this long without an answer (30 s).
    pub answer_timeout: Span,
    /// A call that waits for a guard to be dropped, or for a frame, fails after this long (5 s).
    pub held_timeout: Span,
    /// A call that waits for this long in all is kept as a stall (10 ms).
    pub stall_threshold: Span,
    /// No byte is older than this and not durable, as long as its store answers and keeps its rate:
    /// at least 400 ms. The flushers write and commit by age, and no store may have more dirty
    /// pages than it writes in a quarter of this time, as with [`BackingSettings::drain`].
    pub at_risk: Option<Span>,
    /// Lets the budget be smaller than `memory_bytes`, which is then its ceiling: by what
    /// [`crate::Cache::memory_seen`] is given.
    pub elastic: Option<Elastic>,
    /// The most objects: open ones, and closed files of which something is remembered. Each takes
    /// some 2 KB of `memory_bytes`, unless zones say how many frames they have.
    pub objects_limit: u32,
    /// Touch all memory at start, so that no later access causes a page fault.
    pub prefault: bool,
    /// Whether pages have bytes.
    pub page_memory: PageMemory,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_bytes: 256 << 20,
            nodes: vec![NodeSettings::default()],
            dirty: DirtyKnobs::default(),
            writeback_interval: Span::from_secs(5),
            dirty_expire: Span::from_secs(30),
            readahead_pages: 32,
            swappiness: 60,
            watermark_scale_factor: 10,
            min_free_kib: 0,
            tick: Span::from_millis(4),
            answer_timeout: Span::from_secs(30),
            held_timeout: Span::from_secs(5),
            stall_threshold: Span::from_millis(10),
            at_risk: None,
            elastic: None,
            objects_limit: 65_536,
            prefault: true,
            page_memory: PageMemory::Real,
        }
    }
}

impl Settings {
    /// Refuses values that cannot work, whatever they cost.
    pub(crate) fn check_values(&self) -> Result<(), BuildError> {
        let bad = |setting, given: u64, allowed| {
            Err(BuildError::BadSetting {
                setting,
                given: given.to_string(),
                allowed,
            })
        };
        if self.nodes.is_empty() || self.nodes.iter().any(|node| node.zones.is_empty()) {
            return bad(
                "nodes",
                self.nodes.len() as u64,
                "at least one node, each with at least one zone",
            );
        }
        let zones: usize = self.nodes.iter().map(|node| node.zones.len()).sum();
        if zones > crate::lists::shadow::ZONES_LIMIT {
            return bad("nodes", zones as u64, "at most 16 zones in all");
        }
        self.check_zones()?;
        let knobs = &self.dirty;
        if knobs.dirty_ratio_percent > 100 || knobs.background_ratio_percent > 100 {
            let given = knobs
                .dirty_ratio_percent
                .max(knobs.background_ratio_percent);
            return bad("dirty_ratio", given, "a percentage from 0 to 100");
        }
        if knobs.dirty_bytes != 0 && knobs.dirty_bytes < 8192 {
            return bad("dirty_bytes", knobs.dirty_bytes, "0, or at least 8192");
        }
        self.check_flushing_and_readahead()?;
        if let Some(at_risk) = self.at_risk
            && at_risk < LEAST_AT_RISK
        {
            return Err(BuildError::BadSetting {
                setting: "at_risk",
                given: at_risk.to_string(),
                allowed: "at least 400 ms",
            });
        }
        if self.swappiness > 200 {
            return bad("swappiness", self.swappiness, "0 to 200");
        }
        if self.watermark_scale_factor > 1_000 {
            return bad(
                "watermark_scale_factor",
                self.watermark_scale_factor,
                "at most 1000",
            );
        }
        for (setting, given) in [("tick", self.tick), ("answer_timeout", self.answer_timeout)] {
            if given == Span::ZERO {
                return bad(setting, 0, "above zero");
            }
        }
        let limit = crate::state::index::OBJECTS_LIMIT - 1;
        if self.objects_limit == 0 || self.objects_limit > limit {
            return bad(
                "objects_limit",
                u64::from(self.objects_limit),
                "1 to 16777215",
            );
        }
        Ok(())
    }

    fn check_flushing_and_readahead(&self) -> Result<(), BuildError> {
        let interval = self.writeback_interval;
        if interval != Span::ZERO && interval < LEAST_INTERVAL {
            return Err(BuildError::BadSetting {
                setting: "writeback_interval",
                given: interval.to_string(),
                allowed: "0, or at least 1 ms",
            });
        }
        if self.readahead_pages > MOST_READAHEAD_PAGES {
            return Err(BuildError::BadSetting {
                setting: "readahead_pages",
                given: self.readahead_pages.to_string(),
                allowed: "0 to 1048576",
            });
        }
        Ok(())
    }

    fn check_zones(&self) -> Result<(), BuildError> {
        let bad = |setting, zone: &ZoneSettings, allowed| {
            Err(BuildError::BadSetting {
                setting,
                given: format!("{zone:?}"),
                allowed,
            })
        };
        let sizes_are_given = self.zones().any(|zone| zone.managed_pages.is_some());
        for zone in self.zones() {
            if zone.weight == 0 {
                return bad("weight", zone, "a zone has a weight of at least 1");
            }
            if sizes_are_given && zone.managed_pages.is_none() {
                return bad("managed_pages", zone, "given for every zone or for none");
            }
            if let Some(Watermarks { min, low, high }) = zone.marks
                && !(min <= low && low <= high && high <= MOST_PAGES)
            {
                let allowed = "min at most low, low at most high, high at most 2147483647";
                return bad("marks", zone, allowed);
            }
            let mut reserves = zone.lowmem_reserve_pages.iter().flatten();
            if reserves.any(|&pages| pages > MOST_PAGES) {
                let allowed = "at most 2147483647 for each class";
                return bad("lowmem_reserve_pages", zone, allowed);
            }
        }
        Ok(())
    }

    pub(crate) fn zones(&self) -> impl Iterator<Item = &ZoneSettings> {
        self.nodes.iter().flat_map(|node| &node.zones)
    }
}

/// How far a budget may follow the memory of the machine.
///
/// ```
/// # use forebay_engine as forebay;
/// use forebay::settings::Elastic;
/// use forebay::{Cache, Settings};
///
/// let elastic = Some(Elastic { floor_bytes: 16 << 20 });
/// let settings = Settings { memory_bytes: 64 << 20, elastic, ..Settings::default() };
/// let cache = Cache::new(settings.clone())?;
/// let over = Some(Elastic { floor_bytes: 65 << 20 });
/// assert!(Cache::new(Settings { elastic: over, ..settings }).is_err());
/// # Ok::<(), forebay::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// The least budget: what [`crate::Cache::set_memory`] would take, and at most
    /// [`Settings::memory_bytes`].
    pub floor_bytes: u64,
}

/// What a program may use in place of the usual parts.
#[derive(Clone)]
pub struct Parts {
    /// Clock, timers, tasks and chance.
    pub rt: Rt,
    /// Where trace events go.
    pub sink: Option<Arc<dyn EventSink>>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts {
            rt: Rt::real(),
            sink: None,
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("sink", &self.sink.is_some())
            .finish_non_exhaustive()
    }
}

/// The values with which a store is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingSettings {
    /// Part of the dirty limit that the store always has, percent (bdi min_ratio; 0).
    pub min_ratio_percent: u64,
    /// Part of the dirty limit that it may never exceed, percent (bdi max_ratio; 100).
    pub max_ratio_percent: u64,
    /// Whether its writers are throttled only by its own part of the limit (strict_limit).
    pub strict_limit: bool,
    /// What is dirty of it can be written in this time, at the rate that it has now: at least
    /// 100 ms. Its writers are slowed for that. Those of older kernels are
    /// stopped by the same limit.
    pub drain: Option<Span>,
    /// The most requests that it queues: a write from reclaim, which only older kernels make,
    /// waits for a place, and so does the flusher if it may fill the queue (nr_requests; 128, at
    /// least 1).
    pub queue_requests: u32,
}

impl BackingSettings {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let largest = self.max_ratio_percent;
        if self.min_ratio_percent > largest || largest > 100 {
            return Err(BuildError::BadSetting {
                setting: "max_ratio_percent",
                given: largest.to_string(),
                allowed: "min_ratio_percent to 100",
            });
        }
        if let Some(drain) = self.drain
            && drain < LEAST_DRAIN
        {
            return Err(BuildError::BadSetting {
                setting: "drain",
                given: drain.to_string(),
                allowed: "at least 100 ms",
            });
        }
        if self.queue_requests == 0 {
            // Otherwise a caller that waits for a place in the queue would never get one.
            return Err(BuildError::BadSetting {
                setting: "queue_requests",
                given: self.queue_requests.to_string(),
                allowed: "at least 1",
            });
        }
        Ok(())
    }
}

impl Default for BackingSettings {
    fn default() -> BackingSettings {
        BackingSettings {
            min_ratio_percent: 0,
            max_ratio_percent: 100,
            strict_limit: false,
            drain: None,
            queue_requests: 128,
        }
    }
}

#[cfg(all(test, not(loom)))]
impl Settings {
    /// `mib` MiB, touched when they are used.
    pub(crate) fn small(mib: u64) -> Settings {
        Settings {
            memory_bytes: mib << 20,
            prefault: false,
            ..Settings::default()
        }
    }
}
