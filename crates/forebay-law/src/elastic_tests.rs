use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn inputs() -> ElasticInputs {
    ElasticInputs {
        floor_bytes: 256 * MIB,
        ceiling_bytes: 1_536 * MIB,
        budget_bytes: 1_536 * MIB,
        headroom_bytes: 512 * MIB,
        free_bytes: 512 * MIB,
        ..ElasticInputs::default()
    }
}

/// A group in which the cache has all of its budget, beside what others take at each time (ms).
struct Group<F: Fn(u64) -> u64> {
    limit_bytes: u64,
    others: F,
    inputs: ElasticInputs,
    elastic: Elastic,
    least_headroom: u64,
}

impl<F: Fn(u64) -> u64> Group<F> {
    fn new(others: F) -> Group<F> {
        let inputs = inputs();
        Group {
            limit_bytes: 2_048 * MIB,
            others,
            elastic: Elastic::begun(&inputs),
            inputs,
            least_headroom: u64::MAX,
        }
    }

    /// Plays up to `end_ms`, from look to look. Returns the changes with their times.
    fn play(&mut self, end_ms: u64) -> Vec<(u64, Change)> {
        let mut changes = Vec::new();
        while self.inputs.now_ms < end_ms {
            let used = self.inputs.budget_bytes + (self.others)(self.inputs.now_ms);
            self.inputs.headroom_bytes = self.limit_bytes.saturating_sub(used);
            self.inputs.free_bytes = self.inputs.headroom_bytes;
            self.least_headroom = self.least_headroom.min(self.inputs.headroom_bytes);
            let (elastic, change) = self.elastic.advanced(&self.inputs);
            self.elastic = elastic;
            if let Some(change) = change {
                self.inputs.budget_bytes = change.to_bytes;
                changes.push((self.inputs.now_ms, change));
            }
            self.inputs.now_ms += next_look_ms(&self.inputs, &self.elastic);
        }
        changes
    }
}

/// One GiB, taken in 5 s, for `on_ms` of every `period_ms`.
fn comes_and_goes(on_ms: u64, period_ms: u64) -> impl Fn(u64) -> u64 {
    move |now_ms| match now_ms % period_ms {
        at if at < on_ms => 1_024 * MIB * at.min(5_000) / 5_000,
        _ => 0,
    }
}

#[test]
fn a_hog_gets_its_memory_and_the_cache_its_own_back() {
    let mut group = Group::new(|now_ms| match now_ms {
        0..60_000 => comes_and_goes(60_000, 200_000)(now_ms),
        _ => 0,
    });
    let changes = group.play(60_000);
    assert!(group.least_headroom > 0, "no look came too late");
    assert!(changes.iter().all(|(_, it)| it.cause != Cause::Pressure));
    assert!(group.inputs.budget_bytes <= (2_048 - 1_024) * MIB);
    assert!(
        group.inputs.budget_bytes >= 512 * MIB,
        "and it keeps the rest"
    );
    group.play(120_000);
    // 95 % of the pages are there again after a minute.
    assert!(group.inputs.budget_bytes * 100 >= 1_536 * MIB * 95);
    assert_eq!(group.elastic.turns, 1);
}

#[test]
fn a_cache_that_is_not_full_gives_what_it_uses() {
    let short = ElasticInputs {
        headroom_bytes: 50 * MIB,
        unused_bytes: 1_200 * MIB,
        ..inputs()
    };
    let change = Elastic::begun(&short).advanced(&short).1;
    assert_eq!(change.map(|it| it.to_bytes), Some(256 * MIB));
}

#[test]
fn the_first_budget_leaves_two_margins() {
    let first = |mib| {
        first_bytes(&ElasticInputs {
            headroom_bytes: mib * MIB,
            unused_bytes: 1_536 * MIB,
            ..inputs()
        })
    };
    assert_eq!(first(1_000), (1_000 - 192) * MIB);
    assert_eq!((first(100), first(9_000)), (256 * MIB, 1_536 * MIB));
    // A full cache keeps what it has.
    assert_eq!(first_bytes(&inputs()), 1_536 * MIB);
}

#[test]
fn a_cache_at_its_floor_does_not_look_often() {
    let least = ElasticInputs {
        budget_bytes: 256 * MIB,
        headroom_bytes: 0,
        ..inputs()
    };
    let elastic = Elastic::begun(&least);
    assert_eq!(elastic.advanced(&least).1, None);
    assert_eq!(next_look_ms(&least, &elastic), LOOK_BELOW_MS);
    let idle = ElasticInputs {
        headroom_bytes: 16 << 30,
        ..inputs()
    };
    assert_eq!(next_look_ms(&idle, &elastic), LOOK_AT_CEILING_MS);
}

