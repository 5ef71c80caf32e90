//! Whether a writer pauses, for how long, and when it is checked again.
//!
//! # Question
//!
//! A writer is checked. Its store has a base rate, and so many pages are dirty. Does the writer
//! pause now, how long, and what does it owe afterwards?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `position` | pages, pages/s | see the position law | the counters, the limits law |
//! | `dirty_ratelimit` | pages/s | 0 and up | the rate law |
//! | `before` | pages, times | | the writer's own state |
//! | `now_us` | us | does not go back | the runtime |
//! | `tick` | ms | 1 to 100 | the settings |
//! | `is_paced` | | yes or no | the policy |
//! | `pause_us` | us | 0 to 200 000 | output: 0 to go on |
//! | `asks_again` | | yes or no | output: it is checked again before it goes on |
//! | `after` | pages, times | | output: the writer's state |
//! | `limit` | | global, store or hard | output: which limit slows the writer |
//!
//! # Formula
//!
//! ```text
//! task    = dirty_ratelimit * ratio of the position law
//! bounds  = the pause law's, of average, dirty_ratelimit, store_dirty and task
//! paced, task > 0 : the pace law's sleep, within the longest of the bounds
//! paced, task = 0 : the pause law's sleep, at most 180 ms
//! not paced       : the pause law's sleep
//! limit   = hard if task = 0, store if the store is strict, otherwise global
//! ```
//!
//! # Conditions
//!
//! 1. The limit is the hard one exactly if the writer's rate is 0, and then it pauses.
//! 2. No pause is longer than 200 ms, and no pause that is cut fine is longer than 180 ms.
//! 3. More dirty pages of other stores never make a pause shorter that is cut fine.
//! 4. A writer that pauses owes none of the pages that it paused for.
//! 5. Only a writer whose pauses are cut fine is checked again before it goes on.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/decision.svg")]
//!
//! The pause after a write of 1 MiB, cut fine, over the dirty pages: for the only writer of a disk
//! that writes 25 600 pages a second, and for one of ten. The limit is 200 000 pages.
//!
//! # Example
//!
//! The only writer of a disk of 100 MB/s has written 1 MiB, and the dirty pages are at the
//! setpoint. It pauses for the 10 ms that the disk needs for them.
//!
//! ```
//! use forebay_law::decision::{DecisionInputs, DirtierState, PauseLimit, decide};
//! use forebay_law::limits::DirtyLimits;
//! use forebay_law::pause::{DirtierClock, Tick};
//! use forebay_law::plot::alone;
//!
//! let limits = DirtyLimits { thresh: 200_000, background: 100_000 };
//! let clock = DirtierClock { nr_dirtied: 256, ..DirtierClock::default() };
//! let decision = decide(&DecisionInputs {
//!     position: alone(limits, 175_000, 25_600),
//!     dirty_ratelimit: 25_600,
//!     before: DirtierState { clock, paused_when_us: Some(1_000_000), call_quota_pages: None },
//!     now_us: 1_000_000,
//!     tick: Tick::FINE,
//!     is_paced: true,
//! });
//! assert_eq!((decision.limit, decision.pause_us), (PauseLimit::Global, 10_009));
//! assert_eq!(decision.after.clock.nr_dirtied, 0);
//! ```
//!
//! # Why not the simpler one
//!
//! This law only joins four others, and the writer could do that itself. But a record of a pause is
//! worth something only if a reader can compute the pause again from it, and a second text of the
//! same steps would sooner or later differ from the first.
//!
//! # Edges
//!
//! A writer at the hard limit has no rate to be paced by: it sleeps as long as the pause law
//! allows, and is checked again. Before the rate of a store is measured this law is not asked.
//!
//! # Lineage
//!
//! Linux: the loop of `balance_dirty_pages` (3.2). The fine cut is Forebay's own
//! (docs/decisions/writeback-and-throttling.md).

use crate::pace::{LONGEST_US, Pace, PaceInputs, pace, pace_call_quota, pace_quota};
use crate::pause::{DirtierClock, PauseDecision, PauseSizing, Tick, decide_pause, size_pause};
use crate::position::{Position, PositionInputs, position};
use crate::rate::task_ratelimit;

