//! How many pages of which list one reclaim pass looks at.
//!
//! # Question
//!
//! Given how pressing reclaim is and what it has cost lately, how many pages does this pass take
//! from each of the four lists?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `sizes` | pages | 0 and up | the lists, when the pass starts |
//! | `priority` | - | 12 (gentle) to 0 (all) | the reclaim loop |
//! | `swappiness` | - | 0 to 200 | an operator; 60 by default |
//! | `cost` | - | 0 and up | reclaim itself: writes, refaults, rotations, decayed |
//! | `free_pages`, `high_mark_sum` | pages | 0 and up | the zones |
//! | [`ScanTargets`] | pages | 0 to `size >> priority` | output |
//!
//! # Formula
//!
//! ```text
//! mode     = File      if there is no room in swap
//!            Equal     if priority = 0 and swappiness > 0
//!            Anon      if file + free <= high, and inactive anon is long and due
//!            File      if inactive file is long enough and active file need not be touched
//!            File      if swappiness = 200 and anon + free <= high
//!            Fraction  otherwise
//! total    = cost.anon + cost.file
//! anon     = swappiness * (3 * total + 1) / (total + cost.anon + 1)
//! file     = (200 - swappiness) * (3 * total + 1) / (total + cost.file + 1)
//! target   = (size >> priority) * part / (anon + file)
//! is low   = inactive * max(1, isqrt(10 * GiB of both lists)) < active
//! ```
//!
//! # Conditions
//!
//! 1. No list is asked for more than `size >> priority`.
//! 2. In one mode a deeper priority never asks for less.
//! 3. Without room in swap no anonymous page is looked at.
//! 4. The dearer a kind was, the smaller its part, once the other kind has cost anything.
//! 5. At swappiness 100 each kind gets between a third and two thirds: no cost silences a kind.
//! 6. A rebalanced pass asks for no more than was left, and for none of the kind with less left.
//! 7. A longer inactive list never counts as too short if a shorter one was long enough.
//! 8. The goal of background reclaim is at least 32 pages a zone.
//! 9. Without anonymous pages no swappiness keeps a pass from files: at 200 it asks for all that
//!    its priority allows.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/scan.svg")]
//!
//! The part of a pass that anonymous pages get, over the cost of anonymous pages, for three values
//! of swappiness. The cost of file pages is 1000 throughout.
//!
//! # Example
//!
//! A zone with 200 000 anonymous and 180 000 file pages, swappiness 60, priority 10: if reading
//! back file pages cost 100 and writing anonymous ones nothing, the pass takes 89 of one kind and
//! 94 of the other.
//!
//! ```
//! use forebay_law::scan::{ListSizes, ReclaimCost, ScanInputs, ScanTargets, scan_targets};
//!
//! let inputs = ScanInputs {
//!     sizes: ListSizes {
//!         inactive_anon: 50_000,
//!         active_anon: 150_000,
//!         inactive_file: 100_000,
//!         active_file: 80_000,
//!     },
//!     priority: 10,
//!     swappiness: 60,
//!     cost: ReclaimCost { anon: 0, file: 100 },
//!     swap_has_room: true,
//!     may_deactivate_file: true,
//!     ..ScanInputs::default()
//! };
//! let expected = ScanTargets {
//!     inactive_anon: 22,
//!     active_anon: 67,
//!     inactive_file: 52,
//!     active_file: 42,
//! };
//! assert_eq!(scan_targets(&inputs), expected);
//! ```
//!
//! # Why not the simpler one
//!
//! Taking from each list in proportion to its length lets one pass over a large file push out all
//! working memory. Always taking file pages first keeps idle anonymous memory for ever while the
//! file cache thrashes. A ratio of the costs without the common `total` in both denominators swings
//! to all or nothing after one bad minute, and the kind that is not looked at can never show that
//! it has become cheap.
//!
//! # Edges
//!
//! A list shorter than `2^priority` gets 0 and waits for a deeper priority. At swappiness 0 no
//! anonymous page is taken by choice, but priority 0 does not apply then either. At 200 no file
//! page is taken, unless all anonymous pages together would not bring the zone above its high mark:
//! background reclaim, which never reaches priority 0, would find nothing to look at and give up
//! beside clean pages. A swappiness above 200 counts as 200. Costs are halved when their sum passes
//! a quarter of the lists, so that an old cost fades and products stay small.
//!
//! # Lineage
//!
//! Linux: the split lists (2.6.28), the ratio of the inactive list for all sizes (4.7), the cost
//! model (5.8).

use crate::arithmetic::scaled;

/// The priority a reclaim run starts with; a pass looks at `size >> priority` pages of a list.
pub const TOP_PRIORITY: u32 = 12;

