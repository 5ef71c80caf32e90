//! Forebay measured beside the kernel's page cache, other servers and the bare hardware.
//!
//! [`run`] is `forebay bench`: it makes a scratch folder of real files, lets the contenders take
//! turns on it, prints a table with each goal and whether it was met, and leaves nothing behind.
//! There are two benches in it. That of the library (`library.rs`) starts each contender as a
//! process of its own ([`serve_contender`]), so that each has its own memory and the kernel its
//! cgroup. That of the fronts (`fronts`) starts `forebay serve nbd`, `forebay mount` and the
//! servers to compare with, and has fio as their client.
//!
//! The rest of the public items is what `forebay demo` and the servers share with the bench:
//! processes that end with their parent, a scratch folder, a slow disk, times, and what the machine
//! has.
//!
//! # Running a job of fio by hand
//!
//! What fio does in the bench of the fronts is in the folder `jobs` of this crate, in fio's own
//! format. A job takes what differs between its runs from the environment:
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
//! Each file says at its head which of them it takes. To read from a running block server as the
//! bench does:
//!
//! ```text
//! $ forebay serve nbd --memory 256M --socket /tmp/disk.sock disk.img &
//! $ TARGET=/tmp/disk.sock SIZE=16M DEPTH=32 SPAN_MS=2000 SETTLE_MS=400 \
//!       fio crates/forebay-bench/jobs/nbd-read.fio
//! ```
//!
//! The bench adds only where the report goes and a log of what was done in each tenth of a second:
//! `--output-format=json --output=FILE --write_iops_log=NAME --log_avg_msec=100`.

mod arguments;
mod contender;
mod contenders;
mod error;
mod fronts;
mod goals;
pub mod host;
mod interrupt;
mod json;
mod layout;
mod library;
mod loop_disk;
mod machine;
mod measure;
mod memory_group;
#[cfg(test)]
mod patience;
mod phases;
mod plan;
mod process;
mod progress;
mod results;
mod rounds;
mod scratch;
mod step_error;
mod table;
mod titles;
mod worker;
mod zipf;

pub use arguments::BenchArguments;
pub use contender::Percentiles;
pub use error::BenchError;
pub use interrupt::Interrupts;
pub use loop_disk::LoopDisk;
pub use measure::Times;
pub use process::{Process, end_with_parent};
pub use scratch::Scratch;
pub use step_error::StepError;
pub use worker::{CONTENDER_COMMAND, serve_contender};

/// Runs a bench and prints its table to standard output; its progress goes to standard error.
///
/// The calling program is started again for each contender, with [`CONTENDER_COMMAND`] as its
/// first argument, and has to call [`serve_contender`] then. For the fronts it is started with
/// `serve nbd` and `mount`.
///
/// # Errors
/// Whatever keeps the bench from its end. A contender that cannot be measured here is no error: the
/// table says why.
pub fn run(arguments: &BenchArguments) -> Result<(), BenchError> {
    if arguments.fronts {
        fronts::run(arguments)
    } else {
        library::run(arguments)
    }
}
