use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const LONGEST_US: u64 = 1 << 50;

fn any_inputs() -> impl Strategy<Value = BlameInputs> {
    let waited = prop::array::uniform19(0..LONGEST_US);
    let rates = (0..1_000_000_u64, 0..1_000_000_u64);
    let limits = (0..1_000_000_u64, 0..1_000_000_u64);
    let memory = (0..1_u64 << 40, 0..1_u64 << 40);
    (waited, 0..LONGEST_US, rates, limits, memory).prop_map(
        |(waited_us, elapsed_us, rates, limits, memory)| BlameInputs {
            waited_us,
            elapsed_us,
            store_pages_per_s: rates.0,
            store_pages_per_s_before: rates.1,
            limit_pages: limits.0,
            limit_pages_before: limits.1,
            memory_bytes: memory.0,
            memory_bytes_before: memory.1,
        },
    )
}

fn any_facts() -> impl Strategy<Value = PauseFacts> {
    let pages = (0..100_000_u64, 0..100_000_u64, 0..1_000_u64);
    (pages, any::<bool>(), 0..10_000_u64, 0..10_000_u64).prop_map(
        |((own_pages, others, failed_pages), is_at_hard_limit, own, fair)| PauseFacts {
            own_pages,
            dirty_pages: own_pages + others,
            failed_pages,
            is_at_hard_limit,
            is_store_silent: false,
            is_unmeasured: false,
            own_pages_per_s: own,
            fair_pages_per_s: fair,
        },
    )
}

fn waited(cause: Cause, us: u64) -> BlameInputs {
    let mut inputs = BlameInputs::default();
    inputs.waited_us[cause as usize] = us;
    inputs
}

proptest! {
    #[test]
    fn condition_1_all_that_was_waited_is_somebodys(inputs in any_inputs()) {
        let shares = shares_us(&inputs);
        prop_assert_eq!(shares.iter().sum::<u64>(), inputs.all_us());
    }

    #[test]
    fn condition_2_a_clear_verdict_has_no_second_with_half_as_much(inputs in any_inputs()) {
        let shares = shares_us(&inputs);
        let verdict = blame(&inputs);
        prop_assert_eq!(shares[verdict.first as usize], verdict.first_us);
        for suspect in Suspect::ALL {
            let us = shares[suspect as usize];
            prop_assert!(us <= verdict.first_us);
            if suspect != verdict.first && verdict.is_clear() {
                prop_assert!(us < verdict.first_us.div_ceil(2));
            }
        }
    }

    #[test]
    fn condition_3_what_did_not_change_is_not_suspected(inputs in any_inputs()) {
        let mut same = BlameInputs {
            store_pages_per_s_before: inputs.store_pages_per_s,
            limit_pages_before: inputs.limit_pages,
            memory_bytes_before: inputs.memory_bytes,
            ..inputs
        };
        same.waited_us[Cause::SilentStore as usize] = 0;
        let shares = shares_us(&same);
        prop_assert_eq!(shares[Suspect::Store as usize], 0);
        prop_assert_eq!(shares[Suspect::Limit as usize], 0);
        prop_assert_eq!(shares[Suspect::Memory as usize], inputs.of(Cause::Memory));
    }

    #[test]
    fn condition_4_the_slower_the_more_blame(inputs in any_inputs(), slower in 1..1_000_000_u64) {
        let rate = inputs.store_pages_per_s.max(1);
        let limit = inputs.limit_pages.max(1);
        let faster = BlameInputs { store_pages_per_s: rate, limit_pages: limit, ..inputs };
        let share = |of: &BlameInputs, suspect: Suspect| shares_us(of)[suspect as usize];
        let slow = BlameInputs { store_pages_per_s: slower.min(rate), ..faster };
        prop_assert!(share(&slow, Suspect::Store) >= share(&faster, Suspect::Store));
        let low = BlameInputs { limit_pages: slower.min(limit), ..faster };
        let lowered = |of: &BlameInputs| share(of, Suspect::Limit) + share(of, Suspect::Memory);
        prop_assert!(lowered(&low) >= lowered(&faster));
    }

    #[test]
    fn condition_5_nothing_saves_more_than_was_waited(inputs in any_inputs()) {
        let saved = savings(&inputs);
        prop_assert_eq!(saved.waited_us, inputs.all_us());
        prop_assert!(saved.twice_the_memory_us <= saved.waited_us);
        prop_assert!(saved.twice_the_store_us <= saved.waited_us);
    }

    #[test]
    fn condition_6_who_has_a_quarter_is_not_stopped_by_others(facts in any_facts()) {
        let owns_a_quarter = facts.own_pages >= facts.dirty_pages / 4;
        if owns_a_quarter {
            prop_assert_ne!(cause_of_pause(&facts), Cause::OthersDirty);
        }
    }

    #[test]
    fn condition_7_half_of_the_pauses_is_saved_at_any_depth(inputs in any_inputs()) {
        let saved = savings(&inputs).twice_the_store_us;
        prop_assert!(saved >= inputs.paused_us() / 2);
    }
}

