//! Rules that later versions of Linux replaced, kept so that the effect of each change can be
//! measured. Each says when it held.

use crate::arithmetic::scaled;
use crate::pause::Tick;
use crate::scan::{
    BalanceMode, Fractions, MAX_SWAPPINESS, SWAP_CLUSTER_MAX, ScanInputs, ScanTargets,
    is_left_to_files, targets_of,
};
use crate::share::{Share, StoreCompletions};
use crate::shrink::Demand;
use crate::throttle::{Progress, ThrottleReason};

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

/// The inputs of a pass by rotations, besides the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationScan {
    /// What was found among anonymous pages.
    pub anon: RotationCounts,
    /// What was found among file pages.
    pub file: RotationCounts,
    /// How the kinds are weighed.
    pub weights: RotationWeights,
    /// Whether background reclaim scans.
    pub is_kswapd: bool,
}

/// How many pages of each list a pass looks at, by rotations (up to Linux 5.7).
///
/// ```
/// use forebay_law::history::{
///     RotationCounts, RotationScan, RotationWeights, scan_targets_by_rotation,
/// };
/// use forebay_law::scan::{ListSizes, ScanInputs};
/// let inputs = ScanInputs {
///     sizes: ListSizes {
///         inactive_anon: 50_000,
///         active_anon: 150_000,
///         inactive_file: 100_000,
///         active_file: 80_000,
///     },
///     priority: 10,
///     swappiness: 60,
///     swap_has_room: true,
///     may_deactivate_file: true,
///     ..ScanInputs::default()
/// };
/// let scan = RotationScan {
///     anon: RotationCounts { scanned: 20_000, rotated: 10_000 },
///     file: RotationCounts { scanned: 40_000, rotated: 1_000 },
///     weights: RotationWeights::Plain,
///     is_kswapd: false,
/// };
/// assert_eq!(scan_targets_by_rotation(&inputs, &scan).active_anon, 3);
/// ```
pub fn scan_targets_by_rotation(inputs: &ScanInputs, scan: &RotationScan) -> ScanTargets {
    let sizes = &inputs.sizes;
    let file = sizes.active_file.saturating_add(sizes.inactive_file);
    let spares_active_files =
        !inputs.may_deactivate_file && sizes.inactive_file >> inputs.priority > 0;
    let mode = if !inputs.swap_has_room {
        BalanceMode::File
    } else if inputs.priority == 0 && inputs.swappiness != 0 {
        BalanceMode::Equal
    } else if file.saturating_add(inputs.free_pages) <= inputs.high_mark_sum {
        BalanceMode::Anon
    } else if scan.weights == RotationWeights::Plain
        && (spares_active_files || is_left_to_files(inputs))
    {
        BalanceMode::File
    } else {
        BalanceMode::Fraction
    };
    let mut targets = targets_of(inputs, mode, || {
        fractions_by_rotation(scan.anon, scan.file, inputs.swappiness, scan.weights)
    });
    let anon = sizes.active_anon.saturating_add(sizes.inactive_anon);
    let is_small = anon.saturating_add(file) >> inputs.priority < SWAP_CLUSTER_MAX;
    if scan.weights == RotationWeights::PlusOne && scan.is_kswapd && is_small {
        // Otherwise small zones would be left alone until the priority has dropped far.
        let at_least = |target: &mut u64, size: u64| {
            if *target == 0 {
                *target = SWAP_CLUSTER_MAX.min(size);
            }
        };
        if mode != BalanceMode::File {
            at_least(&mut targets.inactive_anon, sizes.inactive_anon);
            at_least(&mut targets.active_anon, sizes.active_anon);
        }
        if mode != BalanceMode::Anon {
            at_least(&mut targets.inactive_file, sizes.inactive_file);
            at_least(&mut targets.active_file, sizes.active_file);
        }
    }
    targets
}

