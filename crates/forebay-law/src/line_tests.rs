use proptest::prelude::*;

use super::*;

/// A line that is known to have `bytes_per_s`.
fn line_of(bytes_per_s: u64) -> Line {
    Line { bytes_per_s }
}

fn rates() -> impl Strategy<Value = u64> {
    (14_u32..40).prop_flat_map(|bits| (1_u64 << bits)..=(2 << bits).min(FASTEST_RATE))
}

#[test]
fn samples_raise_the_rate_at_once_and_lower_it_slowly() {
    let line = line_of(1 << 20);
    assert_eq!(line.sent(16 << 20, 2_000), line_of(8 << 20));
    assert_eq!(line.sent(1 << 20, 2_000), line_of((1 << 20) - (1 << 16)));
    assert_eq!(line.sent(1 << 20, 1_000), line);
    assert_eq!(line.without_answer(), line_of(1 << 19));
}

proptest! {
    #[test]
    fn condition_1_patience_follows_what_is_under_way(
        rate in rates(), faster in rates(), bytes in 0_u64..1 << 50, more in 0_u64..1 << 50,
    ) {
        let (slow, fast) = (line_of(rate.min(faster)), line_of(rate.max(faster)));
        prop_assert!(slow.patience_ms(bytes) >= SILENCE_MS);
        prop_assert!(slow.patience_ms(bytes) <= slow.patience_ms(bytes + more));
        prop_assert!(fast.patience_ms(bytes) <= slow.patience_ms(bytes));
    }

    #[test]
    fn condition_2_ten_seconds_at_once(
        rate in rates(), object_bytes in 1_u64..1 << 32,
    ) {
        let uploads = line_of(rate).uploads_at_once(object_bytes);
        prop_assert!(uploads == 1 || uploads > 1 && uploads as u64 * object_bytes <= 10 * rate);
    }

    #[test]
    fn condition_3_every_line_carries_something_at_last(
        rate in rates(), known in rates(), object_bytes in 1_u64..64 << 20, most in 1_usize..64,
    ) {
        let mut line = line_of(known);
        let gets_through = |line: Line| {
            let uploads = line.uploads_at_once(object_bytes).min(most);
            let under_way_bytes = uploads as u64 * object_bytes;
            under_way_bytes * 1_000 / rate < line.patience_ms(under_way_bytes)
        };
        let mut without_answer = 0;
        while !gets_through(line) {
            line = line.without_answer();
            without_answer += 1;
        }
        prop_assert!(without_answer <= known.div_ceil(rate).next_power_of_two().ilog2());
    }

    #[test]
    fn condition_4_the_rate_stays_in_its_range(
        samples in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 0..100),
    ) {
        let mut line = Line::default();
        for (bytes, took_ms, has_answer) in samples {
            line = if has_answer { line.sent(bytes, took_ms) } else { line.without_answer() };
            prop_assert!((SLOWEST_RATE..=FASTEST_RATE).contains(&line.bytes_per_s()));
        }
    }
}
