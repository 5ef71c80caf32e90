//! The named sets of choices: kernels as they were, and each of the five changes alone on the
//! kernel for which it was made.

use super::{
    ActiveReferences, ClosedFiles, DirtyThrottle, Dirtyable, Estimate, Eviction, FlushChunk,
    InactiveShare, KswapdBalance, KswapdSleep, Policy, Readahead, ReclaimThrottle,
    ReclaimWriteback, Refaults, ScanBalance, ShrinkDemand, StoreShares, WatermarkSpacing,
    WriteDepth, ZoneDirtyLimits,
};

const LINUX_3_0: Policy = Policy {
    reclaim_writeback: ReclaimWriteback::Anybody,
    reclaim_throttle: ReclaimThrottle::Linux30,
    dirty_throttle: DirtyThrottle::Foreground,
    flush_chunk: FlushChunk::Fixed,
    write_depth: WriteDepth::FullQueue,
    estimate: Estimate::Learned,
    store_shares: StoreShares::Counted,
    dirtyable: Dirtyable::WithAnonymous,
    zone_dirty_limits: ZoneDirtyLimits::Off,
    kswapd_sleep: KswapdSleep::EveryZone,
    kswapd_balance: KswapdBalance::Zones,
    eviction: Eviction::TwoLists,
    active_references: ActiveReferences::Ignored,
    inactive_share: InactiveShare::Half,
    refaults: Refaults::Ignored,
    scan_balance: ScanBalance::EarlyRotations,
    readahead: Readahead::Fixed,
    shrink_demand: ShrinkDemand::ByScan,
    closed_files: ClosedFiles::Awaited,
    watermark_spacing: WatermarkSpacing::Quarter,
};

const LINUX_2_6_36: Policy = Policy {
    dirty_throttle: DirtyThrottle::ForegroundPerStore,
    ..LINUX_3_0
};

const LINUX_3_2: Policy = Policy {
    reclaim_writeback: ReclaimWriteback::Marked,
    reclaim_throttle: ReclaimThrottle::Linux32,
    dirty_throttle: DirtyThrottle::IoLess,
    flush_chunk: FlushChunk::HalfSecond,
    ..LINUX_3_0
};

const LINUX_3_3: Policy = Policy {
    zone_dirty_limits: ZoneDirtyLimits::Proportional,
    dirtyable: Dirtyable::WithAnonymousLessReserve,
    ..LINUX_3_2
};

const LINUX_4_11: Policy = Policy {
    reclaim_writeback: ReclaimWriteback::KswapdWhereMetTwice,
    reclaim_throttle: ReclaimThrottle::Linux411,
    dirty_throttle: DirtyThrottle::IoLess,
    flush_chunk: FlushChunk::HalfSecond,
    write_depth: WriteDepth::FullQueue,
    estimate: Estimate::Learned,
    store_shares: StoreShares::Timed,
    dirtyable: Dirtyable::Files,
    zone_dirty_limits: ZoneDirtyLimits::ForNodes,
    kswapd_sleep: KswapdSleep::ForClassZero,
    kswapd_balance: KswapdBalance::Node,
    eviction: Eviction::TwoLists,
    active_references: ActiveReferences::Ignored,
    inactive_share: InactiveShare::SquareRoot,
    refaults: Refaults::OfFileReads,
    scan_balance: ScanBalance::Rotations,
    readahead: Readahead::Fixed,
    shrink_demand: ShrinkDemand::ByScanToTheLast,
    closed_files: ClosedFiles::Awaited,
    watermark_spacing: WatermarkSpacing::Scale,
};

const LINUX_5_15: Policy = Policy {
    reclaim_throttle: ReclaimThrottle::Linux515,
    write_depth: WriteDepth::WholeTurns,
    kswapd_sleep: KswapdSleep::ForRequestedClass,
    inactive_share: InactiveShare::SquareRootOrRefaults,
    refaults: Refaults::OfReads,
    scan_balance: ScanBalance::IoCost,
    shrink_demand: ShrinkDemand::ByPriority,
    closed_files: ClosedFiles::Stripped,
    ..LINUX_4_11
};

