//! Everything about a cache at one instant, as one JSON object.

use super::knobs;
use super::troubles::{TroubleWords, trouble_of};
use super::waits::{CallerWords, WaitWords, waits};
use forebay::statistics::{BackingStatistics, ZoneStatistics};
use forebay::{Cache, Statistics};
use forebay_base::units::byte_of;
use forebay_base::{Instant, Span};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A cache at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub version: String,
    pub process: u32,
    /// What is served.
    pub served: String,
    /// Time since the runtime was started.
    pub now_us: u64,
    pub connections: Option<usize>,
    pub settings: Map<String, Value>,
    /// How often the settings were changed.
    pub times_tuned: u64,
    pub memory: MemoryWords,
    pub dirty: DirtyWords,
    pub counters: BTreeMap<String, u64>,
    pub zones: Vec<ZoneWords>,
    pub stores: Vec<StoreWords>,
    pub callers: Vec<CallerSums>,
    /// The ledger since the start.
    pub waits: Vec<WaitWords>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryWords {
    pub memory_bytes: u64,
    pub frames_bytes: u64,
    pub free_bytes: u64,
    pub object_bytes: u64,
    /// How far the budget gives way, if it does.
    #[serde(default)]
    pub elastic: Option<ElasticWords>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElasticWords {
    pub floor_bytes: u64,
    pub ceiling_bytes: u64,
    pub target_bytes: u64,
    pub headroom_bytes: u64,
    /// What the budget still has to give up.
    pub over_bytes: u64,
    pub turns: u64,
    /// The last change in words, and how long ago it was.
    pub last: Option<(u64, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_field_names, reason = "names in JSON say their unit")]
pub struct DirtyWords {
    pub dirty_bytes: u64,
    pub writeback_bytes: u64,
    pub background_bytes: u64,
    pub threshold_bytes: u64,
    pub setpoint_bytes: u64,
    pub limit_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneWords {
    pub name: String,
    pub node: usize,
    pub managed_bytes: u64,
    pub free_bytes: u64,
    pub min_bytes: u64,
    pub low_bytes: u64,
    pub high_bytes: u64,
    pub inactive_file_bytes: u64,
    pub active_file_bytes: u64,
    pub anonymous_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreWords {
    /// What people call it.
    #[serde(default)]
    pub name: String,
    pub dirty_bytes: u64,
    pub writeback_bytes: u64,
    pub threshold_bytes: u64,
    pub dirtied_bytes: u64,
    pub written_bytes: u64,
    /// As measured.
    pub rate_bytes_per_s: u64,
    /// What one writer may dirty.
    pub writer_bytes_per_s: u64,
    pub writes_in_flight: u32,
    pub throttled_us: u64,
    pub silent_us: u64,
    /// What it refuses now.
    #[serde(default)]
    pub refuses: Vec<TroubleWords>,
    /// What it refused and is kept.
    #[serde(default)]
    pub failed_bytes: u64,
    /// The age of its oldest dirty page, if there is one.
    pub oldest_dirty_us: Option<u64>,
}

/// A caller that waited or wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerSums {
    pub caller: CallerWords,
    pub waits: u64,
    pub waited_us: u64,
    pub longest_us: u64,
    /// The cause that it waited for longest.
    pub cause: String,
    /// Estimate of its part of the dirty pages.
    pub dirty_bytes: u64,
    /// What it made dirty since the start.
    pub dirtied_bytes: u64,
}

impl State {
    /// `served` and `connections` are facts that only the server knows.
    pub fn of(cache: &Cache, now: Instant, served: &str, connections: Option<usize>) -> State {
        let statistics = cache.statistics_with_ages();
        let waits = waits(cache, &cache.wait_rows(None));
        let counters = statistics.counters.iter();
        State {
            version: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            served: served.into(),
            now_us: now.as_micros(),
            connections,
            settings: knobs::values(cache.tuned()),
            times_tuned: cache.times_tuned(),
            memory: memory_of(&statistics),
            dirty: dirty_of(&statistics),
            counters: counters
                .map(|(it, &value)| (it.name().into(), value))
                .collect(),
            zones: statistics.zones.iter().map(zone_of).collect(),
            stores: stores(cache, &statistics),
            callers: callers(cache, &waits),
            waits,
        }
    }

    /// A counter by the name that Linux gives it.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// How long ago `before` was.
    pub fn since(&self, before: &State) -> Span {
        Span::from_micros(self.now_us.saturating_sub(before.now_us))
    }
}

fn memory_of(statistics: &Statistics) -> MemoryWords {
    MemoryWords {
        memory_bytes: statistics.memory_bytes,
        frames_bytes: byte_of(statistics.frames),
        free_bytes: byte_of(statistics.free()),
        object_bytes: statistics.object_bytes,
        elastic: statistics.elastic.map(|elastic| ElasticWords {
            floor_bytes: elastic.floor_bytes,
            ceiling_bytes: elastic.ceiling_bytes,
            target_bytes: elastic.target_bytes,
            headroom_bytes: elastic.headroom_bytes,
            over_bytes: byte_of(statistics.pages_over),
            turns: elastic.turns,
            last: elastic
                .last
                .map(|(ago, step)| (ago.as_micros(), step.to_string())),
        }),
    }
}

fn dirty_of(statistics: &Statistics) -> DirtyWords {
    DirtyWords {
        dirty_bytes: byte_of(statistics.nr_dirty),
        writeback_bytes: byte_of(statistics.nr_writeback),
        background_bytes: byte_of(statistics.nr_dirty_background_threshold),
        threshold_bytes: byte_of(statistics.nr_dirty_threshold),
        setpoint_bytes: byte_of(statistics.dirty_setpoint),
        limit_bytes: byte_of(statistics.dirty_limit),
    }
}

fn zone_of(zone: &ZoneStatistics) -> ZoneWords {
    ZoneWords {
        name: zone.name.clone(),
        node: zone.node,
        managed_bytes: byte_of(zone.managed),
        free_bytes: byte_of(zone.free),
        min_bytes: byte_of(zone.min),
        low_bytes: byte_of(zone.low),
        high_bytes: byte_of(zone.high),
        inactive_file_bytes: byte_of(zone.inactive_file),
        active_file_bytes: byte_of(zone.active_file),
        anonymous_bytes: byte_of(zone.inactive_anon + zone.active_anon),
    }
}

fn stores(cache: &Cache, statistics: &Statistics) -> Vec<StoreWords> {
    let numbered = statistics.backings.iter().enumerate();
    numbered
        .map(|(bdi, store)| store_of(cache.store_name(bdi), store))
        .collect()
}

fn store_of(name: String, store: &BackingStatistics) -> StoreWords {
    let troubles = store.troubles.iter().flatten();
    let refuses = troubles.filter(|trouble| !trouble.is_over);
    let refuses = refuses.map(|trouble| trouble_of(&name, store.failed_pages, trouble));
    StoreWords {
        refuses: refuses.collect(),
        failed_bytes: byte_of(store.failed_pages),
        name,
        dirty_bytes: byte_of(store.reclaimable),
        writeback_bytes: byte_of(store.writeback),
        threshold_bytes: byte_of(store.dirty_thresh),
        dirtied_bytes: byte_of(store.dirtied),
        written_bytes: byte_of(store.written),
        rate_bytes_per_s: byte_of(store.write_bandwidth),
        writer_bytes_per_s: byte_of(store.dirty_ratelimit),
        writes_in_flight: store.writes_in_flight,
        throttled_us: store.throttled_us,
        silent_us: store.silent_us,
        oldest_dirty_us: store.oldest_dirty.map(Span::as_micros),
    }
}

/// Sums of the ledger by caller, with the dirty bytes of each, and what it made dirty. The longest
/// wait comes first.
fn callers(cache: &Cache, waits: &[WaitWords]) -> Vec<CallerSums> {
    let mut sums: BTreeMap<CallerWords, (CallerSums, u64)> = BTreeMap::new();
    for wait in waits {
        let (sum, longest_cause_us) = sums.entry(wait.caller.clone()).or_default();
        sum.waits += wait.calls;
        sum.waited_us += wait.waited_us;
        sum.longest_us = sum.longest_us.max(wait.longest_us);
        if wait.waited_us > *longest_cause_us {
            *longest_cause_us = wait.waited_us;
            sum.cause.clone_from(&wait.cause);
        }
    }
    for (caller, pages) in &cache.heaviest_callers() {
        let sum = sums.entry(CallerWords::from(caller)).or_default();
        sum.0.dirty_bytes = byte_of(*pages);
    }
    for row in cache.dirtied_rows(None) {
        let caller = CallerWords::from(&cache.caller(row.caller));
        sums.entry(caller).or_default().0.dirtied_bytes += byte_of(row.pages);
    }
    let named = sums
        .into_iter()
        .map(|(caller, (sum, _))| CallerSums { caller, ..sum });
    let mut named: Vec<CallerSums> = named.collect();
    let weight = |sum: &CallerSums| (sum.waited_us, sum.dirty_bytes, sum.dirtied_bytes);
    named.sort_by_key(|sum| std::cmp::Reverse(weight(sum)));
    named
}