#[test]
fn causes_and_suspects_are_in_the_order_of_their_numbers() {
    for (number, cause) in Cause::ALL.iter().enumerate() {
        assert_eq!(*cause as usize, number, "{}", cause.name());
    }
    for (number, suspect) in Suspect::ALL.iter().enumerate() {
        assert_eq!(*suspect as usize, number, "{}", suspect.name());
    }
}

#[test]
fn vector_b1_the_causes_of_pauses() {
    let heavy = PauseFacts {
        own_pages: 9_100,
        dirty_pages: 10_000,
        is_at_hard_limit: true,
        own_pages_per_s: 18_000,
        fair_pages_per_s: 7_600,
        ..PauseFacts::default()
    };
    let light = PauseFacts {
        own_pages: 900,
        ..heavy
    };
    let modest = PauseFacts {
        is_at_hard_limit: false,
        own_pages_per_s: 100,
        ..light
    };
    let failing = PauseFacts {
        failed_pages: 5_001,
        ..heavy
    };
    let greedy = PauseFacts {
        own_pages_per_s: 7_601,
        ..modest
    };
    let silent = PauseFacts {
        is_store_silent: true,
        ..light
    };
    let causes =
        [heavy, light, modest, failing, greedy, silent].map(|facts| cause_of_pause(&facts));
    let expected = [
        Cause::OwnRate,
        Cause::OthersDirty,
        Cause::OthersDirty,
        Cause::FailedPages,
        Cause::OwnRate,
        Cause::SilentStore,
    ];
    assert_eq!(causes, expected);
}

#[test]
fn vector_b2_a_store_that_became_slow_is_blamed_before_its_writers() {
    let mut inputs = waited(Cause::OwnRate, 9_000);
    inputs.store_pages_per_s_before = 1_000;
    let at = |rate| {
        let mut slower = inputs;
        slower.store_pages_per_s = rate;
        let verdict = blame(&slower);
        (verdict.first, verdict.first_us, verdict.is_clear())
    };
    assert_eq!(at(501), (Suspect::OwnRate, 9_000, true));
    assert_eq!(at(500), (Suspect::OwnRate, 4_500, false));
    assert_eq!(at(400), (Suspect::Store, 5_400, false));
    assert_eq!(at(100), (Suspect::Store, 8_100, true));
    // Its rate is not known: it may have written nothing yet.
    assert_eq!(at(0), (Suspect::OwnRate, 9_000, true));
}

#[test]
fn vector_b3_a_lower_limit_is_the_memorys_if_that_became_smaller() {
    let mut inputs = waited(Cause::OthersDirty, 1_000);
    inputs.waited_us[Cause::DirectReclaim as usize] = 1_000;
    (inputs.limit_pages, inputs.limit_pages_before) = (100, 1_000);
    assert_eq!(shares_us(&inputs)[Suspect::Limit as usize], 900);
    assert_eq!(shares_us(&inputs)[Suspect::Reclaim as usize], 1_000);
    (inputs.memory_bytes, inputs.memory_bytes_before) = (1 << 20, 10 << 20);
    assert_eq!(shares_us(&inputs)[Suspect::Memory as usize], 1_900);
    assert_eq!(blame(&inputs).first, Suspect::Memory);
}

