use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn percents(dirty: u64, background: u64) -> DirtyKnobs {
    DirtyKnobs {
        dirty_ratio_percent: dirty,
        background_ratio_percent: background,
        ..DirtyKnobs::default()
    }
}

#[test]
fn vectors_l1_to_l5_thresholds() {
    let bytes = |dirty_bytes, background_bytes| DirtyKnobs {
        dirty_bytes,
        background_bytes,
        ..DirtyKnobs::default()
    };
    let rows = [
        (percents(20, 10), 199_951, 99_853),
        (percents(40, 10), 399_902, 99_853),
        (percents(10, 20), 99_853, 49_926),
        (bytes(256 * MIB, 0), 65_536, 32_768),
        (bytes(256 * MIB, 64 * MIB), 65_536, 16_384),
    ];
    for (knobs, thresh, background) in rows {
        let expected = DirtyLimits { thresh, background };
        assert_eq!(dirty_limits(1_000_000, &knobs), expected, "{knobs:?}");
    }
}

fn smoothed(limit: u64) -> SmoothedLimit {
    SmoothedLimit {
        limit,
        updated_ms: 1_000,
    }
}

#[test]
fn vectors_of_the_smoothed_limit() {
    let rows = [
        (200_000, 120_000, 160_000, 198_750),
        (200_000, 120_000, 100_000, 197_500),
        (160_031, 120_000, 160_000, 160_031),
        (160_032, 120_000, 160_000, 160_031),
        (200_000, 250_000, 100, 250_000),
    ];
    for (limit, thresh, dirty, expected) in rows {
        let got = smoothed(limit).advanced(thresh, dirty, 1_200);
        assert_eq!(got.limit, expected, "{limit} over {thresh}");
        assert_eq!(
            smoothed(limit).advanced(thresh, dirty, 1_199),
            smoothed(limit)
        );
    }
}

#[test]
fn the_smoothed_limit_falls_in_known_time() {
    let mut limit = smoothed(200_000);
    let mut steps_to_five_percent = None;
    for step in 1..=300 {
        limit = limit.advanced(120_000, 0, 1_000 + step * LIMIT_INTERVAL_MS);
        if limit.limit <= 126_000 && steps_to_five_percent.is_none() {
            steps_to_five_percent = Some(step);
        }
        assert_eq!(limit.limit == 120_031, step >= 265, "step {step}");
    }
    assert_eq!(steps_to_five_percent, Some(82));
}

#[test]
fn vectors_z1_to_z6_zone_limits() {
    let knobs = DirtyKnobs::default();
    let bytes = DirtyKnobs {
        dirty_bytes: 400 * MIB,
        ..knobs
    };
    let zone = zone_dirtyable(5_000, 110_000, 8_000);
    assert_eq!(zone, 107_000);
    assert_eq!(zone_limit(zone, || 900_001, &knobs), 21_400);
    assert_eq!(zone_limit(zone, || 900_001, &bytes), 12_174);
    let empty = zone_dirtyable(100, 500, 3_000);
    assert_eq!((empty, zone_limit(empty, || 900_001, &knobs)), (0, 0));
    let small = zone_dirtyable(300, 3_000, 900);
    assert_eq!((small, zone_limit(small, || 900_001, &knobs)), (2_400, 480));
    let node = node_dirtyable(5_000, 110_000, 8_000);
    assert_eq!(
        (node, zone_limit(node, || 900_001, &knobs)),
        (110_000, 22_000)
    );
    assert_eq!(available_pages(5_000, 110_000, 8_000), 110_001);
}

#[test]
fn vector_v20_a_zone_over_its_limit() {
    let at = |percent| zone_limit(122_255, || 900_001, &percents(percent, 10));
    assert_eq!((at(20), at(40)), (24_451, 48_902));
    assert!(!zone_is_ok(60_448, at(20)) && !zone_is_ok(60_448, at(40)));
    assert!(zone_is_ok(24_451, 24_451));
}

prop_compose! {
    fn any_knobs()(
        dirty_ratio_percent in 0_u64..=100, background_ratio_percent in 0_u64..=100,
        dirty_bytes in prop_oneof![Just(0), 8_192_u64..1 << 44],
        background_bytes in prop_oneof![Just(0), 1_u64..1 << 44],
    ) -> DirtyKnobs {
        DirtyKnobs { dirty_ratio_percent, dirty_bytes, background_ratio_percent, background_bytes }
    }
}

proptest! {
    #[test]
    fn condition_1_the_background_comes_first(
        pages in 1_u64..1 << 40, knobs in any_knobs(),
    ) {
        let limits = dirty_limits(pages, &knobs);
        if limits.thresh > 0 {
            prop_assert!(limits.background < limits.thresh);
            prop_assert!(limits.background <= limits.freerun());
            prop_assert!(limits.freerun() < limits.thresh);
        } else {
            prop_assert_eq!(limits.background, 0);
        }
    }

    #[test]
    fn condition_2_the_setpoint_lies_between(
        pages in 1_u64..1 << 40, knobs in any_knobs(), limit in 0_u64..1 << 33,
    ) {
        let limits = dirty_limits(pages, &knobs);
        let hard = smoothed(limit).hard_limit(limits.thresh);
        let aim = setpoint(limits.freerun(), hard);
        prop_assert!(hard >= limits.thresh);
        prop_assert!(limits.freerun() <= aim && aim <= hard);
    }

    #[test]
    fn condition_3_up_at_once_and_down_slowly(
        limit in 0_u64..1 << 33, thresh in 0_u64..1 << 32, dirty in 0_u64..1 << 33,
    ) {
        let after = smoothed(limit).advanced(thresh, dirty, 1_200).limit;
        prop_assert!(after >= thresh);
        if thresh >= limit {
            prop_assert_eq!(after, thresh);
        } else {
            prop_assert!(after <= limit && limit - after <= (limit - thresh) / 32);
        }
    }

    #[test]
    fn condition_4_not_below_what_is_dirty(
        limit in 0_u64..1 << 33, thresh in 0_u64..1 << 32, dirty in 0_u64..1 << 33,
    ) {
        let after = smoothed(limit).advanced(thresh, dirty, 1_200).limit;
        prop_assert!(after >= limit.min(dirty));
    }

    #[test]
    fn condition_5_zones_sum_to_no_more_than_the_whole(
        zones in prop::collection::vec(0_u64..1 << 30, 1..6), knobs in any_knobs(),
    ) {
        let whole = zones.iter().sum();
        let sum: u64 = zones.iter().map(|&zone| zone_limit(zone, || whole, &knobs)).sum();
        prop_assert!(sum <= zone_limit(whole, || whole, &knobs));
    }

    #[test]
    fn condition_6_more_memory_never_lowers_a_threshold(
        pages in 1_u64..1 << 40, more in 0_u64..1 << 40,
        dirty in 0_u64..=100, background in 0_u64..=100,
    ) {
        let knobs = percents(dirty, background);
        let (small, large) = (
            dirty_limits(pages, &knobs),
            dirty_limits(pages + more, &knobs),
        );
        prop_assert!(small.thresh <= large.thresh);
    }
}
