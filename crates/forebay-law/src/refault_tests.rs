use proptest::prelude::*;

use super::*;

#[test]
fn vector_v18_by_active_file() {
    for (age_now, expected) in [(5_000, 3_800), (9_000, 7_800)] {
        let distance = refault_distance(age_now, 1_200, 64);
        assert_eq!(distance, expected);
        assert_eq!(activates_by_active_file(distance, 4_000), expected == 3_800);
    }
}

#[test]
fn each_kind_competes_with_its_own_lists() {
    let sizes = WorkingsetSizes {
        active_file: 1,
        inactive_file: 10,
        active_anon: 100,
        inactive_anon: 1_000,
        swap_has_room: true,
    };
    assert!(activates(1_101, true, &sizes) && !activates(1_102, true, &sizes));
    assert!(activates(111, false, &sizes) && !activates(112, false, &sizes));
    let unswappable = WorkingsetSizes {
        swap_has_room: false,
        ..sizes
    };
    assert!(activates(11, false, &unswappable) && !activates(12, false, &unswappable));
}

prop_compose! {
    fn any_sizes()(lists in any::<[u32; 4]>(), swap_has_room in any::<bool>()) -> WorkingsetSizes {
        let [active_file, inactive_file, active_anon, inactive_anon] = lists.map(u64::from);
        WorkingsetSizes { active_file, inactive_file, active_anon, inactive_anon, swap_has_room }
    }
}

proptest! {
    #[test]
    fn condition_1_the_distance_survives_a_wrap(
        start in any::<u64>(), steps in any::<u32>(), bits in 32_u32..=64,
    ) {
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let evicted = start & mask;
        let now = start.wrapping_add(u64::from(steps)) & mask;
        prop_assert_eq!(refault_distance(now, evicted, bits), u64::from(steps));
    }

    #[test]
    fn condition_2_sooner_is_never_worse(
        distance in any::<u32>(), less in any::<u32>(), is_file in any::<bool>(),
        sizes in any_sizes(),
    ) {
        if activates(u64::from(distance), is_file, &sizes) {
            prop_assert!(activates(u64::from(distance.saturating_sub(less)), is_file, &sizes));
        }
    }

    #[test]
    fn condition_3_without_swap_the_older_rule_holds(
        distance in any::<u32>(), sizes in any_sizes(),
    ) {
        let sizes = WorkingsetSizes { swap_has_room: false, ..sizes };
        let distance = u64::from(distance);
        prop_assert_eq!(
            activates(distance, true, &sizes),
            activates_by_active_file(distance, sizes.active_file)
        );
    }

    #[test]
    fn condition_4_longer_lists_never_refuse(
        distance in any::<u32>(), more in any::<[u32; 4]>(), is_file in any::<bool>(),
        sizes in any_sizes(),
    ) {
        let longer = WorkingsetSizes {
            active_file: sizes.active_file + u64::from(more[0]),
            inactive_file: sizes.inactive_file + u64::from(more[1]),
            active_anon: sizes.active_anon + u64::from(more[2]),
            inactive_anon: sizes.inactive_anon + u64::from(more[3]),
            ..sizes
        };
        if activates(u64::from(distance), is_file, &sizes) {
            prop_assert!(activates(u64::from(distance), is_file, &longer));
        }
    }

    #[test]
    fn condition_5_an_immediate_return_activates(
        age in any::<u64>(), is_file in any::<bool>(), sizes in any_sizes(),
    ) {
        prop_assert!(activates(refault_distance(age, age, 64), is_file, &sizes));
    }
}
