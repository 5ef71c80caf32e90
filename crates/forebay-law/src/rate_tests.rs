use proptest::prelude::*;

use super::*;
use crate::limits::DirtyLimits;
use crate::plot::closed_loop;

fn of([ratelimit, balanced]: [u64; 2]) -> DirtyRate {
    DirtyRate {
        ratelimit,
        balanced,
    }
}

#[test]
fn vectors_r1_to_r9_and_borders() {
    // Rate, last estimate; position ratio, pages dirtied in so many ms, dirty; new rate, estimate.
    let rows = [
        (
            [25_600, 25_600],
            [2_048, 40_000, 200, 155_000],
            [25_600, 6_553],
        ),
        (
            [25_600, 25_600],
            [800, 40_000, 200, 190_000],
            [25_600, 2_560],
        ),
        ([10_000, 4_000], [896, 19_140, 200, 187_500], [9_990, 2_340]),
        (
            [10_000, 4_000],
            [1_100, 40_000, 200, 170_000],
            [10_000, 1_375],
        ),
        ([1_000, 2_600], [1_200, 2_344, 200, 165_000], [1_006, 2_559]),
        ([2_560, 2_570], [1_034, 5_170, 200, 174_000], [2_560, 2_560]),
        ([2_560, 2_560], [1_024, 0, 200, 180_000], [2_560, 25_600]),
        ([1, 25_600], [2_048, 0, 200, 100], [2, 25_600]),
        ([5_000, 3_000], [512, 5_000, 400, 190_000], [5_000, 5_121]),
        // As R5, just at the setpoint; and a writer that dirties one page a second.
        ([1_000, 2_600], [1_200, 2_344, 200, 175_000], [1_000, 2_559]),
        ([1_000, 2_600], [1_200, 1, 1_000, 175_000], [1_000, 25_600]),
    ];
    for (index, (before, inputs, after)) in rows.into_iter().enumerate() {
        let inputs = RateInputs {
            position_ratio: inputs[0],
            average_pages_per_s: 25_600,
            dirtied_pages: inputs[1],
            elapsed_ms: inputs[2],
            dirty: inputs[3],
            setpoint: 175_000,
        };
        let got = of(before).advanced(&inputs);
        assert_eq!(got, of(after), "R{}", index + 1);
    }
}

#[test]
fn the_imposed_rate_has_no_one_added() {
    assert_eq!(task_ratelimit(2_560, 1_023), 2_557);
    assert_eq!(task_ratelimit(1, 1_023), 0);
}

#[test]
fn a_strict_store_aims_between_its_own_thresholds() {
    assert_eq!(strict_setpoint(5_000, 8_000, 4_000), 6_000);
    assert_eq!(strict_setpoint(7, 8_000, 4_000), 8);
    assert_eq!(strict_setpoint(8, 8_000, 4_000), 6_000);
}

#[test]
fn condition_5_the_rate_finds_the_number_of_writers() {
    let limits = DirtyLimits {
        thresh: 200_000,
        background: 100_000,
    };
    for (writers, pages_per_s) in [(1, 25_600), (10, 25_600), (100, 25_600), (1, 12_800)] {
        let fair = pages_per_s / writers;
        let settled = closed_loop(limits, writers, pages_per_s).skip(150).take(50);
        for sample in settled {
            let away = sample.ratelimit.abs_diff(fair);
            assert!(
                away <= fair / 4,
                "{writers} writers: {sample:?}, fair {fair}"
            );
        }
    }
}

prop_compose! {
    fn any_step()(
        ratelimit in 1_u64..1 << 30, balanced in 0_u64..1 << 30, position_ratio in 0_u64..16_384,
        average in 1_u64..1 << 30, dirtied_pages in 0_u64..1 << 30, elapsed_ms in 0_u64..10_000,
        dirty in 0_u64..1 << 20, setpoint in 0_u64..1 << 20,
    ) -> (DirtyRate, RateInputs) {
        let inputs = RateInputs {
            position_ratio,
            average_pages_per_s: average,
            dirtied_pages,
            elapsed_ms,
            dirty,
            setpoint,
        };
        (DirtyRate { ratelimit, balanced }, inputs)
    }
}

/// What the old estimate, the new one and the position agree on, below or above the setpoint.
fn agreed(rate: DirtyRate, after: DirtyRate, inputs: &RateInputs) -> u64 {
    let task = task_ratelimit(rate.ratelimit, inputs.position_ratio) + 1;
    let witnesses = [rate.balanced, after.balanced, task];
    let chosen = if inputs.dirty < inputs.setpoint {
        witnesses.into_iter().min()
    } else {
        witnesses.into_iter().max()
    };
    chosen.expect("there are three")
}

proptest! {
    #[test]
    fn condition_1_bounds((rate, inputs) in any_step()) {
        let after = rate.advanced(&inputs);
        prop_assert!(after.ratelimit >= 1);
        prop_assert!(after.balanced <= inputs.average_pages_per_s);
    }

    #[test]
    fn condition_2_a_step_is_an_eighth_of_the_gap((rate, inputs) in any_step()) {
        let after = rate.advanced(&inputs);
        let aim = agreed(rate, after, &inputs);
        let moved = after.ratelimit.abs_diff(rate.ratelimit);
        prop_assert!(moved <= aim.abs_diff(rate.ratelimit).div_ceil(8));
        let (low, high) = (rate.ratelimit.min(aim), rate.ratelimit.max(aim));
        prop_assert!((low..=high).contains(&after.ratelimit));
    }

    #[test]
    fn condition_3_the_setpoint_gives_the_direction((rate, inputs) in any_step()) {
        let after = rate.advanced(&inputs);
        if inputs.dirty < inputs.setpoint {
            prop_assert!(after.ratelimit >= rate.ratelimit);
        } else {
            prop_assert!(after.ratelimit <= rate.ratelimit);
        }
    }

    #[test]
    fn condition_4_one_veto_is_enough((rate, inputs) in any_step()) {
        let after = rate.advanced(&inputs);
        let aim = agreed(rate, after, &inputs);
        let vetoed = if inputs.dirty < inputs.setpoint {
            aim <= rate.ratelimit
        } else {
            aim >= rate.ratelimit
        };
        if vetoed {
            prop_assert_eq!(after.ratelimit, rate.ratelimit);
        }
    }
}
