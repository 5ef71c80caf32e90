use proptest::prelude::*;

use super::*;
use crate::scan::{ListSizes, TOP_PRIORITY};

const ANON: RotationCounts = RotationCounts {
    scanned: 20_000,
    rotated: 10_000,
};
const FILE: RotationCounts = RotationCounts {
    scanned: 40_000,
    rotated: 1_000,
};
const SIZES: [u64; 4] = [50_000, 150_000, 100_000, 80_000];

#[test]
fn vector_v7_parts_by_rotation() {
    let rows = [
        (RotationWeights::Plain, (119, 5_594, 5_714), [0, 3, 94, 76]),
        (
            RotationWeights::PlusOne,
            (121, 5_634, 5_756),
            [1, 3, 94, 76],
        ),
    ];
    for (weights, expected, targets) in rows {
        let parts = fractions_by_rotation(ANON, FILE, 60, weights);
        assert_eq!((parts.anon, parts.file, parts.denominator), expected);
        let of = [parts.anon, parts.anon, parts.file, parts.file];
        let got: Vec<u64> = SIZES
            .iter()
            .zip(of)
            .map(|(size, part)| (size >> 10) * part / parts.denominator)
            .collect();
        assert_eq!(got, targets);
    }
}

#[test]
fn vector_v7_targets_by_rotation() {
    let inputs = ScanInputs {
        sizes: ListSizes {
            inactive_anon: 50_000,
            active_anon: 150_000,
            inactive_file: 100_000,
            active_file: 80_000,
        },
        priority: 10,
        swappiness: 60,
        swap_has_room: true,
        may_deactivate_file: true,
        ..ScanInputs::default()
    };
    let scan = |weights| RotationScan {
        anon: RotationCounts {
            scanned: 20_000,
            rotated: 10_000,
        },
        file: RotationCounts {
            scanned: 40_000,
            rotated: 1_000,
        },
        weights,
        is_kswapd: false,
    };
    let targets = |weights| {
        let targets = scan_targets_by_rotation(&inputs, &scan(weights));
        [
            targets.inactive_anon,
            targets.active_anon,
            targets.inactive_file,
            targets.active_file,
        ]
    };
    assert_eq!(targets(RotationWeights::Plain), [0, 3, 94, 76]);
    assert_eq!(targets(RotationWeights::PlusOne), [1, 3, 94, 76]);
}

#[test]
fn the_first_kswapd_looks_at_a_batch_of_each_small_list() {
    let inputs = ScanInputs {
        sizes: ListSizes {
            inactive_file: 3_000,
            active_file: 20,
            ..ListSizes::default()
        },
        priority: TOP_PRIORITY,
        swappiness: 60,
        ..ScanInputs::default()
    };
    let by = |is_kswapd| {
        let counts = RotationCounts::default();
        let scan = RotationScan {
            anon: counts,
            file: counts,
            weights: RotationWeights::PlusOne,
            is_kswapd,
        };
        let targets = scan_targets_by_rotation(&inputs, &scan);
        (targets.inactive_file, targets.active_file)
    };
    assert_eq!((by(true), by(false)), ((32, 20), (0, 0)));
}

#[test]
fn vector_6_2_limits_of_a_writer() {
    for (part, task_thresh) in [
        ((1, 1), 175_000),
        ((1, 2), 187_500),
        ((1, 10), 197_500),
        ((0, 1), 200_000),
    ] {
        let limits = task_limits(200_000, part.0, part.1);
        assert_eq!(
            (limits.task_thresh, limits.clear_thresh),
            (task_thresh, 175_000)
        );
    }
    assert_eq!(
        task_limits(7, 1, 1).task_thresh,
        7,
        "an eighth of so few is none"
    );
}

#[test]
fn vector_5_4_timeouts_of_the_first_versions() {
    use ThrottleReason::{Congested, Isolated, NoProgress, Writeback};
    for (reason, posted, candidate) in [
        (Writeback, 100, 100),
        (Isolated, 100, 20),
        (NoProgress, 100, 500),
        (Congested, 100, 100),
    ] {
        assert_eq!(early_timeout_ms(reason, EarlyProgress::AnyPage), posted);
        assert_eq!(early_timeout_ms(reason, EarlyProgress::AnEighth), candidate);
    }
}

#[test]
fn old_rotations_fade() {
    let halved = RotationCounts {
        scanned: 20_000,
        rotated: 500,
    };
    assert_eq!(FILE.decayed(160_000), FILE);
    assert_eq!(FILE.decayed(159_999), halved);
}

