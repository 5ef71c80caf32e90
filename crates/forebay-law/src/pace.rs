//! How a writer's pauses are cut fine, so that each of its writes costs about the same.
//!
//! # Question
//!
//! A writer has a rate and has dirtied some pages. Does it sleep now, and how long, if a short
//! sleep costs little?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `dirtied_pages` | pages | 0 and up | the writer's own count |
//! | `task_ratelimit` | pages/s | 1 and up | the rate and position laws |
//! | `paused_when_us` | us | none, or a time | the writer's own state |
//! | `now_us` | us | does not go back | the runtime |
//! | `max_pause_us` | us | 1 000 to 200 000 | the pause law |
//! | `sleep_us` | us | 0, or 250 to 180 000 | output |
//! | `asks_again` | | yes or no | output |
//! | quota | pages | 1 and up | output |
//! | quota of a call | pages | 1 and up | output: a call that ends with this many is checked |
//!
//! # Formula
//!
//! ```text
//! due   = paused_when + dirtied * 1 000 000 / task       (virtual time)
//! wait  = due - now
//! wait < -1 s  : go on, paused_when = now
//! wait < 250 us: go on, paused_when = due
//! else         : sleep = min(wait, max_pause, 180 ms)
//!                owed  = min(wait - sleep, max_pause)
//!                owed  = min(wait - sleep, 1 000 000 / task)   where max_pause is 180 ms or more
//!                                                              and a page takes longer than that
//!                paused_when = now + sleep + owed
//!                owed > max_pause: asks again, after the sleep, before it goes on
//! quota = min(quota of the pause law, max(task / 2000, 8)), at least 1
//! quota of a call = task / 100, at least 1
//! ```
//!
//! # Conditions
//!
//! 1. A sleep is 0, or from 250 us to 180 ms, and not longer than `max_pause_us` allows.
//! 2. A writer that only writes, and is checked after each quota, gets its rate to within 2 %.
//! 3. A writer that stayed away for more than a second starts anew.
//! 4. No writer owes more than one longest pause besides the one that it sleeps, or more than a
//!    page takes at its rate, if that is longer.
//! 5. The quota is never above that of the pause law.
//! 6. A longer list of dirtied pages never makes the sleep shorter.
//! 7. A writer whose page takes longer than two longest pauses gets its rate to within 2 % too,
//!    as long as `max_pause_us` allows the longest: it sleeps several times in a row.
//! 8. Calls of one page that takes longer than 5 ms each sleep for that page.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/pace.svg")]
//!
//! The sleep after 256 pages, a write of 1 MiB, over the writer's rate.
//!
//! # Example
//!
//! A writer of 1 MiB a call has 1 GB/s, 262 144 pages a second. The copy took 200 us, so it sleeps
//! 776 us each time; under the pause law it would write ten calls at once and then sleep 10 ms.
//!
//! ```
//! use forebay_law::pace::{PaceInputs, pace};
//!
//! let inputs = PaceInputs {
//!     dirtied_pages: 256,
//!     task_ratelimit: 262_144,
//!     paused_when_us: Some(1_000_000),
//!     now_us: 1_000_200,
//!     max_pause_us: 200_000,
//! };
//! let paced = pace(&inputs);
//! assert_eq!((paced.sleep_us, paced.paused_when_us), (776, 1_000_976));
//! ```
//!
//! # Why not the simpler one
//!
//! The pause law checks a writer after at least 10 ms of work, because a kernel pays for each sleep
//! of every task of the machine and counts time in ticks. So of ten writes nine return at once and
//! the tenth takes 10 ms: the mean is right and the worst is ten times the usual. A cache in a
//! program has few writers and a fine clock; two sleeps a millisecond cost it one percent of a
//! processor.
//!
//! With the quota alone, 8 pages for a slow writer, seven of eight calls of a page return at once
//! and the eighth pays for all. Then each of a hundred writers on 30 MB/s waits for 110 ms; if a
//! call pays where it ends, each waits for 14 ms every time. If every page were checked, a call of
//! 1 MiB would sleep 256 times for nothing, since no caller sees the middle of a call.
//!
//! # Edges
//!
//! A writer is checked where its calls end a hundred times a second, or at most twice as often, so
//! the processor time for its sleeps has a bound.
//!
//! A page may take longer than the longest pause: with ten thousand writers on 100 MB/s it takes
//! 390 ms. If the debt were then cut to one longest pause, each would get twice its rate, the limit
//! would stop them all, and it would be chance which writer gets past it. With little dirty, pauses
//! are short so that the store does not run dry, and the debt stays small too.
//!
//! A rate of 0 does not occur here: the writer sleeps as the pause law says. Sleeps below 250 us
//! are saved up, because timers are late by some tens of microseconds. The longest sleep is 180 ms,
//! so that a late timer stays below the 200 ms that are promised. A clock that went back reads as
//! time owed, at most one longest pause.
//!
//! # Lineage
//!
//! The virtual time is that of Linux's pause law; pacing each packet instead of bursts is the
//! habit of transport protocols.

