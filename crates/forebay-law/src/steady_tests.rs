use proptest::prelude::*;

use super::*;

fn sample(written_pages: u64) -> Sample {
    Sample {
        written_pages,
        elapsed_ms: BANDWIDTH_INTERVAL_MS,
        busy_us: BANDWIDTH_INTERVAL_MS * 1_000,
        ..Sample::default()
    }
}

fn of(pages_per_s: u64) -> Bandwidth {
    Bandwidth {
        write_pages_per_s: pages_per_s,
        average_pages_per_s: pages_per_s,
    }
}

/// The estimates after each of `samples`, from `before` on.
fn estimates(before: Bandwidth, samples: impl IntoIterator<Item = Sample>) -> Vec<Bandwidth> {
    let (mut run, mut known) = (Steady::default(), before);
    let step = |sample: Sample| {
        (run, known) = run.advanced(known.sampled(sample), sample);
        known
    };
    samples.into_iter().map(step).collect()
}

/// The same by the bandwidth law alone.
fn averages(before: Bandwidth, samples: impl IntoIterator<Item = Sample>) -> Vec<Bandwidth> {
    let mut known = before;
    let step = |sample: Sample| {
        known = known.sampled(sample);
        known
    };
    samples.into_iter().map(step).collect()
}

#[test]
fn vectors_half_and_twice_a_rate_are_known_with_the_twelfth_sample() {
    for pages in [2_560, 10_240] {
        let found = estimates(of(25_600), std::iter::repeat_n(sample(pages), 20));
        assert_ne!(found[10].average_pages_per_s, pages * 5);
        assert_eq!(found[11], of(pages * 5));
        assert_eq!(found[19], of(pages * 5));
    }
}

#[test]
fn condition_7_a_leap_is_fresh_for_three_seconds() {
    let mut run = Steady::default();
    let mut known = of(25_600);
    let mut fresh = vec![];
    for _ in 0..40 {
        (run, known) = run.advanced(known.sampled(sample(2_560)), sample(2_560));
        fresh.push(run.has_leapt());
    }
    let is_after_leap = |at| (11..11 + FRESH).contains(&at);
    assert!(
        (0..40).all(|at| fresh[at] == is_after_leap(at)),
        "{fresh:?}"
    );
    // The end of a run is the end of what is known by it.
    let leapt = (0..12).fold(Steady::default(), |run, _| {
        run.advanced(of(25_600), sample(2_560)).0
    });
    assert!(leapt.has_leapt());
    assert!(!leapt.advanced(of(12_800), sample(0)).0.has_leapt());
}

#[test]
fn short_samples_are_not_counted() {
    // A dozen of them are a quarter of a second.
    let short = Sample {
        written_pages: 256,
        elapsed_ms: 20,
        busy_us: 20_000,
        ..Sample::default()
    };
    let short = std::iter::repeat_n(short, 40);
    assert_eq!(
        estimates(of(25_600), short.clone()),
        averages(of(25_600), short)
    );
}

#[test]
fn a_store_that_stands_still_is_not_one_of_no_rate() {
    let still = std::iter::repeat_n(sample(0), 13);
    assert_eq!(
        estimates(of(25_600), still.clone()),
        averages(of(25_600), still)
    );
}

proptest! {
    #[test]
    fn condition_1_without_a_run_the_bandwidth_law_decides(
        pages in 1..1_u64 << 21, count in 1..12_usize,
    ) {
        let samples = vec![sample(pages); count];
        prop_assert_eq!(
            estimates(of(25_600), samples.clone()),
            averages(of(25_600), samples)
        );
    }

    #[test]
    fn condition_2_a_mean_that_is_near_changes_nothing(
        rate in 1_000..1_u64 << 20,
        percent in prop::collection::vec(85..115_u64, 1..100),
    ) {
        let samples: Vec<Sample> = percent.iter().map(|it| sample(rate * it / 100)).collect();
        prop_assert_eq!(
            estimates(of(rate * 5), samples.clone()),
            averages(of(rate * 5), samples)
        );
    }

    #[test]
    fn condition_3_a_leap_ends_among_the_samples(
        before in 1..1_u64 << 20,
        pages in prop::collection::vec(900..1_100_u64, 12),
    ) {
        let (mut run, mut known) = (Steady::default(), of(before));
        for &each in &pages {
            let sampled = known.sampled(sample(each));
            (run, known) = run.advanced(sampled, sample(each));
            if known != sampled {
                let among = pages.iter().map(|pages| pages * 5);
                prop_assert!(among.clone().min() <= Some(known.average_pages_per_s));
                prop_assert!(among.max() >= Some(known.average_pages_per_s));
                prop_assert_eq!(known.write_pages_per_s, known.average_pages_per_s);
            }
        }
    }

    #[test]
    fn condition_4_a_new_rate_is_known_after_three_seconds(
        rate in 1_000..1_u64 << 20, doubles: bool, before in 0..40_usize,
        mixed in 0..=100_u64,
        percent in prop::collection::vec(95..=105_u64, 40),
    ) {
        let then = if doubles { rate * 2 } else { rate / 2 };
        let mut samples = vec![sample(rate); before];
        // The sample in which the change comes.
        samples.push(sample((rate * mixed + then * (100 - mixed)) / 100));
        let steps = (3 * MS_PER_S / BANDWIDTH_INTERVAL_MS) as usize;
        samples.extend(percent.iter().map(|it| sample(then * it / 100)));
        let found = estimates(of(rate * 5), samples);
        for known in &found[before + steps..] {
            let average = known.average_pages_per_s;
            prop_assert!(average.abs_diff(then * 5) * 10 <= then * 5 + 100, "{average} {then}");
        }
    }

    #[test]
    fn condition_5_a_store_that_scatters_is_left_to_the_average(
        rate in 1_000..1_u64 << 20, before in 1..1_u64 << 24, count in 1..100_usize,
    ) {
        let each = |at: usize| sample(if at.is_multiple_of(2) { rate } else { rate * 9 / 20 });
        let samples: Vec<Sample> = (0..count).map(each).collect();
        prop_assert_eq!(
            estimates(of(before), samples.clone()),
            averages(of(before), samples)
        );
    }

    #[test]
    fn condition_6_a_sample_that_says_nothing_begins_a_new_run(
        pages in 1..1_u64 << 20, at in 0..11_usize, stands_still: bool,
    ) {
        let mut samples = vec![sample(pages); 12];
        samples[at] = if stands_still {
            sample(0)
        } else {
            Sample { busy_us: 1_000, ..sample(1) }
        };
        let mut run = Steady::default();
        for &sample in &samples {
            let known = of(pages * 50);
            let (next, after) = run.advanced(known, sample);
            prop_assert_eq!(after, known);
            run = next;
        }
        prop_assert_eq!(run.known, 11 - at);
    }
}
