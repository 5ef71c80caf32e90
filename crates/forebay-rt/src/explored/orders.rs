//! Which thread goes on: drawn, from the number of the order alone.

use super::{Clock, threads};
use forebay_base::Prng;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::ops::Range;

/// Powers of two between the shortest and the longest time, on average, for which a thread goes on
/// or ranks stay as they are.
const POWERS: u64 = 9;

/// How the next thread is chosen.
#[derive(Debug)]
enum Choice {
    /// Any of those that can go on, at each step.
    Any,
    /// The same one, until one of so many steps on average.
    Stretches(u64),
    /// The one that ranks highest, which falls behind all others at one of so many steps on
    /// average: a thread stands still in the middle of something for as long as the others have
    /// anything to do.
    Ranks {
        steps: u64,
        of: Vec<u64>,
        lowest: u64,
    },
}

/// The orders of a range of numbers, one after the other.
#[derive(Debug)]
pub(super) struct Orders {
    left: Range<u64>,
    clock: Clock,
    chance: Prng,
    choice: Choice,
}

impl Orders {
    pub(super) fn new(numbers: Range<u64>, clock: Clock) -> Orders {
        Orders {
            left: numbers,
            clock,
            chance: Prng::from_seed(0),
            choice: Choice::Any,
        }
    }

    fn choose(&mut self) -> Choice {
        let power = self.chance.below(POWERS);
        match self.chance.below(5) {
            0 => Choice::Any,
            1 | 2 => Choice::Stretches(2 << power),
            _ => Choice::Ranks {
                // Ranks are worth most where they seldom change.
                steps: 32 << power,
                of: Vec::new(),
                lowest: u64::MAX / 2,
            },
        }
    }
}

impl Scheduler for Orders {
    fn new_execution(&mut self) -> Option<Schedule> {
        let number = self.left.next()?;
        self.chance = Prng::from_seed(number);
        self.choice = self.choose();
        threads::begin(number, self.clock, self.chance.child("clock"));
        Some(Schedule::new(number))
    }

    fn next_task(
        &mut self,
        ready: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let chance = &mut self.chance;
        let any = |chance: &mut Prng| ready[chance.below(ready.len() as u64) as usize].id();
        let goes_on = current.filter(|&it| !is_yielding && ready.iter().any(|of| of.id() == it));
        Some(match &mut self.choice {
            Choice::Any => any(chance),
            Choice::Stretches(steps) => match goes_on {
                Some(current) if !chance.chance(1, *steps) => current,
                _ => any(chance),
            },
            Choice::Ranks { steps, of, lowest } => {
                let most = ready
                    .iter()
                    .map(|of| usize::from(of.id()))
                    .max()
                    .unwrap_or(0);
                while of.len() <= most {
                    of.push(u64::MAX / 2 + chance.below(u64::MAX / 2));
                }
                if let Some(current) = current
                    && (is_yielding || chance.chance(1, *steps))
                {
                    *lowest -= 1;
                    of[usize::from(current)] = *lowest;
                }
                let highest = ready.iter().max_by_key(|it| of[usize::from(it.id())]);
                highest.map_or_else(|| any(chance), |it| it.id())
            }
        })
    }

    fn next_u64(&mut self) -> u64 {
        self.chance.next_u64()
    }
}
