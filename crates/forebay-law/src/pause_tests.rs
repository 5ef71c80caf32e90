use proptest::prelude::*;

use super::*;

#[test]
fn vectors_m1_to_m12_sizing_and_its_borders() {
    // Average, rate, dirty pages of the store, rate of the writer; longest, target, shortest,
    // quota.
    let rows = [
        ([25_600, 25_600, 100_000, 25_600], [200, 10, 6, 250]),
        ([25_600, 12_800, 100_000, 12_800], [200, 19, 10, 237]),
        ([25_600, 2_560, 100_000, 2_560], [200, 39, 20, 97]),
        ([25_600, 256, 100_000, 256], [200, 125, 63, 32]),
        ([25_600, 25, 100_000, 25], [200, 200, 200, 4]),
        ([25_600, 25, 100_000, 10], [200, 200, 200, 1]),
        ([25_600, 25_600, 2_000, 25_600], [10, 6, 4, 150]),
        ([25_600, 25_600, 100, 25_600], [1, 1, 1, 25]),
        ([2_560, 2_560, 1_000, 2_560], [48, 12, 7, 32]),
        ([262_144, 262_144, 1_000_000, 262_144], [200, 10, 6, 2_560]),
        ([25_600, 2_560, 100_000, 500], [200, 39, 20, 97]),
        ([25_600, 25, 0, 25], [1, 1, 1, 0]),
        // At the borders: just 32 pages in the first target and in the longest pause, and a writer
        // that dirties them in just the longest.
        ([0, 3_277, 100_000, 3_277], [200, 10, 6, 32]),
        ([0, 1_639, 19, 1_639], [20, 20, 11, 32]),
        ([0, 1_639, 19, 1_599], [20, 20, 11, 32]),
    ];
    for (index, ([average, rate, store_dirty, task], expected)) in rows.into_iter().enumerate() {
        let got = size_pause(average, rate, store_dirty, task, Tick::FINE);
        let got = [
            got.max_pause_ms,
            got.target_ms,
            got.min_pause_ms,
            got.next_quota_pages,
        ];
        assert_eq!(got, expected, "M{}", index + 1);
    }
}

#[test]
fn vectors_of_longer_ticks() {
    // Tick; average, rate, dirty pages of the store, rate of the writer; longest, target, shortest,
    // quota. The first three of each tick share 30 MB/s among 1, 4 and 100 writers.
    let rows = [
        (4, [7_324, 7_324, 20_000, 7_324], [200, 8, 8, 57]),
        (4, [7_324, 1_831, 20_000, 1_831], [200, 24, 16, 42]),
        (4, [7_324, 73, 20_000, 73], [200, 200, 200, 14]),
        (10, [7_324, 7_324, 20_000, 7_324], [200, 10, 10, 57]),
        (10, [7_324, 1_831, 20_000, 1_831], [200, 10, 10, 32]),
        (10, [7_324, 73, 20_000, 73], [200, 200, 200, 11]),
        // As M3, M7 and M12.
        (4, [25_600, 2_560, 100_000, 2_560], [200, 36, 20, 90]),
        (4, [25_600, 25_600, 2_000, 25_600], [12, 8, 8, 200]),
        (4, [25_600, 25, 0, 25], [4, 4, 4, 0]),
    ];
    for (tick_ms, [average, rate, store_dirty, task], expected) in rows {
        let got = size_pause(average, rate, store_dirty, task, Tick::of_ms(tick_ms));
        let got = [
            got.max_pause_ms,
            got.target_ms,
            got.min_pause_ms,
            got.next_quota_pages,
        ];
        assert_eq!(got, expected, "{tick_ms} ms, {rate} of {average}");
    }
    assert_eq!((Tick::of_ms(0), Tick::of_ms(101).ms()), (Tick::FINE, 100));
}

