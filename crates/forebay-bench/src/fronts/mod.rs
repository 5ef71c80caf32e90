//! `forebay-lab bench --fronts`: the block server and the mount under fio, beside servers of other
//! projects, in turns.

mod blocks;
mod fio;
mod goals;
mod mounts;
mod results;
mod server;
mod stand;
mod table;
mod trees;

use crate::arguments::BenchArguments;
use crate::error::BenchError;
use crate::json::RowFile;
use crate::machine::machine;
use crate::progress::Progress;
use fio::Fio;
use forebay_base::units::show_bytes;
use forebay_host::Interrupts;
use forebay_host::Scratch;
use results::Results;
use stand::{FULL, Fronts, PRESSURE_TIMES, QUICK, SEQUENTIAL_TIMES};
use std::io::{self, Write};

/// Measures the fronts and prints their table.
pub(super) fn run(arguments: &BenchArguments) -> Result<(), BenchError> {
    if let Some(reason) = Fio::missing() {
        let text = format!("{reason}, and it is the client of this bench");
        return Err(BenchError::program(text));
    }
    server::servers()?;
    let interrupts = Interrupts::listen()?;
    let row_file = RowFile::asked(arguments)?;
    let scratch = Scratch::create(&arguments.parent_folder)?;
    let most = 2 * (PRESSURE_TIMES + SEQUENTIAL_TIMES + 2);
    scratch.check_room(most * arguments.memory_bytes)?;
    let mut pace = if arguments.quick { QUICK } else { FULL };
    pace.rounds = arguments.rounds.unwrap_or(pace.rounds);
    let mut bench = Fronts {
        folder: scratch.folder(),
        memory_bytes: arguments.memory_bytes,
        pace,
        fio: Fio::new(scratch.folder(), &interrupts),
        interrupts: &interrupts,
        progress: Progress::new(pace.runs()),
        left_out: Vec::new(),
        results: Results::default(),
    };
    bench.blocks()?;
    bench.mounts()?;
    bench.trees()?;
    let lines = [
        machine(),
        format!(
            "budget {}, {} read and written while memory lasts, in {}",
            show_bytes(bench.memory_bytes),
            show_bytes(bench.cached_bytes()),
            scratch.folder().display()
        ),
        match pace.rounds {
            1 if arguments.quick => "--quick: one short round of everything".to_owned(),
            1 => "one round".to_owned(),
            rounds => format!("median of {rounds} rounds, by turns, and half their spread"),
        },
    ];
    let text = table::render(&lines, &bench.left_out, &bench.results);
    drop(bench.progress);
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(BenchError::system("print the table"))?;
    row_file.map_or(Ok(()), |file| file.write(bench.results.rows()))
}
