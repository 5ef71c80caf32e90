//! The command line: the words that were typed ([`Typed`]), and their meaning ([`Command`]).

use crate::ask::{SetArguments, TopArguments, TypedSet, TypedTop, TypedWhy, WhyArguments};
use crate::config::{self, Tuning};
use crate::demo::DemoArguments;
use crate::error::CommandError;
use crate::lab::{LabArguments, TypedLab};
use crate::mount::{MountArguments, TypedMount};
use crate::serve::{ServeArguments, TypedServe};
use crate::volume::{TypedVolume, VolumeArguments};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use forebay_base::units::{parse_size, show_bytes};
use forebay_bench::{BenchArguments, CONTENDER_COMMAND, PHASES};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The smallest budget for the bench. Below it the working sets are a few hundred pages, and the
/// figures mean nothing.
const LEAST_MEMORY_BYTES: u64 = 16 << 20;

/// The words that were typed.
#[derive(Parser)]
#[command(
    name = "forebay",
    version,
    about = "A page cache for userspace storage"
)]
struct Typed {
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Subcommand)]
enum TypedCommand {
    /// Watch four writers on a slow disk: the kernel's page cache beside Forebay
    ///
    /// Each contender writes for some seconds, shown live in the terminal; then follow one line for
    /// each and a page with pictures. The kernel's part needs root, for a disk with a limited rate
    /// and for a limit on dirty data; without root it is left out. Only the page remains
    /// afterwards, even after an interrupt.
    Demo(TypedDemo),
    /// Measure Forebay beside the kernel's page cache and the hardware, on real files
    ///
    /// Writes files of about eleven times the budget into a new scratch folder, reads and writes
    /// them through each contender in turn, and prints a table with each goal and whether it was
    /// met. Progress goes to standard error, the table to standard output. The scratch folder is
    /// removed at the end, even after an interrupt.
    Bench(TypedBench),
    /// Serve storage to clients through a cache
    Serve(TypedServe),
    /// A cached view of a folder
    ///
    /// Shows the folder SRC at MNT: names and attributes pass through, and the data of files goes
    /// through a cache of a fixed size. Writes return when they are in memory and are written back
    /// in the background; fsync makes them durable. fusermount3 -u, SIGTERM or SIGHUP ends the
    /// mount: it first writes what is left, and shows how much that is. A second SIGINT gives up
    /// and reports what was not written.
    Mount(TypedMount),
    /// Show who waited in a running server, for what, and who is to blame
    ///
    /// Asks the server over its control socket, and prints a line for each caller and store, the
    /// longest wait first: who waited, for how long, who is to blame, and what would have
    /// helped.
    Why(TypedWhy),
    /// Watch a running server: levels against limits, stores, and who waits
    Top(TypedTop),
    /// Turn knobs of a running server, and print what each was before
    Set(TypedSet),
    /// Look at a volume in a bucket, check it, free what nobody needs
    #[command(subcommand)]
    Volume(TypedVolume),
    /// Files of settings, for --config of serve nbd and mount
    #[command(subcommand)]
    Config(TypedConfig),
    /// Simulate a machine: run workloads, compare policies, measure the five changes again
    Lab(TypedLab),
    /// One contender, controlled over standard input
    #[command(hide = true, name = CONTENDER_COMMAND)]
    BenchContender,
    /// One contender of the demo
    #[command(hide = true)]
    DemoContender {
        /// Its task.
        assignment: String,
    },
}

#[derive(Subcommand)]
enum TypedConfig {
    /// Print a complete file: every key with its meaning and its default value
    Print {
        /// The values are the defaults
        #[arg(long, required = true)]
        defaults: bool,
    },
    /// Check a file without starting a server; the first mistake is shown with its line
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(clap::Args)]
struct TypedDemo {
    /// How long each contender writes
    #[arg(long, value_name = "N", default_value = "10", value_parser = demo_seconds())]
    seconds: u32,
    /// Print one line a second instead of a live screen
    #[arg(long)]
    plain: bool,
    /// Folder in which the scratch folder is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Write the page with the pictures to FILE
    #[arg(long, value_name = "FILE", default_value = "forebay-demo.html")]
    html: PathBuf,
    /// Also write the first picture to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(clap::Args)]
struct TypedBench {
    /// Memory each cache may use; the data is four times that size
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = memory_size)]
    memory: u64,
    /// Folder in which the scratch folder is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// End within 30 seconds: one short round of everything
    #[arg(long)]
    quick: bool,
    /// Rounds of each load, in which the contenders take turns; medians and spread are over the
    /// rounds [default: 3; for loads on cached pages and for the fronts 5]
    #[arg(long, value_name = "N", value_parser = bench_rounds(), conflicts_with = "quick")]
    rounds: Option<u32>,
    /// Measure this phase alone; may be given again for another one
    #[arg(long = "phase", value_name = "NAME", value_parser = PHASES, conflicts_with = "fronts")]
    phases: Vec<String>,
    /// The largest cache of the phase growth: 64M, 1G and 8G are measured up to this size
    #[arg(long = "growth", value_name = "SIZE", default_value = "64M", value_parser = memory_size)]
    growth: u64,
    /// Measure the block server and the mount instead, under fio, beside nbdkit and qemu-nbd
    #[arg(long)]
    fronts: bool,
    /// Also write every figure to FILE, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A checked call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Run the demo.
    Demo(DemoArguments),
    /// Be one contender of a demo that another process runs.
    DemoContender(String),
    /// Run the bench.
    Bench(BenchArguments),
    /// Serve clients.
    Serve(ServeArguments),
    /// Mount a folder.
    Mount(MountArguments),
    /// Ask who waited and why.
    Why(WhyArguments),
    /// Watch a server.
    Top(TopArguments),
    /// Turn knobs of a server.
    Set(SetArguments),
    /// Look after a volume.
    Volume(VolumeArguments),
    /// Use the simulated machine.
    Lab(LabArguments),
    /// Print a text that follows from the command line alone.
    Print(String),
    /// Be one contender of a bench that another process runs.
    BenchContender,
}

