use proptest::prelude::*;

use super::*;

const CAP_KIB: u64 = 262_144;
const MANAGED: [u64; 3] = [3_840, 786_432, 128_000];
const RATIOS: [u64; 3] = [256, 256, 32];

fn machine_marks(spacing: MarkSpacing) -> [Watermarks; 3] {
    let total = MANAGED.iter().sum();
    let kib = min_free_kib(total * 4, CAP_KIB);
    MANAGED.map(|managed| watermarks(kib, managed, total, spacing))
}

fn alone(mib: u64, spacing: MarkSpacing) -> (u64, u64, u64) {
    let kib = min_free_kib(mib * 1024, CAP_KIB);
    let marks = watermarks(kib, mib * 256, mib * 256, spacing);
    (marks.min, marks.low, marks.high)
}

#[test]
fn vector_v1_pages_kept_free() {
    let rows = [
        (16, 512),
        (512, 2_896),
        (1_024, 4_096),
        (3_587, 7_666),
        (4_096, 8_192),
        (4_608, 8_688),
        (16_384, 16_384),
        (65_536, 32_768),
        (262_144, 65_536),
        (1_048_576, 131_072),
    ];
    for (mib, kib) in rows {
        assert_eq!(min_free_kib(mib * 1024, CAP_KIB), kib, "{mib} MiB");
    }
    assert_eq!(min_free_kib(1_048_576 * 1024, 65_536), 65_536);
}

#[test]
fn vector_v2_marks_of_three_zones() {
    let triples = |marks: [Watermarks; 3]| marks.map(|zone| (zone.min, zone.low, zone.high));
    assert_eq!(
        triples(machine_marks(MarkSpacing::Quarter)),
        [(8, 10, 12), (1_640, 2_050, 2_460), (267, 333, 400)]
    );
    assert_eq!(
        triples(machine_marks(MarkSpacing::default())),
        [(8, 11, 14), (1_640, 2_426, 3_212), (267, 395, 523)]
    );
}

#[test]
fn vector_v2_marks_of_a_zone_alone() {
    let scale = |per_ten_thousand| MarkSpacing::Scale { per_ten_thousand };
    assert_eq!(alone(512, MarkSpacing::Quarter), (724, 905, 1_086));
    assert_eq!(alone(512, scale(10)), (724, 905, 1_086));
    assert_eq!(alone(512, scale(100)), (724, 2_034, 3_344));
    assert_eq!(alone(1_024, MarkSpacing::Quarter), (1_024, 1_280, 1_536));
    assert_eq!(alone(1_024, scale(10)), (1_024, 1_286, 1_548));
    assert_eq!(alone(1_024, scale(100)), (1_024, 3_645, 6_266));
    assert_eq!(alone(4_608, MarkSpacing::Quarter), (2_172, 2_715, 3_258));
    assert_eq!(alone(4_608, scale(10)), (2_172, 3_351, 4_530));
    assert_eq!(alone(4_608, scale(100)), (2_172, 13_968, 25_764));
}

#[test]
fn vector_v2_reserves() {
    let reserves = |zone| [0, 1, 2].map(|class| lowmem_reserve(&MANAGED, &RATIOS, zone, class));
    assert_eq!(reserves(0), [0, 3_072, 3_572]);
    assert_eq!(reserves(1), [0, 0, 500]);
    assert_eq!(reserves(2), [0, 0, 0]);
    assert_eq!(lowmem_reserve(&MANAGED, &[0; 3], 0, 2), 0);
    let total = |spacing| {
        let high = machine_marks(spacing).map(|marks| marks.high);
        let of_zone = |zone: usize| {
            let reserves = [0, 1, 2].map(|class| lowmem_reserve(&MANAGED, &RATIOS, zone, class));
            reserved_pages(MANAGED[zone], reserves, high[zone])
        };
        (0..3).map(of_zone).sum::<u64>()
    };
    assert_eq!(total(MarkSpacing::default()), 7_821);
    assert_eq!(total(MarkSpacing::Quarter), 6_944);
}

fn balanced(free: &[u64], class: usize) -> bool {
    let marks = machine_marks(MarkSpacing::default());
    node_is_balanced((0..free.len().min(class + 1)).map(|zone| ZoneLevel {
        free: free[zone],
        high: marks[zone].high,
        reserve: lowmem_reserve(&MANAGED, &RATIOS, zone, class),
    }))
}

#[test]
fn vector_v3_balance_of_the_scarce_zone() {
    let rows = [
        (14, [false, false, false]),
        (15, [true, false, false]),
        (100, [true, false, false]),
        (3_087, [true, true, false]),
        (3_586, [true, true, false]),
        (3_587, [true, true, true]),
    ];
    for (free, expected) in rows {
        let got = [0, 1, 2].map(|class| balanced(&[free], class));
        assert_eq!(got, expected, "{free} free");
    }
    assert!(!balanced(&[0, 3_712, 0], 2) && balanced(&[0, 3_713, 0], 2));
    assert!(!balanced(&[0, 0, 523], 2) && balanced(&[0, 0, 524], 2));
}

#[test]
fn condition_7_the_scarce_zone_does_not_balance_the_node() {
    let free = [100, 2_000, 300];
    assert!(balanced(&free, 0));
    assert!(!balanced(&free, 2));
    assert!(node_is_balanced([]));
}