/// Whether a zone counts as hopeless: everything that it could free was looked at six times since a
/// page was last freed (Linux 3.0 to 4.6).
///
/// ```
/// use forebay_law::history::is_unreclaimable;
/// assert!(!is_unreclaimable(5_999, 1_000) && is_unreclaimable(6_000, 1_000));
/// ```
pub fn is_unreclaimable(pages_scanned: u64, reclaimable: u64) -> bool {
    pages_scanned >= reclaimable.saturating_mul(6)
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

/// The longest sleep in the first versions of throttling by event, in milliseconds. There were no
/// sleeps for congestion: those were sleeps for writeback.
///
/// ```
/// use forebay_law::history::{EarlyProgress, early_timeout_ms};
/// use forebay_law::throttle::ThrottleReason;
/// let posted = early_timeout_ms(ThrottleReason::NoProgress, EarlyProgress::AnyPage);
/// let candidate = early_timeout_ms(ThrottleReason::NoProgress, EarlyProgress::AnEighth);
/// assert_eq!((posted, candidate), (100, 500));
/// ```
pub fn early_timeout_ms(reason: ThrottleReason, version: EarlyProgress) -> u64 {
    match (reason, version) {
        (_, EarlyProgress::AnyPage)
        | (ThrottleReason::Writeback | ThrottleReason::Congested, EarlyProgress::AnEighth) => 100,
        (ThrottleReason::Isolated, EarlyProgress::AnEighth) => 20,
        (ThrottleReason::NoProgress, EarlyProgress::AnEighth) => 500,
    }
}

/// What a writer that throttles itself knows of its store (spec/writeback.md 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// More dirty pages of the store than this stop the writer.
    pub task_thresh: u64,
    /// Not more than this, and the store no longer counts as exceeded.
    pub clear_thresh: u64,
}

/// The limits of a writer that made `numerator` of the last `denominator` dirty pages: a writer
/// that dirties much is stopped up to an eighth earlier (Linux 2.6.24 to 3.1).
///
/// ```
/// use forebay_law::history::task_limits;
/// assert_eq!(task_limits(200_000, 1, 2).task_thresh, 187_500);
/// assert_eq!(task_limits(200_000, 0, 1).clear_thresh, 175_000);
/// ```
pub fn task_limits(store_thresh: u64, numerator: u64, denominator: u64) -> TaskLimits {
    let eighth = store_thresh / 8;
    let own = scaled(eighth, numerator, denominator.max(1));
    TaskLimits {
        task_thresh: store_thresh.saturating_sub(own).max(store_thresh / 2),
        clear_thresh: store_thresh - eighth,
    }
}

/// Pages that may be dirtied on one processor before a writer is evaluated (up to Linux 3.1).
///
/// ```
/// use forebay_law::history::foreground_ratelimit;
/// assert_eq!(foreground_ratelimit(1 << 20, 4, false), 1_024);
/// assert_eq!(foreground_ratelimit(1 << 20, 4, true), 8);
/// ```
pub fn foreground_ratelimit(total_pages: u64, processors: u64, exceeded: bool) -> u64 {
    if exceeded {
        8
    } else {
        (total_pages / (32 * processors.max(1))).clamp(16, 1_024)
    }
}

/// Pages that a writer has to write once it dirtied `dirtied` since its last evaluation (up to
/// Linux 3.1).
///
/// ```
/// assert_eq!(forebay_law::history::foreground_chunk(1_024, 1_024), 1_536);
/// ```
pub fn foreground_chunk(dirtied: u64, ratelimit_pages: u64) -> u64 {
    let pages = dirtied.max(ratelimit_pages);
    pages.saturating_add(pages / 2)
}

/// The nap after one of `pause_ms`: twice as long, up to 100 ms (up to Linux 3.1). The first is a
/// tick.
///
/// ```
/// use forebay_law::history::next_nap_ms;
/// use forebay_law::pause::Tick;
/// let naps = |tick: Tick| {
///     let mut naps = vec![tick.ms()];
///     while naps.len() < 9 {
///         naps.push(next_nap_ms(naps[naps.len() - 1], tick));
///     }
///     naps
/// };
/// assert_eq!(naps(Tick::FINE), [1, 2, 4, 8, 16, 32, 64, 100, 100]);
/// assert_eq!(naps(Tick::of_ms(10))[..6], [10, 20, 40, 80, 100, 100]);
/// ```
pub fn next_nap_ms(pause_ms: u64, tick: Tick) -> u64 {
    let longest_ms = 100 - 100 % tick.ms();
    pause_ms.saturating_mul(2).min(longest_ms)
}

/// How much of the pages a pass looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesLookedAt {
    /// Pages looked at.
    pub looked_at: u64,
    /// Pages on the lists that the pass could have looked at.
    pub pages: u64,
}

