//! When background reclaim wakes, when it rests, and how much it leaves for urgent requests.
//!
//! # Question
//!
//! How many free pages does a zone keep, so that background reclaim starts before any request has
//! to wait and stops before it empties the cache, and so that no request that could go elsewhere
//! uses up the scarce zone?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `lowmem_kib` | KiB | 0 and up | the engine, once: directly usable memory of all zones |
//! | `managed_pages` | pages | 0 and up | the zone, once |
//! | `ratios` | - | 0 (no reserve) and up | an operator; 256 for scarce zones, 32 for others |
//! | `free` | pages | 0 to managed | the zone, at each request |
//! | `min`, `low`, `high` | pages | `min <= low <= high` | output |
//! | `reserve` | pages | 0 and up | output: what requests of a class must leave |
//!
//! # Formula
//!
//! ```text
//! min_free_kib = clamp(isqrt(16 * lowmem_kib), 128, cap)
//! min          = min_free_pages * managed / managed of all zones
//! distance     = max(min / 4, managed * per_ten_thousand / 10000)
//! low          = min + distance
//! high         = min + 2 * distance
//! reserve[z,c] = sum of managed over zones z+1 ..= c, / ratio[z]
//! may take     = free > mark + reserve
//! balanced(c)  = some zone the class may use has free > high + reserve
//! ```
//!
//! # Conditions
//!
//! 1. `min <= low <= high`.
//! 2. With [`MarkSpacing::Scale`] the marks are evenly spaced.
//! 3. The `min` marks of the zones sum to no more than the pages kept free.
//! 4. A request that may take a page leaves the whole reserve of its class.
//! 5. Relief only helps: it never turns a yes into a no, and high priority leaves half of the mark.
//! 6. The pages kept free grow with memory, never in proportion to it: from 16 MiB on, four times
//!    the memory at most doubles them.
//! 7. A zone that a class may hardly use does not make the node balanced for that class.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/watermark.svg")]
//!
//! The three marks of one zone over its size. The bend in `low` and `high` is where the part of
//! the zone (0.1 %) passes a quarter of `min`.
//!
//! # Example
//!
//! A machine of 3587 MiB in three zones (15, 3072 and 500 MiB) keeps 7666 KiB free. Its largest
//! zone wakes background reclaim below 2426 pages (9.5 MiB) and lets it rest above 3212.
//!
//! ```
//! use forebay_law::watermark::{MarkSpacing, lowmem_reserve, min_free_kib, watermarks};
//!
//! let managed = [3_840, 786_432, 128_000];
//! let kib = min_free_kib(918_272 * 4, 262_144);
//! assert_eq!(kib, 7_666);
//! let marks = watermarks(kib, managed[1], 918_272, MarkSpacing::default());
//! assert_eq!((marks.min, marks.low, marks.high), (1_640, 2_426, 3_212));
//! assert_eq!(lowmem_reserve(&managed, &[256, 256, 32], 0, 2), 3_572);
//! ```
//!
//! # Why not the simpler one
//!
//! A fixed share of memory wastes gigabytes on a large machine and starves a small one; the square
//! root follows how many requests can be under way at once. A distance of only `min / 4` is a few
//! MiB on a machine of 100 GiB: background reclaim is woken when a burst has already used it up. A
//! scarce zone that the request cannot use satisfies a balance test without the reserve: then
//! background reclaim sleeps while every useful zone is empty.
//!
//! # Edges
//!
//! No memory gives marks of 0 and a node without zones is balanced: there is nothing to reclaim. A
//! `cap` below the floor wins over the floor. Counts of free pages may be a little old; the strict
//! comparison errs towards reclaiming once more.
//!
//! # Lineage
//!
//! Linux: `min_free_kbytes` and three marks (2.4), `watermark_scale_factor` (4.6), the balance
//! test with the reserve of the class (4.12).

use crate::arithmetic::scaled;

/// Pages of a kibibyte count: one page in four kibibytes.
const KIB_PER_PAGE_BITS: u32 = 2;

/// The least that [`min_free_kib`] gives.
const MIN_FREE_FLOOR_KIB: u64 = 128;

/// The three levels of free pages of one zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Pages below which only urgent requests are served.
    pub min: u64,
    /// Pages below which background reclaim is woken.
    pub low: u64,
    /// Pages above which background reclaim stops.
    pub high: u64,
}

/// The distance between the three levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkSpacing {
    /// A quarter of `min` (Linux up to 4.5).
    Quarter,
    /// A quarter of `min`, but at least this part of the zone (Linux since 4.6).
    Scale {
        /// Parts of ten thousand of the zone's pages.
        per_ten_thousand: u64,
    },
}

