//! How far the dirty pages are from where they should be.
//!
//! # Question
//!
//! By how much is a writer's base rate scaled up or down, so that the dirty pages of the whole and
//! of its store come back to their setpoints?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `thresh`, `background`, `hard_limit` | pages | 0 and up | the limits law |
//! | `dirty`, `store_dirty` | pages | 0 and up | the counters: dirty and under write-back |
//! | `store_thresh`, `store_background` | pages | 0 and up | the share law |
//! | `average_pages_per_s` | pages/s | 1 and up | the bandwidth law |
//! | `strict` | yes or no | | the store's settings |
//! | `ratio` | 1/1024 | 0 (stop) and up | output |
//!
//! # Formula
//!
//! ```text
//! limit    = max(thresh, hard_limit)
//! freerun  = (thresh + background) / 2
//! setpoint = (freerun + limit) / 2
//! whole    = 1 + ((setpoint - dirty) / (limit - setpoint))^3     held in 0..2; 0 from limit on
//!
//! part           = max(min(store_thresh, thresh), (limit - dirty) / 8)
//! store_setpoint = setpoint * part / thresh
//! span           = (thresh - part + 8 * average) * part / thresh
//! intercept      = store_setpoint + span
//! line     = (intercept - store_dirty) / span     at least 1/4
//! reserve  = (part / 2) / store_dirty             from 1 to 8, below part / 2 only
//! ratio    = whole * line * reserve
//!
//! strict   : min(whole, the same polynomial of the store's own dirty pages and thresholds)
//! ```
//!
//! # Conditions
//!
//! 1. The polynomial is two at `freerun`, one at `setpoint`, zero at `limit`.
//! 2. The polynomial never rises with the dirty pages, and is flat at the setpoint.
//! 3. From the limit on the ratio is 0.
//! 4. The ratio is at least a quarter of the polynomial: no store's line starves its writers.
//! 5. The ratio never rises with the store's dirty pages.
//! 6. A store alone at its setpoint has a ratio of one, to within 1 %, if it can write its
//!    threshold in a quarter of an hour.
//! 7. A strict store at its threshold gets 0, and from 8 dirty pages on at most what the whole
//!    allows.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/position.svg")]
//!
//! The polynomial over the dirty pages, with a threshold of 200 000 and a background threshold of
//! 100 000 pages. Between `freerun` and `limit` writers are slowed.
//!
//! # Example
//!
//! One disk, of whose pages 200 000 may be dirty and 187 500 are: half way from the setpoint to the
//! limit. Its writers go at 0.82 of their base rate.
//!
//! ```
//! use forebay_law::position::{PositionInputs, position};
//!
//! let at = position(&PositionInputs {
//!     thresh: 200_000,
//!     background: 100_000,
//!     dirty: 187_500,
//!     hard_limit: 200_000,
//!     store_thresh: 200_000,
//!     store_dirty: 187_500,
//!     average_pages_per_s: 25_600,
//!     strict: false,
//!     store_background: 100_000,
//! });
//! assert_eq!((at.setpoint, at.polynomial, at.ratio), (175_000, 896, 841));
//! ```
//!
//! # Why not the simpler one
//!
//! Without a position term the rate law keeps whatever level of dirty pages it happens to have. A
//! straight line is as steep at the setpoint as at the edges: at the setpoint small disturbances
//! shake every writer, and at the edges the line does too little too late. The cube does next to
//! nothing near the setpoint and stops everything at the limit. The line of the store reaches 0 far
//! above its share, and a slow store that is found there (a stick that wrote fast into its own
//! cache) would stop its writers for minutes: hence the quarter.
//!
//! # Edges
//!
//! `dirty` above the limit is 0, not negative. The cube is taken of a value held between -1 and 1,
//! so that it cannot overflow when limit and setpoint nearly meet. Differences are signed and
//! rounded as arithmetic shifts do. An idle store has a share near 0; its part is at least an
//! eighth of the room that is left, so that it can start. A threshold that collapsed below the
//! part leaves the span to the bandwidth. A strict store with fewer than 8 dirty pages is not held
//! back by its own line. The part is a fraction of 16 bits: if the threshold is worth many hours
//! of the store's bandwidth, its rounding exceeds the span and the line is at its quarter, which
//! errs towards slowing.
//!
//! # Lineage
//!
//! Linux: `bdi_position_ratio` (3.2), the reserve area (3.2), strict limits (3.12).

use crate::arithmetic::{RATIO_BITS, RATIO_ONE, scaled};
use crate::limits::{DirtyLimits, setpoint};

/// Fraction bits of a store's part of the limit.
const PART_BITS: u32 = 16;

/// Seconds of bandwidth in the span of a store that has the limit for itself.
const SPAN_S: u64 = 8;

/// Dirty pages below which a strictly limited store is not held back.
const STRICT_FLOOR_PAGES: u64 = 8;

/// The largest value of the polynomial: two.
pub const MAX_POLYNOMIAL: u64 = 2 * RATIO_ONE;

