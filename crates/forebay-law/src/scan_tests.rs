use proptest::prelude::*;

use super::*;

const SIZES: ListSizes = ListSizes {
    inactive_anon: 50_000,
    active_anon: 150_000,
    inactive_file: 100_000,
    active_file: 80_000,
};

fn targets(
    inactive_anon: u64,
    active_anon: u64,
    inactive_file: u64,
    active_file: u64,
) -> ScanTargets {
    ScanTargets {
        inactive_anon,
        active_anon,
        inactive_file,
        active_file,
    }
}

fn by_fraction(anon: u64, file: u64) -> ScanInputs {
    ScanInputs {
        sizes: SIZES,
        priority: 10,
        swappiness: 60,
        cost: ReclaimCost { anon, file },
        swap_has_room: true,
        may_deactivate_anon: true,
        may_deactivate_file: true,
        ..ScanInputs::default()
    }
}

#[test]
fn vector_v5_ratio_of_the_inactive_list() {
    let rows = [
        (0, 1),
        (1, 3),
        (2, 4),
        (3, 5),
        (4, 6),
        (5, 7),
        (10, 10),
        (16, 12),
        (40, 20),
        (64, 25),
        (100, 31),
        (1_000, 100),
        (1_024, 101),
        (10_240, 320),
    ];
    for (gib, ratio) in rows {
        let total: u64 = (gib << PAGES_PER_GIB_BITS) + 1_000;
        // Just long enough: one page less is too short.
        let enough = total.div_ceil(ratio + 1);
        assert!(!inactive_is_low(enough, total - enough), "{gib} GiB");
        assert!(inactive_is_low(enough - 1, total - enough + 1), "{gib} GiB");
    }
}

#[test]
fn vector_v5_verdicts() {
    assert!(inactive_is_low(100_000, 150_000));
    assert!(!inactive_is_low(131_072, 131_072));
    assert!(!inactive_is_low(65_536, 196_608));
    assert!(inactive_is_low(60_000, 202_144));
}

#[test]
fn vector_v6_scan_counts() {
    let rows: [(u64, [u64; 13]); 4] = [
        (
            262_144,
            [
                64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072,
                262_144,
            ],
        ),
        (
            128_000,
            [
                31, 62, 125, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000,
            ],
        ),
        (
            3_840,
            [0, 1, 3, 7, 15, 30, 60, 120, 240, 480, 960, 1_920, 3_840],
        ),
        (100, [0, 0, 0, 0, 0, 0, 1, 3, 6, 12, 25, 50, 100]),
    ];
    for (size, counts) in rows {
        for (step, count) in counts.into_iter().enumerate() {
            let inputs = ScanInputs {
                sizes: ListSizes {
                    inactive_file: size,
                    ..ListSizes::default()
                },
                priority: TOP_PRIORITY - step as u32,
                ..ScanInputs::default()
            };
            assert_eq!(
                scan_targets(&inputs).inactive_file,
                count,
                "{size} at step {step}"
            );
        }
    }
}

#[test]
fn vector_v7_parts_by_cost() {
    let rows = [
        ((0, 0), (60, 140, 200), targets(14, 43, 67, 54)),
        ((100, 0), (89, 417, 506), targets(8, 25, 79, 64)),
        ((0, 100), (178, 209, 387), targets(22, 67, 52, 42)),
        ((300, 100), (102, 335, 437), targets(11, 34, 74, 59)),
    ];
    for ((anon, file), parts, expected) in rows {
        let got = fractions(ReclaimCost { anon, file }, 60);
        assert_eq!((got.anon, got.file, got.denominator), parts);
        assert_eq!(scan_targets(&by_fraction(anon, file)), expected);
    }
    let even = fractions(ReclaimCost { anon: 70, file: 70 }, 100);
    assert_eq!(even.anon, even.file);
}

#[test]
fn vector_v7_cost_decays() {
    let cost = ReclaimCost {
        anon: 900,
        file: 1_500,
    };
    let halved = ReclaimCost {
        anon: 450,
        file: 850,
    };
    let kept = ReclaimCost {
        anon: 900,
        file: 1_600,
    };
    assert_eq!(cost.noted(0, 200, 10_000), halved);
    assert_eq!(cost.noted(0, 100, 10_000), kept);
}

#[test]
fn vector_v8_rebalanced_pass() {
    let got = rebalance(targets(320, 160, 640, 320), targets(224, 64, 544, 224));
    assert_eq!(got, targets(0, 0, 166, 35));
}

#[test]
fn vector_v14_goal_and_depth_of_background_reclaim() {
    let goal = kswapd_goal([14, 3_212, 523]);
    assert_eq!(goal, 3_767);
    let offered = [219, 439, 878, 1_757, 3_515, 7_031];
    for (step, pages) in offered.into_iter().enumerate() {
        assert_eq!(900_000_u64 >> (12 - step), pages);
        assert_eq!(kswapd_presses_harder(pages, goal, 1), step < 5);
    }
    assert!(kswapd_presses_harder(7_031, goal, 0));
}

