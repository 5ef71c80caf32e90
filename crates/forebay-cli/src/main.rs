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
mod control;
#[deny(clippy::print_stderr, clippy::print_stdout, reason = "use daemon::say")]
mod daemon;
mod demo;
mod error;
#[deny(clippy::print_stderr, clippy::print_stdout, reason = "use daemon::say")]
mod lab;
#[deny(clippy::print_stderr, clippy::print_stdout, reason = "use daemon::say")]
mod mount;
mod output;
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
use forebay_bench::BenchError;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = args::parse().and_then(run);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            if let CommandError::Bench(BenchError::Interrupted { signal }) = &error {
                end_by(*signal);
            }
            ExitCode::from(error.exit_status())
        }
    }
}

fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::DemoContender(assignment) => demo::be_contender(&assignment),
        Command::Bench(arguments) => forebay_bench::run(&arguments).map_err(Into::into),
        Command::BenchContender => forebay_bench::serve_contender().map_err(Into::into),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Mount(arguments) => mount::run(&arguments),
        Command::Why(arguments) => ask::run_why(&arguments),
        Command::Top(arguments) => ask::run_top(&arguments),
        Command::Set(arguments) => ask::run_set(&arguments),
        Command::Volume(arguments) => volume::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Print(text) => output::print(&text),
    }
}

/// Ends the program by `signal`, so that a shell that waits for it sees what ended it.
fn end_by(signal: i32) {
    if let Err(refused) = signal_hook::low_level::emulate_default_handler(signal) {
        say(format_args!("cannot end by signal {signal}: {refused}"));
    }
}
