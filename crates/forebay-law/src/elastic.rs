//! How much memory a cache takes on a machine that it shares.
//!
//! # Question
//!
//! A cache may have any budget between a floor and a ceiling. Other programs take memory and give
//! it back. How large is the budget now, and when does the cache look again?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `floor_bytes`, `ceiling_bytes` | bytes | floor at most ceiling | an operator |
//! | `budget_bytes` | bytes | 0 and up | the present budget, which is the output too |
//! | `headroom_bytes` | bytes | 0 and up | limit less use, without file pages of the kernel |
//! | `free_bytes` | bytes | 0 and up | limit less use, with them |
//! | `owed_bytes` | bytes | 0 and up | what the cache has over its budget and still gives back |
//! | `unused_bytes` | bytes | 0 and up | frames of the cache that no page is in |
//! | `is_pressed` | | | the kernel's pressure stall information (PSI) |
//! | `now_ms` | ms | does not go back | the runtime |
//! | [`Change`], [`next_look_ms`] | bytes, ms | | output |
//!
//! Headroom and free bytes are the least of those of the machine and of the memory groups.
//!
//! # Formula
//!
//! ```text
//! margin = max(64 MiB, ceiling / 16)
//! begin  = budget - unused + headroom - 2 margin
//! held   = budget - unused + owed
//! taken  = by how much headroom + held fell since a look 200 ms ago or earlier, a second
//! lead   = min(taken * 1 s, ceiling / 8)
//! short  = margin + lead - headroom - owed                     if that is positive
//! fall   : budget - unused - max(short, budget / 8)            at once, if short
//!          budget - budget / 8                                 if pressed and free < 2 margin,
//!                                                              once in 2 s
//! rise   : budget + min(ceiling / 32 a second, headroom - unused - 2 margin)
//!          once that had room, and nothing pressed, for the whole of `hold`
//! hold   = 30 s; 600 s if the last run of falls began at most 600 s + hold after the last fall of
//!          the one before
//! always : floor <= budget <= ceiling
//!
//! look   : once what is above half of the margin could be gone at 512 MiB a second, 50 ms at
//!          least; 10 s at most, 5 s below the ceiling, 1 s while it rises
//! ```
//!
//! A *run of falls* is all falls with no rise between them. The lead is for a cache that cannot
//! give back at once: on a machine whose processors are all wanted, a step takes a second.
//!
//! # Conditions
//!
//! 1. The budget is never below the floor or above the ceiling.
//! 2. If less than margin and lead is left, the next step asks for what is missing, or goes to the
//!    floor. If they are left and nothing presses, no step falls. Without others that take memory
//!    there is no lead, however the cache fills or gives back.
//! 3. Less headroom never makes the next budget larger.
//! 4. What is still given back is not asked for twice.
//! 5. A rise takes no more than a 32nd of the ceiling a second and leaves two margins. None begins
//!    within 30 s of a fall.
//! 6. Pressure takes an eighth once in 2 s, and nothing as long as two margins are free without
//!    any file page of the kernel.
//! 7. A program that comes and goes, however often, changes the direction of the budget at most
//!    three times in ten minutes.
//! 8. A look comes before a program that takes 512 MiB a second has taken the headroom, if that
//!    was more than half of the margin and 26 MiB.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/elastic.svg")]
//!
//! A group of 2 GiB and a cache of 256 to 1536 MiB: a program that takes 1 GiB in 5 s and gives it
//! back after 60 s, and one that comes for 40 s every 80 s.
//!
//! # Example
//!
//! A group of 2 GiB in which 512 MiB are left, and 200 MiB two seconds later: others take 156 MiB a
//! second, and so much and the margin of 96 MiB should be left. The cache gives back an eighth.
//!
//! ```
//! use forebay_law::elastic::{Cause, Elastic, ElasticInputs};
//!
//! const MIB: u64 = 1 << 20;
//! let inputs = ElasticInputs {
//!     floor_bytes: 256 * MIB,
//!     ceiling_bytes: 1_536 * MIB,
//!     budget_bytes: 1_536 * MIB,
//!     headroom_bytes: 512 * MIB,
//!     ..ElasticInputs::default()
//! };
//! let (elastic, none) = Elastic::begun(&inputs).advanced(&inputs);
//! assert_eq!(none, None);
//! let short = ElasticInputs { headroom_bytes: 200 * MIB, now_ms: 2_000, ..inputs };
//! let change = elastic.advanced(&short).1.expect("it is short");
//! assert_eq!((change.to_bytes, change.cause), (1_344 * MIB, Cause::Room));
//! ```
//!
//! # Why not the simpler one
//!
//! A budget that is computed from the headroom alone (a part of what is free) follows each program
//! that comes and goes, and a cache that grows by what it has just given back takes it from itself:
//! it swings. A way back that compares the use with the number that was tripped never begins where
//! file pages count as use (a cache of a router stayed small for 26 minutes). Pressure alone comes
//! too late where there is no swap: the stall and the kill are a second apart. Headroom alone does
//! not see a group whose file pages are wanted back again and again.
//!
//! # Edges
//!
//! A program that takes all the headroom between two looks is faster than any watcher. One that
//! takes some memory quickly and stops makes the cache give up to an eighth of its ceiling more
//! than the margin, which it takes again when it rises. File pages count as unused although some
//! program may want them: that is seen as pressure. Pressure of a group
//! elsewhere on the machine lowers the budget only where little is free without file pages, which
//! is usual on a machine that has run for long. A program that came twice within ten minutes and
//! never again leaves the cache small for ten more. A headroom of 0 that stays takes the cache to
//! its floor in one step. A budget that somebody else sets is where the next step begins.
//!
//! # Lineage
//!
//! Forebay's own. The memory monitor of CacheLib (2020) gives back in steps and grows again with a
//! limit, by free or resident memory; the working set of a group without its file pages is what
//! Kubernetes evicts by; triggers of pressure are Linux's (5.2).