#[test]
fn a_longer_tick_rounds_periods_down_and_reads_the_clock_in_ticks() {
    let tick = Tick::of_ms(4);
    let decided = |pages, task, now_ms| {
        let sizing = size_pause(7_324, 7_324, 20_000, task, tick);
        decide_pause(asked(pages, Some(9_996), 57), &sizing, task, now_ms, tick)
    };
    // 57 pages are worth 1.95 ticks: they become one, and wait for the next quota.
    let (decision, after) = decided(57, 7_324, 9_999);
    assert_eq!(decision, PauseDecision::NoSleep);
    assert_eq!(after.paused_when_ms, Some(10_000));
    let pause = |pause_ms, period_ms| PauseDecision::Sleep {
        pause_ms,
        period_ms,
    };
    // A rate of 7,125 makes two of them; 9,999 is still the tick of 9,996.
    assert_eq!(decided(57, 7_125, 9_999).0, pause(8, 8));
    assert_eq!(decided(57, 7_125, 9_999).1.paused_when_ms, Some(10_004));
    assert_eq!(decided(57, 7_125, 10_000).0, PauseDecision::NoSleep);
    let free = freerun_clock(10_003, 150_000, 200_000, tick);
    assert_eq!(free.paused_when_ms, Some(10_000));
}

#[test]
fn vectors_of_the_poll_interval() {
    let rows = [
        (0, 256),
        (150_000, 128),
        (175_000, 128),
        (199_000, 16),
        (199_999, 1),
        (200_000, 1),
        (250_000, 1),
    ];
    for (dirty, pages) in rows {
        assert_eq!(poll_interval(dirty, 200_000), pages, "{dirty} dirty");
    }
    let clock = freerun_clock(7_000, 150_000, 200_000, Tick::FINE);
    assert_eq!(clock, asked(0, Some(7_000), 128));
}

fn asked(nr_dirtied: u64, paused_when_ms: Option<u64>, nr_dirtied_pause: u64) -> DirtierClock {
    DirtierClock {
        paused_when_ms,
        nr_dirtied,
        nr_dirtied_pause,
    }
}

#[test]
fn vectors_d1_to_d9_decisions() {
    let sleep = |pause_ms, period_ms| PauseDecision::Sleep {
        pause_ms,
        period_ms,
    };
    let go_on = PauseDecision::NoSleep;
    // Pages, rate of the writer, base rate, now, quota; decision, end of the pause, pages, quota.
    let rows = [
        (
            [250, 25_600, 25_600, 10_000, 250],
            sleep(9, 9),
            [10_009, 0, 250],
        ),
        ([250, 25_600, 25_600, 10_004, 250], go_on, [10_009, 0, 250]),
        ([250, 25_600, 25_600, 10_500, 250], go_on, [10_009, 0, 250]),
        ([250, 25_600, 25_600, 11_500, 250], go_on, [11_500, 0, 250]),
        ([32, 256, 256, 10_000, 32], sleep(125, 125), [10_125, 0, 32]),
        (
            [97, 200, 2_560, 10_000, 97],
            sleep(200, 485),
            [10_400, 0, 39],
        ),
        (
            [97, 350, 2_560, 10_000, 97],
            sleep(200, 277),
            [10_277, 0, 68],
        ),
        ([8, 25_600, 25_600, 10_000, 8], go_on, [10_000, 8, 16]),
        (
            [32, 0, 25_600, 10_000, 250],
            sleep(200, 200),
            [10_200, 0, 0],
        ),
    ];
    for (index, ([pages, task, rate, now_ms, quota], decision, after)) in
        rows.into_iter().enumerate()
    {
        let sizing = size_pause(25_600, rate, 180_000, task, Tick::FINE);
        let clock = asked(pages, Some(10_000), quota);
        let expected = asked(after[1], Some(after[0]), after[2]);
        let got = decide_pause(clock, &sizing, task, now_ms, Tick::FINE);
        assert_eq!(got, (decision, expected), "D{}", index + 1);
    }
}

#[test]
fn a_writer_without_a_past_counts_from_now() {
    let sizing = size_pause(25_600, 25_600, 180_000, 25_600, Tick::FINE);
    let (decision, after) = decide_pause(asked(32, None, 32), &sizing, 25_600, 10_000, Tick::FINE);
    assert_eq!(decision, PauseDecision::NoSleep);
    assert_eq!(after, asked(0, Some(10_001), 32));
}

#[test]
fn a_full_store_asks_sooner() {
    let clock = asked(0, None, 250);
    assert_eq!(
        (clock.quota_pages(false), clock.quota_pages(true)),
        (250, 8)
    );
    assert_eq!(
        DirtierClock {
            nr_dirtied_pause: 3,
            ..clock
        }
        .quota_pages(true),
        3
    );
    assert!(dirty_exceeded(11, 10, 101, 100, false));
    assert!(!dirty_exceeded(11, 10, 100, 100, false) && !dirty_exceeded(10, 10, 101, 100, true));
    assert!(dirty_exceeded(11, 10, 100, 100, true));
}

