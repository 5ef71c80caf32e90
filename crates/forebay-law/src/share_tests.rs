use proptest::prelude::*;

use super::*;

const UNBOUNDED: u64 = RATIO_ONE;

fn fraction(numerator: u64, denominator: u64) -> Share {
    Share {
        numerator,
        denominator,
    }
}

#[test]
fn vectors_f1_to_f7_thresholds() {
    let rows = [
        ((1, 1), (0, 100, 0), 200_000),
        ((3, 4), (0, 100, 0), 150_000),
        ((1, 4), (0, 100, 10), 45_000),
        ((1, 4), (10, 100, 10), 65_000),
        ((3, 4), (0, 1, 0), 2_000),
        ((0, 1), (5, 100, 5), 10_000),
        ((0, 1), (0, 100, 0), 0),
    ];
    for ((numerator, denominator), (min_percent, max_percent, min_percent_sum), pages) in rows {
        let limits = ShareLimits {
            min_percent,
            max_percent,
            min_percent_sum,
        };
        let part = fraction(numerator, denominator);
        assert_eq!(
            store_thresh(200_000, part, limits),
            pages,
            "{part:?} {limits:?}"
        );
    }
    assert_eq!(store_background(45_000, 200_000, 100_000), 22_500);
    assert_eq!(store_background(0, 0, 0), 0);
}

#[test]
fn vectors_of_the_bounded_share() {
    let rows = [
        (0, 10, 10),
        (9, 10, 1),
        (10, 10, 0),
        (0, 512, 16),
        (499, 512, 3),
        (501, 512, 0),
    ];
    for (numerator, bound, counted) in rows {
        let got = counted_pages(fraction(numerator, 1_001), 16, bound);
        assert_eq!(got, counted, "{numerator} of 1001, bound {bound}");
    }
}

#[test]
fn vector_of_ageing() {
    let (mut a, mut b) = (StoreCompletions::default(), StoreCompletions::default());
    let mut global = GlobalCompletions::default();
    complete(&mut global, &mut a, 3_000, UNBOUNDED, 0);
    complete(&mut global, &mut b, 1_000, UNBOUNDED, 0);
    assert_eq!(global.events, 4_001);
    let global = global.advanced(PERIOD_MS);
    assert_eq!(share(&global, &mut a), fraction(1_500, 2_000));
    assert_eq!(share(&global, &mut b), fraction(500, 2_000));
}

#[test]
fn the_timer_stops_when_everything_has_aged_out() {
    let mut store = StoreCompletions::default();
    let mut global = GlobalCompletions::default();
    complete(&mut global, &mut store, 1_000, UNBOUNDED, 500);
    assert_eq!(global.period_ends_ms, Some(3_500));
    let silent = global.advanced(40_000);
    assert_eq!((silent.events, silent.period_ends_ms), (0, Some(42_500)));
    let stopped = silent.advanced(60_000);
    assert_eq!(stopped.period_ends_ms, None);
    assert_eq!(stopped.advanced(u64::MAX), stopped);
    assert_eq!(share(&stopped, &mut store), fraction(0, 1));
}

/// Completions of three stores over time: store, pages, milliseconds since the one before.
fn any_history() -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
    prop::collection::vec((0_usize..3, 0_u64..10_000, 0_u64..5_000), 0..60)
}

fn replayed(history: &[(usize, u64, u64)]) -> (GlobalCompletions, [StoreCompletions; 3]) {
    let mut global = GlobalCompletions::default();
    let mut stores = [StoreCompletions::default(); 3];
    let mut now_ms = 0;
    for &(store, pages, wait_ms) in history {
        now_ms += wait_ms;
        complete(&mut global, &mut stores[store], pages, UNBOUNDED, now_ms);
    }
    (global, stores)
}

#[test]
fn a_store_that_stands_still_leaves_the_limit_to_the_others() {
    // 64 000 pages may be dirtied, 12 800 at a time; the one that stands still has them all.
    let (thresh, dirtyable) = (12_800, 64_000);
    assert_eq!(
        answerable_pages(12_800 + 500, 500, 12_000, thresh, dirtyable),
        1_300
    );
    assert_eq!(
        answerable_pages(12_800, 12_800, 12_000, thresh, dirtyable),
        12_800
    );
    // Where nearly all memory may be dirty there is no room for more.
    assert_eq!(
        answerable_pages(48_000, 500, 40_000, 47_000, dirtyable),
        47_000
    );
}

