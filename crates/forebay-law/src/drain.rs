//! How much of a store may be dirty, if it has to be written within a promised time.
//!
//! # Question
//!
//! An operator says how long a sync, an unmount or the end of the program may take. How many pages
//! of a store may be dirty, when its rate is measured, changes, and may depend on the answer?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `promise_ms` | ms | 1 and up | an operator |
//! | `average_pages_per_s` | pages/s | 0 and up | the bandwidth law |
//! | `busy_ms` | ms | 0 and up, never back | the time in which the store was at work |
//! | `has_leapt` | | | the [steady law](crate::steady), in the last 3 s |
//! | `floor_pages` | pages | 1 and up | the requests that keep the store busy ([`floor_pages`]) |
//! | `most_pages` | pages | 0 and up | the limits and share laws |
//! | `dirty_pages`, `written_pages` | pages | 0 and up | the counters of the store |
//! | `now_ms` | ms | does not go back | the runtime |
//! | `limit_pages` | pages | `floor_pages` to `most_pages` | [`DrainLimit`]: output |
//! | `cost_percent` | percent | 0 to 99 | output: what the promise takes of the rate |
//!
//! # Formula
//!
//! ```text
//! aim    = average * promise / 1000                at most 4 floors until busy for 1.6 s
//!          at least the floor, at most most
//! limit := aim                                     if that is more
//!          max(aim, limit - limit / 32)            otherwise, once in 200 ms
//!          max(aim, limit - limit / 24)            instead, if the rate has leapt
//!
//! look   : every 30 s, limit + raise for twice the promise, 2 s to 10 s; r0 is the rate in as long
//!          a time before as the half of it, r1 the rate in the second half
//! raise  = min(limit / 4, limit * limit / dirty - limit)     no look if it is below limit / 16
//! cost   = (limit + raise) / raise * (r1 - r0) / r1          of a look that filled its place
//! ```
//!
//! # Conditions
//!
//! 1. The limit is at least the floor and at most `most_pages`, which wins.
//! 2. The aim never falls as the rate or the promise grows.
//! 3. The limit rises at once, and falls by no more than 1/32 for each 200 ms that passed, and by
//!    no more than 1/24 if the rate has leapt. However its steps fall, it falls as far.
//! 4. Until the store has been at work for 1.6 s, the limit is at most four floors.
//! 5. If the rate of a store grows with the limit, but ever more slowly (r(L) concave), limits from
//!    above and from below meet at the highest L with L = r(L) * promise, and at the floor if
//!    there is none. Nothing falls below it.
//! 6. Of a store whose rate is R * L / (L + K) the cost is found to within 5 points, and twice the
//!    promise would cost half as much.
//! 7. A look never lets more be dirty than 5/4 of the limit, nor more than the limit if the level
//!    grows as its place does. None begins while the store is not held by the limit. It ends when
//!    the aim is more than an eighth below the limit: the store has become slower, and a look would
//!    only keep the limit up.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/drain.svg")]
//!
//! The limit of a promise of one second: of a bare rate that halves at 20 s and comes back at 60 s,
//! and of a store that seeks, from far above and from the floor.
//!
//! # Example
//!
//! A disk of 30 MB/s (7 324 pages a second) has to be written within 2 s: 14 648 of its pages may
//! be dirty (57 MiB). As long as it is not measured, 4 MiB are.
//!
//! ```
//! use forebay_law::drain::{DrainInputs, DrainLimit, floor_pages};
//!
//! let inputs = DrainInputs {
//!     promise_ms: 2_000,
//!     average_pages_per_s: 7_324,
//!     busy_ms: 0,
//!     floor_pages: floor_pages(64),
//!     most_pages: 50_000,
//!     ..DrainInputs::default()
//! };
//! let cold = DrainLimit::default().advanced(&inputs);
//! assert_eq!(cold.limit_pages, 1_024);
//! let known = DrainInputs { busy_ms: 1_600, now_ms: 5_000, ..inputs };
//! assert_eq!(cold.advanced(&known).limit_pages, 14_648);
//! ```
//!
//! # Why not the simpler one
//!
//! A limit in bytes is right for one disk and wrong for the next. The rate times the promise, taken
//! as it is, follows each pause of a disk down; writers then make smaller pieces, a disk that seeks
//! writes those more slowly, and the limit ratchets down (RocksDB's rate limiter ended at 26 KB/s).
//! With a rate that is never believed when the limit holds the writers, nothing falls, but then the
//! promise is broken on every store that becomes slow. A fall that is slow against the measurement
//! ends where limit and rate agree; what is lost there is the price of the promise, which a look at
//! a higher limit finds out and which is said.
//!
//! # Edges
//!
//! A floor above the aim breaks the promise: a store that writes nothing keeps none. An average
//! of 0 gives the floor. A store that was idle is not measured, keeps its average and with it the
//! limit. A promise that was turned on while much is dirty starts from what is dirty and falls
//! from there: writers are slowed and not stopped. A look goes up by a quarter at most: the level
//! of dirty pages is held at three quarters of the limit as a rule, and where it is higher the look
//! is lower, so that it stays within the promise. A
//! step that comes late falls by what the missed ones would have, for 3.2 s at most.
//!
//! # Lineage
//!
//! Forebay's own. The look upwards is that of BBR congestion control (2016), the slow fall that of
//! Linux's `domain_dirty_limit` (3.2), the trap that of RocksDB's auto-tuned rate limiter (2017).

