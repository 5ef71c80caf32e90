//! Forebay measured beside the kernel's page cache, other servers and the bare hardware.
//!
//! [`run`] is `forebay-lab bench`: it makes a scratch folder of real files, lets the contenders
//! take turns on it, prints a table with each goal and whether it was met, and leaves nothing
//! behind. It contains two benches. The bench of the library (`library.rs`) starts each contender
//! as a separate process ([`serve_contender`]), so that each has its own memory and the kernel has
//! its cgroup. The bench of the fronts (`fronts`) starts the program `forebay` that lies beside the
//! calling one, and the servers to compare with, and uses fio as their client.
//!
//! # Running a job of fio by hand
//!
//! The fio jobs of the bench of the fronts are in the folder `jobs` of this crate, in fio's own
//! format. A job takes the values that differ between its runs from the environment:
//!
//! | variable | what |
//! |---|---|
//! | `TARGET` | the unix socket of an export, or the path of a file |
//! | `SIZE` | bytes that each process reads or writes, as `16M` |
//! | `JOBS` | processes at once |
//! | `DEPTH` | requests under way at once |
//! | `SPAN_MS` | how long a timed job is measured |
//! | `SETTLE_MS` | how long it runs before that |
//!
//! The head of each file lists the variables that it takes. To read from a running block server as
//! the bench does:
//!
//! ```text
//! $ forebay serve nbd --memory 256M --socket /tmp/disk.sock disk.img &
//! $ TARGET=/tmp/disk.sock SIZE=16M DEPTH=32 SPAN_MS=2000 SETTLE_MS=400 \
//!       fio crates/forebay-bench/jobs/nbd-read.fio
//! ```
//!
//! The bench only adds the file for the report and a log of the operations in each tenth of a
//! second:
//! `--output-format=json --output=FILE --write_iops_log=NAME --log_avg_msec=100`.

mod arguments;
mod contender;
mod contenders;
mod error;
mod files;
mod fronts;
mod goals;
mod json;
mod layout;
mod library;
mod machine;
mod measure;
mod memory_group;
#[cfg(test)]
mod patience;
mod phases;
mod plan;
mod progress;
mod results;
mod rounds;
mod table;
mod titles;
mod worker;
mod zipf;

use forebay_host::{Interrupts, Scratch};
use forebay_rt::thread::Stopwatch;
use json::RowFile;
use std::io::{self, Write};

pub use arguments::{BenchArguments, PHASES};
pub use error::BenchError;
pub use worker::{CONTENDER_COMMAND, serve_contender};

/// Runs a bench and prints its table to standard output; its progress goes to standard error.
///
/// The calling program is started again for each contender, with [`CONTENDER_COMMAND`] as its first
/// argument, and must then call [`serve_contender`]. For the fronts the
/// program `forebay` in the same folder is started with `serve nbd` and `mount`.
///
/// # Errors
/// Whatever prevents the end of the bench. A contender that cannot be measured here is not an
/// error: the table gives the reason.
pub fn run(arguments: &BenchArguments) -> Result<(), BenchError> {
    if arguments.fronts {
        fronts::check()?;
    }
    let watch = Stopwatch::start();
    let interrupts = Interrupts::listen()?;
    let row_file = RowFile::asked(arguments)?;
    let scratch = Scratch::create(&arguments.parent_folder)?;
    let (heading, results) = if arguments.fronts {
        fronts::measure(arguments, &scratch, &interrupts)?
    } else {
        library::measure(arguments, &scratch, &interrupts, watch)?
    };
    io::stdout()
        .write_all(table::render(&heading, &results).as_bytes())
        .map_err(BenchError::system("print the table"))?;
    row_file.map_or(Ok(()), |file| file.write(&results))
}