use crate::arithmetic::{MS_PER_S, scaled};

/// The least margin, and its part of the ceiling.
const LEAST_MARGIN_BYTES: u64 = 64 << 20;
const MARGIN_PART: u64 = 16;
/// The part of the budget that is given back in one step.
const FALL_PART: u64 = 8;
/// The memory that others take in this time is given back ahead.
const LEAD_MS: u64 = 1_000;
/// What others take is measured over so long a time at least.
const TAKEN_OVER_MS: u64 = 200;
/// Pressure takes it once in so long a time.
const PRESSURE_EVERY_MS: u64 = 2_000;
/// The part of the ceiling by which the budget rises in a second.
const RISE_PART: u64 = 32;
/// Room has to last for so long before the budget rises.
const LEAST_HOLD_MS: u64 = 30_000;
/// The same if the budget had to fall again soon after it had risen.
const LONG_HOLD_MS: u64 = 600_000;
/// While it rises, a step that comes late rises for no more than this.
const LATE_MS: u64 = 5_000;

/// The speed at which other programs are taken to take memory, bytes a second.
const TAKEN_PER_S: u64 = 512 << 20;
const LEAST_LOOK_MS: u64 = 50;
const LOOK_AT_CEILING_MS: u64 = 10_000;
const LOOK_BELOW_MS: u64 = 5_000;
const LOOK_RISING_MS: u64 = 1_000;

/// What one step needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElasticInputs {
    /// The least budget.
    pub floor_bytes: u64,
    /// The largest budget.
    pub ceiling_bytes: u64,
    /// The present budget.
    pub budget_bytes: u64,
    /// What other programs can take before the machine or a group is short.
    pub headroom_bytes: u64,
    /// The same if the kernel kept all its file pages.
    pub free_bytes: u64,
    /// What the cache still gives back.
    pub owed_bytes: u64,
    /// Frames of the cache that are free, bytes: it may take that much without a larger budget.
    pub unused_bytes: u64,
    /// Whether the kernel reports pressure.
    pub is_pressed: bool,
    /// The time, milliseconds.
    pub now_ms: u64,
}

/// Why the budget changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Little was left.
    Room,
    /// Programs waited for memory.
    Pressure,
    /// Enough was left for long.
    Spare,
}

impl Cause {
    /// Its name for people and for programs.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Room => "room",
            Cause::Pressure => "pressure",
            Cause::Spare => "spare",
        }
    }
}

/// Another budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The budget, bytes.
    pub to_bytes: u64,
    /// Why.
    pub cause: Cause,
}