#[test]
fn vector_v17_a_hopeless_zone() {
    assert!(!is_unreclaimable(5_999, 1_000) && is_unreclaimable(6_000, 1_000));
}

#[test]
fn vector_v12_before_its_last_form() {
    let any = EarlyProgress::AnyPage;
    assert_eq!(
        consider_throttle_early(0, 1_000, 9, false, any),
        Progress::Sleep
    );
    assert_eq!(
        consider_throttle_early(0, 1_000, 10, false, any),
        Progress::Nothing
    );
    assert_eq!(
        consider_throttle_early(1, 1_000, 5, false, any),
        Progress::Wake
    );
    let eighth = EarlyProgress::AnEighth;
    assert_eq!(
        consider_throttle_early(1, 1_000, 5, false, eighth),
        Progress::Sleep
    );
    assert_eq!(
        consider_throttle_early(0, 1_000, 5, true, eighth),
        Progress::Nothing
    );
}

proptest! {
    #[test]
    fn pages_put_back_lower_the_part_of_their_kind(
        counts in any::<[u32; 4]>(), more in any::<u32>(), swappiness in 0..=MAX_SWAPPINESS,
    ) {
        let [a, b, c, d] = counts.map(u64::from);
        let anon = RotationCounts { scanned: a, rotated: b };
        let busier = RotationCounts { rotated: b + u64::from(more), ..anon };
        let file = RotationCounts { scanned: c, rotated: d };
        for weights in [RotationWeights::Plain, RotationWeights::PlusOne] {
            let before = fractions_by_rotation(anon, file, swappiness, weights);
            let after = fractions_by_rotation(busier, file, swappiness, weights);
            prop_assert!(after.anon <= before.anon && after.file == before.file);
        }
    }
}

#[test]
fn a_share_in_counted_periods_starts_at_nothing_and_grows_by_halves() {
    let mut all = CountedPeriods::of_limit(200_000);
    let half = all.half_period_pages();
    let mut only = StoreCompletions::default();
    let mut shares = Vec::new();
    for _ in 0..4 {
        let part = all.share(&mut only);
        shares.push(1_000 * part.numerator / part.denominator);
        all.complete(&mut only, half, 1_024);
    }
    assert_eq!(shares, [0, 500, 750, 875], "at the ends of its periods");
    // lg of 2 is 1: two bits more, and half of that.
    assert_eq!(CountedPeriods::of_limit(3).half_period_pages(), 4);
    assert_eq!(CountedPeriods::of_limit(0).half_period_pages(), 2);
    assert_eq!(
        CountedPeriods::of_limit(u64::MAX).half_period_pages(),
        1 << 47
    );
}

#[test]
fn a_bounded_share_in_counted_periods_does_not_grow() {
    let mut all = CountedPeriods::of_limit(1_000);
    let mut store = StoreCompletions::default();
    for _ in 0..10_000 {
        all.complete(&mut store, 16, 100);
    }
    let part = all.share(&mut store);
    assert!(
        part.numerator * 1_024 <= part.denominator * 100 + 16 * 1_024,
        "{part:?}"
    );
}

proptest! {
    #[test]
    fn shares_in_counted_periods_are_parts_of_one(
        limit in 0_u64..1 << 40,
        completed in proptest::collection::vec((0_usize..3, 0_u64..1 << 20), 0..64),
    ) {
        let mut all = CountedPeriods::of_limit(limit);
        let mut stores = [StoreCompletions::default(); 3];
        for (store, pages) in completed {
            all.complete(&mut stores[store], pages, 1_024);
            let parts = stores.each_mut().map(|store| all.share(store));
            let first = parts[0].denominator;
            let sum: u64 = parts.iter().map(|part| part.numerator).sum();
            prop_assert!(parts.iter().all(|part| part.numerator <= part.denominator));
            prop_assert!(sum <= first.max(all.half_period_pages()) * 2);
        }
    }
}

/// The targets of the four lists in the order of [`SIZES`].
fn targets_of_lists(inputs: &ScanInputs, weights: RotationWeights, is_kswapd: bool) -> [u64; 4] {
    let scan = RotationScan {
        anon: ANON,
        file: FILE,
        weights,
        is_kswapd,
    };
    let targets = scan_targets_by_rotation(inputs, &scan);
    [
        targets.inactive_anon,
        targets.active_anon,
        targets.inactive_file,
        targets.active_file,
    ]
}