/// Pages a class-2 request can take from each zone, least scarce first, until `mark` refuses.
fn capacity(spacing: MarkSpacing, mark: fn(&Watermarks) -> u64, withheld: u64) -> [u64; 3] {
    let marks = machine_marks(spacing);
    [2, 1, 0].map(|zone: usize| {
        let reserve = lowmem_reserve(&MANAGED, &RATIOS, zone, 2);
        let passes = |free: u64| {
            is_above(
                free.saturating_sub(withheld),
                mark(&marks[zone]),
                reserve,
                MarkRelief::default(),
            )
        };
        (0..=MANAGED[zone])
            .rev()
            .take_while(|&free| passes(free))
            .count() as u64
    })
}

#[test]
fn vector_v4_capacity() {
    let new = MarkSpacing::default();
    assert_eq!(capacity(new, |m| m.low, 0), [127_605, 783_506, 257]);
    assert_eq!(capacity(new, |m| m.min, 0), [127_733, 784_292, 260]);
    // Linux 3.0 took two pages off the free count.
    let old = MarkSpacing::Quarter;
    assert_eq!(capacity(old, |m| m.low, 2), [127_665, 783_880, 256]);
    assert_eq!(capacity(old, |m| m.min, 2), [127_731, 784_290, 258]);
}

#[test]
fn vector_v4_relief() {
    let high = MarkRelief {
        high: true,
        ..MarkRelief::default()
    };
    let harder = MarkRelief {
        harder: true,
        ..high
    };
    assert_eq!(effective_mark(267, high), 134);
    assert_eq!(effective_mark(267, harder), 101);
    assert!(!is_above(101, 267, 0, harder) && is_above(102, 267, 0, harder));
    let victim = MarkRelief {
        oom_victim: true,
        ..MarkRelief::default()
    };
    assert_eq!(effective_mark(267, victim), 134);
}

#[test]
fn vector_v15_gate_of_direct_reclaim() {
    let sum = machine_marks(MarkSpacing::default())
        .iter()
        .map(|marks| marks.min)
        .sum();
    assert_eq!(sum, 1_915);
    assert!(!gate_is_open(957, sum) && gate_is_open(958, sum));
    assert!(gate_is_open(0, 0));
}

#[test]
fn vector_v16_balance_gap() {
    let marks = machine_marks(MarkSpacing::Quarter);
    let tops =
        [0, 1, 2].map(|zone: usize| marks[zone].high + balance_gap(marks[zone].low, MANAGED[zone]));
    assert_eq!(tops, [22, 4_510, 733]);
}

fn any_relief() -> impl Strategy<Value = MarkRelief> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(high, harder, oom_victim)| {
        MarkRelief {
            high,
            harder,
            oom_victim,
        }
    })
}

proptest! {
    #[test]
    fn condition_1_the_marks_are_in_order(
        kib in 0_u64..1 << 20, managed in 0_u64..1 << 40, more in 0_u64..1 << 40,
        per_ten_thousand in 0_u64..=3_000,
    ) {
        for spacing in [MarkSpacing::Quarter, MarkSpacing::Scale { per_ten_thousand }] {
            let marks = watermarks(kib, managed, managed + more, spacing);
            prop_assert!(marks.min <= marks.low && marks.low <= marks.high);
        }
    }

    #[test]
    fn condition_2_scaled_marks_are_evenly_spaced(
        kib in 0_u64..1 << 20, managed in 0_u64..1 << 40, per_ten_thousand in 0_u64..=3_000,
    ) {
        let spacing = MarkSpacing::Scale { per_ten_thousand };
        let marks = watermarks(kib, managed, managed, spacing);
        prop_assert_eq!(marks.low - marks.min, marks.high - marks.low);
    }

    #[test]
    fn condition_3_the_zones_keep_no_more_than_was_asked(
        kib in 0_u64..1 << 20, zones in prop::collection::vec(0_u64..1 << 30, 1..6),
    ) {
        let total = zones.iter().sum();
        let kept: u64 = zones
            .iter()
            .map(|&managed| watermarks(kib, managed, total, MarkSpacing::default()).min)
            .sum();
        prop_assert!(kept <= kib / 4);
    }

    #[test]
    fn condition_4_the_reserve_is_left(
        free in 0_u64..10_000, mark in 0_u64..10_000, reserve in 0_u64..10_000,
        relief in any_relief(),
    ) {
        if is_above(free, mark, reserve, relief) {
            prop_assert!(free > reserve);
        }
    }

    #[test]
    fn condition_5_relief_only_helps(
        free in 0_u64..10_000, mark in 0_u64..10_000, reserve in 0_u64..10_000,
        relief in any_relief(),
    ) {
        if is_above(free, mark, reserve, MarkRelief::default()) {
            prop_assert!(is_above(free, mark, reserve, relief));
        }
        let high = MarkRelief { high: true, ..MarkRelief::default() };
        prop_assert_eq!(effective_mark(mark, high), mark.div_ceil(2));
    }

    #[test]
    fn condition_6_kept_pages_grow_as_the_root(kib in 16_384_u64..1 << 40) {
        let kept = min_free_kib(kib, u64::MAX);
        let of_four = min_free_kib(kib * 4, u64::MAX);
        prop_assert!(kept <= of_four && of_four <= 2 * kept + 1);
    }
}
