//! How many neighbours of a swapped page are read with it.

/// What is known when a page is read back from swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapaheadInputs {
    /// The slot of the previous fault.
    pub previous_slot: u64,
    /// The slot that is wanted.
    pub slot: u64,
    /// Pages read ahead that were used since the previous fault.
    pub hits: u64,
    /// The largest window in pages, a power of two.
    pub max_pages: u64,
    /// Pages of the previous window.
    pub previous_pages: u64,
}

/// Slots to read, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    /// First slot; never 0, which is the header of the swap store.
    pub first: u64,
    /// Last slot.
    pub last: u64,
}

/// Pages of the window, the wanted one included.
pub fn window_pages(inputs: &SwapaheadInputs) -> u64 {
    let pages = if inputs.hits == 0 {
        if inputs.slot.abs_diff(inputs.previous_slot) == 1 {
            2
        } else {
            1
        }
    } else {
        let wanted = inputs.hits.saturating_add(2).min(inputs.max_pages.max(1));
        wanted.next_power_of_two().max(4)
    };
    pages
        .min(inputs.max_pages)
        .max(inputs.previous_pages / 2)
        .max(1)
}

/// The aligned window of `pages` slots, a power of two, around `slot`.
pub fn slot_range(slot: u64, pages: u64) -> SlotRange {
    let mask = pages.max(1) - 1;
    SlotRange {
        first: (slot & !mask).max(1),
        last: slot | mask,
    }
}

#[cfg(test)]
#[path = "swapahead_tests.rs"]
mod tests;