fn inputs_of_lists(sizes: [u64; 4]) -> ScanInputs {
    ScanInputs {
        sizes: ListSizes {
            inactive_anon: sizes[0],
            active_anon: sizes[1],
            inactive_file: sizes[2],
            active_file: sizes[3],
        },
        priority: 10,
        swappiness: 60,
        swap_has_room: true,
        may_deactivate_file: true,
        ..ScanInputs::default()
    }
}

#[test]
fn the_last_priority_looks_at_all_lists_alike_unless_nothing_may_be_swapped() {
    use RotationWeights::Plain;
    let last = ScanInputs {
        priority: 0,
        ..inputs_of_lists(SIZES)
    };
    assert_eq!(targets_of_lists(&last, Plain, false), SIZES);
    let never = ScanInputs {
        swappiness: 0,
        ..last
    };
    assert_ne!(targets_of_lists(&never, Plain, false), SIZES);
}

#[test]
fn many_inactive_file_pages_spare_the_others_with_plain_weights() {
    use RotationWeights::{Plain, PlusOne};
    let many = ScanInputs {
        may_deactivate_file: false,
        ..inputs_of_lists(SIZES)
    };
    let [anon, active_anon, file, _] = targets_of_lists(&many, Plain, false);
    assert_eq!((anon, active_anon, file), (0, 0, 97));
    assert_eq!(targets_of_lists(&many, PlusOne, false)[1], 3);
    let few = ScanInputs {
        sizes: ListSizes {
            inactive_file: 1_023,
            ..many.sizes
        },
        ..many
    };
    assert_eq!(targets_of_lists(&few, Plain, false)[1], 3);
}

/// One is added to plus-one weights, so that the part of files is never nothing there.
#[test]
fn swappiness_200_without_anonymous_pages_takes_files_with_plain_weights() {
    use RotationWeights::{Plain, PlusOne};
    let only_files = |free_pages| ScanInputs {
        swappiness: MAX_SWAPPINESS,
        high_mark_sum: 100,
        free_pages,
        ..inputs_of_lists([0, 0, 4_096, 8_192])
    };
    assert_eq!(
        targets_of_lists(&only_files(100), Plain, false),
        [0, 0, 4, 8]
    );
    assert_eq!(targets_of_lists(&only_files(101), Plain, false), [0; 4]);
    assert_eq!(
        targets_of_lists(&only_files(100), PlusOne, false),
        targets_of_lists(&only_files(101), PlusOne, false)
    );
}

#[test]
fn small_lists_are_those_of_less_than_a_batch_at_this_priority() {
    let by_kswapd = |sizes, swap_has_room| {
        let inputs = ScanInputs {
            priority: TOP_PRIORITY,
            swap_has_room,
            ..inputs_of_lists(sizes)
        };
        targets_of_lists(&inputs, RotationWeights::PlusOne, true)
    };
    let batch = 32 << TOP_PRIORITY;
    assert_eq!(by_kswapd([0, 0, batch - 20, 20], false), [0, 0, 31, 0]);
    assert_eq!(by_kswapd([0, 0, batch - 21, 20], false), [0, 0, 31, 20]);
    assert_eq!(by_kswapd([100, 20, 3_000, 20], true), [32, 20, 32, 20]);
    assert_eq!(by_kswapd([100, 20, 3_000, 20], false), [0, 0, 32, 20]);
}

#[test]
fn an_eighth_of_what_was_looked_at_is_no_progress_and_a_page_more_is() {
    let after = |pages| consider_throttle_early(pages, 1_000, 5, false, EarlyProgress::AnEighth);
    assert_eq!((after(125), after(126)), (Progress::Sleep, Progress::Wake));
}

#[test]
fn a_writer_is_stopped_at_half_of_the_threshold_at_the_earliest() {
    assert_eq!(task_limits(200_000, 8, 1).task_thresh, 100_000);
}

#[test]
fn writers_that_throttle_themselves_are_asked_and_write_in_these_steps() {
    let limit = |pages| foreground_ratelimit(pages, 4, false);
    assert_eq!([1 << 20, 16_384, 100].map(limit), [1_024, 128, 16]);
    assert_eq!(foreground_ratelimit(16_384, 1, false), 512);
    assert_eq!(foreground_ratelimit(1 << 20, 4, true), 8);
    assert_eq!(foreground_chunk(1_024, 100), 1_536);
    assert_eq!(foreground_chunk(10, 101), 151);
    let ten = Tick::of_ms(10);
    let naps = [1, 40, 64].map(|ms| next_nap_ms(ms, Tick::FINE));
    assert_eq!((naps, next_nap_ms(40, ten)), ([2, 80, 100], 80));
    assert_eq!(next_nap_ms(80, Tick::of_ms(3)), 99);
}