/// Shorter sleeps are saved up until they are worth one.
pub const SHORTEST_US: u64 = 250;
/// No sleep is longer: a timer that is late stays within the promised 200 ms.
pub const LONGEST_US: u64 = 180_000;
/// A writer that stayed away for longer starts anew.
const FORGET_US: u64 = 1_000_000;
/// Writers are checked about this often in a second: a client with 32 writes of 4 KiB under way
/// then waits in most of them, and not for long in the rest.
const QUOTAS_PER_S: u64 = 2_000;
/// But not more often than after this many pages.
const LEAST_QUOTA_PAGES: u64 = 8;
/// Calls of a writer that is too slow for the least quota pay where they end, about this often in a
/// second.
const PAID_CALLS_PER_S: u64 = 100;

/// What a pacing decision is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaceInputs {
    /// Pages that the writer dirtied since it was last checked.
    pub dirtied_pages: u64,
    /// Its rate, pages a second; at least 1.
    pub task_ratelimit: u64,
    /// Virtual time up to which it has paid, in microseconds; none if it never paused.
    pub paused_when_us: Option<u64>,
    /// The time now, in microseconds.
    pub now_us: u64,
    /// The longest pause that the pause law allows, in microseconds.
    pub max_pause_us: u64,
}

/// What a writer does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// How long it sleeps, in microseconds; 0 to go on.
    pub sleep_us: u64,
    /// Virtual time up to which it has paid after that.
    pub paused_when_us: u64,
    /// It owes more than a longest pause after the sleep, and is checked again before it goes on.
    pub asks_again: bool,
}

/// Decides whether a writer sleeps. See the head of this file.
pub fn pace(inputs: &PaceInputs) -> Pace {
    let started = inputs.paused_when_us.unwrap_or(inputs.now_us);
    let micros = u128::from(inputs.dirtied_pages) * 1_000_000;
    let period = micros / u128::from(inputs.task_ratelimit.max(1));
    let period = u64::try_from(period).unwrap_or(u64::MAX);
    let due = started.saturating_add(period);
    if due.saturating_add(FORGET_US) < inputs.now_us {
        return Pace {
            sleep_us: 0,
            paused_when_us: inputs.now_us,
            asks_again: false,
        };
    }
    let wait = due.saturating_sub(inputs.now_us);
    if wait < SHORTEST_US {
        return Pace {
            sleep_us: 0,
            paused_when_us: due,
            asks_again: false,
        };
    }
    let longest = inputs.max_pause_us.clamp(SHORTEST_US, LONGEST_US);
    let sleep_us = wait.min(longest);
    let most_owed = if longest == LONGEST_US {
        longest.max(1_000_000 / inputs.task_ratelimit.max(1))
    } else {
        longest
    };
    let owed = (wait - sleep_us).min(most_owed);
    Pace {
        sleep_us,
        paused_when_us: inputs.now_us.saturating_add(sleep_us).saturating_add(owed),
        asks_again: owed > longest,
    }
}

/// Pages after which a paced writer is checked where its call ends, even if its quota is not used
/// up.
///
/// ```
/// use forebay_law::pace::pace_call_quota;
///
/// // A hundred writers on 30 MB/s have 75 pages a second each.
/// assert_eq!(pace_call_quota(75), 1);
/// // One on 100 MB/s is asked at its quota, long before that.
/// assert_eq!(pace_call_quota(25_600), 256);
/// ```
pub fn pace_call_quota(task_ratelimit: u64) -> u64 {
    (task_ratelimit / PAID_CALLS_PER_S).max(1)
}