#[test]
fn one_sleep_is_the_rule() {
    assert!(may_leave(1, 1_000, 32));
    assert!(may_leave(0, 32, 32));
    assert!(!may_leave(0, 33, 32));
}

/// Pages that a writer dirties in a minute of doing nothing else, at `rate` pages a second.
fn pages_in_a_minute(rate: u64, tick: Tick) -> u64 {
    let sizing = size_pause(rate, rate, 100_000 + rate, rate, tick);
    let (mut clock, mut now_ms, mut pages) = (DirtierClock::default(), 0, 0);
    while now_ms < 60_000 {
        let quota =
            clock.nr_dirtied_pause.max(1) - clock.nr_dirtied.min(clock.nr_dirtied_pause.max(1));
        clock.nr_dirtied += quota;
        pages += quota;
        let (decision, after) = decide_pause(clock, &sizing, rate, now_ms, tick);
        clock = after;
        if let PauseDecision::Sleep { pause_ms, .. } = decision {
            now_ms += pause_ms;
        }
    }
    pages
}

/// A sizing, the rate of its writer and the tick.
fn any_sizing() -> impl Strategy<Value = (PauseSizing, u64, Tick)> {
    let rate = || prop_oneof![0_u64..100, 0_u64..1 << 20, 0_u64..1 << 40];
    let tick = prop_oneof![Just(1), Just(4), Just(10), 1_u64..=100];
    (rate(), rate(), rate(), rate(), tick).prop_map(
        |(average, ratelimit, store_dirty, task, tick_ms)| {
            let tick = Tick::of_ms(tick_ms);
            let sizing = size_pause(average, ratelimit, store_dirty, task, tick);
            (sizing, task, tick)
        },
    )
}

proptest! {
    #[test]
    fn condition_1_a_sleep_is_whole_ticks_up_to_200_ms(
        (sizing, task, tick) in any_sizing(),
        nr_dirtied in 0_u64..1 << 40, quota in 0_u64..1 << 20,
        paused in prop::option::of(0_u64..1 << 40), now_ms in 0_u64..1 << 40,
    ) {
        let clock = asked(nr_dirtied, paused, quota);
        let decided = decide_pause(clock, &sizing, task, now_ms, tick);
        if let (PauseDecision::Sleep { pause_ms, .. }, after) = decided {
            prop_assert!((tick.ms()..=MAX_PAUSE_MS).contains(&pause_ms));
            prop_assert!(pause_ms <= sizing.max_pause_ms);
            let is_whole = paused.is_none_or(|paused| paused % tick.ms() == 0);
            prop_assert!(!is_whole || pause_ms % tick.ms() == 0);
            let ends_ms = after.paused_when_ms.expect("a pause was decided");
            prop_assert!(ends_ms + tick.ms() > now_ms + pause_ms);
            prop_assert!(ends_ms <= now_ms + pause_ms + sizing.max_pause_ms);
        }
    }

    #[test]
    fn condition_2_the_bounds_are_in_order((sizing, _, tick) in any_sizing()) {
        prop_assert!(tick.ms() <= sizing.min_pause_ms);
        prop_assert!(sizing.min_pause_ms <= sizing.max_pause_ms);
        prop_assert!(sizing.target_ms <= sizing.max_pause_ms);
    }

    #[test]
    fn condition_3_a_writer_gets_its_rate(rate in 100_u64..300_000) {
        let pages = pages_in_a_minute(rate, Tick::FINE);
        let due = rate * 60;
        prop_assert!(pages.abs_diff(due) <= due * 15 / 100, "{} of {}", pages, due);
    }

    #[test]
    fn condition_4_a_long_absence_is_forgotten(
        nr_dirtied in 1_u64..1_000, paused in 0_u64..1 << 40, away_ms in 2_100_u64..1 << 40,
    ) {
        let rate = 1_000;
        let sizing = size_pause(rate, rate, 100_000, rate, Tick::FINE);
        let clock = asked(nr_dirtied, Some(paused), 32);
        let now_ms = paused + away_ms;
        let (decision, after) = decide_pause(clock, &sizing, rate, now_ms, Tick::FINE);
        prop_assert_eq!(decision, PauseDecision::NoSleep);
        prop_assert_eq!(after, asked(0, Some(paused + away_ms), 32));
    }

    #[test]
    fn condition_5_free_writers_are_asked_in_time(
        dirty in 0_u64..1 << 40, room in 1_u64..1 << 40,
    ) {
        let pages = poll_interval(dirty, dirty + room);
        prop_assert!(pages >= 1 && pages * pages <= room);
    }

    #[test]
    fn condition_6_all_processors_together(thresh in 0_u64..1 << 40, cpus in 1_u64..1_024) {
        let pages = ratelimit_pages(thresh, cpus);
        prop_assert!(pages * cpus <= thresh / 32 || pages == 16);
    }

    #[test]
    fn condition_7_no_rate_sleeps_as_long_as_it_may(
        (sizing, _, tick) in any_sizing(), nr_dirtied in 0_u64..1 << 40, now_ms in 0_u64..1 << 40,
    ) {
        let clock = asked(nr_dirtied, Some(0), 32);
        let (decision, _) = decide_pause(clock, &sizing, 0, now_ms, tick);
        let longest = sizing.max_pause_ms;
        prop_assert_eq!(decision, PauseDecision::Sleep { pause_ms: longest, period_ms: longest });
    }

    #[test]
    fn condition_8_a_long_tick_gives_less_than_twice_the_rate(
        rate in 100_u64..300_000, tick_ms in 2_u64..=10,
    ) {
        tick_gives_less_than_twice(rate, tick_ms)?;
    }
}

