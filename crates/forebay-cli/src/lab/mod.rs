//! `forebay lab`: the simulated machine.

mod list;
mod progress;
mod reproduce;
mod room;
mod run;
mod soak;
mod stalls;
mod swarm;

use crate::error::CommandError;
use clap::{Args, CommandFactory, Subcommand};
use reproduce::{ReproduceArguments, TypedReproduce};
use run::{RunArguments, TypedRun};
use soak::{SoakArguments, TypedSoak};
use swarm::{SwarmArguments, TypedSwarm};

/// The words that were typed.
#[derive(Args)]
pub(crate) struct TypedLab {
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Subcommand)]
enum TypedCommand {
    /// List the workloads, machines, policies, knobs and changes
    List,
    /// Run a workload on a machine under one policy or two
    ///
    /// Prints the figures of all runs, merged over their seeds, side by side, as mmtests does.
    Run(TypedRun),
    /// Measure the five changes again and set each published figure beside ours
    ///
    /// Prints each published figure beside ours, and then the 89 tests that a reproduction must
    /// pass. Exit status 1 means that a required test was not shown to hold.
    #[command(alias = "seeds")]
    Reproduce(TypedReproduce),
    /// Look for a broken promise: seeds that decide machine, stores, workload and faults
    ///
    /// Each seed runs the engine on a simulated machine whose stores or power fail, and checks
    /// every byte, error, bound and book. For a failure it prints one line: the command that
    /// repeats it. Exit status 1 means that something was found.
    Swarm(TypedSwarm),
    /// Run the swarm's loads on real threads, and the same scenes in real and in virtual time
    ///
    /// First five scenes run in both worlds, and each rate, level, share and idle time is printed
    /// twice. A difference is a note: other work on the machine can cause it. Then drawn loads run
    /// on real threads, before stores that are held to a rate, under the oracles that hold in any
    /// timing. Exit status 1 says that one of these found something.
    Soak(TypedSoak),
}

/// A checked call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LabArguments {
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
}

impl TypedLab {
    /// The meaning of the words.
    ///
    /// # Errors
    /// A message that lists the known names. The caller exits with status 2.
    pub(crate) fn checked<C: CommandFactory>(self) -> Result<LabArguments, clap::Error> {
        Ok(match self.command {
            TypedCommand::List => LabArguments::List,
            TypedCommand::Run(typed) => LabArguments::Run(typed.checked::<C>()?),
            TypedCommand::Reproduce(typed) => LabArguments::Reproduce(typed.checked::<C>()?),
            TypedCommand::Swarm(typed) => LabArguments::Swarm(typed.checked()),
            TypedCommand::Soak(typed) => LabArguments::Soak(typed.checked()),
        })
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &LabArguments) -> Result<(), CommandError> {
    match arguments {
        LabArguments::List => crate::output::print(&list::render()),
        LabArguments::Run(arguments) => run::run(arguments),
        LabArguments::Reproduce(arguments) => reproduce::run(arguments),
        LabArguments::Swarm(arguments) => swarm::run(arguments),
        LabArguments::Soak(arguments) => soak::run(arguments),
    }
}
