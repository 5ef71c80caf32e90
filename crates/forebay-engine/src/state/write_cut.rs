//! Where a run of dirty neighbours is cut into requests.

/// How much may be written, and in requests of what size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_field_names, reason = "a unit stands last in a name")]
pub(crate) struct WriteCut {
    /// Pages that are left of the requested amount.
    pub(crate) left_pages: u64,
    /// Pages of one request at most.
    pub(crate) most_pages: u64,
    /// Pages of a unit of the store (`Geometry::write_unit_pages`); 1 if it has none.
    pub(crate) unit_pages: u64,
}

impl WriteCut {
    /// Where a run that begins at page `first` ends at the latest.
    ///
    /// It ends at the end of a unit; if that is more than a request carries, at the end of the last
    /// unit that the request carries whole. So only the first request of a long run is shorter than
    /// it could be. If a unit is longer than a request, the request carries as much of it as it
    /// can.
    pub(crate) fn end(&self, first: u64) -> u64 {
        let wanted = unit_end(first.saturating_add(self.left_pages), self.unit_pages);
        let carried = first.saturating_add(self.most_pages);
        if wanted <= carried {
            return wanted;
        }
        let whole_units = carried - carried % self.unit_pages;
        if whole_units > first {
            whole_units
        } else {
            carried
        }
    }
}

/// The end of the unit that holds the last page before `end`.
pub(crate) fn unit_end(end: u64, unit_pages: u64) -> u64 {
    end.checked_next_multiple_of(unit_pages).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cuts_of_some_runs() {
        let rows = [
            // No unit: as much as is left and as a request carries.
            (0, 100, 256, 1, 100),
            (7, 1000, 256, 1, 263),
            // To the end of the unit, and no further.
            (7, 10, 256, 64, 64),
            (64, 64, 256, 64, 128),
            // As many whole units as a request carries.
            (7, 1000, 256, 64, 256),
            (256, 1000, 256, 64, 512),
            (7, u64::MAX, 256, 256, 256),
            // Units longer than a request.
            (10, 1, 256, 1024, 266),
            (900, u64::MAX, 256, 1024, 1024),
            (10, 1, 256, u64::from(u32::MAX), 266),
        ];
        for (first, left_pages, most_pages, unit_pages, end) in rows {
            let cut = WriteCut {
                left_pages,
                most_pages,
                unit_pages,
            };
            assert_eq!(cut.end(first), end, "{cut:?} from {first}");
        }
    }

    proptest! {
        #[test]
        fn without_a_unit_it_is_the_smaller_of_two_limits(
            first in 0_u64..1 << 40, left in any::<u64>(), most in 1_u64..2000,
        ) {
            let cut = WriteCut { left_pages: left, most_pages: most, unit_pages: 1 };
            prop_assert_eq!(cut.end(first), first.saturating_add(left.min(most)));
        }

        #[test]
        fn a_request_has_pages_that_fit_and_splits_no_unit_that_fits(
            first in 0_u64..1 << 40, left in 1_u64..10_000, most in 1_u64..2000,
            unit in 1_u64..3000,
        ) {
            let cut = WriteCut { left_pages: left, most_pages: most, unit_pages: unit };
            let end = cut.end(first);
            prop_assert!(end > first && end - first <= most);
            let is_whole = end.is_multiple_of(unit);
            prop_assert!(is_whole || end - first == most);
            prop_assert!(is_whole || unit_end(first + 1, unit) - first > most);
        }
    }
}