fn tick_gives_less_than_twice(rate: u64, tick_ms: u64) -> Result<(), TestCaseError> {
    let (pages, due) = (pages_in_a_minute(rate, Tick::of_ms(tick_ms)), rate * 60);
    let most = due * 2 * 1_000 / (1_000 - 1_000 % tick_ms);
    prop_assert!(
        (due * 99 / 100..most).contains(&pages),
        "{} of {}",
        pages,
        due
    );
    Ok(())
}

/// Its 32 pages are worth 6.005 ms, and 1.9996 of the 333 ticks of a second.
#[test]
fn condition_8_of_a_tick_that_is_no_part_of_a_second() {
    tick_gives_less_than_twice(5_329, 3).expect("it is slow enough");
}

#[test]
fn a_processor_may_dirty_a_part_of_the_limit_and_never_fewer_than_16_pages() {
    assert_eq!(ratelimit_pages(64_000, 10), 200);
    assert_eq!(ratelimit_pages(64_000, 0), 2_000);
    assert_eq!(ratelimit_pages(16 * 32 + 31, 1), 16);
    assert_eq!(ratelimit_pages(0, 1), 16);
}

#[test]
fn a_pause_of_the_shortest_length_is_made_and_a_second_of_debt_is_kept() {
    let sizing = PauseSizing {
        max_pause_ms: 200,
        min_pause_ms: 10,
        target_ms: 20,
        next_quota_pages: 32,
    };
    let decide = |nr_dirtied, paused_when_ms| {
        let clock = DirtierClock {
            paused_when_ms,
            nr_dirtied,
            nr_dirtied_pause: 32,
        };
        decide_pause(clock, &sizing, 1_000, 5_000, Tick::FINE)
    };
    let (shortest, _) = decide(10, None);
    assert!(matches!(
        shortest,
        PauseDecision::Sleep { pause_ms: 10, .. }
    ));
    assert_eq!(decide(9, None).0, PauseDecision::NoSleep);
    // 10 pages are paid by 10 ms: up to a second of what it thought longer is credited later.
    assert_eq!(decide(10, Some(3_990)).1.paused_when_ms, Some(4_000));
    assert_eq!(decide(10, Some(3_989)).1.paused_when_ms, Some(5_000));
}

/// A tick of 15 ms has 66 ticks a second, and an eighth of these is a power of two itself: the
/// store must be able to write what it has in 16 ticks.
#[test]
fn the_drain_time_is_the_next_power_of_two_above_an_eighth_of_a_second() {
    let longest = |tick_ms, dirty| {
        let sizing = size_pause(16_000, 16_000, dirty, 16_000, Tick::of_ms(tick_ms));
        sizing.max_pause_ms
    };
    assert_eq!([1_001, 5_005].map(|dirty| longest(15, dirty)), [30, 90]);
}
