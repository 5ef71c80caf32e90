//! When reclaim starts and when it stops.

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

/// How far the three levels lie apart.
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
    /// The requester is being stopped to free memory: half of what is left.
    pub oom_victim: bool,
}

/// What a zone has free against what a request of one class must leave in it.
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

/// Pages of a node that never count as dirtyable.
pub fn total_reserve(managed: &[u64], ratios: &[u64], high: &[u64]) -> u64 {
    (0..managed.len())
        .map(|zone| {
            let most = (0..managed.len())
                .map(|class| lowmem_reserve(managed, ratios, zone, class))
                .max()
                .unwrap_or(0);
            managed[zone].min(most + high[zone])
        })
        .sum()
}

/// The mark as a request with `relief` sees it.
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
    free > effective_mark(mark, relief).saturating_add(reserve)
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