#[test]
fn modes_come_in_order() {
    let calm = ScanInputs {
        may_deactivate_anon: false,
        may_deactivate_file: false,
        high_mark_sum: 180_000,
        ..by_fraction(0, 0)
    };
    assert_eq!(balance_mode(&calm), BalanceMode::Anon);
    let roomy = ScanInputs {
        free_pages: 1,
        ..calm
    };
    assert_eq!(balance_mode(&roomy), BalanceMode::File);
    let active_file_is_due = ScanInputs {
        may_deactivate_file: true,
        ..roomy
    };
    assert_eq!(balance_mode(&active_file_is_due), BalanceMode::Fraction);
    let last = ScanInputs {
        priority: 0,
        ..calm
    };
    assert_eq!(balance_mode(&last), BalanceMode::Equal);
    assert_eq!(
        scan_targets(&last),
        targets(50_000, 150_000, 100_000, 80_000)
    );
    let unwilling = ScanInputs {
        swappiness: 0,
        ..last
    };
    assert_ne!(balance_mode(&unwilling), BalanceMode::Equal);
}

/// Seed 1795745967186 of the swarm: swappiness had been turned to 200, there was no anonymous page,
/// and kswapd found nothing to look at beside 905 clean pages of files.
#[test]
fn swappiness_200_spares_files_only_while_anonymous_memory_is_enough() {
    let none_anonymous = ScanInputs {
        sizes: ListSizes {
            inactive_file: 905,
            ..ListSizes::default()
        },
        priority: 6,
        swappiness: 200,
        cost: ReclaimCost { anon: 0, file: 108 },
        free_pages: 101,
        high_mark_sum: 163,
        swap_has_room: true,
        may_deactivate_file: true,
        ..ScanInputs::default()
    };
    assert_eq!(scan_targets(&none_anonymous), targets(0, 0, 14, 0));
    let with_anonymous = |active_anon| ScanInputs {
        sizes: ListSizes {
            active_anon,
            ..none_anonymous.sizes
        },
        ..none_anonymous
    };
    assert_eq!(scan_targets(&with_anonymous(62)), targets(0, 0, 14, 0));
    assert_eq!(scan_targets(&with_anonymous(63)), targets(0, 0, 0, 0));
    assert_eq!(scan_targets(&with_anonymous(64)), targets(0, 1, 0, 0));
    let with_files = ScanInputs {
        swappiness: 199,
        ..none_anonymous
    };
    assert_eq!(balance_mode(&with_files), BalanceMode::Fraction);
}

fn any_sizes() -> impl Strategy<Value = ListSizes> {
    let pages = || 0_u64..1 << 36;
    (pages(), pages(), pages(), pages()).prop_map(
        |(inactive_anon, active_anon, inactive_file, active_file)| ListSizes {
            inactive_anon,
            active_anon,
            inactive_file,
            active_file,
        },
    )
}

prop_compose! {
    fn any_inputs()(
        sizes in any_sizes(), priority in 0..=TOP_PRIORITY, swappiness in 0..=MAX_SWAPPINESS,
        anon in 0_u64..1 << 36, file in 0_u64..1 << 36, free_pages in 0_u64..1 << 20,
        high_mark_sum in 0_u64..1 << 37, flags in any::<[bool; 3]>(),
    ) -> ScanInputs {
        ScanInputs {
            sizes,
            priority,
            swappiness,
            cost: ReclaimCost { anon, file },
            free_pages,
            high_mark_sum,
            swap_has_room: flags[0],
            may_deactivate_anon: flags[1],
            may_deactivate_file: flags[2],
        }
    }
}

fn each(targets: ScanTargets) -> [u64; 4] {
    [
        targets.inactive_anon,
        targets.active_anon,
        targets.inactive_file,
        targets.active_file,
    ]
}

fn lengths(sizes: ListSizes) -> [u64; 4] {
    [
        sizes.inactive_anon,
        sizes.active_anon,
        sizes.inactive_file,
        sizes.active_file,
    ]
}

