use proptest::prelude::*;

use super::*;

#[test]
fn the_longest_sleep_for_each_reason() {
    assert_eq!(ThrottleReason::Writeback.timeout_ms(4), 100);
    assert_eq!(ThrottleReason::Isolated.timeout_ms(4), 20);
    assert_eq!(ThrottleReason::NoProgress.timeout_ms(4), 4);
    assert_eq!(ThrottleReason::Congested.timeout_ms(4), 4);
}

#[test]
fn vector_v9_naps_for_writeback() {
    let rows = [
        (32, 32, 12, true),
        (31, 32, 12, false),
        (16, 32, 11, true),
        (15, 32, 11, false),
        (8, 32, 10, true),
        (1, 32, 7, true),
        (1, 32, 6, true),
        (0, 32, 0, false),
        (10, 20, 11, true),
        (7, 20, 11, false),
    ];
    for (writeback, taken, priority, waits) in rows {
        let got = batch_waits_for_writeback(writeback, taken, priority);
        assert_eq!(got, waits, "{writeback} of {taken} at {priority}");
    }
}

#[test]
fn vector_v10_isolated() {
    let rows = [
        (129, 1_024, true, true),
        (128, 1_024, true, false),
        (129, 1_024, false, false),
        (1_025, 1_024, false, true),
        (1, 7, true, true),
        (0, 0, true, false),
    ];
    for (isolated, inactive, may_do_everything, waits) in rows {
        let got = too_many_isolated(isolated, inactive, may_do_everything);
        assert_eq!(got, waits, "{isolated} of {inactive}");
    }
}

#[test]
fn vector_v11_waiters_for_writes() {
    for (waiters, written) in [(1, 33), (4, 129), (64, 2_049)] {
        assert!(wakes_writeback_waiters(written, waiters));
        assert!(!wakes_writeback_waiters(written - 1, waiters));
    }
}

#[test]
fn vector_v12_after_a_pass() {
    let rows = [
        (0, 0, 12, false, Progress::Nothing),
        (0, 1_000, 2, false, Progress::Nothing),
        (0, 1_000, 1, false, Progress::Sleep),
        (125, 1_000, 5, false, Progress::Nothing),
        (126, 1_000, 5, false, Progress::Wake),
        (1, 1_000, 1, false, Progress::Nothing),
        (1, 7, 1, false, Progress::Wake),
        (0, 5, 1, true, Progress::Nothing),
    ];
    for (reclaimed, scanned, priority, is_kswapd, expected) in rows {
        let got = consider_throttle(reclaimed, scanned, priority, is_kswapd);
        assert_eq!(got, expected, "{reclaimed} of {scanned} at {priority}");
    }
}

#[test]
fn vector_v13_who_does_not_sleep() {
    assert!(skips_sleep(500, 1_000, 0));
    assert!(!skips_sleep(501, 1_000, 0));
    assert!(skips_sleep(900, 1_000, 16));
    assert!(skips_sleep(0, 0, 0));
}

proptest! {
    #[test]
    fn condition_1_background_reclaim_does_not_sleep(
        reclaimed in 0_u64..100, scanned in 0_u64..1_000, priority in 0..=TOP_PRIORITY,
    ) {
        prop_assert_ne!(consider_throttle(reclaimed, scanned, priority, true), Progress::Sleep);
    }

    #[test]
    fn condition_2_progress_wakes_and_does_not_sleep(
        reclaimed in 0_u64..1_000, scanned in 0_u64..10_000, priority in 0..=TOP_PRIORITY,
        is_kswapd in any::<bool>(),
    ) {
        let got = consider_throttle(reclaimed, scanned, priority, is_kswapd);
        prop_assert_eq!(got == Progress::Wake, reclaimed > scanned / 8);
        prop_assert!(got != Progress::Sleep || reclaimed == 0);
    }

    #[test]
    fn condition_3_who_may_do_less_waits_less(
        isolated in 0_u64..10_000, inactive in 0_u64..10_000,
    ) {
        if too_many_isolated(isolated, inactive, false) {
            prop_assert!(too_many_isolated(isolated, inactive, true));
        }
    }

    #[test]
    fn condition_4_enough_writes_wake_everybody(waiters in 1_u64..1 << 20, more in 1_u64..1 << 20) {
        prop_assert!(wakes_writeback_waiters(32 * waiters + more, waiters));
        prop_assert!(!wakes_writeback_waiters(32 * waiters, waiters));
    }

    #[test]
    fn condition_5_a_node_given_up_lets_nobody_sleep(
        pending in any::<u64>(), reclaimable in any::<u64>(), beyond in 0_u64..100,
    ) {
        prop_assert!(skips_sleep(pending, reclaimable, MAX_RECLAIM_RETRIES + beyond));
    }

    #[test]
    fn condition_6_every_sleep_ends(tick_ms in 1_u64..=100) {
        for reason in [
            ThrottleReason::Writeback,
            ThrottleReason::Isolated,
            ThrottleReason::NoProgress,
            ThrottleReason::Congested,
        ] {
            prop_assert!((1..=100).contains(&reason.timeout_ms(tick_ms)));
        }
    }
}