/// Which limit made a writer pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseLimit {
    /// Dirty pages of the whole cache are above the free-run level.
    Global,
    /// Dirty pages of this store are above it (strict limit).
    Store,
    /// Nothing may be dirtied at all until something is written.
    Hard,
    /// The store's rate is not measured yet: the writer waits for pages to be written, and no law
    /// decides how long.
    Unmeasured,
}

/// What a writer has dirtied and paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirtierState {
    /// Its account as the pause law keeps it.
    pub clock: DirtierClock,
    /// Virtual time up to which it has paid, in microseconds; none if it never paused.
    pub paused_when_us: Option<u64>,
    /// Pages after which it is checked at the end of its call, if its pauses are cut fine; none if
    /// it is not slowed.
    pub call_quota_pages: Option<u64>,
}

/// What a decision is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionInputs {
    /// What is dirty, what may be, and the bandwidth of the store.
    pub position: PositionInputs,
    /// Base rate of the store for one writer, pages/s.
    pub dirty_ratelimit: u64,
    /// The writer's state.
    pub before: DirtierState,
    /// The time now, in microseconds.
    pub now_us: u64,
    /// The tick in which the pause law counts.
    pub tick: Tick,
    /// Whether pauses are cut fine, by the pace law.
    pub is_paced: bool,
}

/// What a writer does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which limit slows it.
    pub limit: PauseLimit,
    /// What the position law says.
    pub position: Position,
    /// Its rate, pages/s.
    pub task_ratelimit: u64,
    /// The bounds that the pause law sets.
    pub sizing: PauseSizing,
    /// How long it sleeps, in microseconds; 0 to go on.
    pub pause_us: u64,
    /// It owes so much after the sleep that it is checked again before it goes on.
    pub asks_again: bool,
    /// Its state from now on.
    pub after: DirtierState,
}

/// Decides whether a writer pauses. See the head of this file.
pub fn decide(inputs: &DecisionInputs) -> Decision {
    let at = position(&inputs.position);
    let task = task_ratelimit(inputs.dirty_ratelimit, at.ratio);
    let sizing = size_pause(
        inputs.position.average_pages_per_s,
        inputs.dirty_ratelimit,
        inputs.position.store_dirty,
        task,
        inputs.tick,
    );
    let (pace, after) = if inputs.is_paced && task > 0 {
        cut_fine(inputs, &sizing, task)
    } else {
        cut_in_ticks(inputs, &sizing, task)
    };
    Decision {
        limit: match (task, inputs.position.strict) {
            (0, _) => PauseLimit::Hard,
            (_, true) => PauseLimit::Store,
            (_, false) => PauseLimit::Global,
        },
        position: at,
        task_ratelimit: task,
        sizing,
        pause_us: pace.sleep_us,
        asks_again: pace.asks_again,
        after,
    }
}

fn cut_fine(inputs: &DecisionInputs, sizing: &PauseSizing, task: u64) -> (Pace, DirtierState) {
    let pace = pace(&PaceInputs {
        dirtied_pages: inputs.before.clock.nr_dirtied,
        task_ratelimit: task,
        paused_when_us: inputs.before.paused_when_us,
        now_us: inputs.now_us,
        max_pause_us: sizing.max_pause_ms * 1_000,
    });
    let after = DirtierState {
        clock: DirtierClock {
            paused_when_ms: Some(pace.paused_when_us / 1_000),
            nr_dirtied: 0,
            nr_dirtied_pause: pace_quota(task, sizing.next_quota_pages),
        },
        paused_when_us: Some(pace.paused_when_us),
        call_quota_pages: Some(pace_call_quota(task)),
    };
    (pace, after)
}