fn any_inputs() -> impl Strategy<Value = ElasticInputs> {
    let mib = |most: u64| (0..most).prop_map(|it| it * MIB);
    let sizes = (mib(2_048), mib(2_048), mib(4_096), mib(4_096));
    let rest = (mib(512), mib(512), any::<bool>(), 0..20_000_u64);
    (sizes, rest).prop_map(
        |((floor, more, budget, headroom), (owed, unused, is_pressed, step))| ElasticInputs {
            floor_bytes: floor,
            ceiling_bytes: floor + more,
            budget_bytes: budget,
            headroom_bytes: headroom,
            free_bytes: headroom / 2,
            owed_bytes: owed,
            unused_bytes: unused,
            is_pressed,
            now_ms: step,
        },
    )
}

proptest! {
    #[test]
    fn condition_1_floor_and_ceiling_hold(all in proptest::collection::vec(any_inputs(), 1..60)) {
        let mut elastic = Elastic::begun(&all[0]);
        let mut now_ms = 0;
        for one in all {
            now_ms += one.now_ms;
            let (next, change) = elastic.advanced(&ElasticInputs { now_ms, ..one });
            elastic = next;
            if let Some(Change { to_bytes, .. }) = change {
                prop_assert!(one.floor_bytes <= to_bytes && to_bytes <= one.ceiling_bytes);
            }
            let first = first_bytes(&one);
            prop_assert!(one.floor_bytes <= first && first <= one.ceiling_bytes);
        }
    }

    #[test]
    fn condition_2_what_is_missing_is_asked_for_and_no_more(one in any_inputs()) {
        let budget_bytes = one.budget_bytes.clamp(one.floor_bytes, one.ceiling_bytes);
        let one = ElasticInputs { budget_bytes, ..one };
        let change = Elastic::begun(&one).advanced(&one).1;
        let to_bytes = change.map_or(budget_bytes, |it| it.to_bytes);
        let margin = margin_bytes(one.ceiling_bytes);
        let left = one.headroom_bytes + one.owed_bytes;
        if left < margin {
            let given = budget_bytes - to_bytes;
            prop_assert!(given >= margin - left || to_bytes == one.floor_bytes);
        } else if !one.is_pressed {
            prop_assert!(to_bytes >= budget_bytes);
        }
    }

    #[test]
    fn condition_3_less_headroom_never_gives_more(
        one in any_inputs(), less_mib in 0..4_096_u64, ample_ms in 0..60_000_u64,
    ) {
        let ample = Elastic { ample_ms: Some(0), ..Elastic::begun(&one) };
        let at = |headroom_bytes| {
            let now_ms = ample_ms;
            let inputs = ElasticInputs { headroom_bytes, now_ms, ..one };
            ample.advanced(&inputs).1.map_or(one.budget_bytes, |it| it.to_bytes)
        };
        let less = one.headroom_bytes.saturating_sub(less_mib * MIB);
        // A budget that somebody set above the ceiling or below the floor is put right by falls.
        prop_assume!(one.floor_bytes <= one.budget_bytes);
        prop_assert!(at(less) <= at(one.headroom_bytes));
    }

    #[test]
    fn condition_4_what_is_on_its_way_is_not_asked_for_again(one in any_inputs()) {
        let calm = ElasticInputs { is_pressed: false, ..one };
        let short = margin_bytes(calm.ceiling_bytes).saturating_sub(calm.headroom_bytes);
        let owing = ElasticInputs { owed_bytes: short, ..calm };
        let change = Elastic::begun(&owing).advanced(&owing).1;
        prop_assert_eq!(change, None);
    }

    #[test]
    fn condition_5_rises_are_slow_late_and_leave_room(
        steps in proptest::collection::vec((0..3_000_u64, 0..1_200_u64), 1..300),
    ) {
        let mut one = inputs();
        let mut elastic = Elastic::begun(&one);
        let mut last_fall_ms = None;
        let mut rose_ms = None;
        for (wait_ms, headroom_mib) in steps {
            one.now_ms += wait_ms;
            one.headroom_bytes = headroom_mib * MIB;
            let (next, change) = elastic.advanced(&one);
            elastic = next;
            let Some(Change { to_bytes, cause }) = change else { continue };
            if cause == Cause::Spare {
                let step = to_bytes - one.budget_bytes;
                let since_ms = rose_ms.map_or(1_000, |at: u64| (one.now_ms - at).min(5_000));
                prop_assert!(step <= one.ceiling_bytes / 32 * since_ms / 1_000 + 1);
                prop_assert!(one.headroom_bytes - step >= 2 * margin_bytes(one.ceiling_bytes));
                prop_assert!(last_fall_ms.is_none_or(|at| one.now_ms - at >= 30_000));
                rose_ms = Some(one.now_ms);
            } else {
                (last_fall_ms, rose_ms) = (Some(one.now_ms), None);
            }
            one.budget_bytes = to_bytes;
        }
    }

    #[test]
    fn condition_6_pressure_takes_an_eighth_in_two_seconds(
        gaps_ms in proptest::collection::vec(0..3_000_u64, 1..40), free_mib in 0..600_u64,
    ) {
        let mut one = ElasticInputs { is_pressed: true, free_bytes: free_mib * MIB, ..inputs() };
        let mut elastic = Elastic::begun(&one);
        let mut last_ms = None;
        for gap_ms in gaps_ms {
            one.now_ms += gap_ms;
            let (next, change) = elastic.advanced(&one);
            elastic = next;
            prop_assert!(change.is_none() || free_mib < 192);
            if let Some(change) = change {
                prop_assert_eq!(change.cause, Cause::Pressure);
                prop_assert!(last_ms.is_none_or(|at| one.now_ms - at >= 2_000));
                let least = (one.budget_bytes - one.budget_bytes / 8).max(one.floor_bytes);
                prop_assert_eq!(change.to_bytes, least);
                (last_ms, one.budget_bytes) = (Some(one.now_ms), change.to_bytes);
            }
        }
    }

    #[test]
    fn condition_7_a_hog_that_comes_and_goes_does_not_make_it_swing(
        period_s in 10..900_u64, part in 1..100_u64, begins_s in 0..400_u64,
    ) {
        let (period_ms, begins_ms) = (period_s * 1_000, begins_s * 1_000);
        let hog = comes_and_goes(period_ms * part / 100, period_ms);
        let mut group = Group::new(|now_ms| hog(now_ms + begins_ms));
        let changes = group.play(3_600_000);
        let is_up = |change: &Change| change.cause == Cause::Spare;
        let turns: Vec<u64> = changes
            .windows(2)
            .filter(|pair| is_up(&pair[0].1) != is_up(&pair[1].1))
            .map(|pair| pair[1].0)
            .collect();
        let crowded = turns.windows(4).find(|four| four[3] - four[0] <= 600_000);
        prop_assert_eq!(crowded, None, "all: {:?}", turns);
        prop_assert!(group.elastic.turns as usize >= turns.len());
    }

    #[test]
    fn condition_8_a_look_comes_in_time(
        headroom_mib in 0..8_192_u64, budget_mib in 257..1_537_u64,
    ) {
        let one = ElasticInputs {
            headroom_bytes: headroom_mib * MIB,
            budget_bytes: budget_mib * MIB,
            ..inputs()
        };
        let taken = next_look_ms(&one, &Elastic::begun(&one)) * (512 * MIB) / 1_000;
        prop_assert!(taken <= one.headroom_bytes || headroom_mib <= 48 + 26);
    }
}