const LINUX_5_16: Policy = Policy {
    reclaim_writeback: ReclaimWriteback::KswapdAtLast,
    reclaim_throttle: ReclaimThrottle::Events,
    closed_files: ClosedFiles::Kept,
    ..LINUX_5_15
};

const LINUX_6_16: Policy = Policy {
    reclaim_writeback: ReclaimWriteback::Never,
    refaults: Refaults::Activated,
    scan_balance: ScanBalance::Cost,
    ..LINUX_5_16
};

/// For which kernels each preset stands.
const STANDS_FOR: [(&str, &str); 21] = [
    (
        "linux-2.6.36",
        "2.6.36, with the writers of 2.6.32: over the part of their store they write a chunk",
    ),
    (
        "linux-3.0",
        "3.0: writers write their own part, reclaimers write what they meet",
    ),
    (
        "linux-3.0+kswapd-writes",
        "3.0 with the first patch of 2011: of reclaimers only kswapd writes",
    ),
    (
        "linux-3.0+reclaim-writeback",
        "3.0 with the whole series of 2011: reclaim leaves file pages to the flusher",
    ),
    (
        "linux-3.0+zone-dirty-limits",
        "3.0 with dirty limits for each zone, as in 3.3",
    ),
    ("linux-3.1", "3.1: as 3.0"),
    (
        "linux-3.2+foreground",
        "3.2 as it was before writers stopped writing: writers and chunks of 3.1",
    ),
    (
        "linux-3.2+small-chunk",
        "3.2 with the flusher's turns of 3.1, 4 MiB",
    ),
    ("linux-3.2", "3.2: writers sleep and start no I/O"),
    ("linux-3.3", "3.3 to 3.10: dirty limits for each zone"),
    (
        "linux-4.11",
        "4.11: lists and dirty limits of nodes, refaults of reads",
    ),
    (
        "linux-4.11+fixcheck",
        "4.11 with the first preparation patch of 2017: one balanced zone lets kswapd sleep",
    ),
    (
        "linux-4.11+clear",
        "4.11 with both preparation patches of 2017",
    ),
    (
        "linux-4.11+keepawake",
        "4.12 to 5.2 in when kswapd sleeps, 4.11 in the rest",
    ),
    (
        "linux-4.11+repair",
        "5.3 and later in when kswapd sleeps, 4.11 in the rest",
    ),
    (
        "linux-5.15",
        "5.8 to 5.15: the last with naps for congestion",
    ),
    (
        "linux-5.15+throttle-v2",
        "5.15 with waits for events as they were posted in September 2021",
    ),
    (
        "linux-5.16-rc",
        "release candidates of 5.16: half a second without progress",
    ),
    ("linux-5.16", "5.16 to 6.2: reclaim waits for events"),
    (
        "linux-6.16",
        "6.16 and later: no reclaimer writes file pages",
    ),
    ("forebay", "no kernel: choices of its own, and the default"),
];

