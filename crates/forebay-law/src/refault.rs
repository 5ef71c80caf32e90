//! Whether a page that comes back was evicted too early.

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

/// The rule of Linux 3.15 to 5.8: the active file list alone is what the page competes with.
pub fn activates_by_active_file(distance: u64, active_file: u64) -> bool {
    distance <= active_file
}

#[cfg(test)]
#[path = "refault_tests.rs"]
mod tests;