/// Pages after which a paced writer is checked again.
pub fn pace_quota(task_ratelimit: u64, pause_quota_pages: u64) -> u64 {
    let fine = (task_ratelimit / QUOTAS_PER_S).max(LEAST_QUOTA_PAGES);
    fine.min(pause_quota_pages).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inputs() -> impl Strategy<Value = PaceInputs> {
        (
            0..1_u64 << 40,
            1..1_u64 << 30,
            any::<Option<u32>>(),
            any::<u32>(),
            0..300_000_u64,
        )
            .prop_map(
                |(dirtied_pages, task_ratelimit, paused, now, max_pause_us)| PaceInputs {
                    dirtied_pages,
                    task_ratelimit,
                    paused_when_us: paused.map(u64::from),
                    now_us: u64::from(now),
                    max_pause_us,
                },
            )
    }

    /// A writer of 1,000,000 pages a second, whose pages take as many microseconds. It owes them
    /// from the time 0.
    fn owing(dirtied_pages: u64, now_us: u64, max_pause_us: u64) -> Pace {
        pace(&PaceInputs {
            dirtied_pages,
            task_ratelimit: 1_000_000,
            paused_when_us: Some(0),
            now_us,
            max_pause_us,
        })
    }

    #[test]
    fn sleeps_begin_and_debts_end_at_their_borders() {
        assert_eq!(owing(249, 0, 200_000).sleep_us, 0);
        assert_eq!(owing(250, 0, 200_000).sleep_us, 250);
        // What is due was due a second ago: it is forgotten after that.
        assert_eq!(owing(0, FORGET_US, 200_000).paused_when_us, 0);
        let later = FORGET_US + 1;
        assert_eq!(owing(0, later, 200_000).paused_when_us, later);
        // 1,000 of 1,800 are slept, and 800 stay owed.
        let paced = owing(1_800, 0, 1_000);
        assert_eq!((paced.sleep_us, paced.paused_when_us), (1_000, 1_800));
        assert!(!paced.asks_again);
        // As much as a sleep is owed at most, and that asks for no other.
        let paced = owing(2_000, 0, 1_000);
        assert_eq!((paced.paused_when_us, paced.asks_again), (2_000, false));
    }

    #[test]
    fn a_call_is_paid_a_hundred_times_a_second() {
        assert_eq!(pace_call_quota(75), 1);
        assert_eq!(pace_call_quota(25_600), 256);
    }

    /// What a writer writes in so many seconds that only writes, a quota at a time.
    fn written_in(seconds: u64, rate: u64, quota: u64) -> u64 {
        let (mut now_us, mut paused_when_us, mut written) = (0, None, 0);
        while now_us < seconds * 1_000_000 {
            written += quota;
            let mut dirtied_pages = quota;
            loop {
                let paced = pace(&PaceInputs {
                    dirtied_pages,
                    task_ratelimit: rate,
                    paused_when_us,
                    now_us,
                    max_pause_us: 200_000,
                });
                paused_when_us = Some(paced.paused_when_us);
                now_us += paced.sleep_us.max(1);
                dirtied_pages = 0;
                if !paced.asks_again {
                    break;
                }
            }
        }
        written
    }

    proptest! {
        #[test]
        fn condition_1_a_sleep_is_none_or_in_bounds(inputs in inputs()) {
            let sleep_us = pace(&inputs).sleep_us;
            let longest = inputs.max_pause_us.clamp(SHORTEST_US, LONGEST_US);
            prop_assert!(sleep_us == 0 || (SHORTEST_US..=longest).contains(&sleep_us));
        }

        #[test]
        fn condition_2_a_busy_writer_gets_its_rate(rate in 100..1_000_000_u64) {
            let quota = pace_quota(rate, u64::MAX);
            let written = written_in(20, rate, quota);
            let wanted = rate * 20;
            let slack = wanted / 50 + 2 * quota;
            prop_assert!(written.abs_diff(wanted) <= slack, "{written} of {wanted}");
        }

        #[test]
        fn condition_7_a_page_may_take_several_pauses(rate in 1..100_u64) {
            let written = written_in(100, rate, 1);
            let wanted = rate * 100;
            prop_assert!(written.abs_diff(wanted) <= wanted / 50 + 2, "{written} of {wanted}");
        }

        #[test]
        fn condition_8_a_slow_writers_calls_each_pay_for_their_page(rate in 1..200_u64) {
            prop_assert_eq!(pace_call_quota(rate), 1);
            let paced = pace(&PaceInputs {
                dirtied_pages: 1,
                task_ratelimit: rate,
                paused_when_us: Some(1_000),
                now_us: 1_000,
                max_pause_us: 200_000,
            });
            prop_assert_eq!(paced.sleep_us, (1_000_000 / rate).min(LONGEST_US));
        }

        #[test]
        fn condition_3_who_stayed_away_starts_anew(away in 1_000_001..u64::from(u32::MAX)) {
            let paced = pace(&PaceInputs {
                dirtied_pages: 0,
                task_ratelimit: 100,
                paused_when_us: Some(0),
                now_us: away,
                max_pause_us: 200_000,
            });
            let anew = Pace { paused_when_us: away, ..Pace::default() };
            prop_assert_eq!(paced, anew);
        }

        #[test]
        fn condition_4_no_more_than_one_pause_is_owed(inputs in inputs()) {
            let paced = pace(&inputs);
            if paced.sleep_us > 0 {
                let woken = inputs.now_us + paced.sleep_us;
                let page_us = 1_000_000 / inputs.task_ratelimit;
                prop_assert!(paced.paused_when_us - woken <= LONGEST_US.max(page_us));
            }
        }

        #[test]
        fn condition_5_the_quota_is_finer(rate: u64, quota in 1..1_u64 << 40) {
            prop_assert!((1..=quota).contains(&pace_quota(rate, quota)));
        }

        #[test]
        fn condition_6_more_pages_never_sleep_less(inputs in inputs(), more in 0..1_u64 << 30) {
            let dirtied_pages = inputs.dirtied_pages + more;
            let longer = pace(&PaceInputs { dirtied_pages, ..inputs });
            prop_assert!(longer.sleep_us >= pace(&inputs).sleep_us);
        }
    }

    #[test]
    fn a_quota_is_about_half_a_millisecond_of_work() {
        assert_eq!(pace_quota(262_144, 2_560), 131);
        assert_eq!(pace_quota(25, 4), 4);
        assert_eq!(pace_quota(1_920, 54), 8);
        assert_eq!(pace_quota(0, 0), 1);
    }
}
