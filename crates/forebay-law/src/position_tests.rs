use proptest::prelude::*;

use super::*;

/// The whole of most vectors, with `dirty` pages, and a store with a part of it.
fn of_200_000(dirty: u64, store_thresh: u64, store_dirty: u64, average: u64) -> PositionInputs {
    PositionInputs {
        thresh: 200_000,
        background: 100_000,
        dirty,
        hard_limit: 200_000,
        store_thresh,
        store_dirty,
        average_pages_per_s: average,
        strict: false,
        store_background: store_thresh / 2,
    }
}

/// A strict store that may have 8000 dirty pages, beside a whole that is far below its limit.
fn strict(store_dirty: u64) -> PositionInputs {
    PositionInputs {
        thresh: 800_000,
        background: 400_000,
        dirty: 20_000,
        hard_limit: 800_000,
        store_thresh: 8_000,
        store_dirty,
        average_pages_per_s: 2_560,
        strict: true,
        store_background: 4_000,
    }
}

#[test]
fn vectors_of_the_polynomial() {
    let rows = [
        (175_000, 200_000, 0, 2_048),
        (175_000, 200_000, 150_000, 2_045),
        (175_000, 200_000, 160_000, 1_244),
        (175_000, 200_000, 170_000, 1_031),
        (175_000, 200_000, 175_000, 1_024),
        (175_000, 200_000, 180_000, 1_016),
        (175_000, 200_000, 187_500, 896),
        (175_000, 200_000, 195_000, 500),
        (175_000, 200_000, 199_999, 2),
        (175_000, 200_000, 210_000, 0),
        (1_500, 1_600, 1_450, 1_147),
        (1_500, 1_600, 1_590, 300),
    ];
    for (setpoint, limit, dirty, expected) in rows {
        assert_eq!(
            polynomial(setpoint, dirty, limit),
            expected,
            "{dirty} of {limit}"
        );
    }
    assert_eq!(polynomial(u64::MAX - 1, 0, u64::MAX), MAX_POLYNOMIAL);
}

#[test]
fn vectors_p1_to_p13_stores_with_a_soft_target() {
    let fallen = PositionInputs {
        thresh: 120_000,
        background: 60_000,
        ..of_200_000(160_000, 120_000, 160_000, 25_600)
    };
    let alone = |dirty| of_200_000(dirty, 200_000, dirty, 25_600);
    let one_of_two = |store_dirty| of_200_000(175_000, 100_000, store_dirty, 12_800);
    // Inputs; polynomial, part, setpoint of the store, span, intercept, ratio.
    let rows = [
        (
            alone(150_000),
            [2_045, 200_000, 174_997, 204_796, 379_793, 2_294],
        ),
        (
            alone(175_000),
            [1_024, 200_000, 174_997, 204_796, 379_793, 1_023],
        ),
        (
            alone(187_500),
            [896, 200_000, 174_997, 204_796, 379_793, 841],
        ),
        (
            alone(199_000),
            [118, 200_000, 174_997, 204_796, 379_793, 104],
        ),
        (alone(200_000), [0, 0, 0, 0, 0, 0]),
        (fallen, [1_003, 120_000, 144_997, 204_796, 349_793, 929]),
        (
            one_of_two(87_500),
            [1_024, 100_000, 87_497, 101_196, 188_693, 1_023],
        ),
        (
            one_of_two(130_000),
            [1_024, 100_000, 87_497, 101_196, 188_693, 593],
        ),
        (
            of_200_000(175_000, 4_000, 60_000, 2_560),
            [1_024, 4_000, 3_498, 4_327, 7_825, 256],
        ),
        (
            one_of_two(20_000),
            [1_024, 100_000, 87_497, 101_196, 188_693, 4_265],
        ),
        (
            one_of_two(3_000),
            [1_024, 100_000, 87_497, 101_196, 188_693, 15_032],
        ),
        (
            of_200_000(160_000, 0, 2_600, 25_600),
            [1_244, 5_000, 4_373, 9_992, 14_365, 1_464],
        ),
        (
            of_200_000(180_000, 260_000, 180_000, 25_600),
            [1_016, 200_000, 174_997, 204_796, 379_793, 991],
        ),
    ];
    for (index, (inputs, expected)) in rows.into_iter().enumerate() {
        let at = position(&inputs);
        let got = [
            at.polynomial,
            at.store_part,
            at.store_setpoint,
            at.span,
            at.intercept,
            at.ratio,
        ];
        assert_eq!(got, expected, "P{}", index + 1);
    }
}