#[test]
fn vector_b4_what_waits_along_is_blamed_as_the_call_it_waits_for() {
    let mut inputs = waited(Cause::Along, 3_100);
    assert_eq!(blame(&inputs).first, Suspect::Along);
    inputs.waited_us[Cause::OwnRate as usize] = 100;
    assert_eq!(blame(&inputs).first_us, 3_200);
    assert_eq!(blame(&inputs).first, Suspect::OwnRate);
}

#[test]
fn vector_b5_two_causes_within_a_factor_of_two_are_unclear() {
    let mut inputs = waited(Cause::Commit, 1_000);
    inputs.waited_us[Cause::SyncWrites as usize] = 500;
    assert!(!blame(&inputs).is_clear());
    inputs.waited_us[Cause::SyncWrites as usize] = 499;
    assert!(blame(&inputs).is_clear());
    assert!(!blame(&BlameInputs::default()).is_clear());
}

#[test]
fn vector_b6_memory_helps_where_frames_are_short_and_not_against_a_rate() {
    let mut inputs = waited(Cause::OwnRate, 10_000_000);
    inputs.elapsed_us = 10_000_000;
    (inputs.store_pages_per_s, inputs.limit_pages) = (1_000, 999);
    let saved = savings(&inputs);
    assert_eq!(
        (saved.twice_the_memory_us, saved.twice_the_store_us),
        (999_000, 5_000_000)
    );
    assert!(!saved.memory_helps() && saved.store_helps());
    inputs.limit_pages = 1_000;
    assert!(savings(&inputs).memory_helps());
    let short = waited(Cause::NoFrames, 5);
    assert!(savings(&short).memory_helps() && !savings(&short).store_helps());
    assert!(!savings(&waited(Cause::Commit, 50)).memory_helps());
}

/// The same pauses of one call and of 32 calls at once: the same changes help, and save each call
/// as much.
#[test]
fn vector_b7_calls_in_parallel_are_helped_as_one_call_is() {
    let mut one = waited(Cause::OwnRate, 3_800_000);
    one.elapsed_us = 3_800_000;
    (one.store_pages_per_s, one.limit_pages) = (1_000, 100);
    let mut many = one;
    many.waited_us[Cause::OwnRate as usize] *= 32;
    let (saved, saved_by_many) = (savings(&one), savings(&many));
    assert_eq!(
        (saved.twice_the_memory_us, saved.twice_the_store_us),
        (100_000, 1_900_000)
    );
    assert_eq!(
        (
            saved_by_many.twice_the_memory_us,
            saved_by_many.twice_the_store_us
        ),
        (3_200_000, 60_800_000)
    );
    assert!(saved_by_many.store_helps() && !saved_by_many.memory_helps());

    // Waits of ten times the window, and a store that needs 11 s for what may be dirty.
    let mut seen = waited(Cause::OwnRate, 39_200_000);
    seen.elapsed_us = 3_800_000;
    (seen.store_pages_per_s, seen.limit_pages) = (1_000, 11_000);
    assert!(savings(&seen).store_helps() && savings(&seen).memory_helps());
}

#[test]
fn names_tell_causes_and_suspects_apart() {
    let causes: BTreeSet<&str> = Cause::ALL.map(Cause::name).into();
    let suspects: BTreeSet<&str> = Suspect::ALL.map(Suspect::name).into();
    assert_eq!((causes.len(), suspects.len()), (CAUSES, SUSPECTS));
    assert!(!causes.contains("") && !suspects.contains(""));
}

#[test]
fn half_of_the_pages_may_be_failed_and_a_quarter_is_not_small() {
    let half = PauseFacts {
        own_pages: 2_500,
        dirty_pages: 10_000,
        failed_pages: 5_000,
        is_at_hard_limit: true,
        ..PauseFacts::default()
    };
    assert_eq!(cause_of_pause(&half), Cause::OwnRate);
    let own_pages = 2_499;
    assert_eq!(
        cause_of_pause(&PauseFacts { own_pages, ..half }),
        Cause::OthersDirty
    );
}

#[test]
fn of_two_that_are_blamed_alike_the_first_is_named() {
    let mut inputs = waited(Cause::StoreRead, 10);
    inputs.waited_us[Cause::SyncWrites as usize] = 4;
    inputs.waited_us[Cause::Commit as usize] = 4;
    let verdict = blame(&inputs);
    assert_eq!((verdict.second, verdict.second_us), (Suspect::Sync, 4));
}
