//! How many neighbours of a swapped page are read with it.
//!
//! # Question
//!
//! A page is read back from swap. How many slots around it are read in the same request?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `slot`, `previous_slot` | slot | 1 and up | this fault and the one before |
//! | `hits` | pages | 0 and up | read-ahead pages used since the fault before |
//! | `max_pages` | pages | a power of two, 8 as a rule | an operator |
//! | `previous_pages` | pages | 0 and up | the window before |
//! | pages | pages | 1 to `max_pages` | output |
//!
//! # Formula
//!
//! ```text
//! pages = 1                              no hits, and the slot is not next to the one before
//!         2                              no hits, but it is
//!         next power of two of hits + 2  otherwise
//! pages = max(min(pages, max_pages), previous_pages / 2)
//! range = the aligned block of that many slots that holds the wanted one, without slot 0
//! ```
//!
//! # Conditions
//!
//! 1. At least the wanted page is read, and no more than the maximum unless the last window was
//!    more than twice that.
//! 2. The range holds the slot, is no longer than the window and never holds slot 0.
//! 3. A window is at least half of the one before: one miss does not end a stream.
//! 4. More hits never make a smaller window.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/swapahead.svg")]
//!
//! The window over the hits, for a maximum of 8 and of 32 pages.
//!
//! # Example
//!
//! Three of four pages read ahead were used: the next fault, at slot 1003, reads the eight slots
//! 1000 to 1007.
//!
//! ```
//! use forebay_law::swapahead::{SlotRange, SwapaheadInputs, slot_range, window_pages};
//!
//! let pages = window_pages(&SwapaheadInputs {
//!     previous_slot: 100,
//!     slot: 1_003,
//!     hits: 3,
//!     max_pages: 8,
//!     previous_pages: 4,
//! });
//! assert_eq!(pages, 8);
//! assert_eq!(slot_range(1_003, pages), SlotRange { first: 1_000, last: 1_007 });
//! ```
//!
//! # Why not the simpler one
//!
//! Always eight reads seven pages for nothing when memory is used at random, and evicts eight
//! others for them. Reading none makes a program that wakes up fault once for each page. Neighbours
//! in swap were evicted together, which does not prove that they are wanted together; the hits do.
//!
//! # Edges
//!
//! A maximum of 0 still reads the wanted page. Slot 0 is the header of the swap store and is left
//! out, so the first block has one slot less.
//!
//! # Lineage
//!
//! Linux: aligned clusters (2.4), windows by hits (3.14).

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
