//! The `forebay` command. Exit status 0 is done, 1 is failed work, 2 is a bad call.

mod args;
#[deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "use output::print"
)]
mod ask;
#[deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "use output::print"
)]
mod config;
#[deny(clippy::print_stderr, clippy::print_stdout, reason = "use daemon::say")]
mod daemon;
mod error;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod manuals;
#[deny(clippy::print_stderr, clippy::print_stdout, reason = "use daemon::say")]
mod mount;
mod refusal;
#[deny(clippy::print_stderr, clippy::print_stdout, reason = "use daemon::say")]
mod serve;
#[deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "use output::print"
)]
mod volume;

use args::Command;
use daemon::say::say;
use error::CommandError;
use forebay_demo::DemoError;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = args::parse().and_then(run);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            if let CommandError::Demo(DemoError::Host(error)) = &error {
                error.end_by_signal();
            }
            ExitCode::from(error.exit_status())
        }
    }
}

fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Demo(arguments) => Ok(forebay_demo::run(&arguments)?),
        Command::DemoContender(assignment) => Ok(forebay_demo::be_contender(&assignment)?),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Mount(arguments) => mount::run(&arguments),
        Command::Why(arguments) => ask::run_why(&arguments),
        Command::Top(arguments) => ask::run_top(&arguments),
        Command::Set(arguments) => ask::run_set(&arguments),
        Command::Volume(arguments) => volume::run(&arguments),
        Command::Print(text) => Ok(forebay_host::output::print(&text)?),
    }
}