#[test]
fn vectors_p14_to_p19_strict_stores() {
    let rows = [
        (5_000, 1_151),
        (6_000, 1_024),
        (7_500, 594),
        (8_000, 0),
        (3, 2_048),
    ];
    for (store_dirty, ratio) in rows {
        let at = position(&strict(store_dirty));
        assert_eq!(
            (at.polynomial, at.ratio),
            (2_048, ratio),
            "{store_dirty} dirty"
        );
        assert!(store_dirty == 3 || at.store_setpoint == 6_000);
    }
    let whole_wins = PositionInputs {
        strict: true,
        store_background: 4_000,
        ..of_200_000(195_000, 8_000, 3_000, 2_560)
    };
    assert_eq!(position(&whole_wins).ratio, 500);
    let no_room = PositionInputs {
        store_thresh: 0,
        store_background: 0,
        ..strict(9)
    };
    assert_eq!(position(&no_room).ratio, 0);
}

prop_compose! {
    fn any_inputs()(
        thresh in 1_u64..1 << 32, background_part in 0_u64..1_024, lag in 0_u64..1 << 31,
        dirty_part in 0_u64..1_200, store_part in 0_u64..1_200, store_dirty_part in 0_u64..1_200,
        average in 1_u64..1 << 24,
    ) -> PositionInputs {
        let part = |of: u64, part: u64| (u128::from(of) * u128::from(part) / 1_024) as u64;
        let store_thresh = part(thresh, store_part);
        PositionInputs {
            thresh,
            background: part(thresh, background_part),
            dirty: part(thresh + lag, dirty_part),
            hard_limit: thresh + lag,
            store_thresh,
            store_dirty: part(thresh + lag, store_dirty_part),
            average_pages_per_s: average,
            strict: false,
            store_background: part(store_thresh, background_part),
        }
    }
}