proptest! {
    #[test]
    fn condition_1_no_more_than_the_priority_allows(inputs in any_inputs()) {
        let got = each(scan_targets(&inputs));
        for (target, size) in got.into_iter().zip(lengths(inputs.sizes)) {
            prop_assert!(target <= size >> inputs.priority);
        }
    }

    #[test]
    fn condition_2_deeper_is_never_less(inputs in any_inputs()) {
        prop_assume!(inputs.priority > 0);
        let deeper = ScanInputs { priority: inputs.priority - 1, ..inputs };
        prop_assume!(balance_mode(&inputs) == balance_mode(&deeper));
        let pairs = each(scan_targets(&inputs)).into_iter().zip(each(scan_targets(&deeper)));
        for (shallow, deep) in pairs {
            prop_assert!(shallow <= deep);
        }
    }

    #[test]
    fn condition_3_without_swap_no_anonymous_page(inputs in any_inputs()) {
        let got = scan_targets(&ScanInputs { swap_has_room: false, ..inputs });
        prop_assert_eq!((got.inactive_anon, got.active_anon), (0, 0));
    }

    #[test]
    fn condition_4_the_dearer_kind_gets_less(
        anon in 0_u64..1 << 30, file in 1_u64..1 << 30, more in 0_u64..1 << 30,
        swappiness in 0..=MAX_SWAPPINESS,
    ) {
        let before = fractions(ReclaimCost { anon, file }, swappiness);
        let after = fractions(ReclaimCost { anon: anon + more, file }, swappiness);
        prop_assert!(after.anon * before.denominator <= before.anon * after.denominator);
    }

    #[test]
    fn condition_5_no_cost_silences_a_kind(anon in 0_u64..1 << 40, file in 0_u64..1 << 40) {
        let parts = fractions(ReclaimCost { anon, file }, 100);
        // A rounded part may fall short of a third of the whole by less than one.
        prop_assert!(parts.anon * 3 + 3 > parts.denominator);
        prop_assert!(parts.file * 3 + 3 > parts.denominator);
    }

    #[test]
    fn condition_6_a_rebalanced_pass_asks_for_less(
        sizes in any_sizes(), done in any::<[u32; 4]>(),
    ) {
        let [ia, aa, inf, af] = lengths(sizes);
        let left = |size: u64, done: u32| size.saturating_sub(u64::from(done));
        let anon = (left(ia, done[0]), left(aa, done[1]));
        let remaining = targets(anon.0, anon.1, left(inf, done[2]), left(af, done[3]));
        let got = rebalance(targets(ia, aa, inf, af), remaining);
        for (now, before) in each(got).into_iter().zip(each(remaining)) {
            prop_assert!(now <= before);
        }
        let anon = got.inactive_anon + got.active_anon;
        let file = got.inactive_file + got.active_file;
        let anon_is_small = remaining.inactive_file + remaining.active_file
            > remaining.inactive_anon + remaining.active_anon;
        prop_assert_eq!(if anon_is_small { anon } else { file }, 0);
    }

    #[test]
    fn condition_7_a_longer_inactive_list_is_never_too_short(
        inactive in 0_u64..1 << 36, active in 0_u64..1 << 40, more in 0_u64..1 << 36,
    ) {
        if !inactive_is_low(inactive, active) {
            prop_assert!(!inactive_is_low(inactive + more, active));
        }
    }

    #[test]
    fn condition_8_each_zone_asks_for_at_least_a_batch(
        highs in prop::collection::vec(0_u64..1 << 20, 0..6),
    ) {
        prop_assert!(kswapd_goal(highs.clone()) >= SWAP_CLUSTER_MAX * highs.len() as u64);
    }

    #[test]
    fn condition_9_without_anonymous_pages_files_are_all_that_a_pass_takes(
        inputs in any_inputs(), free_pages in 0_u64..1 << 30, missing in 0_u64..1 << 30,
    ) {
        let sizes = ListSizes { inactive_anon: 0, active_anon: 0, ..inputs.sizes };
        let high_mark_sum = free_pages + missing;
        let swappiness = MAX_SWAPPINESS;
        let inputs = ScanInputs { sizes, swappiness, free_pages, high_mark_sum, ..inputs };
        let file = [sizes.inactive_file, sizes.active_file].map(|size| size >> inputs.priority);
        prop_assume!(balance_mode(&inputs) != BalanceMode::Anon);
        prop_assert_eq!(each(scan_targets(&inputs)), [0, 0, file[0], file[1]]);
    }
}

#[test]
fn active_pages_are_deactivated_only_beside_an_inactive_list_under_a_tenth() {
    assert!(inactive_is_under_tenth(0, 1));
    assert!(inactive_is_under_tenth(99, 901));
    assert!(!inactive_is_under_tenth(100, 900));
    assert!(!inactive_is_under_tenth(500, 500));
    assert!(!inactive_is_under_tenth(0, 0));
}

#[test]
fn lists_with_nothing_to_take_at_this_priority_do_not_decide() {
    let short_of_files = ScanInputs {
        sizes: ListSizes {
            inactive_anon: 1_023,
            ..ListSizes::default()
        },
        priority: 10,
        swappiness: 60,
        swap_has_room: true,
        high_mark_sum: 1,
        may_deactivate_file: true,
        ..ScanInputs::default()
    };
    assert_eq!(balance_mode(&short_of_files), BalanceMode::Fraction);
    let few_files = ScanInputs {
        sizes: ListSizes {
            inactive_file: 1_023,
            ..ListSizes::default()
        },
        high_mark_sum: 0,
        may_deactivate_file: false,
        ..short_of_files
    };
    assert_eq!(balance_mode(&few_files), BalanceMode::Fraction);
}

#[test]
fn vector_v8_with_the_kinds_exchanged_and_with_as_much_left_of_both() {
    let got = rebalance(targets(640, 320, 320, 160), targets(544, 224, 224, 64));
    assert_eq!(got, targets(166, 35, 0, 0));
    let got = rebalance(targets(320, 160, 640, 320), targets(144, 144, 144, 144));
    assert_eq!(got, targets(51, 97, 0, 0));
}

#[test]
fn a_pass_that_reached_its_goal_does_not_press_harder() {
    assert!(!kswapd_presses_harder(100, 100, 1) && kswapd_presses_harder(99, 100, 1));
}