/// Pages isolated at once, the goal of direct reclaim, and the least goal of a zone.
pub const SWAP_CLUSTER_MAX: u64 = 32;

/// The swappiness at which anonymous and file pages are equally dear.
pub const MAX_SWAPPINESS: u64 = 200;

/// Pages of a gibibyte, as a shift.
const PAGES_PER_GIB_BITS: u32 = 18;

/// Lengths of the four evictable lists, in pages, of the eligible zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListSizes {
    /// Inactive anonymous pages.
    pub inactive_anon: u64,
    /// Active anonymous pages.
    pub active_anon: u64,
    /// Inactive file pages.
    pub inactive_file: u64,
    /// Active file pages.
    pub active_file: u64,
}

/// Pages to look at on each list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanTargets {
    /// Inactive anonymous pages.
    pub inactive_anon: u64,
    /// Active anonymous pages.
    pub active_anon: u64,
    /// Inactive file pages.
    pub inactive_file: u64,
    /// Active file pages.
    pub active_file: u64,
}

/// What reclaiming each kind has cost lately: writes, refaults and rotations, decayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimCost {
    /// Cost of anonymous pages.
    pub anon: u64,
    /// Cost of file pages.
    pub file: u64,
}

impl ReclaimCost {
    /// The cost after `anon` and `file` more; both are halved once their sum passes a quarter of
    /// the `lru_pages` on the four lists.
    #[must_use]
    pub fn noted(self, anon: u64, file: u64, lru_pages: u64) -> ReclaimCost {
        let anon = self.anon.saturating_add(anon);
        let file = self.file.saturating_add(file);
        if anon.saturating_add(file) > lru_pages / 4 {
            ReclaimCost {
                anon: anon / 2,
                file: file / 2,
            }
        } else {
            ReclaimCost { anon, file }
        }
    }
}

/// Everything that decides how a pass divides its attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanInputs {
    /// Lengths of the lists.
    pub sizes: ListSizes,
    /// Priority of the pass, 12 (gentle) to 0 (everything).
    pub priority: u32,
    /// 0 (never swap by choice) to 200 (swap only).
    pub swappiness: u64,
    /// What reclaiming each kind has cost.
    pub cost: ReclaimCost,
    /// Free pages of the node.
    pub free_pages: u64,
    /// Sum of the high marks of the node's zones, in pages.
    pub high_mark_sum: u64,
    /// Whether the swap store is there and has a free slot.
    pub swap_has_room: bool,
    /// Whether active anonymous pages may be deactivated in this run.
    pub may_deactivate_anon: bool,
    /// Whether active file pages may be deactivated in this run.
    pub may_deactivate_file: bool,
}

/// Which kinds of pages a pass takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalanceMode {
    /// File pages only.
    File,
    /// Anonymous pages only.
    Anon,
    /// Every list in full measure.
    Equal,
    /// Both kinds, divided by their cost.
    Fraction,
}

/// Whether the inactive list is so short that active pages have to be deactivated.
pub fn inactive_is_low(inactive: u64, active: u64) -> bool {
    let gib = inactive.saturating_add(active) >> PAGES_PER_GIB_BITS;
    let ratio = gib.saturating_mul(10).isqrt().max(1);
    u128::from(inactive) * u128::from(ratio) < u128::from(active)
}

/// Whether an inactive list is under a tenth of its pair, so that active pages should be
/// deactivated: Forebay's own rule for file pages, which spends less on pages that are read once
/// than the square root does.
///
/// ```
/// use forebay_law::scan::inactive_is_under_tenth;
/// assert!(inactive_is_under_tenth(99, 901));
/// assert!(!inactive_is_under_tenth(100, 900));
/// ```
pub fn inactive_is_under_tenth(inactive: u64, active: u64) -> bool {
    inactive.saturating_mul(9) < active
}

/// Which kinds of pages a pass takes; the first rule that holds decides.
pub fn balance_mode(inputs: &ScanInputs) -> BalanceMode {
    let sizes = &inputs.sizes;
    if !inputs.swap_has_room {
        return BalanceMode::File;
    }
    if inputs.priority == 0 && inputs.swappiness != 0 {
        return BalanceMode::Equal;
    }
    let file = sizes.active_file.saturating_add(sizes.inactive_file);
    if file.saturating_add(inputs.free_pages) <= inputs.high_mark_sum
        && !inputs.may_deactivate_anon
        && sizes.inactive_anon >> inputs.priority > 0
    {
        return BalanceMode::Anon;
    }
    if sizes.inactive_file >> inputs.priority > 0 && !inputs.may_deactivate_file {
        return BalanceMode::File;
    }
    if is_left_to_files(inputs) {
        return BalanceMode::File;
    }
    BalanceMode::Fraction
}

