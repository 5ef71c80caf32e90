//! Whether a page that comes back was evicted too early.
//!
//! # Question
//!
//! A page that was evicted is wanted again. Does it start on the inactive list like any other, or
//! would it have stayed, had the inactive list been longer at the expense of pages that were used
//! less?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `age_now` | evictions and activations | counts modulo `2^bits` | the lists |
//! | `age_at_eviction` | the same | the same | the shadow left in place of the page |
//! | `sizes` | pages | 0 and up | the lists, at the return |
//! | `distance` | evictions and activations | 0 to `2^bits - 1` | [`refault_distance`] |
//! | activate | yes or no | | output |
//!
//! # Formula
//!
//! ```text
//! distance  = (age_now - age_at_eviction) mod 2^bits
//! file page : workingset = active file + (active anon + inactive anon if swap has room)
//! anon page : workingset = active file + inactive file + (active anon if swap has room)
//! activate  = distance <= workingset
//! ```
//!
//! # Conditions
//!
//! 1. The distance is right when the count has wrapped since the eviction.
//! 2. If a page activates, every page that returns sooner does.
//! 3. Without swap a file page competes only with active file pages: the older rule.
//! 4. A longer list never turns a yes into a no.
//! 5. A page that returns at once always activates.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/refault.svg")]
//!
//! The longest distance that still activates, over the active file pages, for a file page with and
//! without swap beside 100 000 anonymous pages.
//!
//! # Example
//!
//! A cache of 16 GiB holds 4000 active pages of a database's index. An index page was evicted when
//! the count stood at 1200. If it is missed at 5000, it goes to the active list at once; at 9000
//! it does not.
//!
//! ```
//! use forebay_law::refault::{WorkingsetSizes, activates, refault_distance};
//!
//! let sizes = WorkingsetSizes { active_file: 4_000, ..WorkingsetSizes::default() };
//! assert!(activates(refault_distance(5_000, 1_200, 64), true, &sizes));
//! assert!(!activates(refault_distance(9_000, 1_200, 64), true, &sizes));
//! ```
//!
//! # Why not the simpler one
//!
//! Two touches make a page active, but a set that is larger than the inactive list never gets the
//! second touch: each page is evicted just before it is wanted again, for ever, while the active
//! list is full of pages that nobody uses any more. The distance sees the second touch after the
//! eviction. Activating every page that returns would let any large cyclic scan evict the real
//! working set.
//!
//! # Edges
//!
//! The age counts at least one step for each page that leaves the inactive list, so a distance is
//! at least the number of pages by which the list was too short: it errs towards not activating. A
//! shadow of 64 bits never wraps in practice; with fewer bits an old page may look young, which
//! costs one wrong activation. No swap means that anonymous pages cannot make room.
//!
//! # Lineage
//!
//! Linux: refault distance for file pages (3.15), for anonymous pages (5.9).

/// Sizes of the lists that compete with a page that comes back, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingsetSizes {
    /// Active file pages.
    pub active_file: u64,
    /// Inactive file pages.
    pub inactive_file: u64,
    /// Active anonymous pages.
    pub active_anon: u64,
    /// Inactive anonymous pages.
    pub inactive_anon: u64,
    /// Whether the swap store is there and has a free slot.
    pub swap_has_room: bool,
}

/// How many evictions and activations passed between an eviction and the return of the page. Ages
/// are counted modulo `2^bits`.
pub fn refault_distance(age_now: u64, age_at_eviction: u64, bits: u32) -> u64 {
    let distance = age_now.wrapping_sub(age_at_eviction);
    if bits >= u64::BITS {
        distance
    } else {
        distance & ((1 << bits) - 1)
    }
}

/// Whether a page that returns after `distance` goes to the active list at once (Linux since 5.9).
pub fn activates(distance: u64, is_file: bool, sizes: &WorkingsetSizes) -> bool {
    let swappable = |pages: u64| if sizes.swap_has_room { pages } else { 0 };
    let workingset = if is_file {
        sizes
            .active_file
            .saturating_add(swappable(sizes.active_anon))
            .saturating_add(swappable(sizes.inactive_anon))
    } else {
        sizes
            .active_file
            .saturating_add(sizes.inactive_file)
            .saturating_add(swappable(sizes.active_anon))
    };
    distance <= workingset
}

/// The rule of Linux 3.15 to 5.8: the page competes only with the active file list.
pub fn activates_by_active_file(distance: u64, active_file: u64) -> bool {
    distance <= active_file
}

#[cfg(test)]
#[path = "refault_tests.rs"]
mod tests;