proptest! {
    #[test]
    fn condition_1_a_share_is_at_most_one(history in any_history()) {
        let (global, mut stores) = replayed(&history);
        for store in &mut stores {
            let part = share(&global, store);
            prop_assert!(part.numerator <= part.denominator && part.denominator >= 1);
        }
    }

    #[test]
    fn condition_2_shares_sum_to_at_most_one(history in any_history()) {
        let (global, stores) = replayed(&history);
        let sum: u64 = stores.iter().map(|store| store.caught_up(&global).events).sum();
        prop_assert!(sum <= global.events.max(1));
    }

    #[test]
    fn condition_3_ageing_late_is_ageing_in_time(
        events in 2_u64..1 << 40, waits in prop::collection::vec(0_u64..4_000, 0..20),
    ) {
        let start = GlobalCompletions { events, period: 0, period_ends_ms: Some(PERIOD_MS) };
        let store = StoreCompletions { events: events - 1, period: 0 };
        let (mut global, mut eager, mut now_ms) = (start, store, 0);
        for wait_ms in waits {
            now_ms += wait_ms;
            global = global.advanced(now_ms);
            eager = eager.caught_up(&global);
        }
        prop_assert_eq!(store.caught_up(&global), eager);
        if global.events > 1 {
            prop_assert_eq!(start.advanced(now_ms), global);
        }
    }

    #[test]
    fn condition_4_silence_keeps_the_order(
        a in any::<u32>(), b in any::<u32>(), silent_ms in 0_u64..100_000,
    ) {
        let start = GlobalCompletions {
            events: u64::from(a) + u64::from(b) + 1,
            period: 0,
            period_ends_ms: Some(PERIOD_MS),
        };
        let global = start.advanced(silent_ms);
        let aged = |events: u32| {
            StoreCompletions { events: u64::from(events), period: 0 }.caught_up(&global).events
        };
        prop_assert!((a <= b) == (aged(a) <= aged(b)) || aged(a) == aged(b));
    }

    #[test]
    fn condition_5_a_bound_is_passed_by_less_than_a_page(
        numerator in 0_u64..1 << 40, others in 1_u64..1 << 40, pages in 0_u64..1 << 20,
        bound in 0_u64..RATIO_ONE,
    ) {
        let before = fraction(numerator, numerator + others);
        let counted = counted_pages(before, pages, bound);
        prop_assert!(counted <= pages);
        if counted > 0 {
            let (num, den) = (numerator + counted - 1, numerator + others + counted - 1);
            prop_assert!(num * RATIO_ONE <= den * bound);
        }
    }

    #[test]
    fn condition_6_the_parts_sum_to_the_whole(
        history in any_history(), thresh in 0_u64..1 << 32,
        minima in [0_u64..33, 0_u64..33, 0_u64..33],
    ) {
        let (global, mut stores) = replayed(&history);
        let min_percent_sum = minima.iter().sum();
        let sum: u64 = stores
            .iter_mut()
            .zip(minima)
            .map(|(store, min_percent)| {
                let limits = ShareLimits { min_percent, min_percent_sum, ..ShareLimits::default() };
                store_thresh(thresh, share(&global, store), limits)
            })
            .sum();
        prop_assert!(sum <= thresh);
    }

    #[test]
    fn condition_7_the_maximum_holds(
        thresh in 0_u64..1 << 32, numerator in any::<u32>(), others in any::<u32>(),
        max_percent in 0_u64..=100,
    ) {
        let numerator = u64::from(numerator);
        let part = fraction(numerator, numerator + u64::from(others) + 1);
        let limits = ShareLimits { max_percent, ..ShareLimits::default() };
        prop_assert!(store_thresh(thresh, part, limits) <= thresh * max_percent / 100);
    }

    #[test]
    fn condition_8_answers_for_its_own_and_for_no_more_than_there_are(
        dirty in 0_u64..1 << 40, own in 0_u64..1 << 40, excess in 0_u64..1 << 40,
        thresh in 0_u64..1 << 40, dirtyable in 0_u64..1 << 40,
    ) {
        let own = own.min(dirty);
        let pages = answerable_pages(dirty, own, excess, thresh, dirtyable);
        prop_assert!((own..=dirty).contains(&pages));
    }

    #[test]
    fn condition_9_a_quarter_stays_clean(
        dirty in 0_u64..1 << 40, own in 0_u64..1 << 40, excess in 0_u64..1 << 40,
        dirtyable in 0_u64..1 << 40, part in 0_u64..=75,
    ) {
        let most = dirtyable - dirtyable / 4;
        let thresh = (dirtyable * part / 100).min(most);
        let pages = answerable_pages(dirty, own.min(dirty), excess, thresh, dirtyable);
        prop_assert!(pages > thresh || dirty <= most, "{pages} of {dirty}");
    }

    #[test]
    fn condition_10_what_others_have_too_much_is_theirs(
        parts in prop::collection::vec((0_u64..10_000, 0_u64..10_000), 1..6),
        own in 0_u64..10_000,
    ) {
        let thresh = 60_000;
        let dirty = own + parts.iter().map(|(pages, _)| pages).sum::<u64>();
        let excess = parts.iter().map(|(pages, part)| pages.saturating_sub(*part)).sum();
        let within: u64 = parts.iter().map(|(pages, part)| pages.min(part)).sum();
        prop_assert_eq!(answerable_pages(dirty, own, excess, thresh, 10 * thresh), own + within);
    }
}