/// Whether a swappiness that leaves no part to file pages asks too much of anonymous memory: all of
/// it together would not bring the zone above its high mark.
pub(crate) fn is_left_to_files(inputs: &ScanInputs) -> bool {
    let sizes = &inputs.sizes;
    let anon = sizes.active_anon.saturating_add(sizes.inactive_anon);
    inputs.swappiness >= MAX_SWAPPINESS
        && anon.saturating_add(inputs.free_pages) <= inputs.high_mark_sum
}

/// The parts of the two kinds in [`BalanceMode::Fraction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fractions {
    /// Part of the anonymous pages.
    pub anon: u64,
    /// Part of the file pages.
    pub file: u64,
    /// The whole.
    pub denominator: u64,
}

/// How the cost and `swappiness` divide a pass between the two kinds.
pub fn fractions(cost: ReclaimCost, swappiness: u64) -> Fractions {
    let swappiness = swappiness.min(MAX_SWAPPINESS);
    let total = cost.anon.saturating_add(cost.file);
    let anon_cost = total.saturating_add(cost.anon);
    let file_cost = total.saturating_add(cost.file);
    let sum = anon_cost.saturating_add(file_cost).saturating_add(1);
    let anon = scaled(swappiness, sum, anon_cost.saturating_add(1));
    let file = scaled(
        MAX_SWAPPINESS - swappiness,
        sum,
        file_cost.saturating_add(1),
    );
    Fractions {
        anon,
        file,
        denominator: anon + file,
    }
}

/// How many pages of each list the pass looks at.
pub fn scan_targets(inputs: &ScanInputs) -> ScanTargets {
    let parts = || fractions(inputs.cost, inputs.swappiness);
    targets_of(inputs, balance_mode(inputs), parts)
}

/// The targets in `mode`, for [`BalanceMode::Fraction`] by `parts`.
pub(crate) fn targets_of(
    inputs: &ScanInputs,
    mode: BalanceMode,
    parts: impl FnOnce() -> Fractions,
) -> ScanTargets {
    let (anon, file, denominator) = match mode {
        BalanceMode::File => (0, 1, 1),
        BalanceMode::Anon => (1, 0, 1),
        BalanceMode::Equal => (1, 1, 1),
        BalanceMode::Fraction => {
            let parts = parts();
            (parts.anon, parts.file, parts.denominator)
        }
    };
    let target = |size: u64, part: u64| scaled(size >> inputs.priority, part, denominator);
    ScanTargets {
        inactive_anon: target(inputs.sizes.inactive_anon, anon),
        active_anon: target(inputs.sizes.active_anon, anon),
        inactive_file: target(inputs.sizes.inactive_file, file),
        active_file: target(inputs.sizes.active_file, file),
    }
}

/// What remains to be looked at once the goal is met: none of the kind with less left, and as much
/// of the other as keeps the completed parts of the `targets` equal.
#[must_use]
pub fn rebalance(targets: ScanTargets, remaining: ScanTargets) -> ScanTargets {
    let anon_left = remaining.inactive_anon + remaining.active_anon;
    let file_left = remaining.inactive_file + remaining.active_file;
    let anon_is_small = file_left > anon_left;
    let (small_left, small_target) = if anon_is_small {
        (anon_left, targets.inactive_anon + targets.active_anon)
    } else {
        (file_left, targets.inactive_file + targets.active_file)
    };
    let percent_left = scaled(100, small_left, small_target + 1).min(100);
    let trimmed = |target: u64, left: u64| {
        let wanted = scaled(target, 100 - percent_left, 100);
        wanted.saturating_sub(target.saturating_sub(left))
    };
    if anon_is_small {
        ScanTargets {
            inactive_file: trimmed(targets.inactive_file, remaining.inactive_file),
            active_file: trimmed(targets.active_file, remaining.active_file),
            ..ScanTargets::default()
        }
    } else {
        ScanTargets {
            inactive_anon: trimmed(targets.inactive_anon, remaining.inactive_anon),
            active_anon: trimmed(targets.active_anon, remaining.active_anon),
            ..ScanTargets::default()
        }
    }
}

/// The pages a pass of background reclaim has to look at before its priority may stay.
pub fn kswapd_goal(high_marks: impl IntoIterator<Item = u64>) -> u64 {
    high_marks
        .into_iter()
        .map(|high| high.max(SWAP_CLUSTER_MAX))
        .sum()
}

/// Whether background reclaim goes one priority deeper after a pass.
pub fn kswapd_presses_harder(scanned: u64, goal: u64, reclaimed: u64) -> bool {
    scanned < goal || reclaimed == 0
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