/// One snapshot of what is dirty and what may be. Pages unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PositionInputs {
    /// The dirty threshold.
    pub thresh: u64,
    /// The background threshold.
    pub background: u64,
    /// Dirty pages and pages under write-back of all stores.
    pub dirty: u64,
    /// The smoothed limit; the threshold counts if it is higher.
    pub hard_limit: u64,
    /// The store's part of the threshold.
    pub store_thresh: u64,
    /// Dirty pages and pages under write-back of the store.
    pub store_dirty: u64,
    /// The store's write bandwidth in pages a second.
    pub average_pages_per_s: u64,
    /// Whether the store may never exceed its own threshold.
    pub strict: bool,
    /// The store's part of the background threshold.
    pub store_background: u64,
}

/// The ratio and the values on the way to it. Pages, and ratios in 1/1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Dirty pages at which the whole is in balance.
    pub setpoint: u64,
    /// Dirty pages at which the store is in balance.
    pub store_setpoint: u64,
    /// By how much to scale the base rate: 1024 is one, 0 is stop.
    pub ratio: u64,
    /// The part of the ratio that comes from the whole.
    pub polynomial: u64,
    /// The part of the threshold that the store is granted; 0 for a strict store.
    pub store_part: u64,
    /// Dirty pages from the store's setpoint to where its line would reach 0.
    pub span: u64,
    /// Dirty pages of the store at which its line would reach 0.
    pub intercept: u64,
}

/// `1 + ((setpoint - dirty) / (limit - setpoint))^3`, held between 0 and 2, in 1/1024.
pub fn polynomial(setpoint: u64, dirty: u64, limit: u64) -> u64 {
    let one = i128::from(RATIO_ONE);
    let distance = i128::from(setpoint) - i128::from(dirty);
    let scale = i128::from(limit.saturating_sub(setpoint) | 1);
    let x = (distance * one / scale).clamp(-one, one);
    let square = (x * x) >> RATIO_BITS;
    let cube = (square * x) >> RATIO_BITS;
    (cube + one).clamp(0, i128::from(MAX_POLYNOMIAL)) as u64
}

/// The ratio by which a writer's base rate is scaled.
pub fn position(inputs: &PositionInputs) -> Position {
    let limit = inputs.hard_limit.max(inputs.thresh);
    let freerun = DirtyLimits {
        thresh: inputs.thresh,
        background: inputs.background,
    }
    .freerun();
    let setpoint = setpoint(freerun, limit);
    let whole = Position {
        setpoint,
        ..Position::default()
    };
    if inputs.dirty >= limit {
        return whole;
    }
    let whole = Position {
        polynomial: polynomial(setpoint, inputs.dirty, limit),
        ..whole
    };
    if inputs.strict {
        strict_position(whole, inputs)
    } else {
        store_position(whole, inputs, limit)
    }
}

/// A store that may never exceed its threshold: the smaller of two polynomials.
fn strict_position(whole: Position, inputs: &PositionInputs) -> Position {
    if inputs.store_dirty < STRICT_FLOOR_PAGES {
        return Position {
            ratio: (whole.polynomial * 2).min(MAX_POLYNOMIAL),
            ..whole
        };
    }
    let store_setpoint = u64::midpoint(inputs.store_thresh, inputs.store_background);
    let full = inputs.store_dirty >= inputs.store_thresh
        || store_setpoint == 0
        || store_setpoint == inputs.store_thresh;
    let ratio = if full {
        0
    } else {
        polynomial(store_setpoint, inputs.store_dirty, inputs.store_thresh).min(whole.polynomial)
    };
    Position {
        store_setpoint,
        ratio,
        ..whole
    }
}

/// A store with a soft target: the polynomial times the store's line.
fn store_position(whole: Position, inputs: &PositionInputs, limit: u64) -> Position {
    let room = (limit - inputs.dirty) / 8;
    let part = inputs.store_thresh.min(inputs.thresh).max(room);
    let part_ratio = scaled(part, 1 << PART_BITS, inputs.thresh | 1);
    let store_setpoint = scaled(whole.setpoint, part_ratio, 1 << PART_BITS);
    let bandwidth_pages = inputs.average_pages_per_s.saturating_mul(SPAN_S);
    // A store's part is granted from the limit, which may be above a threshold that has just
    // fallen; then the difference is negative and the bandwidth alone has to carry the span.
    let width = inputs
        .thresh
        .saturating_add(bandwidth_pages)
        .saturating_sub(part);
    let span = scaled(width, part_ratio, 1 << PART_BITS);
    let intercept = store_setpoint.saturating_add(span);
    let on_main_line = inputs.store_dirty < intercept - span / 4;
    let line = if on_main_line {
        let left = intercept - inputs.store_dirty;
        scaled(whole.polynomial, left, (intercept - store_setpoint) | 1)
    } else {
        whole.polynomial / 4
    };
    Position {
        store_setpoint,
        ratio: with_reserve(line, part / 2, inputs.store_dirty),
        store_part: part,
        span,
        intercept,
        ..whole
    }
}

/// A store with little to write gets more, up to eightfold, so that its queue never runs dry.
fn with_reserve(ratio: u64, reserve: u64, store_dirty: u64) -> u64 {
    if store_dirty >= reserve {
        ratio
    } else if store_dirty > reserve / 8 {
        scaled(ratio, reserve, store_dirty)
    } else {
        ratio.saturating_mul(8)
    }
}

#[cfg(test)]
#[path = "position_tests.rs"]
mod tests;