fn cut_in_ticks(inputs: &DecisionInputs, sizing: &PauseSizing, task: u64) -> (Pace, DirtierState) {
    let now_ms = inputs.now_us / 1_000;
    let (decision, clock) = decide_pause(inputs.before.clock, sizing, task, now_ms, inputs.tick);
    let pause_ms = match decision {
        PauseDecision::NoSleep => 0,
        PauseDecision::Sleep { pause_ms, .. } => pause_ms,
    };
    // A late timer may pass 200 ms only for a reader who compares with the older policy.
    let longest_us = if inputs.is_paced {
        LONGEST_US
    } else {
        u64::MAX
    };
    let sleep_us = (pause_ms * 1_000).min(longest_us);
    let pace = Pace {
        sleep_us,
        paused_when_us: inputs.now_us + sleep_us,
        asks_again: false,
    };
    let after = DirtierState {
        clock,
        paused_when_us: Some(pace.paused_when_us),
        call_quota_pages: None,
    };
    (pace, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DirtyLimits;
    use crate::pause::MAX_PAUSE_MS;
    use crate::plot::alone;
    use proptest::prelude::*;

    fn inputs() -> impl Strategy<Value = DecisionInputs> {
        let pages = 1..300_000_u64;
        let rates = (0..1_u64 << 20, 1..1_u64 << 20);
        let account = (0..1_u64 << 20, 0..5_000_000_u64, 0..5_000_000_u64);
        let policy = (any::<bool>(), any::<bool>(), 1..100_u64);
        (pages.clone(), pages, rates, account, policy).prop_map(
            |(dirty, store_dirty, (ratelimit, average), (dirtied, paused, now), policy)| {
                let (strict, is_paced, tick_ms) = policy;
                DecisionInputs {
                    position: PositionInputs {
                        thresh: 200_000,
                        background: 100_000,
                        dirty: dirty.max(store_dirty),
                        hard_limit: 200_000,
                        store_thresh: 150_000,
                        store_dirty,
                        average_pages_per_s: average,
                        strict,
                        store_background: 75_000,
                    },
                    dirty_ratelimit: ratelimit,
                    before: DirtierState {
                        clock: DirtierClock {
                            paused_when_ms: Some(paused / 1_000),
                            nr_dirtied: dirtied,
                            nr_dirtied_pause: dirtied,
                        },
                        paused_when_us: Some(paused),
                        call_quota_pages: None,
                    },
                    now_us: now,
                    tick: Tick::of_ms(tick_ms),
                    is_paced,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn condition_1_a_writer_without_a_rate_pauses_at_the_hard_limit(inputs in inputs()) {
            let decision = decide(&inputs);
            prop_assert_eq!(decision.limit == PauseLimit::Hard, decision.task_ratelimit == 0);
            prop_assert!(decision.task_ratelimit > 0 || decision.pause_us > 0);
        }

        #[test]
        fn condition_2_a_pause_is_bounded(inputs in inputs()) {
            let longest_us = if inputs.is_paced { LONGEST_US } else { MAX_PAUSE_MS * 1_000 };
            prop_assert!(decide(&inputs).pause_us <= longest_us);
        }

        #[test]
        fn condition_3_more_dirty_pages_of_others_make_no_pause_shorter(
            mut inputs in inputs(), more in 0..100_000_u64,
        ) {
            inputs.is_paced = true;
            let before = decide(&inputs).pause_us;
            inputs.position.dirty += more;
            prop_assert!(decide(&inputs).pause_us >= before);
        }

        #[test]
        fn conditions_4_and_5_of_what_is_left_after_a_pause(inputs in inputs()) {
            let decision = decide(&inputs);
            prop_assert!(decision.pause_us == 0 || decision.after.clock.nr_dirtied == 0);
            prop_assert!(!decision.asks_again || inputs.is_paced);
        }
    }

    #[test]
    fn a_writer_that_never_paused_pauses_for_what_it_dirtied() {
        let limits = DirtyLimits {
            thresh: 2_000,
            background: 1_000,
        };
        let inputs = DecisionInputs {
            position: alone(limits, 1_750, 1_000),
            dirty_ratelimit: 1_000,
            before: DirtierState {
                clock: DirtierClock {
                    nr_dirtied: 50,
                    ..DirtierClock::default()
                },
                ..DirtierState::default()
            },
            now_us: 7_000_000,
            tick: Tick::FINE,
            is_paced: true,
        };
        let paced = decide(&inputs);
        // Near the setpoint the position law rounds down.
        assert_eq!((paced.task_ratelimit, paced.pause_us), (999, 50_050));
        assert_eq!(paced.after.call_quota_pages, Some(9));
        let in_ticks = decide(&DecisionInputs {
            is_paced: false,
            ..inputs
        });
        assert_eq!(in_ticks.pause_us, 50_000);
        assert_eq!(in_ticks.after.call_quota_pages, None);
    }
}
