//! The latest incidents: turns of knobs, refused requests and tasks that ended, each in a list of
//! its own, so that a store that fails all the time does not push out who turned which knob.
//!
//! They lie in the engine itself, as the knobs do, so their bytes are not part of the budget: at
//! most 4 KiB of refusals, and of turns what the user sent.
//!
//! invariant IC1: refused requests are never counted twice, and the latest of each list are kept.

use crate::incident::{Happening, Incident, Refusal};
use crate::retune::Changes;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_store::{Failure, IoKind};
use std::collections::VecDeque;

const TURNS: usize = 32;
const REFUSALS: usize = 64;
/// Refusals that are this far apart are two incidents.
const SAME_REFUSAL: Span = Span::from_secs(1);
/// A budget that follows pressure changes in many steps.
const SAME_MEMORY: Span = Span::from_secs(10);

const _: () = assert!(REFUSALS * size_of::<(Instant, Refusal)>() <= 4 << 10);

/// Knobs that were turned.
#[derive(Clone, Debug)]
pub(crate) struct KnobTurn {
    pub(crate) from: Changes,
    pub(crate) to: Changes,
    pub(crate) limit_pages_before: u64,
    pub(crate) limit_pages: u64,
}

#[derive(Debug)]
enum Turn {
    Knobs(Box<KnobTurn>),
    Memory {
        from_bytes: u64,
        to_bytes: u64,
        last: Instant,
    },
}

#[derive(Debug, Default)]
struct Kept {
    turns: VecDeque<(Instant, Turn)>,
    refusals: VecDeque<(Instant, Refusal)>,
    /// By name: when each task ended first, and what is known of it.
    tasks: Vec<(Instant, &'static str, u64, Instant)>,
}

/// The latest incidents.
#[derive(Debug)]
pub(crate) struct Incidents(Mutex<Kept>);

impl Default for Incidents {
    fn default() -> Incidents {
        Incidents(Mutex::new(Kept {
            turns: VecDeque::with_capacity(TURNS),
            refusals: VecDeque::with_capacity(REFUSALS),
            tasks: Vec::new(),
        }))
    }
}

impl Incidents {
    /// Knobs were turned.
    pub(crate) fn turned(&self, at: Instant, turn: KnobTurn) {
        let turn = Turn::Knobs(Box::new(turn));
        push(&mut lock(&self.0).turns, TURNS, (at, turn));
    }

    /// Another budget was set.
    pub(crate) fn resized(&self, at: Instant, from: u64, to: u64) {
        let turns = &mut lock(&self.0).turns;
        if let Some((_, Turn::Memory { to_bytes, last, .. })) = turns.back_mut()
            && at.since(*last) < SAME_MEMORY
        {
            (*to_bytes, *last) = (to, at);
            return;
        }
        let turn = Turn::Memory {
            from_bytes: from,
            to_bytes: to,
            last: at,
        };
        push(turns, TURNS, (at, turn));
    }

    /// Store `bdi` refused a request.
    pub(crate) fn refused(&self, at: Instant, bdi: usize, kind: IoKind, failure: Failure) {
        let refusals = &mut lock(&self.0).refusals;
        let is_it = |it: &Refusal| (it.bdi, it.kind, it.failure) == (bdi, kind, failure);
        let known = refusals.iter_mut().rev().find(|(_, it)| is_it(it));
        if let Some((_, known)) = known
            && at.since(known.last) < SAME_REFUSAL
        {
            known.requests += 1;
            known.last = at;
            return;
        }
        let refusal = Refusal {
            bdi,
            kind,
            failure,
            requests: 1,
            last: at,
        };
        push(refusals, REFUSALS, (at, refusal));
    }

    /// The task called `name` ended unexpectedly.
    pub(crate) fn task_ended(&self, at: Instant, name: &'static str) {
        let tasks = &mut lock(&self.0).tasks;
        match tasks.iter_mut().find(|(_, known, ..)| *known == name) {
            Some((_, _, times, last)) => (*times, *last) = (*times + 1, at),
            None => tasks.push((at, name, 1, at)),
        }
    }

