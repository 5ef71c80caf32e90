//! What the flows ask of a policy about the past: each answer is the same for as long as the cache
//! lives, and today's policy says no.

use crate::policy::{DirtyThrottle, KswapdSleep, Policy, ReclaimThrottle};
use forebay_law::history::EarlyProgress;

impl Policy {
    /// Whether reclaimers nap, instead of waiting for events.
    pub(crate) fn naps(&self) -> bool {
        self.reclaim_throttle <= ReclaimThrottle::Linux515
    }

    /// Which version of the first ones waits for events, if one does.
    pub(crate) fn early_events(&self) -> Option<EarlyProgress> {
        match self.reclaim_throttle {
            ReclaimThrottle::PostedV2 => Some(EarlyProgress::AnyPage),
            ReclaimThrottle::Linux516Rc => Some(EarlyProgress::AnEighth),
            _ => None,
        }
    }

    /// Whether a node that has no zone up to a class is balanced for that class. Up to the second
    /// preparation patch of 2017 the question was for one balanced zone, and where there was none
    /// the answer was no: kswapd of a node without small zones never slept.
    pub(crate) fn balances_without_zones(&self) -> bool {
        let sleep = self.kswapd_sleep;
        sleep == KswapdSleep::EveryZone || sleep >= KswapdSleep::KeepAwake
    }

    pub(crate) fn throttles_in_foreground(&self) -> bool {
        self.dirty_throttle <= DirtyThrottle::Foreground
    }
}