use crate::arithmetic::{MS_PER_S, scaled};
use crate::limits::LIMIT_INTERVAL_MS;

/// A store counts as measured after so much time at work.
pub const MEASURED_MS: u64 = 1_600;
/// What may be dirty before, in floors.
const COLD_FLOORS: u64 = 4;
/// The limit falls by one part in so many in a step.
const FALL_PART: u64 = 32;
/// The same towards a rate that was leapt to. It is no pause of the store, so a caller may be
/// slowed more, and half a rate keeps the promise again after 5 s
/// (docs/decisions/writeback-and-throttling.md).
const LEAPT_FALL_PART: u64 = 24;
/// A step that comes late falls by so many steps at most.
const LATE_STEPS: u64 = 16;
/// Writes of the greatest length that keep a store busy: two under way and two that gather.
const FLOOR_WRITES: u64 = 4;
/// No store needs more than this to be busy: 8 MiB.
const MOST_FLOOR_PAGES: u64 = 2_048;

/// From the end of a look to the beginning of the next.
pub const LOOK_EVERY_MS: u64 = 30_000;
const LEAST_LOOK_MS: u64 = 2_000;
const MOST_LOOK_MS: u64 = 10_000;
/// A look raises the limit by one part in so many at most.
const LOOK_PART: u64 = 4;
/// A look that would raise it by less than one part in so many says nothing.
const LEAST_LOOK_PART: u64 = 16;
/// A look ends when the aim is more than one part in so many below the limit.
const SLOWER_PART: u64 = 8;
/// From this cost on it is worth a word.
pub const WORTH_SAYING_PERCENT: u64 = 20;
/// So many looks have to agree on that, for one may have met a pause of the device.
const LOOKS_TO_SAY: u64 = 2;
const MOST_PERCENT: u64 = 99;

/// What one step needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainInputs {
    /// The time within which everything has to be written, milliseconds.
    pub promise_ms: u64,
    /// What the store writes, pages a second.
    pub average_pages_per_s: u64,
    /// For how long it has been at work, milliseconds.
    pub busy_ms: u64,
    /// Whether it has just been found to have another rate than before, which it keeps.
    pub has_leapt: bool,
    /// What keeps it busy, pages.
    pub floor_pages: u64,
    /// What the other limits allow, pages.
    pub most_pages: u64,
    /// Its dirty pages, those under way among them.
    pub dirty_pages: u64,
    /// Pages that it has written so far.
    pub written_pages: u64,
    /// The time, milliseconds.
    pub now_ms: u64,
}

/// The look at a higher limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Look {
    /// None since then, milliseconds.
    #[default]
    None,
    Since(u64),
    /// The rate is measured at the limit as it is, from that time and that count of pages on.
    Before {
        from_ms: u64,
        from_pages: u64,
    },
    /// The limit is higher, and the writers fill the place.
    Filling {
        from_ms: u64,
        raise_pages: u64,
        before: u64,
    },
    /// The rate is measured there.
    Above {
        from_ms: u64,
        from_pages: u64,
        raise_pages: u64,
        before: u64,
    },
}

