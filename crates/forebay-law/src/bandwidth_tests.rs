use proptest::prelude::*;

use super::*;

fn of(write: u64, average: u64) -> Bandwidth {
    Bandwidth {
        write_pages_per_s: write,
        average_pages_per_s: average,
    }
}

#[test]
fn vectors_b1_to_b9() {
    let rows = [
        (of(25_600, 25_600), 5_120, 200, of(25_600, 25_600)),
        (of(25_600, 25_600), 10_240, 200, of(26_850, 25_600)),
        (of(25_600, 25_600), 0, 200, of(24_350, 25_600)),
        (of(12_800, 25_600), 2_560, 200, of(12_800, 24_000)),
        (of(30_000, 25_600), 8_000, 200, of(30_488, 26_150)),
        (of(25_600, 20_000), 5_120, 200, of(25_600, 20_700)),
        (of(25_600, 25_600), 1_000, 5_000, of(200, 200)),
        (of(25_600, 25_600), 20_480, 4_096, of(5_000, 25_600)),
        (of(25_600, 25_600), 51_200, 1_000, of(31_850, 25_600)),
    ];
    for (before, written, elapsed_ms, after) in rows {
        assert_eq!(
            before.advanced(written, elapsed_ms),
            after,
            "{before:?} {written}"
        );
    }
}

/// The averages after each 200 ms of a store that now writes `pages_per_s`.
fn stepped(pages_per_s: u64) -> impl Iterator<Item = u64> {
    let first = Bandwidth::default().advanced(pages_per_s / 5, BANDWIDTH_INTERVAL_MS);
    std::iter::successors(Some(first), move |bandwidth| {
        Some(bandwidth.advanced(pages_per_s / 5, BANDWIDTH_INTERVAL_MS))
    })
    .map(|bandwidth| bandwidth.average_pages_per_s)
}

#[test]
fn condition_5_a_change_of_speed_is_known_in_time() {
    let averages: Vec<u64> = stepped(12_800).take(100).collect();
    assert_eq!(
        (averages[4], averages[19], averages[39]),
        (24_947, 19_950, 15_592)
    );
    let halved = averages.iter().position(|&average| average <= 13_440);
    assert_eq!(halved, Some(14_000 / 200 - 1));
    let doubled = stepped(51_200)
        .take(100)
        .position(|average| average >= 48_640);
    assert_eq!(doubled, Some(11_200 / 200 - 1));
}

