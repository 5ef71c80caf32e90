//! What the flows ask of a policy about the past: each answer is the same for as long as the cache
//! lives, and today's policy says no.

use crate::policy::{DirtyThrottle, KswapdSleep, Policy, ReclaimThrottle, ReclaimWriteback};
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

    /// Which of the older rules kswapd sleeps by, if it does not sleep by the rule by which it
    /// reclaims.
    pub(crate) fn past_sleep(&self) -> Option<KswapdSleep> {
        let past = self.kswapd_sleep;
        (past != KswapdSleep::ForRequestedClass).then_some(past)
    }

    /// Whether fruitless runs make a node hopeless (4.12 and later).
    pub(crate) fn counts_failures(&self) -> bool {
        self.kswapd_sleep >= KswapdSleep::KeepAwake
    }

    /// Whether a reclaimer may write file pages, or ask for their writing page by page.
    pub(crate) fn reclaimers_write(&self) -> bool {
        self.reclaim_writeback < ReclaimWriteback::Never
    }

    pub(crate) fn throttles_in_foreground(&self) -> bool {
        self.dirty_throttle <= DirtyThrottle::Foreground
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn todays_policy_asks_for_nothing_of_the_past() {
        let today = Policy::default();
        assert!(!today.naps() && !today.reclaimers_write() && !today.throttles_in_foreground());
        assert_eq!((today.early_events(), today.past_sleep()), (None, None));
        assert!(today.balances_without_zones() && today.counts_failures());
    }

    #[test]
    fn the_policy_of_3_0_asks_for_all_of_it() {
        let past = Policy::preset("linux-3.0").unwrap();
        assert!(past.naps() && past.reclaimers_write() && past.throttles_in_foreground());
        assert_eq!(past.past_sleep(), Some(KswapdSleep::EveryZone));
        assert!(!past.counts_failures());
    }
}
