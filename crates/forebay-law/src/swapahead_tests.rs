use proptest::prelude::*;

use super::*;

fn fault(previous_slot: u64, slot: u64, hits: u64, previous_pages: u64) -> SwapaheadInputs {
    SwapaheadInputs {
        previous_slot,
        slot,
        hits,
        max_pages: 8,
        previous_pages,
    }
}

#[test]
fn vector_v19_windows() {
    let rows = [
        (fault(100, 500, 0, 0), 1),
        (fault(100, 101, 0, 0), 2),
        (fault(101, 100, 0, 0), 2),
        (fault(100, 500, 1, 2), 4),
        (fault(100, 500, 3, 4), 8),
        (fault(100, 500, 9, 8), 8),
        (fault(100, 500, 0, 8), 4),
    ];
    for (inputs, pages) in rows {
        assert_eq!(window_pages(&inputs), pages, "{inputs:?}");
    }
}

#[test]
fn vector_v19_ranges() {
    let range = |first, last| SlotRange { first, last };
    assert_eq!(slot_range(1_003, 8), range(1_000, 1_007));
    assert_eq!(slot_range(3, 8), range(1, 7));
}

prop_compose! {
    fn any_fault()(
        previous_slot in 1_u64..1 << 40, step in 0_u64..4, hits in any::<u64>(),
        max_bits in 0_u32..10, previous_bits in 0_u32..10,
    ) -> SwapaheadInputs {
        SwapaheadInputs {
            previous_slot,
            slot: previous_slot + step,
            hits,
            max_pages: 1 << max_bits,
            previous_pages: 1 << previous_bits,
        }
    }
}

proptest! {
    #[test]
    fn condition_1_within_the_maximum(inputs in any_fault()) {
        let pages = window_pages(&inputs);
        prop_assert!(pages >= 1);
        prop_assert!(pages <= inputs.max_pages || pages == inputs.previous_pages / 2);
    }

    #[test]
    fn condition_2_the_range_holds_the_slot(slot in 1_u64..1 << 40, bits in 0_u32..10) {
        let range = slot_range(slot, 1 << bits);
        prop_assert!(1 <= range.first && range.first <= slot && slot <= range.last);
        prop_assert!(range.last - range.first < 1 << bits);
    }

    #[test]
    fn condition_3_a_window_at_most_halves(inputs in any_fault()) {
        prop_assert!(window_pages(&inputs) >= inputs.previous_pages / 2);
    }

    #[test]
    fn condition_4_hits_never_shrink_it(inputs in any_fault(), more in any::<u32>()) {
        let luckier = SwapaheadInputs {
            hits: inputs.hits.saturating_add(u64::from(more)),
            ..inputs
        };
        prop_assert!(window_pages(&luckier) >= window_pages(&inputs));
    }
}