proptest! {
    #[test]
    fn condition_1_a_kept_pace_keeps_the_estimate(fifths in 1_u64..1 << 40, steps in 1_u32..20) {
        let pace = of(fifths * 5, fifths * 5);
        let after = (0..steps).fold(pace, |bandwidth, _| bandwidth.advanced(fifths, 200));
        prop_assert_eq!(after, pace);
    }

    #[test]
    fn condition_2_between_the_last_and_the_measured(
        write in 0_u64..1 << 40, written in 0_u64..1 << 40, elapsed_ms in 1_u64..10_000,
    ) {
        let after = of(write, write.max(1)).advanced(written, elapsed_ms).write_pages_per_s;
        let measured = written * 1_000 / elapsed_ms;
        prop_assert!(after <= write.max(measured));
        prop_assert!(after >= write.min(measured));
    }

    #[test]
    fn condition_3_the_average_takes_an_eighth_of_the_gap(
        write in 0_u64..1 << 40, average in 1_u64..1 << 40, written in 0_u64..1 << 30,
        elapsed_ms in 1_u64..=WINDOW_MS,
    ) {
        let after = of(write, average).advanced(written, elapsed_ms).average_pages_per_s;
        prop_assert!(after.abs_diff(average) <= average.abs_diff(write) / 8);
        prop_assert!(after.abs_diff(write.max(1)) <= average.abs_diff(write.max(1)));
    }

    #[test]
    fn condition_4_the_average_is_never_nothing(
        write in 0_u64..100, average in 1_u64..100,
        waits in prop::collection::vec(0_u64..10_000, 1..50),
    ) {
        let end = waits.iter().fold(of(write, average), |bandwidth, &ms| bandwidth.advanced(0, ms));
        prop_assert!(end.average_pages_per_s >= 1);
    }

    #[test]
    fn condition_6_a_store_with_too_little_to_do_is_not_taken_for_slower(
        write in 0_u64..1 << 24, written in 0_u64..1 << 30, elapsed_ms in 1_u64..10_000,
        busy_part in 0_u64..875,
    ) {
        let known = of(write, write.max(1));
        let busy_us = elapsed_ms * busy_part;
        let sample = Sample { written_pages: written, elapsed_ms, busy_us, ..Sample::default() };
        prop_assert!(sample.is_partial());
        let after = known.sampled(sample);
        prop_assert!(after.write_pages_per_s >= known.write_pages_per_s);
        prop_assert!(after.average_pages_per_s >= known.average_pages_per_s);
    }

    #[test]
    fn condition_7_short_work_weighs_as_long_as_it_took(
        write in 1_u64..1 << 20, faster in 2_u64..10, busy_ms in 1_u64..=170,
    ) {
        let written_pages = write * faster * busy_ms / 1_000;
        let busy_us = busy_ms * 1_000;
        let sample = Sample { written_pages, elapsed_ms: 200, busy_us, ..Sample::default() };
        let after = of(write, write).sampled(sample).write_pages_per_s;
        let gap = (sample.pages_per_s() + 1).saturating_sub(write);
        prop_assert!(after <= write + gap * busy_ms / WINDOW_MS + 1, "{write} -> {after}");
    }

    #[test]
    fn conditions_6_and_8_refused_pages_lower_and_raise_nothing(
        write in 0_u64..1 << 24, written in 0_u64..1 << 24, elapsed_ms in 1_u64..10_000,
        busy_part in 0_u64..=1_000, more in 1_u64..1 << 30, yet_more in 0_u64..1 << 30,
    ) {
        let known = of(write, write.max(1));
        let busy_us = elapsed_ms * busy_part;
        let sample = Sample { written_pages: written, elapsed_ms, busy_us, ..Sample::default() };
        let refused_pages = written / 7 + more;
        let refusing = Sample { refused_pages, ..sample };
        let after = known.sampled(refusing);
        prop_assert!(after.write_pages_per_s >= known.write_pages_per_s);
        prop_assert!(after.average_pages_per_s >= known.average_pages_per_s);
        prop_assert!(after.write_pages_per_s <= write.max(refusing.pages_per_s()));
        let more = Sample { refused_pages: refused_pages + yet_more, ..sample };
        prop_assert_eq!(known.sampled(more), after);
    }

    #[test]
    fn a_store_that_is_kept_busy_is_measured_by_the_time_that_passed(
        write in 0_u64..1 << 24, written in 0_u64..1 << 24, elapsed_ms in 1_u64..10_000,
        idle_part in 0_u64..=125,
    ) {
        let known = of(write, write.max(1));
        let busy_us = elapsed_ms * (1_000 - idle_part);
        let sample = Sample { written_pages: written, elapsed_ms, busy_us, ..Sample::default() };
        prop_assert_eq!(known.sampled(sample), known.advanced(written, elapsed_ms));
    }
}

#[test]
fn a_store_that_answers_at_once_has_a_rate() {
    let sample = Sample {
        written_pages: 100,
        elapsed_ms: 200,
        ..Sample::default()
    };
    assert_eq!(sample.pages_per_s(), HIGHEST_PAGES_PER_S);
    assert_eq!(Sample::default().pages_per_s(), 0);
}

#[test]
fn a_rate_is_that_of_the_busy_time_if_the_store_is_partial() {
    let sample = |written_pages, busy_us| Sample {
        written_pages,
        elapsed_ms: 200,
        busy_us,
        ..Sample::default()
    };
    let refused = |refused_pages| Sample {
        refused_pages,
        ..sample(700, 200_000)
    };
    assert!(!refused(100).is_partial());
    assert!(refused(101).is_partial());
    // Seven eighths of 200 ms are 175 ms.
    assert!(sample(400, 174_999).is_partial());
    assert!(!sample(400, 175_000).is_partial());
    assert_eq!(sample(400, 175_000).pages_per_s(), 2_000);
    assert_eq!(sample(500, 10_000).pages_per_s(), 50_000);
    assert_eq!(sample(1_000_000, 1).pages_per_s(), 16_777_216);
}

#[test]
fn short_work_of_a_faster_store_raises_the_estimate() {
    let sample = |written_pages| Sample {
        written_pages,
        elapsed_ms: 200,
        busy_us: 4_000,
        ..Sample::default()
    };
    let known = of(25_600, 25_600);
    assert_eq!(known.sampled(sample(100)), known);
    // 250,000 pages/s for 4 ms of a window of 4,096 ms.
    assert_eq!(known.sampled(sample(1_000)), of(25_819, 25_600));
}
