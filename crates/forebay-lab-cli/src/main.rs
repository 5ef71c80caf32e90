//! The `forebay-lab` command. Exit status 0 is done, 1 is failed work, 2 is a bad call.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod args;
mod bench;
mod error;
#[cfg(test)]
#[path = "../../forebay-cli/src/examples.rs"]
mod examples;
mod list;
#[cfg(test)]
#[path = "../../forebay-cli/src/manuals.rs"]
mod manuals;
mod progress;
mod refusal;
mod reproduce;
mod room;
mod run;
mod soak;
mod span;
mod swarm;

use forebay_rt::say;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Err(error) = args::run(&args::parse()) else {
        return ExitCode::SUCCESS;
    };
    say(&error);
    error.end_by_signal();
    ExitCode::from(error.exit_status())
}