#[test]
fn causes_have_names() {
    let names = [Cause::Room, Cause::Pressure, Cause::Spare].map(Cause::name);
    assert_eq!(names, ["room", "pressure", "spare"]);
}

#[test]
fn a_look_comes_when_half_a_margin_would_be_left() {
    let one = ElasticInputs {
        budget_bytes: 1_000 * MIB,
        headroom_bytes: (48 + 256) * MIB,
        ..inputs()
    };
    assert_eq!(next_look_ms(&one, &Elastic::begun(&one)), 500);
}

/// The next budget, if others leave `left_mib` at two looks that are 500 ms apart, and the cache
/// gives back `given_mib` between them.
fn budget_after(left_mib: [u64; 2], given_mib: u64) -> Option<u64> {
    let first = ElasticInputs {
        headroom_bytes: left_mib[0] * MIB,
        owed_bytes: given_mib * MIB,
        ..inputs()
    };
    let then = ElasticInputs {
        headroom_bytes: left_mib[1] * MIB,
        owed_bytes: 0,
        now_ms: 500,
        ..inputs()
    };
    let elastic = Elastic::begun(&first).advanced(&first).0;
    elastic
        .advanced(&then)
        .1
        .map(|change| change.to_bytes / MIB)
}

#[test]
fn condition_2_what_others_take_in_a_second_is_given_ahead() {
    // 60 MiB in half a second: 96 and 120 are wanted.
    assert_eq!(budget_after([276, 216], 0), None);
    assert_eq!(budget_after([275, 215], 0), Some(1_536 - 192));
    assert_eq!(budget_after([71, 11], 0), Some(1_536 - 205));
    // However fast, the lead is an eighth of the ceiling.
    assert_eq!(budget_after([512, 288], 0), None);
    assert_eq!(budget_after([512, 287], 0), Some(1_536 - 192));
    // What the cache gave back meanwhile was taken as well.
    assert_eq!(budget_after([200, 200], 0), None);
    assert_eq!(budget_after([200, 200], 60), Some(1_536 - 192));
    // Others that give back leave no lead.
    assert_eq!(budget_after([150, 200], 0), None);
}