/// What is remembered from step to step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elastic {
    /// Since when there is room to rise, and nothing pressed.
    ample_ms: Option<u64>,
    /// The last fall.
    fell_ms: Option<u64>,
    /// How long room has to last.
    hold_ms: u64,
    /// The last fall for pressure.
    pressed_ms: Option<u64>,
    /// The last step upwards, if none fell since then.
    rose_ms: Option<u64>,
    /// What others had left, cache included, and when.
    left_bytes: u64,
    left_ms: u64,
    /// What others took of it a second, bytes.
    taken_per_s: u64,
    /// How often the direction changed.
    pub turns: u64,
}

/// What should be left for others.
pub fn margin_bytes(ceiling_bytes: u64) -> u64 {
    (ceiling_bytes / MARGIN_PART).max(LEAST_MARGIN_BYTES)
}

/// The budget to begin with.
pub fn first_bytes(inputs: &ElasticInputs) -> u64 {
    let spare = inputs
        .headroom_bytes
        .saturating_sub(2 * margin_bytes(inputs.ceiling_bytes));
    let used = inputs.budget_bytes.saturating_sub(inputs.unused_bytes);
    let first = used.saturating_add(spare);
    first.min(inputs.ceiling_bytes).max(inputs.floor_bytes)
}

/// When to look again, milliseconds from now.
pub fn next_look_ms(inputs: &ElasticInputs, elastic: &Elastic) -> u64 {
    let margin = margin_bytes(inputs.ceiling_bytes);
    let most_ms = match elastic.rose_ms {
        _ if inputs.budget_bytes >= inputs.ceiling_bytes => LOOK_AT_CEILING_MS,
        Some(_) => LOOK_RISING_MS,
        None => LOOK_BELOW_MS,
    };
    if inputs.budget_bytes <= inputs.floor_bytes {
        // There is nothing to give.
        return most_ms;
    }
    let above = inputs.headroom_bytes.saturating_sub(margin / 2);
    scaled(above, MS_PER_S, TAKEN_PER_S).clamp(LEAST_LOOK_MS, most_ms)
}

impl Elastic {
    /// The state before the first step.
    pub fn begun(inputs: &ElasticInputs) -> Elastic {
        Elastic {
            hold_ms: LEAST_HOLD_MS,
            ample_ms: Some(inputs.now_ms).filter(|_| spare_bytes(inputs) > 0),
            left_bytes: left_bytes(inputs),
            left_ms: inputs.now_ms,
            ..Elastic::default()
        }
    }

    /// The state after a step, and the new budget if it is another one.
    #[must_use]
    pub fn advanced(self, inputs: &ElasticInputs) -> (Elastic, Option<Change>) {
        self.measured(inputs).stepped(inputs)
    }

    /// The state after what others took was measured.
    fn measured(self, inputs: &ElasticInputs) -> Elastic {
        let passed_ms = inputs.now_ms.saturating_sub(self.left_ms);
        if passed_ms < TAKEN_OVER_MS {
            return self;
        }
        let left_bytes = left_bytes(inputs);
        let taken = self.left_bytes.saturating_sub(left_bytes);
        Elastic {
            left_bytes,
            left_ms: inputs.now_ms,
            taken_per_s: scaled(taken, MS_PER_S, passed_ms),
            ..self
        }
    }

    fn stepped(self, inputs: &ElasticInputs) -> (Elastic, Option<Change>) {
        if let Some(change) = self.fall(inputs) {
            return (self.fallen(inputs, change.cause), within(inputs, change));
        }
        let margin = margin_bytes(inputs.ceiling_bytes);
        let is_pressed = inputs.is_pressed && inputs.free_bytes < 2 * margin;
        let spare = spare_bytes(inputs);
        if is_pressed || spare == 0 {
            let ample_ms = None;
            return (Elastic { ample_ms, ..self }, None);
        }
        let ample_ms = self.ample_ms.unwrap_or(inputs.now_ms);
        let known = Elastic {
            ample_ms: Some(ample_ms),
            ..self
        };
        let waited_ms = inputs.now_ms.saturating_sub(ample_ms);
        if waited_ms < self.hold_ms || inputs.budget_bytes >= inputs.ceiling_bytes {
            return (known, None);
        }
        known.risen(inputs, spare)
    }

