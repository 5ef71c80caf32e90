use proptest::prelude::*;

use super::*;
use crate::history::{PagesLookedAt, demand_by_scan};

/// All batches of a demand.
fn batches(mut demand: Demand) -> (Vec<u64>, Demand) {
    let mut batches = Vec::new();
    while let Some(batch) = demand.next_batch() {
        batches.push(batch);
    }
    (batches, demand)
}

fn inputs(freeable: u64, deferred: u64, seeks: u64, priority: u32) -> ShrinkInputs {
    ShrinkInputs {
        freeable,
        deferred,
        seeks,
        priority,
    }
}

#[test]
fn a_gentle_pass_owes_what_is_less_than_a_batch() {
    let (offered, demand) = batches(demand(&inputs(100_000, 0, 2, 12)));
    assert_eq!((offered, demand.owed()), (vec![], 48));
    // Even a debt as long as may be adds only 48.
    let (offered, demand) = batches(super::demand(&inputs(100_000, 200_000, 2, 12)));
    assert_eq!((offered, demand.owed()), (vec![], 200_000));
}

#[test]
fn a_debt_is_paid_when_it_presses() {
    let (offered, demand) = batches(demand(&inputs(1_000, 600, 2, 1)));
    // 300 of the debt and 1,000 fresh.
    assert_eq!(offered, [128; 10]);
    assert_eq!(demand.owed(), 320);
}

#[test]
fn a_small_cache_is_asked_when_all_of_it_is_due() {
    assert_eq!(batches(demand(&inputs(30, 0, 2, 1))).0, [30]);
    assert_eq!(batches(demand(&inputs(30, 0, 2, 2))).0, [] as [u64; 0]);
    assert_eq!(batches(demand(&inputs(100, 0, 2, 0))).0, [128]);
}

#[test]
fn what_costs_nothing_is_halved_at_any_priority() {
    assert_eq!(demand(&inputs(1_000, 0, 0, 12)).rest(), 500);
    assert_eq!(demand(&inputs(1_000, 0, 0, 0)).rest(), 500);
}

/// Spec/reclaim.md 2.11, the rule of 3.0: twice the part that was looked at of the pages.
#[test]
fn by_the_pages_looked_at() {
    let of = |looked_at, pages, deferred| {
        let pages = PagesLookedAt { looked_at, pages };
        batches(demand_by_scan(100_000, deferred, 2, pages))
    };
    let (offered, demand) = of(1_000, 99_999, 0);
    assert_eq!((offered, demand.owed()), (vec![128; 15], 80));
    let (offered, demand) = of(1_000, 99_999, 80);
    assert_eq!((offered, demand.owed()), (vec![128; 16], 32));
    // Only whole batches, however small the cache.
    let all = PagesLookedAt {
        looked_at: 10,
        pages: 10,
    };
    let (offered, demand) = batches(demand_by_scan(60, 0, 2, all));
    assert_eq!((offered, demand.owed()), (vec![], 109));
}

/// What made kswapd of 2017 empty the caches of a node on which it had nothing to look at.
#[test]
fn a_pass_that_looked_at_nothing_where_there_is_nothing_asks_for_all() {
    let none = PagesLookedAt {
        looked_at: 0,
        pages: 0,
    };
    assert_eq!(demand_by_scan(1_000, 0, 2, none).rest(), 2_000);
}

prop_compose! {
    fn any_inputs()(
        freeable in 0_u64..1 << 40, deferred in 0_u64..1 << 41, seeks in 0_u64..100,
        priority in 0_u32..=12,
    ) -> ShrinkInputs {
        inputs(freeable, deferred, seeks, priority)
    }
}

proptest! {
    #[test]
    fn condition_1_an_empty_cache_is_not_asked(
        deferred in any::<u64>(), seeks in 0_u64..100, priority in 0_u32..=12,
    ) {
        let mut demand = demand(&inputs(0, deferred, seeks, priority));
        prop_assert_eq!(demand.next_batch(), None);
        prop_assert_eq!(demand.owed(), 0);
    }

    #[test]
    fn condition_2_never_more_than_twice(inputs in any_inputs()) {
        let demand = demand(&inputs);
        prop_assert!(demand.rest() <= 2 * inputs.freeable);
    }

    #[test]
    fn condition_3_deeper_asks_for_no_less(inputs in any_inputs(), deeper in 0_u32..=12) {
        let at = |priority| demand(&ShrinkInputs { priority, ..inputs }).rest();
        let deeper = deeper.min(inputs.priority);
        prop_assert!(at(deeper) >= at(inputs.priority));
    }

    #[test]
    fn condition_4_dearer_is_asked_for_no_more(inputs in any_inputs(), more in 0_u64..100) {
        let cheap = inputs.seeks.max(1);
        let at = |seeks| demand(&ShrinkInputs { seeks, ..inputs }).rest();
        prop_assert!(at(cheap + more) <= at(cheap));
    }

    #[test]
    fn condition_5_what_was_not_asked_is_owed(mut inputs in any_inputs()) {
        // So few that offering them one batch after the other ends soon.
        inputs.freeable %= 1 << 16;
        inputs.deferred %= 1 << 17;
        let fresh = demand(&ShrinkInputs { deferred: 0, ..inputs });
        let fresh = fresh.owed();
        let (offered, demand) = batches(demand(&inputs));
        prop_assert_eq!(offered.iter().sum::<u64>(), demand.offered());
        let wanted = inputs.deferred + fresh;
        let owed = wanted.saturating_sub(demand.offered());
        if inputs.seeks >= 2 {
            prop_assert_eq!(demand.owed(), owed.min(2 * inputs.freeable));
        }
        prop_assert!(demand.owed() <= 2 * inputs.freeable);
    }

    #[test]
    fn condition_6_batches_are_whole(mut inputs in any_inputs()) {
        inputs.freeable %= 1 << 16;
        let (offered, demand) = batches(demand(&inputs));
        let parts = offered.iter().filter(|&&batch| batch != SHRINK_BATCH).count();
        prop_assert!(parts == 0 || parts == 1 && inputs.freeable < SHRINK_BATCH);
        prop_assert!(demand.rest() < SHRINK_BATCH);
    }
}
