use super::*;
use proptest::prelude::*;

fn any_pace() -> impl Strategy<Value = ReadPace> {
    (0..2_000_000_u64, 0..HIGHEST_PAGES_PER_S).prop_map(|(latency_us, pages_per_s)| ReadPace {
        latency_us,
        latency_pages: 32,
        pages_per_s,
    })
}

fn any_inputs() -> impl Strategy<Value = ReachInputs> {
    let flags = (any::<bool>(), any::<bool>());
    (flags, any_pace(), 1..1_024_u64, 0..512_u64, 0..100_000_u64).prop_map(
        |((has_waited, has_lost), pace, request_pages, least_pages, room_pages)| ReachInputs {
            has_waited,
            has_lost,
            pace,
            request_pages,
            least_pages,
            room_pages,
        },
    )
}

/// What a probe sees of a store with `in_flight` pages under way: it delivers them in one latency,
/// or in as long as its rate takes.
fn probe_of(pages_per_s: u64, latency_us: u64, in_flight: u64, was_alone: bool) -> Probe {
    let transfer_us = (in_flight * US_PER_S).div_ceil(pages_per_s);
    Probe {
        took_us: latency_us.max(transfer_us),
        ended_pages: in_flight,
        own_pages: in_flight,
        was_alone,
    }
}

fn waiting(pace: ReadPace, request_pages: u64) -> ReachInputs {
    ReachInputs {
        has_waited: true,
        pace,
        request_pages,
        least_pages: 32,
        room_pages: u64::MAX,
        ..ReachInputs::default()
    }
}

proptest! {
    #[test]
    fn condition_1_the_reach_keeps_its_bounds(
        reach_pages in 0..200_000_u64, inputs in any_inputs(),
    ) {
        let next = reach(reach_pages, &inputs);
        prop_assert!(next >= inputs.least_pages);
        prop_assert!(next <= inputs.room_pages.max(inputs.least_pages));
    }

    #[test]
    fn condition_2_it_grows_for_a_reader_that_waited(
        reach_pages in 1..200_000_u64, inputs in any_inputs(),
    ) {
        let next = reach(reach_pages, &inputs);
        if next > reach_pages.max(inputs.least_pages) {
            let need = inputs.pace.need_pages();
            prop_assert!(inputs.has_waited && !inputs.has_lost);
            prop_assert!(next <= 2 * reach_pages);
            prop_assert!(next <= need + need / 4 + 2 * inputs.request_pages);
        }
    }

    #[test]
    fn condition_3_lost_pages_halve_it(reach_pages in 0..200_000_u64, inputs in any_inputs()) {
        let lost = ReachInputs { has_lost: true, ..inputs };
        let half = (reach_pages / 2).min(inputs.room_pages).max(inputs.least_pages);
        prop_assert_eq!(reach(reach_pages, &lost), half);
    }

    #[test]
    fn condition_4_a_waiting_reader_ends_where_the_store_is_full(
        pages_per_s in 100..1_000_000_u64, latency_us in 100..200_000_u64, request in 1..512_u64,
    ) {
        // Until it is full a store has one window under way, or two.
        for windows in [1, 2] {
            let first = probe_of(pages_per_s, latency_us, 1, true);
            let (mut pace, mut reach_pages) = (ReadPace::default().observed(first), 32);
            for _ in 0..200 {
                let in_flight = reach_pages * windows;
                pace = pace.observed(probe_of(pages_per_s, latency_us, in_flight, false));
                reach_pages = reach(reach_pages, &waiting(pace, request));
            }
            // A request alone also takes the time of its own transfer.
            let need = pages_per_s * latency_us / US_PER_S;
            let of_one = pages_per_s * first.took_us / US_PER_S;
            prop_assert!(reach_pages >= need.max(32), "{reach_pages} of {need}");
            prop_assert!(reach_pages <= (of_one * 5 / 4 + 2 * request + 1).max(32));
        }
    }

    #[test]
    fn condition_5_load_never_raises_the_latency(
        pace in any_pace(), took_us in 1..LONGEST_US, ended_pages in 0..10_000_u64,
        (own_pages, was_alone) in (1..1_024_u64, any::<bool>()),
    ) {
        prop_assume!(pace.latency_us > 0);
        prop_assume!(!was_alone || own_pages > pace.latency_pages);
        let probe = Probe { took_us, ended_pages, own_pages, was_alone };
        prop_assert!(pace.observed(probe).latency_us <= pace.latency_us);
    }

    #[test]
    fn condition_6_it_settles(mut reach_pages in 0..u64::MAX / 4, inputs in any_inputs()) {
        let inputs = ReachInputs { has_lost: false, ..inputs };
        for _ in 0..64 {
            reach_pages = reach(reach_pages, &inputs);
        }
        prop_assert_eq!(reach(reach_pages, &inputs), reach_pages);
    }
}

#[test]
fn a_latency_follows_requests_that_were_alone() {
    let alone = |took_us| Probe {
        took_us,
        ended_pages: 1,
        own_pages: 1,
        was_alone: true,
    };
    let mut pace = ReadPace::default().observed(alone(1_000));
    assert_eq!(pace.latency_us, 1_000);
    pace = pace.observed(alone(5_000));
    assert_eq!(pace.latency_us, 2_000);
    pace = pace.observed(alone(900));
    assert_eq!(pace.latency_us, 900);
}

#[test]
fn a_rate_rises_at_once_and_falls_slowly() {
    let probe = |ended_pages| Probe {
        took_us: US_PER_S,
        ended_pages,
        own_pages: 1,
        was_alone: false,
    };
    let pace = ReadPace::default().observed(probe(1_600));
    assert_eq!(pace.pages_per_s, 1_600);
    assert_eq!(pace.observed(probe(0)).pages_per_s, 1_500);
    assert_eq!(pace.observed(probe(3_200)).pages_per_s, 3_200);
}

#[test]
fn nothing_known_lets_nothing_grow() {
    let inputs = waiting(ReadPace::default(), 256);
    assert_eq!(reach(32, &inputs), 32);
}

#[test]
fn a_guess_takes_a_slow_store_fifty_milliseconds_at_most() {
    // 10 MiB a second, 4 ms away: ten pages are on their way, and 128 are 50 ms.
    let pace = ReadPace {
        latency_us: 4_000,
        latency_pages: 1,
        pages_per_s: 2_560,
    };
    assert_eq!(pace.need_pages(), 10);
    let inputs = waiting(pace, 256);
    assert_eq!(reach(100, &inputs), 12 + 128);
}

#[test]
fn a_store_is_known_by_its_quickest_read_and_forgets_a_sixteenth_of_its_rate() {
    let known = ReadPace {
        latency_us: 1_000_000,
        latency_pages: 32,
        pages_per_s: 1_600,
    };
    let probe = Probe {
        took_us: 1_000_000,
        own_pages: 64,
        ended_pages: 800,
        was_alone: false,
    };
    let expected = ReadPace {
        pages_per_s: 1_550,
        ..known
    };
    assert_eq!(known.observed(probe), expected);
}

#[test]
fn a_reach_of_twice_the_target_stays_and_a_page_more_is_halved() {
    let inputs = ReachInputs {
        pace: ReadPace {
            latency_us: US_PER_S,
            latency_pages: 32,
            pages_per_s: 1_000,
        },
        room_pages: 10_000,
        ..ReachInputs::default()
    };
    assert_eq!(reach(2_500, &inputs), 2_500);
    assert_eq!(reach(2_501, &inputs), 1_250);
}