    /// The budget that is needed at once, if it has to be smaller.
    fn fall(&self, inputs: &ElasticInputs) -> Option<Change> {
        let budget = inputs.budget_bytes;
        let margin = margin_bytes(inputs.ceiling_bytes);
        let left = inputs.headroom_bytes.saturating_add(inputs.owed_bytes);
        let wanted = margin + self.lead_bytes(inputs);
        if left < wanted {
            let gives = (wanted - left).max(budget / FALL_PART);
            let used = budget.saturating_sub(inputs.unused_bytes);
            let to_bytes = used.saturating_sub(gives);
            let cause = Cause::Room;
            return Some(Change { to_bytes, cause });
        }
        let is_due = self
            .pressed_ms
            .is_none_or(|at| inputs.now_ms.saturating_sub(at) >= PRESSURE_EVERY_MS);
        if inputs.is_pressed && inputs.free_bytes < 2 * margin && is_due {
            let to_bytes = budget - budget / FALL_PART;
            let cause = Cause::Pressure;
            return Some(Change { to_bytes, cause });
        }
        None
    }

    /// What is left to others beside the margin, because they take memory now.
    fn lead_bytes(&self, inputs: &ElasticInputs) -> u64 {
        scaled(self.taken_per_s, LEAD_MS, MS_PER_S).min(inputs.ceiling_bytes / FALL_PART)
    }

    fn fallen(self, inputs: &ElasticInputs, cause: Cause) -> Elastic {
        let now_ms = inputs.now_ms;
        let pressed_ms = match cause {
            Cause::Pressure => Some(now_ms),
            Cause::Room | Cause::Spare => self.pressed_ms,
        };
        let fallen = Elastic {
            ample_ms: None,
            pressed_ms,
            ..self
        };
        if inputs.budget_bytes <= inputs.floor_bytes {
            return fallen;
        }
        let is_new_run = self.fell_ms.is_none() || self.rose_ms.is_some();
        if !is_new_run {
            let fell_ms = Some(now_ms);
            return Elastic { fell_ms, ..fallen };
        }
        let is_soon = self
            .fell_ms
            .is_some_and(|at| now_ms.saturating_sub(at) <= LONG_HOLD_MS + self.hold_ms);
        Elastic {
            fell_ms: Some(now_ms),
            hold_ms: if is_soon { LONG_HOLD_MS } else { LEAST_HOLD_MS },
            rose_ms: None,
            turns: self.turns + u64::from(self.rose_ms.is_some()),
            ..fallen
        }
    }

    fn risen(self, inputs: &ElasticInputs, spare: u64) -> (Elastic, Option<Change>) {
        let passed_ms = match self.rose_ms {
            Some(rose_ms) => inputs.now_ms.saturating_sub(rose_ms).min(LATE_MS),
            None => MS_PER_S,
        };
        if passed_ms < MS_PER_S {
            return (self, None);
        }
        let step = scaled(inputs.ceiling_bytes / RISE_PART, passed_ms, MS_PER_S).min(spare);
        let change = Change {
            to_bytes: inputs.budget_bytes.saturating_add(step),
            cause: Cause::Spare,
        };
        let risen = Elastic {
            rose_ms: Some(inputs.now_ms),
            turns: self.turns + u64::from(self.rose_ms.is_none() && self.fell_ms.is_some()),
            ..self
        };
        (risen, within(inputs, change))
    }
}

/// What others have left, and what the cache holds. It changes only with what others take.
fn left_bytes(inputs: &ElasticInputs) -> u64 {
    let held = inputs.budget_bytes.saturating_sub(inputs.unused_bytes);
    held.saturating_add(inputs.owed_bytes)
        .saturating_add(inputs.headroom_bytes)
}

/// What the budget can rise by and leave two margins.
fn spare_bytes(inputs: &ElasticInputs) -> u64 {
    let taken = inputs.unused_bytes + 2 * margin_bytes(inputs.ceiling_bytes);
    inputs.headroom_bytes.saturating_sub(taken)
}

/// `change` between floor and ceiling; none if nothing is left of it.
fn within(inputs: &ElasticInputs, change: Change) -> Option<Change> {
    let most = match change.cause {
        Cause::Spare => inputs.ceiling_bytes,
        // The ceiling is above the budget, unless somebody set that above it.
        Cause::Room | Cause::Pressure => inputs.budget_bytes.min(inputs.ceiling_bytes),
    };
    let to_bytes = change.to_bytes.min(most).max(inputs.floor_bytes);
    (to_bytes != inputs.budget_bytes).then_some(Change { to_bytes, ..change })
}

#[cfg(test)]
#[path = "elastic_tests.rs"]
mod tests;