#[test]
fn condition_2_a_cache_that_fills_or_gives_back_is_nobody_else() {
    let at = |now_ms, headroom, unused, owed| ElasticInputs {
        headroom_bytes: headroom * MIB,
        unused_bytes: unused * MIB,
        owed_bytes: owed * MIB,
        now_ms,
        ..inputs()
    };
    let mut elastic = Elastic::begun(&at(0, 600, 400, 0));
    for one in [
        at(300, 500, 300, 0),
        at(600, 200, 0, 0),
        at(900, 100, 0, 100),
    ] {
        let (next, change) = elastic.advanced(&one);
        assert_eq!((change, next.taken_per_s), (None, 0), "{one:?}");
        elastic = next;
    }
}

/// A budget below its ceiling, with 100 MiB more than two margins beside it.
fn roomy() -> ElasticInputs {
    ElasticInputs {
        budget_bytes: 512 * MIB,
        headroom_bytes: 292 * MIB,
        now_ms: 1_000,
        ..inputs()
    }
}

fn rises(elastic: Elastic, inputs: &ElasticInputs) -> bool {
    let change = elastic.advanced(inputs).1;
    change.is_some_and(|change| change.cause == Cause::Spare)
}

#[test]
fn room_that_was_there_at_the_start_counts_from_there() {
    let begun = Elastic::begun(&roomy());
    let at = |now_ms| ElasticInputs { now_ms, ..roomy() };
    assert!(!rises(begun, &at(1_000 + LEAST_HOLD_MS - 1)));
    assert!(rises(begun, &at(1_000 + LEAST_HOLD_MS)));
    let none = ElasticInputs {
        headroom_bytes: 192 * MIB,
        ..roomy()
    };
    assert_eq!(Elastic::begun(&none).ample_ms, None);
}

#[test]
fn pressure_counts_if_less_than_two_margins_are_free() {
    let elastic = Elastic {
        ample_ms: Some(0),
        pressed_ms: Some(59_000),
        hold_ms: LEAST_HOLD_MS,
        ..Elastic::default()
    };
    let with = |is_pressed, free_mib| ElasticInputs {
        is_pressed,
        free_bytes: free_mib * MIB,
        now_ms: 60_000,
        ..roomy()
    };
    for (is_pressed, free_mib, expected) in [
        (false, 150, true),
        (true, 150, false),
        (true, 192, true),
        (true, 300, true),
    ] {
        let found = rises(elastic, &with(is_pressed, free_mib));
        assert_eq!(found, expected, "{is_pressed} {free_mib}");
    }
    let due = Elastic::begun(&roomy());
    let fall = |free_mib| due.advanced(&with(true, free_mib)).1;
    let eighth = Change {
        to_bytes: 448 * MIB,
        cause: Cause::Pressure,
    };
    assert_eq!(fall(150), Some(eighth));
    assert_ne!(fall(192), Some(eighth));
}

#[test]
fn a_fall_soon_after_the_last_run_makes_room_wait_longer() {
    let elastic = Elastic {
        fell_ms: Some(0),
        rose_ms: Some(5),
        hold_ms: LEAST_HOLD_MS,
        ..Elastic::default()
    };
    let hold_after = |now_ms| {
        let one = ElasticInputs { now_ms, ..roomy() };
        elastic.fallen(&one, Cause::Room).hold_ms
    };
    let soon_ms = LONG_HOLD_MS + LEAST_HOLD_MS;
    assert_eq!(hold_after(soon_ms), LONG_HOLD_MS);
    assert_eq!(hold_after(soon_ms + 1), LEAST_HOLD_MS);
}

#[test]
fn steps_upwards_are_a_second_apart() {
    let elastic = Elastic {
        rose_ms: Some(1_000),
        ..Elastic::default()
    };
    let to_mib = |now_ms| {
        let one = ElasticInputs { now_ms, ..roomy() };
        elastic.risen(&one, 100 * MIB).1.map(|it| it.to_bytes / MIB)
    };
    assert_eq!(to_mib(1_999), None);
    assert_eq!(to_mib(2_000), Some(512 + 48));
    assert_eq!(to_mib(2_500), Some(512 + 72));
}

#[test]
fn what_others_take_is_measured_from_look_to_look_200_ms_apart() {
    let at = |now_ms, headroom| ElasticInputs {
        headroom_bytes: headroom * MIB,
        now_ms,
        ..inputs()
    };
    let mut elastic = Elastic::begun(&at(10_000, 900));
    for (now_ms, headroom, taken_mib) in [
        (10_199, 899, 0),
        (10_200, 860, 200),
        (10_399, 800, 200),
        (10_400, 840, 100),
        (11_400, 840, 0),
    ] {
        elastic = elastic.advanced(&at(now_ms, headroom)).0;
        assert_eq!(elastic.taken_per_s, taken_mib * MIB, "{now_ms}");
    }
}