/// The limit of one store, and what is known of its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainLimit {
    /// Pages that may be dirty; 0 before the first step.
    pub limit_pages: u64,
    /// What the promise takes of the store's rate, percent.
    pub cost_percent: u64,
    updated_ms: u64,
    look: Look,
    /// Looks that found a cost worth saying, one after the other.
    costly_looks: u64,
}

/// The least that has to be dirty of a store that takes `write_pages` in a write, so that it is
/// busy.
pub fn floor_pages(write_pages: u64) -> u64 {
    write_pages
        .saturating_mul(FLOOR_WRITES)
        .clamp(1, MOST_FLOOR_PAGES)
}

/// The shortest promise that a store can keep, milliseconds: the time of its floor.
///
/// ```
/// // A stick of 3.8 MB/s.
/// assert_eq!(forebay_law::drain::least_promise_ms(256, 928), 276);
/// ```
pub fn least_promise_ms(floor_pages: u64, average_pages_per_s: u64) -> u64 {
    floor_pages
        .saturating_mul(MS_PER_S)
        .div_ceil(average_pages_per_s.max(1))
}

/// Where the limit should be.
pub fn aim_pages(inputs: &DrainInputs) -> u64 {
    let promised = scaled(inputs.average_pages_per_s, inputs.promise_ms, MS_PER_S);
    let known = if inputs.busy_ms < MEASURED_MS {
        promised.min(inputs.floor_pages.saturating_mul(COLD_FLOORS))
    } else {
        promised
    };
    known.max(inputs.floor_pages).min(inputs.most_pages)
}

impl DrainLimit {
    /// A limit of `limit_pages`, with no step taken yet.
    pub fn of(limit_pages: u64) -> DrainLimit {
        DrainLimit {
            limit_pages,
            ..DrainLimit::default()
        }
    }

    /// The limit when the promise is made while `dirty_pages` are dirty. It falls from there.
    #[must_use]
    pub fn begun(inputs: &DrainInputs) -> DrainLimit {
        let dirty = inputs.dirty_pages.saturating_add(inputs.dirty_pages / 4);
        DrainLimit {
            limit_pages: aim_pages(inputs).max(dirty.min(inputs.most_pages)),
            updated_ms: inputs.now_ms,
            ..DrainLimit::default()
        }
    }

    /// The limit after a step; one is taken at most once in 200 ms.
    #[must_use]
    pub fn advanced(self, inputs: &DrainInputs) -> DrainLimit {
        if self.limit_pages == 0 {
            return DrainLimit::begun(inputs);
        }
        let passed_ms = inputs.now_ms.saturating_sub(self.updated_ms);
        if !self.is_due(inputs.now_ms) {
            return self;
        }
        let aim = aim_pages(inputs);
        let mut limit = self.limit_pages.min(inputs.most_pages);
        let part = if inputs.has_leapt {
            LEAPT_FALL_PART
        } else {
            FALL_PART
        };
        for _ in 0..(passed_ms / LIMIT_INTERVAL_MS).min(LATE_STEPS) {
            limit = limit.saturating_sub((limit / part).max(1)).max(aim);
        }
        let next = DrainLimit {
            limit_pages: limit,
            // What is left of an interval counts for the next step, or steps that come a little
            // late would let the limit fall half as fast.
            updated_ms: inputs.now_ms - passed_ms % LIMIT_INTERVAL_MS,
            ..self
        };
        next.looked(inputs)
    }

