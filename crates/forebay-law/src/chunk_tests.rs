use proptest::prelude::*;

use super::*;

#[test]
fn vectors_of_the_chunk() {
    let rows = [
        (25_600, 200_000, u64::MAX, 13_312),
        (1_000, 200_000, u64::MAX, 1_024),
        (2_047, 200_000, u64::MAX, 1_024),
        (2_048, 200_000, u64::MAX, 2_048),
        (512_000, 200_000, u64::MAX, 25_600),
        (25_600, 200_000, 100, 1_024),
        (25_600, 4_000, u64::MAX, 1_024),
    ];
    for (average, dirty_limit, remaining, chunk) in rows {
        assert_eq!(
            write_chunk(average, dirty_limit, remaining),
            chunk,
            "{average} {remaining}"
        );
    }
}

proptest! {
    #[test]
    fn condition_1_whole_mebibytes(
        average in 0_u64..1 << 40, limit in 0_u64..1 << 40, left in any::<u64>(),
    ) {
        let chunk = write_chunk(average, limit, left);
        prop_assert!(chunk >= MIN_WRITEBACK_PAGES && chunk.is_multiple_of(MIN_WRITEBACK_PAGES));
    }

    #[test]
    fn condition_2_half_a_second_or_an_eighth(
        average in 0_u64..1 << 40, limit in 0_u64..1 << 40, left in any::<u64>(),
    ) {
        let chunk = write_chunk(average, limit, left);
        prop_assert!(chunk <= average / 2 + 1_024 && chunk <= limit / 8 + 1_024);
    }

    #[test]
    fn condition_3_never_shrinks(
        average in 0_u64..1 << 40, limit in 0_u64..1 << 40, left in 0_u64..1 << 40,
        more in any::<[u32; 3]>(),
    ) {
        let [a, b, c] = more.map(u64::from);
        let larger = write_chunk(average + a, limit + b, left + c);
        prop_assert!(write_chunk(average, limit, left) <= larger);
    }
}
