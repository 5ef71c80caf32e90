//! How many objects a non-page cache has to give back.
//!
//! # Question
//!
//! Reclaim makes pages free. Programs also keep things that are not pages and could be made again:
//! directory entries, maps of extents, decoded blocks. How many of them does a pass ask for, so
//! that neither the pages nor the other things are kept at the cost of the other?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `freeable` | objects | 0 and up | the cache, when the pass comes to it |
//! | `deferred` | objects | 0 to `2 * freeable` | what earlier passes could not ask |
//! | `seeks` | - | 0 and up | the owner: what one object costs to make again; 2 is usual |
//! | `priority` | - | 12 (gentle) to 0 (all) | the reclaim loop |
//! | [`Demand`] | objects | 0 to `2 * freeable` | output |
//!
//! # Formula
//!
//! ```text
//! fresh    = (freeable >> priority) * 4 / seeks     (freeable / 2 if seeks = 0)
//! asked    = min(fresh + (deferred >> priority), 2 * freeable)
//! batch    = min(128, rest)   while rest >= 128 or rest >= freeable
//! deferred = clamp(deferred + fresh - offered, 0, 2 * freeable)
//! ```
//!
//! # Conditions
//!
//! 1. An empty cache is asked for nothing.
//! 2. No pass asks for more than twice what there is.
//! 3. A deeper priority never asks for less.
//! 4. The dearer the objects, the fewer are asked.
//! 5. What a pass could not ask is owed by the next ones, up to twice what there is.
//! 6. Batches are whole, except those of a cache that is smaller than one.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/shrink.svg")]
//!
//! The part of a cache that a pass asks back, over how pressing it is, for three prices.
//!
//! # Example
//!
//! A mount keeps 100 000 inodes of files that nobody has open. At priority 12 a pass would ask for
//! 48: fewer than a batch, so nobody is asked. At priority 9 it asks for 390; three batches are
//! offered, and six are owed.
//!
//! ```
//! use forebay_law::shrink::{ShrinkInputs, demand};
//!
//! let mut inputs = ShrinkInputs { freeable: 100_000, deferred: 0, seeks: 2, priority: 9 };
//! let mut demand = demand(&inputs);
//! assert_eq!(demand.rest(), 390);
//! while demand.next_batch().is_some() {}
//! assert_eq!((demand.offered(), demand.owed()), (384, 6));
//! ```
//!
//! # Why not the simpler one
//!
//! If a cache is asked only when there are no pages, it grows until they are all gone. Asking for
//! the fraction of pages that was looked at (the rule up to 4.15) is fair while there are pages. If
//! there are few, or a pass looks at none, the fraction is everything, and the cache is emptied for
//! nothing. The priority says how pressing reclaim is, independent of the pages. Without a memory
//! of what was not asked for, a cache of a few hundred objects would never be asked for any.
//!
//! # Edges
//!
//! A pass may ask for twice what there is, because the first offer to a recently used object only
//! takes away its mark. Gentle passes defer: at priority 12 even a long debt counts for a
//! four-thousandth. `seeks` 0 is for objects that cost nothing to make again: half of them go at
//! once.
//!
//! # Lineage
//!
//! Linux: shrinkers (2.6), deferred work for each (3.0), demand by priority (4.16).

use crate::arithmetic::scaled;

/// Objects that a cache is offered at once.
pub const SHRINK_BATCH: u64 = 128;

/// What an object costs to make again if nothing else is known.
pub const DEFAULT_SEEKS: u64 = 2;

/// What a pass knows of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShrinkInputs {
    /// Objects that could be given up.
    pub freeable: u64,
    /// Objects that earlier passes wanted and did not offer.
    pub deferred: u64,
    /// What an object costs to make again; 0: nothing.
    pub seeks: u64,
    /// From 12 (gentle) to 0.
    pub priority: u32,
}

/// What a pass asks of one cache, batch by batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    freeable: u64,
    /// Deferred and fresh together, whether they are asked now or not.
    wanted: u64,
    rest: u64,
    offered: u64,
    /// The last batch of a small cache may be a part of one.
    divides_batches: bool,
}

impl Demand {
    pub(crate) fn new(freeable: u64, wanted: u64, asked: u64, divides_batches: bool) -> Demand {
        Demand {
            freeable,
            wanted,
            rest: asked.min(freeable.saturating_mul(2)),
            offered: 0,
            divides_batches,
        }
    }

    /// Objects to offer next, or none if the rest is left to later passes.
    pub fn next_batch(&mut self) -> Option<u64> {
        let is_whole = self.rest >= SHRINK_BATCH;
        let is_all = self.divides_batches && self.rest > 0 && self.rest >= self.freeable;
        if !is_whole && !is_all {
            return None;
        }
        let batch = self.rest.min(SHRINK_BATCH);
        self.rest -= batch;
        self.offered += batch;
        Some(batch)
    }

    /// The same demand, where a cache that is smaller than a batch can be asked for all at once.
    ///
    /// ```
    /// use forebay_law::history::{PagesLookedAt, demand_by_scan};
    /// let part = PagesLookedAt { looked_at: 500, pages: 999 };
    /// assert_eq!(demand_by_scan(40, 0, 2, part).next_batch(), None);
    /// assert_eq!(demand_by_scan(40, 0, 2, part).to_the_last().next_batch(), Some(40));
    /// ```
    #[must_use]
    pub fn to_the_last(self) -> Demand {
        Demand {
            divides_batches: true,
            ..self
        }
    }

    /// Objects that this pass may still offer.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// Objects offered so far.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// What the next pass has to know of as deferred.
    pub fn owed(&self) -> u64 {
        let owed = self.wanted.saturating_sub(self.offered);
        owed.min(self.freeable.saturating_mul(2))
    }
}

/// What a pass asks of a cache (Linux since 4.16).
pub fn demand(inputs: &ShrinkInputs) -> Demand {
    let ShrinkInputs {
        freeable, deferred, ..
    } = *inputs;
    let shifted = |objects: u64| objects.checked_shr(inputs.priority).unwrap_or(0);
    let fresh = match inputs.seeks {
        0 => freeable / 2,
        seeks => scaled(shifted(freeable), 4, seeks),
    };
    let asked = shifted(deferred).saturating_add(fresh);
    Demand::new(freeable, deferred.saturating_add(fresh), asked, true)
}

#[cfg(test)]
#[path = "shrink_tests.rs"]
mod tests;
