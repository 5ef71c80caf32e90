//! The runner of both benches: rounds of a load, in which the contenders take turns.

use crate::contender::{Concurrency, Phase, Sample, Who};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::results::Results;
use crate::table::Heading;
use forebay_host::Interrupts;

/// What the contenders do in their turns, as it is named in the table and in the progress line.
pub(crate) struct Turn<'a> {
    pub(crate) phase: Phase,
    pub(crate) what: &'a str,
    pub(crate) load: Concurrency,
}

/// A bench that is running.
pub(crate) struct Rounds<'a> {
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) progress: Progress,
    pub(crate) heading: Heading,
    pub(crate) results: Results,
}

impl<'a> Rounds<'a> {
    /// A bench with `runs` runs of a load by a contender.
    pub(crate) fn new(interrupts: &'a Interrupts, runs: u64, heading: Heading) -> Rounds<'a> {
        Rounds {
            interrupts,
            progress: Progress::new(runs),
            heading,
            results: Results::default(),
        }
    }

    /// Runs `count` rounds of a load that needs nothing of the bench itself.
    pub(crate) fn rounds(
        &mut self,
        count: u32,
        turn: &Turn<'_>,
        contenders: &[Who],
        mut measure: impl FnMut(usize) -> Result<Vec<Sample>, BenchError>,
    ) -> Result<(), BenchError> {
        (1..=count)
            .try_for_each(|number| self.round(turn, number, contenders, |_, index| measure(index)))
    }

    /// Lets each of the `contenders` measure once; `measure` is called with the index of the one
    /// whose turn it is. `number` is that of the round, counted from 1.
    pub(crate) fn round(
        &mut self,
        turn: &Turn<'_>,
        number: u32,
        contenders: &[Who],
        mut measure: impl FnMut(&mut Self, usize) -> Result<Vec<Sample>, BenchError>,
    ) -> Result<(), BenchError> {
        for index in turns(contenders.len(), number) {
            self.interrupts.check()?;
            let (phase, who) = (turn.phase.name(), contenders[index]);
            let title = format!("{phase}: {}, round {number}, {}", turn.what, who.name());
            self.progress.step(&title);
            let samples = measure(self, index)?;
            self.progress.done(&title, &samples);
            self.results.add(turn.phase, turn.load, who, samples);
        }
        Ok(())
    }
}

/// The order of the contenders in a round: each round begins with a different one, because a
/// contender finds the disk still busy with the work of the one before it.
fn turns(contenders: usize, round: u32) -> impl Iterator<Item = usize> {
    // Rounds are counted from 1.
    let first = round.saturating_sub(1) as usize;
    (0..contenders).map(move |turn| (first + turn) % contenders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contender_is_the_first_of_a_round() {
        let orders = [1, 2, 3, 4].map(|round| turns(3, round).collect::<Vec<_>>());
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }
}
