//! What a policy takes over from older kernels, resolved once. It is empty for today's policy.

use crate::Policy;
use crate::policy::{
    ClosedFiles, DirtyThrottle, FlushChunk, KswapdBalance, KswapdSleep, ReclaimThrottle,
    ReclaimWriteback, ShrinkDemand, ZoneDirtyLimits,
};
use forebay_law::chunk::MIN_WRITEBACK_PAGES;
use forebay_law::history::EarlyProgress;

/// Where an older policy has a flow of its own, or a rule. None of this is set under today's
/// policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// Writers write and nap themselves (before 3.2).
    pub(crate) writers: Option<DirtyThrottle>,
    /// Pages that a turn of the flusher writes, whatever the store's bandwidth (before 3.2).
    pub(crate) turn_pages: Option<u64>,
    /// Zones have no limits of dirty pages (before 3.3), or only nodes have (4.8 and later).
    pub(crate) zone_limits: Option<ZoneDirtyLimits>,
    /// kswapd has another life: another sleep test, or other zones to balance.
    pub(crate) kswapd: Option<PastKswapd>,
    /// Callers that reclaim nap, instead of waiting for events (before 5.16).
    pub(crate) naps: Option<ReclaimThrottle>,
    /// The first versions of waiting for events.
    pub(crate) early_events: Option<EarlyProgress>,
    /// Reclaimers write file pages, or ask for their writing (before 6.16).
    pub(crate) writes: Option<ReclaimWriteback>,
    /// What becomes of a page at the end of its list is decided by one of the older rules.
    pub(crate) judges: bool,
    /// Caches beside the pages are asked by one of the older rules.
    pub(crate) caches: bool,
}

/// What was different about kswapd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PastKswapd {
    /// The older rule by which it sleeps, if it does not sleep by the rule by which it reclaims.
    pub(crate) sleep: Option<KswapdSleep>,
    /// It balances each zone for itself (before 4.8).
    pub(crate) balances_zones: bool,
    /// It rests after a run that freed nothing.
    pub(crate) rests: bool,
}

impl PastKswapd {
    /// The kswapd of today.
    pub(crate) const TODAY: PastKswapd = PastKswapd {
        sleep: None,
        balances_zones: false,
        rests: true,
    };

    /// Whether fruitless runs make a node hopeless (4.12 and later).
    pub(crate) fn counts_failures(self) -> bool {
        self.sleep
            .is_none_or(|sleep| sleep >= KswapdSleep::KeepAwake)
    }

    /// Whether a node that has no zone up to a class is balanced for that class. Up to the second
    /// preparation patch of 2017, kswapd looked for one balanced zone, and if there was no zone at
    /// all the answer was no: the kswapd of a node without small zones never slept.
    pub(crate) fn balances_without_zones(self) -> bool {
        self.counts_failures() || self.sleep == Some(KswapdSleep::EveryZone)
    }
}

impl Past {
    /// What `policy` takes over.
    pub(crate) fn of(policy: &Policy) -> Past {
        let throttle = policy.dirty_throttle;
        let reclaim = policy.reclaim_throttle;
        let sleep = policy.kswapd_sleep;
        let kswapd = PastKswapd {
            sleep: (sleep != KswapdSleep::ForRequestedClass).then_some(sleep),
            balances_zones: policy.kswapd_balance == KswapdBalance::Zones,
            rests: reclaim == ReclaimThrottle::Events,
        };
        let writeback = policy.reclaim_writeback;
        let writes = policy.reclaimers_write();
        Past {
            writes: writes.then_some(writeback),
            judges: writes || policy.naps() || kswapd.balances_zones,
            caches: policy.shrink_demand < ShrinkDemand::ByPriority
                || policy.closed_files <= ClosedFiles::Stripped,
            writers: (throttle <= DirtyThrottle::Foreground).then_some(throttle),
            turn_pages: match policy.flush_chunk {
                FlushChunk::Fixed => Some(MIN_WRITEBACK_PAGES),
                FlushChunk::HalfSecond => None,
            },
            zone_limits: match policy.zone_dirty_limits {
                ZoneDirtyLimits::Proportional => None,
                other => Some(other),
            },
            kswapd: (kswapd != PastKswapd::TODAY).then_some(kswapd),
            naps: policy.naps().then_some(reclaim),
            early_events: match reclaim {
                ReclaimThrottle::PostedV2 => Some(EarlyProgress::AnyPage),
                ReclaimThrottle::Linux516Rc => Some(EarlyProgress::AnEighth),
                _ => None,
            },
        }
    }
}

impl Past {
    /// Whether kswapd balances each zone for itself (before 4.8).
    pub(crate) fn balances_zones(&self) -> bool {
        self.kswapd.is_some_and(|past| past.balances_zones)
    }

    /// Whether reclaimers wait for events, and as long as today.
    pub(crate) fn waits_for_events(&self) -> bool {
        self.naps.is_none() && self.early_events.is_none()
    }
}

impl Policy {
    /// Whether a reclaimer waits for the inode of a file that is given up (up to 5.8).
    pub(crate) fn awaits_inodes(&self) -> bool {
        self.closed_files == ClosedFiles::Awaited
    }

    /// Whether reclaimers nap, instead of waiting for events.
    pub(crate) fn naps(&self) -> bool {
        self.reclaim_throttle <= ReclaimThrottle::Linux515
    }

    /// Whether a reclaimer may write file pages, or ask for their writing page by page.
    pub(crate) fn reclaimers_write(&self) -> bool {
        self.reclaim_writeback < ReclaimWriteback::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::lab::Kernel;

    #[test]
    fn todays_policy_takes_nothing_over() {
        let today = Policy::default();
        assert_eq!(Past::of(&today), Past::default());
        let (kernel, default) = (today.kernel(), Kernel::default());
        assert_eq!(format!("{kernel:?}"), format!("{default:?}"));
    }

    #[test]
    fn the_policy_of_3_0_has_all_but_the_early_events() {
        let policy = Policy::preset("linux-3.0").unwrap();
        let kernel = policy.kernel();
        assert!(kernel.flows.is_some() && kernel.values.write_depth.fills_queues());
        assert!(
            !kernel.values.has_gates && !kernel.values.is_paced && kernel.values.quarters_marks
        );
        let past = Past::of(&policy);
        assert_eq!(past.writers, Some(DirtyThrottle::Foreground));
        assert_eq!(past.turn_pages, Some(1_024));
        assert_eq!(past.zone_limits, Some(ZoneDirtyLimits::Off));
        assert_eq!(past.naps, Some(ReclaimThrottle::Linux30));
        assert!(past.early_events.is_none());
        assert_eq!(past.writes, Some(ReclaimWriteback::Anybody));
        assert!(past.judges && past.caches && past.balances_zones() && !past.waits_for_events());
        let kswapd = past.kswapd.unwrap();
        assert_eq!(kswapd.sleep, Some(KswapdSleep::EveryZone));
        assert!(kswapd.balances_zones && !kswapd.rests && !kswapd.counts_failures());
        assert!(kswapd.balances_without_zones());
    }

    #[test]
    fn the_first_versions_of_events_have_them() {
        let early = |name| Past::of(&Policy::preset(name).unwrap()).early_events;
        assert_eq!(
            early("linux-5.15+throttle-v2"),
            Some(EarlyProgress::AnyPage)
        );
        assert_eq!(early("linux-5.16-rc"), Some(EarlyProgress::AnEighth));
        assert_eq!(early("linux-5.16"), None);
    }
}