    /// Those that began, or went on, at `since` or later, the oldest first.
    pub(crate) fn latest(&self, since: Instant) -> Vec<Incident> {
        let kept = lock(&self.0);
        let turns = kept.turns.iter().map(|(at, turn)| turn.incident(*at));
        let refusals = kept.refusals.iter().map(|(at, refusal)| {
            let what = Happening::Failed(*refusal);
            (refusal.last, Incident { at: *at, what })
        });
        let tasks = kept.tasks.iter().map(|&(at, name, times, last)| {
            let what = Happening::TaskEnded { name, times, last };
            (last, Incident { at, what })
        });
        let all = turns
            .chain(refusals)
            .chain(tasks)
            .filter(|(last, _)| *last >= since);
        let mut latest: Vec<Incident> = all.map(|(_, incident)| incident).collect();
        latest.sort_by_key(|incident| incident.at);
        latest
    }
}

impl Turn {
    /// When it ended, and what it was.
    fn incident(&self, at: Instant) -> (Instant, Incident) {
        match self {
            Turn::Knobs(turn) => {
                let what = Happening::Turned {
                    from: Box::new(turn.from.clone()),
                    to: Box::new(turn.to.clone()),
                    limit_pages_before: turn.limit_pages_before,
                    limit_pages: turn.limit_pages,
                };
                (at, Incident { at, what })
            }
            &Turn::Memory {
                from_bytes,
                to_bytes,
                last,
            } => {
                let what = Happening::Memory {
                    from_bytes,
                    to_bytes,
                };
                (last, Incident { at, what })
            }
        }
    }
}

fn push<T>(list: &mut VecDeque<T>, limit: usize, item: T) {
    if list.len() == limit {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    fn requests(incidents: &Incidents, since_ms: u64) -> Vec<(u64, u64)> {
        let all = incidents.latest(at(since_ms)).into_iter();
        all.filter_map(|it| match it.what {
            Happening::Failed(refusal) => Some((it.at.as_millis(), refusal.requests)),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn invariant_ic1_refusals_are_counted_once_and_the_latest_are_kept() {
        let incidents = Incidents::default();
        let refused = |ms, kind| incidents.refused(at(ms), 1, kind, Failure::NoSpace);
        for (ms, kind) in [
            (0, IoKind::Write),
            (900, IoKind::Write),
            (950, IoKind::Commit),
            (1_800, IoKind::Write),
            (2_800, IoKind::Write),
        ] {
            refused(ms, kind);
        }
        assert_eq!(requests(&incidents, 0), [(0, 3), (950, 1), (2_800, 1)]);
        assert_eq!(requests(&incidents, 1_000), [(0, 3), (2_800, 1)]);
        let turn = KnobTurn {
            from: Changes::default(),
            to: Changes::default(),
            limit_pages_before: 2,
            limit_pages: 1,
        };
        incidents.turned(at(2_900), turn);
        for second in 3..3 + REFUSALS as u64 {
            refused(second * 1_000 + 900, IoKind::Write);
        }
        let all = incidents.latest(at(0));
        assert_eq!(all.len(), REFUSALS + 1);
        assert!(matches!(all[0].what, Happening::Turned { .. }));
    }

    #[test]
    fn budgets_in_small_steps_are_one() {
        let incidents = Incidents::default();
        for step in 0..5 {
            incidents.resized(at(step * 9_000), 10 - step, 9 - step);
        }
        incidents.resized(at(60_000), 5, 10);
        let budgets = incidents.latest(at(0)).into_iter().map(|it| match it.what {
            Happening::Memory {
                from_bytes,
                to_bytes,
            } => (it.at.as_millis(), from_bytes, to_bytes),
            other => panic!("{other:?}"),
        });
        assert_eq!(budgets.collect::<Vec<_>>(), [(0, 10, 5), (60_000, 5, 10)]);
    }

    #[test]
    fn budgets_that_are_far_apart_are_two() {
        let incidents = Incidents::default();
        let apart_ms = SAME_MEMORY.as_millis();
        for ms in [0, apart_ms - 1, 2 * apart_ms - 1] {
            incidents.resized(at(ms), 2, 1);
        }
        assert_eq!(incidents.latest(at(0)).len(), 2);
    }
}
