//! The command line: the words that were typed, and their meaning.

use crate::bench::TypedBench;
use crate::error::CommandError;
use crate::reproduce::{self, ReproduceArguments, TypedReproduce};
use crate::run::{self, RunArguments, TypedRun};
use crate::soak::{self, SoakArguments, TypedSoak};
use crate::swarm::{self, SwarmArguments, TypedSwarm};
use crate::{bench, list};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use forebay_bench::{BenchArguments, CONTENDER_COMMAND};

/// The words that were typed.
#[derive(Parser)]
#[command(
    name = "forebay-lab",
    version,
    about = "The Forebay engine on simulated machines, and measured on this one",
    after_help = "\
Examples:
  forebay-lab run many-dd --policy forebay --vs linux-3.2
  forebay-lab bench --quick"
)]
struct Typed {
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Subcommand)]
enum TypedCommand {
    /// List the workloads, machines, policies, settings and changes
    #[command(after_help = "\
Examples:
  forebay-lab list")]
    List,
    /// Run a workload on a machine under one policy, or two to compare
    ///
    /// Prints the figures of all runs, merged over their seeds, side by side.
    #[command(after_help = "\
Examples:
  forebay-lab run many-dd --policy forebay --vs linux-3.2 --runs 5
  forebay-lab run many-dd --set writers=10 --machine hdd1-desktop --html dd.html")]
    Run(TypedRun),
    /// Measure five changes to Linux again and compare each published figure with ours
    ///
    /// Prints each published figure next to ours, and then the 89 tests that a reproduction must
    /// pass. Exit status 1 means that a required test was not shown to hold.
    #[command(
        alias = "seeds",
        after_help = "\
Examples:
  forebay-lab reproduce --only per-zone-dirty"
    )]
    Reproduce(TypedReproduce),
    /// Look for a broken promise: seeds that determine machine, stores, workload and faults
    ///
    /// Each seed runs the engine on a simulated machine whose stores or power fail, and checks
    /// every byte, error, bound and counter. For a failure it prints the command that repeats it.
    /// Exit status 1 means that something was found.
    #[command(after_help = "\
Examples:
  forebay-lab swarm --seeds 0..100
  forebay-lab swarm --kept --time 20min")]
    Swarm(TypedSwarm),
    /// Run the swarm's loads on real threads, and the same scenes in real and in virtual time
    ///
    /// First five scenes run in both worlds, and each rate, level, share and idle time is printed
    /// twice. A difference is only a note: other work on the machine can cause it. Then drawn loads
    /// run on real threads, over stores with a limited rate, checked by oracles that hold in any
    /// timing. Exit status 1 means that one of these found something.
    #[command(after_help = "\
Examples:
  forebay-lab soak --time 10min")]
    Soak(TypedSoak),
    /// Compare Forebay with the kernel's page cache and the hardware, on real files
    ///
    /// Writes files of about eleven times the cache into a new scratch directory, reads and writes
    /// them through each contender in turn, and prints a table with each goal and whether it was
    /// met. Progress goes to standard error, the table to standard output. The scratch directory is
    /// removed at the end, even after an interrupt.
    #[command(after_help = "\
Examples:
  forebay-lab bench --quick
  forebay-lab bench --phase miss --rounds 5 --dir /mnt/ssd")]
    Bench(TypedBench),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  forebay-lab completions bash
  forebay-lab completions zsh")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// One contender of the bench, controlled over standard input
    #[command(hide = true, name = CONTENDER_COMMAND)]
    BenchContender,
}

/// A checked call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// List the names.
    List,
    /// Run a workload.
    Run(RunArguments),
    /// Run the five experiments.
    Reproduce(ReproduceArguments),
    /// Run the swarm.
    Swarm(SwarmArguments),
    /// Soak on real threads.
    Soak(SoakArguments),
    /// Run the bench.
    Bench(BenchArguments),
    /// Print a text that follows from the command line alone.
    Print(String),
    /// Be one contender of a bench that another process runs.
    BenchContender,
}

/// Reads the command line. A bad call ends the program with status 2 and a message, and `--help`
/// ends it with status 0.
pub(crate) fn parse() -> Command {
    let parsed = Typed::parse().command.checked();
    parsed.unwrap_or_else(|error| error.exit())
}

/// The script that completes calls in `shell`.
fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Typed::command(), "forebay-lab", &mut script);
    String::from_utf8(script).expect("scripts are text")
}

impl TypedCommand {
    fn checked(self) -> Result<Command, clap::Error> {
        Ok(match self {
            TypedCommand::List => Command::List,
            TypedCommand::Run(typed) => Command::Run(typed.checked::<Typed>()?),
            TypedCommand::Reproduce(typed) => Command::Reproduce(typed.checked::<Typed>()?),
            TypedCommand::Swarm(typed) => Command::Swarm(typed.checked()),
            TypedCommand::Soak(typed) => Command::Soak(typed.checked()),
            TypedCommand::Bench(typed) => Command::Bench(typed.into()),
            TypedCommand::Completions { shell } => Command::Print(completions(shell)),
            TypedCommand::BenchContender => Command::BenchContender,
        })
    }
}

/// Runs the command.
pub(crate) fn run(command: &Command) -> Result<(), CommandError> {
    match command {
        Command::Print(text) => Ok(forebay_host::output::print(text)?),
        Command::List => Ok(forebay_host::output::print(&list::render())?),
        Command::Run(arguments) => run::run(arguments),
        Command::Reproduce(arguments) => reproduce::run(arguments),
        Command::Swarm(arguments) => swarm::run(arguments),
        Command::Soak(arguments) => soak::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::BenchContender => Ok(forebay_bench::serve_contender()?),
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
