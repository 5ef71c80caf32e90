//! Rules that later versions of Linux replaced, kept so that what the change was worth can be
//! measured. Each says when it held.

use crate::arithmetic::scaled;
use crate::scan::{Fractions, MAX_SWAPPINESS};
use crate::throttle::Progress;

/// What background and direct reclaim found on the lists of one kind, decayed (up to Linux 5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationCounts {
    /// Pages looked at.
    pub scanned: u64,
    /// Pages that had been used and were put back.
    pub rotated: u64,
}

impl RotationCounts {
    /// The counts, halved once more than a quarter of the kind's `lru_pages` was looked at.
    #[must_use]
    pub fn decayed(self, lru_pages: u64) -> RotationCounts {
        if self.scanned > lru_pages / 4 {
            RotationCounts {
                scanned: self.scanned / 2,
                rotated: self.rotated / 2,
            }
        } else {
            self
        }
    }
}

/// How the two kinds are weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationWeights {
    /// One is added to both weights, so that swappiness 0 still swaps (up to Linux 3.4).
    PlusOne,
    /// Swappiness as it is (Linux 3.5 to 5.7).
    Plain,
}

/// The parts of the two kinds by how many of their pages were put back (up to Linux 5.7).
/// Decay the counts first.
///
/// ```
/// use forebay_law::history::{RotationCounts, RotationWeights, fractions_by_rotation};
/// let anon = RotationCounts { scanned: 20_000, rotated: 10_000 };
/// let file = RotationCounts { scanned: 40_000, rotated: 1_000 };
/// let parts = fractions_by_rotation(anon, file, 60, RotationWeights::Plain);
/// assert_eq!((parts.anon, parts.file), (119, 5_594));
/// ```
pub fn fractions_by_rotation(
    anon: RotationCounts,
    file: RotationCounts,
    swappiness: u64,
    weights: RotationWeights,
) -> Fractions {
    let swappiness = swappiness.min(MAX_SWAPPINESS);
    let added = match weights {
        RotationWeights::PlusOne => 1,
        RotationWeights::Plain => 0,
    };
    let part = |weight: u64, counts: RotationCounts| {
        let useless = counts.scanned.saturating_add(1);
        scaled(weight + added, useless, counts.rotated.saturating_add(1))
    };
    let anon = part(swappiness, anon);
    let file = part(MAX_SWAPPINESS - swappiness, file);
    Fractions {
        anon,
        file,
        denominator: anon.saturating_add(file).saturating_add(1),
    }
}

/// Whether a zone counts as hopeless: all it could free was looked at six times since a page was
/// last freed (Linux 3.0 to 4.6).
///
/// ```
/// use forebay_law::history::is_unreclaimable;
/// assert!(!is_unreclaimable(5_999, 1_000) && is_unreclaimable(6_000, 1_000));
/// ```
pub fn is_unreclaimable(pages_scanned: u64, reclaimable: u64) -> bool {
    pages_scanned >= reclaimable.saturating_mul(6)
}

/// The pages that an allocator still hopes for after so many fruitless loops, of which 16 are
/// allowed (Linux 4.7 to 4.11).
///
/// ```
/// use forebay_law::history::hoped_for_pages;
/// assert_eq!(hoped_for_pages(1_000, 1), 937);
/// assert_eq!(hoped_for_pages(1_000, 16), 0);
/// ```
pub fn hoped_for_pages(reclaimable: u64, fruitless_loops: u64) -> u64 {
    let given_up = u128::from(reclaimable) * u128::from(fruitless_loops.min(16));
    reclaimable - given_up.div_ceil(16) as u64
}

/// What counts as progress in the first versions of throttling by event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyProgress {
    /// Any page (the second posting, September 2021).
    AnyPage,
    /// More than an eighth of what was looked at (Linux 5.16-rc1 to rc7).
    AnEighth,
}

/// What a reclaimer does after a pass, in the first versions of throttling by event: it sleeps
/// from priority 9 on, which let small budgets stall for minutes.
///
/// ```
/// use forebay_law::history::{EarlyProgress, consider_throttle_early};
/// use forebay_law::throttle::Progress;
/// let sleeps = consider_throttle_early(0, 1_000, 9, false, EarlyProgress::AnyPage);
/// assert_eq!(sleeps, Progress::Sleep);
/// ```
pub fn consider_throttle_early(
    reclaimed: u64,
    scanned: u64,
    priority: u32,
    is_kswapd: bool,
    progress: EarlyProgress,
) -> Progress {
    let enough = match progress {
        EarlyProgress::AnyPage => 0,
        EarlyProgress::AnEighth => scanned >> 3,
    };
    if reclaimed > enough {
        Progress::Wake
    } else if !is_kswapd && priority <= 9 {
        Progress::Sleep
    } else {
        Progress::Nothing
    }
}

/// The queued requests of a device at which it began and ceased to count as congested (before
/// Linux 5.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionMarks {
    /// Congested from this many requests on.
    pub on: u64,
    /// No longer congested below this many.
    pub off: u64,
}

/// The marks for a queue of `depth` requests, at least 16.
///
/// ```
/// use forebay_law::history::congestion_marks;
/// let marks = congestion_marks(128);
/// assert_eq!((marks.on, marks.off), (113, 103));
/// ```
pub fn congestion_marks(depth: u64) -> CongestionMarks {
    let depth = depth.max(16);
    let full = depth - depth / 8;
    CongestionMarks {
        on: full + 1,
        off: full - depth / 16 - 1,
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
