//! `forebay bench --fronts`: the block server and the mount under fio, beside servers that others
//! wrote, by turns.

mod blocks;
mod fio;
mod goals;
mod mounts;
mod results;
mod server;
mod stand;
mod table;

use super::interrupt::Interrupts;
use super::json::RowFile;
use super::machine::machine;
use super::progress::Progress;
use super::scratch::Scratch;
use super::show_bytes;
use crate::args::BenchArguments;
use crate::error::CommandError;
use fio::Fio;
use results::Results;
use std::io::{self, Write};

use stand::{FULL, Fronts, PRESSURE_TIMES, QUICK, SEQUENTIAL_TIMES};

/// Measures the fronts and prints their table.
pub(super) fn run(arguments: &BenchArguments) -> Result<(), CommandError> {
    if let Some(reason) = Fio::missing() {
        return Err(CommandError::Client {
            reason: format!("{reason}, and it is the client of this bench"),
        });
    }
    let interrupts = Interrupts::listen()?;
    let row_file = arguments
        .json_file
        .as_deref()
        .map(RowFile::create)
        .transpose()?;
    let scratch = Scratch::create(&arguments.parent_folder)?;
    let most = 2 * (PRESSURE_TIMES + SEQUENTIAL_TIMES + 2);
    scratch.check_room(most * arguments.memory_bytes)?;
    let pace = if arguments.quick { QUICK } else { FULL };
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
    let lines = [
        machine(),
        format!(
            "budget {}, {} read and written while memory lasts, in {}",
            show_bytes(bench.memory_bytes),
            show_bytes(bench.cached_bytes()),
            scratch.folder().display()
        ),
        match pace.rounds {
            1 => "--quick: one short round of everything".to_owned(),
            rounds => format!("median of {rounds} rounds, by turns, and half their spread"),
        },
    ];
    let text = table::render(&lines, &bench.left_out, &bench.results);
    drop(bench.progress);
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(CommandError::system("print the table"))?;
    row_file.map_or(Ok(()), |file| file.write(bench.results.rows()))
}