/// Every preset by name, the oldest kernel first.
fn table() -> [(&'static str, Policy); 21] {
    let writeback = |reclaim_writeback, reclaim_throttle| Policy {
        reclaim_writeback,
        reclaim_throttle,
        ..LINUX_3_0
    };
    let sleep = |kswapd_sleep| Policy {
        kswapd_sleep,
        ..LINUX_4_11
    };
    let throttle = |reclaim_throttle| Policy {
        reclaim_throttle,
        ..LINUX_5_15
    };
    [
        ("linux-2.6.36", LINUX_2_6_36),
        ("linux-3.0", LINUX_3_0),
        (
            "linux-3.0+kswapd-writes",
            writeback(ReclaimWriteback::Kswapd, ReclaimThrottle::Linux30),
        ),
        (
            "linux-3.0+reclaim-writeback",
            writeback(ReclaimWriteback::Marked, ReclaimThrottle::Linux32),
        ),
        (
            "linux-3.0+zone-dirty-limits",
            Policy {
                zone_dirty_limits: ZoneDirtyLimits::Proportional,
                // The first patch of the series.
                dirtyable: Dirtyable::WithAnonymousLessReserve,
                ..LINUX_3_0
            },
        ),
        ("linux-3.1", LINUX_3_0),
        (
            "linux-3.2+foreground",
            Policy {
                dirty_throttle: DirtyThrottle::Foreground,
                flush_chunk: FlushChunk::Fixed,
                ..LINUX_3_2
            },
        ),
        (
            "linux-3.2+small-chunk",
            Policy {
                flush_chunk: FlushChunk::Fixed,
                ..LINUX_3_2
            },
        ),
        ("linux-3.2", LINUX_3_2),
        ("linux-3.3", LINUX_3_3),
        ("linux-4.11", LINUX_4_11),
        ("linux-4.11+fixcheck", sleep(KswapdSleep::AnyZone)),
        ("linux-4.11+clear", sleep(KswapdSleep::Clear)),
        ("linux-4.11+keepawake", sleep(KswapdSleep::KeepAwake)),
        ("linux-4.11+repair", sleep(KswapdSleep::ForRequestedClass)),
        ("linux-5.15", LINUX_5_15),
        (
            "linux-5.15+throttle-v2",
            throttle(ReclaimThrottle::PostedV2),
        ),
        ("linux-5.16-rc", throttle(ReclaimThrottle::Linux516Rc)),
        ("linux-5.16", LINUX_5_16),
        ("linux-6.16", LINUX_6_16),
        ("forebay", Policy::default()),
    ]
}

impl Policy {
    /// The set of choices called `name`, if there is one.
    pub fn preset(name: &str) -> Option<Policy> {
        let mut presets = table().into_iter();
        presets
            .find(|(known, _)| *known == name)
            .map(|found| found.1)
    }

    /// One line that says for which kernels the preset called `name` stands, if there is one.
    ///
    /// ```
    /// use forebay_kernels::Policy;
    /// let stands_for = Policy::preset_summary("linux-3.2");
    /// assert!(stands_for.is_some_and(|kernels| kernels.starts_with("3.2: ")));
    /// ```
    pub fn preset_summary(name: &str) -> Option<&'static str> {
        let mut known = STANDS_FOR.iter();
        known
            .find(|(known, _)| *known == name)
            .map(|(_, kernels)| *kernels)
    }

    /// The names of the presets, the oldest kernel first: `linux-` and a version, and after a `+`
    /// what was changed alone; `forebay` is the default.
    ///
    /// ```
    /// use forebay_kernels::Policy;
    /// assert!(Policy::presets().contains(&"linux-3.0"));
    /// ```
    pub fn presets() -> Vec<&'static str> {
        table().into_iter().map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn presets_have_different_names_and_the_default_is_forebay() {
        let names: BTreeSet<_> = Policy::presets().into_iter().collect();
        assert_eq!(names.len(), table().len());
        for name in names {
            assert!(Policy::preset(name).is_some(), "{name}");
            assert!(Policy::preset_summary(name).is_some(), "{name}");
        }
        assert_eq!(Policy::preset("forebay"), Some(Policy::default()));
    }

    #[test]
    fn each_change_alone_differs_from_its_kernel_in_what_it_changed() {
        let differences = |before: &str, after: &str| {
            let values = |name| Policy::preset(name).map(|policy| policy.values());
            let (before, after) = (values(before), values(after));
            let pairs = before
                .into_iter()
                .flatten()
                .zip(after.into_iter().flatten());
            let differ = pairs.map(|(before, after)| before != after);
            let knobs = Policy::knobs().iter().zip(differ);
            let changed: Vec<_> = knobs.filter(|(_, differ)| *differ).collect();
            changed
                .iter()
                .map(|(knob, _)| knob.name)
                .collect::<Vec<_>>()
        };
        let writeback = differences("linux-3.0", "linux-3.0+reclaim-writeback");
        assert_eq!(writeback, ["reclaim_writeback", "reclaim_throttle"]);
        let limits = differences("linux-3.0", "linux-3.0+zone-dirty-limits");
        assert_eq!(limits, ["dirtyable", "zone_dirty_limits"]);
        assert_eq!(
            differences("linux-3.2+foreground", "linux-3.2+small-chunk"),
            ["dirty_throttle"]
        );
        assert_eq!(
            differences("linux-4.11", "linux-4.11+keepawake"),
            ["kswapd_sleep"]
        );
        let events = differences("linux-5.15", "linux-5.15+throttle-v2");
        assert_eq!(events, ["reclaim_throttle"]);
    }
}