    /// Whether a step would be taken now.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.limit_pages == 0 || now_ms.saturating_sub(self.updated_ms) >= LIMIT_INTERVAL_MS
    }

    /// Pages that may be dirty now: more while there is a look, within `most_pages`.
    pub fn allowed_pages(&self, most_pages: u64) -> u64 {
        let limit = self.limit_pages;
        let allowed = match self.look {
            Look::Filling { raise_pages, .. } | Look::Above { raise_pages, .. } => {
                limit + raise_pages.min(limit / LOOK_PART)
            }
            Look::None | Look::Since(_) | Look::Before { .. } => limit,
        };
        allowed.min(most_pages)
    }

    /// Whether the price of the promise is known to be so high that somebody should hear of it.
    pub fn is_costly(&self) -> bool {
        self.costly_looks >= LOOKS_TO_SAY
    }

    /// Goes on with the look. Each stage leads to the next when its time is over.
    fn looked(self, inputs: &DrainInputs) -> DrainLimit {
        let (now_ms, pages) = (inputs.now_ms, inputs.written_pages);
        let half_ms = inputs.promise_ms.clamp(LEAST_LOOK_MS / 2, MOST_LOOK_MS / 2);
        let is_over = |from_ms: u64, length_ms| now_ms.saturating_sub(from_ms) >= length_ms;
        let rate = |from_ms: u64, from_pages: u64| {
            let passed_ms = now_ms.saturating_sub(from_ms).max(1);
            scaled(pages.saturating_sub(from_pages), MS_PER_S, passed_ms)
        };
        let is_slower = self.is_far_above(aim_pages(inputs));
        let look = match self.look {
            Look::None => Look::Since(now_ms),
            Look::Since(from_ms) if is_slower => Look::Since(from_ms),
            _ if is_slower => Look::Since(now_ms),
            Look::Since(from_ms) if is_over(from_ms, LOOK_EVERY_MS) && self.holds(inputs) => {
                Look::Before {
                    from_ms: now_ms,
                    from_pages: pages,
                }
            }
            Look::Before { .. } if !self.holds(inputs) => Look::Since(now_ms),
            Look::Before {
                from_ms,
                from_pages,
            } if is_over(from_ms, half_ms) => match self.raise_pages(inputs.dirty_pages) {
                Some(raise_pages) => Look::Filling {
                    from_ms: now_ms,
                    raise_pages,
                    before: rate(from_ms, from_pages),
                },
                None => Look::Since(now_ms),
            },
            Look::Filling {
                from_ms,
                raise_pages,
                before,
            } if is_over(from_ms, half_ms) => Look::Above {
                from_ms: now_ms,
                from_pages: pages,
                raise_pages,
                before,
            },
            Look::Above {
                from_ms,
                from_pages,
                raise_pages,
                before,
            } if is_over(from_ms, half_ms) => {
                let above = rate(from_ms, from_pages);
                return self.learned(inputs, raise_pages, before, above);
            }
            going_on => going_on,
        };
        DrainLimit { look, ..self }
    }

    /// How much a look may raise the limit while `dirty_pages` are dirty.
    fn raise_pages(&self, dirty_pages: u64) -> Option<u64> {
        let limit = self.limit_pages;
        let room = scaled(limit, limit, dirty_pages.max(1)).saturating_sub(limit);
        let raise = room.min(limit / LOOK_PART);
        (raise >= (limit / LEAST_LOOK_PART).max(1)).then_some(raise)
    }

    /// Whether the limit is still on its way to where a slower store has it.
    fn is_far_above(&self, aim: u64) -> bool {
        aim < self.limit_pages - self.limit_pages / SLOWER_PART
    }

    /// After a look that saw the rates `before` and `above`.
    fn learned(
        self,
        inputs: &DrainInputs,
        raise_pages: u64,
        before: u64,
        above: u64,
    ) -> DrainLimit {
        let over = DrainLimit {
            look: Look::Since(inputs.now_ms),
            ..self
        };
        // Its writers did not use the place: nothing was seen.
        if inputs.dirty_pages < self.limit_pages / 4 * 3 || above == 0 {
            return over;
        }
        let gain = above.saturating_sub(before);
        let of_raise = scaled(gain, 100 * (self.limit_pages + raise_pages), above);
        let cost_percent = (of_raise / raise_pages.max(1)).min(MOST_PERCENT);
        let costly_looks = if cost_percent >= WORTH_SAYING_PERCENT {
            self.costly_looks.saturating_add(1)
        } else {
            0
        };
        DrainLimit {
            cost_percent,
            costly_looks,
            ..over
        }
    }

    /// Whether it is this limit that holds the writers of the store.
    fn holds(&self, inputs: &DrainInputs) -> bool {
        inputs.dirty_pages >= self.limit_pages / 8 * 5 && self.limit_pages < inputs.most_pages
    }
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