/// What a pass asks of a cache of objects beside the pages: twice the fraction of pages that it
/// looked at, in whole batches (up to Linux 4.15). A pass that looked at no page counts as one that
/// looked at 32, so if there are no pages to look at, it asks for all objects.
///
/// ```
/// use forebay_law::history::{PagesLookedAt, demand_by_scan};
/// let part = PagesLookedAt { looked_at: 1_000, pages: 99_999 };
/// assert_eq!(demand_by_scan(50_000, 0, 2, part).rest(), 1_000);
/// let nothing = PagesLookedAt { looked_at: 0, pages: 0 };
/// assert_eq!(demand_by_scan(50_000, 0, 2, nothing).rest(), 100_000);
/// ```
pub fn demand_by_scan(freeable: u64, deferred: u64, seeks: u64, part: PagesLookedAt) -> Demand {
    let looked_at = match part.looked_at {
        0 => SWAP_CLUSTER_MAX,
        pages => pages,
    };
    let weight = looked_at.saturating_mul(4) / seeks.max(1);
    let fresh = scaled(weight, freeable, part.pages.saturating_add(1));
    let wanted = deferred.saturating_add(fresh);
    Demand::new(freeable, wanted, wanted, false)
}

/// Completed page writes of all stores, in periods that are counted in pages (Linux 2.6.24 to 3.5,
/// spec/writeback.md 2.5). A store's share starts at nothing, and is known after some periods.
///
/// ```
/// use forebay_law::history::CountedPeriods;
/// use forebay_law::share::StoreCompletions;
/// let mut all = CountedPeriods::of_limit(200_000);
/// let mut only = StoreCompletions::default();
/// assert_eq!(all.half_period_pages(), 262_144);
/// all.complete(&mut only, 131_072, 1_024);
/// let part = all.share(&mut only);
/// assert_eq!((part.numerator, part.denominator), (131_072, 393_216), "a third, though alone");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedPeriods {
    events: u64,
    half_period_bits: u32,
}

impl CountedPeriods {
    /// No completions yet; `dirty_pages` is the limit on dirty pages.
    pub fn of_limit(dirty_pages: u64) -> CountedPeriods {
        const MOST_BITS: u32 = 48;
        let bits = 2 + dirty_pages.saturating_sub(1).max(1).ilog2();
        CountedPeriods {
            events: 0,
            half_period_bits: bits.min(MOST_BITS) - 1,
        }
    }

    /// Completions after which those before count half.
    pub fn half_period_pages(self) -> u64 {
        1 << self.half_period_bits
    }

    fn caught_up(self, store: StoreCompletions) -> StoreCompletions {
        let period = self.events >> self.half_period_bits;
        let periods = u32::try_from(period.saturating_sub(store.period)).unwrap_or(u32::MAX);
        StoreCompletions {
            events: store.events.checked_shr(periods).unwrap_or(0),
            period,
        }
    }

    /// Notes `pages` completed by a store whose share is held below `max_ratio_1024 / 1024`.
    pub fn complete(&mut self, store: &mut StoreCompletions, pages: u64, max_ratio_1024: u64) {
        let part = self.share(store);
        let taken = u128::from(part.numerator) * 1_024;
        if taken > u128::from(part.denominator) * u128::from(max_ratio_1024) {
            return;
        }
        store.events = store.events.saturating_add(pages);
        self.events = self.events.saturating_add(pages);
    }

    /// The store's part of the recent completions; ages the store first.
    pub fn share(self, store: &mut StoreCompletions) -> Share {
        *store = self.caught_up(*store);
        let half = self.half_period_pages();
        let denominator = half + (self.events & (half - 1));
        Share {
            numerator: store.events,
            denominator: denominator.max(store.events),
        }
    }
}

/// Memory that may be dirtied while anonymous pages count (Linux 2.6.32 to 3.12): `reserve` is 0 up
/// to 3.2.
///
/// ```
/// use forebay_law::history::dirtyable_with_anonymous;
/// assert_eq!(dirtyable_with_anonymous(1_000, 5_000, 2_000, 0), 8_001);
/// assert_eq!(dirtyable_with_anonymous(1_000, 5_000, 2_000, 3_000), 5_001);
/// assert_eq!(dirtyable_with_anonymous(0, 0, 0, 3_000), 1);
/// ```
pub fn dirtyable_with_anonymous(free: u64, file: u64, anonymous: u64, reserve: u64) -> u64 {
    let all = free.saturating_add(file).saturating_add(anonymous);
    all.saturating_sub(reserve).saturating_add(1)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
