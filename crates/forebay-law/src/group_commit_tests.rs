use proptest::prelude::*;

use super::*;

/// A sync of one page, of which nothing is under way.
const ALONE: SyncInputs = SyncInputs {
    dirty_pages: 1,
    is_first_in_flight: false,
    is_commit_under_way: false,
    makes_durable: true,
    waits: 0,
};

fn inputs() -> impl Strategy<Value = SyncInputs> {
    (0..40_u64, any::<[bool; 3]>(), 0..10_u32).prop_map(|(dirty_pages, facts, waits)| {
        let [is_first_in_flight, is_commit_under_way, makes_durable] = facts;
        SyncInputs {
            dirty_pages,
            is_first_in_flight,
            is_commit_under_way,
            makes_durable,
            waits,
        }
    })
}

#[test]
fn vectors_of_a_commit_under_way() {
    let rows = [
        (1, true, 0, SyncWait::Commit),
        (2, true, 0, SyncWait::Commit),
        (3, true, 0, SyncWait::Nothing),
        (1, true, 1, SyncWait::Nothing),
        (1, false, 0, SyncWait::Nothing),
    ];
    for (dirty_pages, makes_durable, waits, expected) in rows {
        let inputs = SyncInputs {
            dirty_pages,
            is_commit_under_way: true,
            makes_durable,
            waits,
            ..ALONE
        };
        assert_eq!(wait_before_writing(&inputs), expected, "{inputs:?}");
    }
}

#[test]
fn vectors_of_a_first_page_in_flight() {
    let rows = [
        (1, 0, SyncWait::FirstPage),
        (32, 0, SyncWait::FirstPage),
        (33, 0, SyncWait::Nothing),
        (32, 7, SyncWait::FirstPage),
        (32, 8, SyncWait::Nothing),
    ];
    for (dirty_pages, waits, expected) in rows {
        let inputs = SyncInputs {
            dirty_pages,
            is_first_in_flight: true,
            waits,
            ..ALONE
        };
        assert_eq!(wait_before_writing(&inputs), expected, "{inputs:?}");
    }
}

#[test]
fn vectors_of_commits_during_the_writes() {
    let rows = [
        (1_000, 3_000, 1_000, true),
        (999, 3_000, 1_000, false),
        (1_000, 2_999, 1_000, false),
        (u64::MAX, u64::MAX, u64::MAX, true),
    ];
    for (uncommitted, to_free, step, expected) in rows {
        let is_worth = is_worth_a_commit(uncommitted, to_free, step);
        assert_eq!(is_worth, expected, "{uncommitted} {to_free} {step}");
    }
}

#[test]
fn vectors_of_turns() {
    let rows = [
        (7_680, 25_600, true),
        (7_681, 25_600, false),
        (1, 0, false),
        (0, 0, true),
    ];
    for (pages, pages_per_s, expected) in rows {
        let is_short = is_short_turn(pages, pages_per_s);
        assert_eq!(is_short, expected, "{pages} at {pages_per_s}");
    }
}

#[test]
fn condition_1_four_callers_sync_by_themselves() {
    let own = (0..1_000).filter(|others| !shares_sync(*others)).count();
    assert_eq!(own, 4);
}

proptest! {
    #[test]
    fn condition_1_a_caller_that_finds_more_shares(others in any::<u32>(), more in any::<u32>()) {
        if shares_sync(others) {
            prop_assert!(shares_sync(others.saturating_add(more)));
        }
    }

    #[test]
    fn condition_2_a_sync_waits_eight_times_at_most(rounds in prop::collection::vec(inputs(), 12)) {
        let mut waits = vec![];
        for inputs in rounds {
            let inputs = SyncInputs { waits: waits.len() as u32, ..inputs };
            match wait_before_writing(&inputs) {
                SyncWait::Nothing => {}
                wait => waits.push(wait),
            }
        }
        prop_assert!(waits.len() <= 8);
        prop_assert!(!waits.iter().skip(1).any(|wait| *wait == SyncWait::Commit));
    }

    #[test]
    fn condition_3_a_sync_waits_for_what_is_under_way(inputs in inputs()) {
        match wait_before_writing(&inputs) {
            SyncWait::Nothing => {}
            SyncWait::Commit => prop_assert!(inputs.is_commit_under_way),
            SyncWait::FirstPage => prop_assert!(inputs.is_first_in_flight),
        }
        if inputs.dirty_pages > 32 {
            prop_assert_eq!(wait_before_writing(&inputs), SyncWait::Nothing);
        }
    }

    #[test]
    fn condition_4_fewer_dirty_pages_wait_too(inputs in inputs(), fewer in 0..40_u64) {
        let dirty_pages = inputs.dirty_pages.saturating_sub(fewer);
        let smaller = SyncInputs { dirty_pages, ..inputs };
        if wait_before_writing(&inputs) != SyncWait::Nothing {
            prop_assert_ne!(wait_before_writing(&smaller), SyncWait::Nothing);
        }
    }

    #[test]
    fn condition_5_commits_take_a_ninth_of_the_time(took_ns in 0..1_u64 << 60) {
        let round_ns = took_ns + rest_ns(took_ns);
        prop_assert!(took_ns * 9 <= round_ns);
    }

    #[test]
    fn condition_6_more_pages_keep_no_commit_back(
        pages in any::<[u32; 2]>(), more in any::<[u32; 2]>(), step in any::<u32>(),
    ) {
        let ([uncommitted, to_free], step) = (pages.map(u64::from), u64::from(step));
        let [a, b] = more.map(u64::from);
        if is_worth_a_commit(uncommitted, to_free, step) {
            prop_assert!(is_worth_a_commit(uncommitted + a, to_free + b, step));
        }
    }

    #[test]
    fn condition_7_a_short_turn_is_short_at_higher_rates(
        pages in any::<u32>(), rate in any::<u32>(), more in any::<u32>(),
    ) {
        let (pages, rate) = (u64::from(pages), u64::from(rate));
        if is_short_turn(pages, rate) {
            prop_assert!(is_short_turn(pages, rate + u64::from(more)));
        }
    }
}