proptest! {
    #[test]
    fn condition_1_two_one_and_nothing(freerun in 0_u64..1 << 32, half in 1_024_u64..1 << 31) {
        let (setpoint, limit) = (freerun + half, freerun + 2 * half);
        // One is added to an even divisor, and two roundings follow it.
        prop_assert!((2_040..=MAX_POLYNOMIAL).contains(&polynomial(setpoint, freerun, limit)));
        prop_assert_eq!(polynomial(setpoint, setpoint, limit), 1_024);
        prop_assert!(polynomial(setpoint, limit, limit) <= 8);
    }

    #[test]
    fn condition_2_never_rises_with_the_dirty_pages(
        setpoint in 0_u64..1 << 32, room in 0_u64..1 << 32, dirty in 0_u64..1 << 33,
        more in 0_u64..1 << 20,
    ) {
        let limit = setpoint + room;
        let later = polynomial(setpoint, dirty + more, limit);
        prop_assert!(later <= polynomial(setpoint, dirty, limit));
        // A tenth of the way to the limit changes a thousandth.
        let near = polynomial(setpoint, setpoint + room / 10, limit);
        prop_assert!((1_022..=1_024).contains(&near) || room < 100);
    }

    #[test]
    fn condition_3_the_limit_stops(inputs in any_inputs(), beyond in 0_u64..1 << 20) {
        let full = PositionInputs { dirty: inputs.hard_limit + beyond, ..inputs };
        prop_assert_eq!(position(&full).ratio, 0);
    }

    #[test]
    fn condition_4_at_least_a_quarter_of_the_polynomial(inputs in any_inputs()) {
        let at = position(&inputs);
        prop_assert!(at.ratio >= at.polynomial / 4);
    }

    #[test]
    fn condition_5_never_rises_with_the_stores_dirty_pages(
        inputs in any_inputs(), more in 0_u64..1 << 30, is_strict in any::<bool>(),
    ) {
        let fuller = PositionInputs {
            store_dirty: inputs.store_dirty + more,
            strict: is_strict,
            ..inputs
        };
        let before = PositionInputs { strict: is_strict, ..inputs };
        prop_assert!(position(&fuller).ratio <= position(&before).ratio);
    }

    #[test]
    fn condition_6_alone_at_the_setpoint_is_one(
        thresh in 10_000_u64..1 << 32, lag in 0_u64..1 << 20, seconds in 1_u64..900,
    ) {
        let (background, hard_limit) = (thresh / 2, thresh + lag.min(thresh / 4));
        let aim = setpoint(u64::midpoint(thresh, background), hard_limit);
        let at = position(&PositionInputs {
            thresh,
            background,
            dirty: aim,
            hard_limit,
            store_thresh: thresh,
            store_dirty: aim,
            average_pages_per_s: thresh / seconds,
            strict: false,
            store_background: background,
        });
        prop_assert_eq!(at.setpoint, aim);
        prop_assert!((1_014..=1_034).contains(&at.ratio), "{:?}", at);
    }

    #[test]
    fn condition_7_a_strict_store_stops_at_its_own_threshold(
        inputs in any_inputs(), over in 0_u64..1 << 20,
    ) {
        let strict = PositionInputs { strict: true, ..inputs };
        if strict.store_dirty >= 8 {
            let at = position(&strict);
            prop_assert!(at.ratio <= at.polynomial);
        }
        let full = PositionInputs { store_dirty: (strict.store_thresh + over).max(8), ..strict };
        prop_assert_eq!(position(&full).ratio, 0);
    }
}

#[test]
fn a_strict_store_with_a_few_dirty_pages_gets_twice_what_the_whole_allows() {
    let at = |store_dirty| {
        position(&PositionInputs {
            dirty: 780_000,
            ..strict(store_dirty)
        })
    };
    let whole = at(7).polynomial;
    assert!((100..900).contains(&whole), "{whole}");
    assert_eq!(at(7).ratio, 2 * whole);
    assert_eq!(at(0).ratio, 2 * whole);
    assert_eq!(at(8).ratio, whole);
}

#[test]
fn a_strict_store_whose_setpoint_is_its_threshold_stops() {
    let inputs = PositionInputs {
        store_background: 8_000,
        ..strict(100)
    };
    assert_eq!(position(&inputs).ratio, 0);
}

#[test]
fn a_span_and_a_threshold_of_one_page_divide_nothing_by_zero() {
    let one_page = PositionInputs {
        thresh: 1,
        background: 0,
        dirty: 0,
        hard_limit: 1,
        ..of_200_000(0, 1, 0, 0)
    };
    assert_eq!(position(&one_page).store_part, 1);
    let short_span = PositionInputs {
        thresh: 100,
        background: 50,
        dirty: 90,
        hard_limit: 100,
        ..of_200_000(0, 2, 0, 0)
    };
    assert_eq!(position(&short_span).span, 1);
}

/// Where the line of a store has fallen to a quarter it is exactly that, and stays there.
#[test]
fn the_line_ends_at_a_quarter_of_the_polynomial() {
    let inputs = PositionInputs {
        thresh: 200_000,
        background: 100_000,
        dirty: 175_000,
        hard_limit: 200_000,
        store_thresh: 200_000,
        average_pages_per_s: 25_600,
        ..PositionInputs::default()
    };
    let line = position(&inputs);
    let end = line.intercept - line.span / 4;
    let ratios = [end - 1_000, end, end + 1_000].map(|store_dirty| {
        let at = position(&PositionInputs {
            store_dirty,
            ..inputs
        });
        at.ratio
    });
    assert_eq!(ratios[1..], [line.polynomial / 4; 2]);
    assert!(ratios[0] > ratios[1]);
}