/// Reads the command line, and the file that it names. A call that is bad by itself ends the
/// program with status 2 and a message, and `--help` ends it with status 0.
///
/// # Errors
/// What is wrong with a file of settings.
pub(crate) fn parse() -> Result<Command, CommandError> {
    let expanded = config::expand(&Typed::command(), std::env::args_os().collect())?;
    let typed = Typed::try_parse_from(expanded.words).unwrap_or_else(|error| error.exit());
    if let TypedCommand::Config(typed) = typed.command {
        return typed.done().map(Command::Print);
    }
    let mut command = typed.checked().unwrap_or_else(|error| error.exit());
    command.tune(expanded.tuning);
    Ok(command)
}

impl Command {
    /// Gives a server the knobs of its file.
    fn tune(&mut self, tuning: Tuning) {
        match self {
            Command::Serve(arguments) => arguments.tuning = tuning,
            Command::Mount(arguments) => arguments.tuning = tuning,
            _ => {}
        }
    }
}

impl TypedConfig {
    /// The text that it asks for.
    fn done(self) -> Result<String, CommandError> {
        match self {
            TypedConfig::Print { .. } => Ok(config::print_defaults(&Typed::command())),
            TypedConfig::Check { file } => check(&file),
        }
    }
}

/// Checks a file for both servers. What a server needs and the file does not have is given on the
/// command line.
fn check(file: &Path) -> Result<String, CommandError> {
    for words in config::calls_of(&Typed::command(), file)? {
        let refused = parsed(words).err();
        let refused = refused.filter(|error| error.kind() != ErrorKind::MissingRequiredArgument);
        if let Some(error) = refused {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let problem = first.strip_prefix("error: ").unwrap_or(first);
            return Err(CommandError::BadCall(format!(
                "{}: {problem}",
                file.display()
            )));
        }
    }
    Ok(format!("{}: no mistake found\n", file.display()))
}

fn parsed(words: Vec<OsString>) -> Result<Command, clap::Error> {
    Typed::try_parse_from(words)?.checked()
}

impl Typed {
    fn checked(self) -> Result<Command, clap::Error> {
        Ok(match self.command {
            TypedCommand::Demo(typed) => Command::Demo(DemoArguments {
                seconds: typed.seconds,
                is_plain: typed.plain,
                parent_folder: typed.dir,
                html_file: typed.html,
                svg_file: typed.svg,
            }),
            TypedCommand::DemoContender { assignment } => Command::DemoContender(assignment),
            TypedCommand::Bench(typed) => Command::Bench(BenchArguments {
                memory_bytes: typed.memory,
                parent_folder: typed.dir,
                quick: typed.quick,
                rounds: typed.rounds,
                phases: typed.phases,
                growth_bytes: typed.growth,
                fronts: typed.fronts,
                json_file: typed.json,
            }),
            TypedCommand::Serve(typed) => Command::Serve(typed.checked::<Typed>()?),
            TypedCommand::Mount(typed) => Command::Mount(typed.checked::<Typed>()?),
            TypedCommand::Why(typed) => Command::Why(typed.into()),
            TypedCommand::Top(typed) => Command::Top(typed.into()),
            TypedCommand::Set(typed) => Command::Set(typed.into()),
            TypedCommand::Volume(typed) => Command::Volume(typed.into()),
            TypedCommand::Config(_) => unreachable!("it was done before"),
            TypedCommand::Lab(typed) => Command::Lab(typed.checked::<Typed>()?),
            TypedCommand::BenchContender => Command::BenchContender,
        })
    }
}

/// Long enough to see something, and no longer than anybody would watch.
fn demo_seconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=600)
}

/// Enough for a stable median, and no longer than a night.
fn bench_rounds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100)
}

/// A budget: a size of at least [`LEAST_MEMORY_BYTES`], rounded down to whole huge pages.
fn memory_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < LEAST_MEMORY_BYTES {
        return Err(format!(
            "the bench needs at least {}",
            show_bytes(LEAST_MEMORY_BYTES)
        ));
    }
    if bytes > 1 << 44 {
        return Err("no machine has that much: write the budget of one cache, as 256M".into());
    }
    Ok(bytes >> 21 << 21)
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