impl Default for MarkSpacing {
    fn default() -> Self {
        MarkSpacing::Scale {
            per_ten_thousand: 10,
        }
    }
}

/// What lets a request go below a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkRelief {
    /// The request has high priority: it may use half of the mark.
    pub high: bool,
    /// The request cannot wait: together with `high`, another quarter of what is left.
    pub harder: bool,
    /// The requester is being stopped to free memory: it may use half of what is left.
    pub oom_victim: bool,
}

/// The free pages of a zone, and what a request of one class must leave in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneLevel {
    /// Free pages.
    pub free: u64,
    /// The zone's high mark in pages.
    pub high: u64,
    /// Pages of this zone kept from requests of the class.
    pub reserve: u64,
}

/// The kibibytes to keep free for `lowmem_kib` of directly usable memory, at most `cap_kib`.
pub fn min_free_kib(lowmem_kib: u64, cap_kib: u64) -> u64 {
    let root = (u128::from(lowmem_kib) * 16).isqrt() as u64;
    root.max(MIN_FREE_FLOOR_KIB).min(cap_kib)
}

/// The marks of a zone of `managed_pages` among `lowmem_managed_pages` of all such zones.
pub fn watermarks(
    min_free_kib: u64,
    managed_pages: u64,
    lowmem_managed_pages: u64,
    spacing: MarkSpacing,
) -> Watermarks {
    let pages = min_free_kib >> KIB_PER_PAGE_BITS;
    let min = scaled(pages, managed_pages, lowmem_managed_pages.max(1));
    let (to_low, to_high) = match spacing {
        MarkSpacing::Quarter => (min >> 2, min >> 1),
        MarkSpacing::Scale { per_ten_thousand } => {
            let distance = (min >> 2).max(scaled(managed_pages, per_ten_thousand, 10_000));
            (distance, distance.saturating_mul(2))
        }
    };
    Watermarks {
        min,
        low: min.saturating_add(to_low),
        high: min.saturating_add(to_high),
    }
}

/// Pages of `zone` that requests of `class` must leave alone: those requests could have been
/// served from the zones between.
pub fn lowmem_reserve(managed_pages: &[u64], ratios: &[u64], zone: usize, class: usize) -> u64 {
    if class <= zone || ratios[zone] == 0 {
        return 0;
    }
    let above: u64 = managed_pages[zone + 1..=class].iter().sum();
    above / ratios[zone]
}

/// Pages of a zone that never count as dirtyable: what requests of the classes must leave, and the
/// high mark.
pub fn reserved_pages(managed: u64, reserves: impl IntoIterator<Item = u64>, high: u64) -> u64 {
    managed.min(reserves.into_iter().max().unwrap_or(0) + high)
}

/// The mark that applies to a request with `relief`.
pub fn effective_mark(mark: u64, relief: MarkRelief) -> u64 {
    let mut effective = mark;
    if relief.high {
        effective -= effective / 2;
        if relief.harder {
            effective -= effective / 4;
        }
    }
    if relief.oom_victim {
        effective -= effective / 2;
    }
    effective
}

/// Whether a zone with `free` pages may serve a request. Equality is not enough.
pub fn is_above(free: u64, mark: u64, reserve: u64, relief: MarkRelief) -> bool {
    free > pages_left(mark, reserve, relief)
}

/// The free pages that requests of one page each, one after the other, leave in a zone.
pub fn pages_left(mark: u64, reserve: u64, relief: MarkRelief) -> u64 {
    effective_mark(mark, relief).saturating_add(reserve)
}

/// Whether background reclaim may rest: one zone that the class may use is above its high mark, or
/// there is no such zone.
pub fn node_is_balanced(zones: impl IntoIterator<Item = ZoneLevel>) -> bool {
    let mut zones = zones.into_iter().peekable();
    zones.peek().is_none()
        || zones.any(|zone| is_above(zone.free, zone.high, zone.reserve, MarkRelief::default()))
}

/// Whether a caller may enter direct reclaim now: more than half of the sum of the `min` marks is
/// still free for the reclaimers themselves.
pub fn gate_is_open(free: u64, min_sum: u64) -> bool {
    min_sum == 0 || free > min_sum / 2
}

/// The distance above the high mark to which a zone of `managed_pages` was filled by background
/// reclaim in Linux 3.0 to 3.13.
pub fn balance_gap(low: u64, managed_pages: u64) -> u64 {
    low.min(managed_pages.div_ceil(100))
}

#[cfg(test)]
#[path = "watermark_tests.rs"]
mod tests;
