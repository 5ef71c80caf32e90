//! The bench of the fronts: the block server and the mount under fio, beside servers of other
//! projects, in turns.

mod blocks;
mod fio;
mod mounts;
mod server;
mod stand;
mod trees;

use crate::arguments::BenchArguments;
use crate::error::BenchError;
use crate::goals;
use crate::machine::machine;
use crate::results::Results;
use crate::rounds::Rounds;
use crate::table::Heading;
use fio::Fio;
use forebay_base::units::show_bytes;
use forebay_host::{Interrupts, Scratch};
use stand::{FULL, Fronts, PRESSURE_TIMES, QUICK, SEQUENTIAL_TIMES};

/// Checks that the programs are there without which nothing can be measured.
pub(crate) fn check() -> Result<(), BenchError> {
    if let Some(reason) = Fio::missing() {
        let text = format!("{reason}, and it is the client of this bench");
        return Err(BenchError::program(text));
    }
    server::servers().map(|_| ())
}

/// Measures the fronts.
pub(crate) fn measure(
    arguments: &BenchArguments,
    scratch: &Scratch,
    interrupts: &Interrupts,
) -> Result<(Heading, Results), BenchError> {
    let memory_bytes = arguments.memory_bytes;
    scratch.check_room(2 * (PRESSURE_TIMES + SEQUENTIAL_TIMES + 2) * memory_bytes)?;
    let mut pace = if arguments.quick { QUICK } else { FULL };
    pace.rounds = arguments.rounds.unwrap_or(pace.rounds);
    let mut bench = Fronts {
        folder: scratch.folder(),
        memory_bytes,
        pace,
        fio: Fio::new(scratch.folder(), interrupts),
        rounds: Rounds::new(interrupts, pace.runs(), Heading::new(vec![], goals::FRONTS)),
    };
    let budget = format!(
        "budget {}, {} read and written while memory lasts, in {}",
        show_bytes(memory_bytes),
        show_bytes(bench.cached_bytes()),
        scratch.folder().display()
    );
    let counted = match pace.rounds {
        1 if arguments.quick => "--quick: one short round of everything".to_owned(),
        1 => "one round".to_owned(),
        rounds => format!("median of {rounds} rounds, by turns, and half their spread"),
    };
    bench.rounds.heading.lines = vec![machine(), budget, counted];
    bench.blocks()?;
    bench.mounts()?;
    bench.trees()?;
    Ok((bench.rounds.heading, bench.rounds.results))
}
