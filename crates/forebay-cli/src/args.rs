//! The command line: the words that were typed ([`Typed`]), and their meaning ([`Command`]).

use crate::ask::{SetArguments, TopArguments, TypedSet, TypedTop, TypedWhy, WhyArguments};
use crate::config::{self, Expanded, Tuning};
use crate::error::CommandError;
use crate::mount::{self, MountArguments, TypedMount};
use crate::refusal::without_usage;
use crate::serve::{self, ServeArguments, TypedServe};
use crate::volume::{TypedVolume, VolumeArguments};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use forebay_demo::{CONTENDER_COMMAND, DemoArguments};
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The words that were typed.
#[derive(Parser)]
#[command(
    name = "forebay",
    version,
    about = "A page cache for userspace storage",
    after_help = "\
Examples:
  forebay demo
  forebay serve nbd disk.img --create 20G --memory 512M --socket disk.sock
  forebay mount /srv/data /mnt/data --memory 512M
  forebay why"
)]
struct Typed {
    #[command(subcommand)]
    command: TypedCommand,
}

#[derive(Subcommand)]
enum TypedCommand {
    /// Watch four writers flood a slow disk, and a reader that shares it
    ///
    /// Compares Forebay with what its users have today: a write-back cache that stops its writers
    /// at a limit, direct I/O, and the kernel's page cache. Each has a disk of its own, and all run
    /// at the same time. The kernel needs root, for a disk held to a rate and for a limit on dirty
    /// data; without root it takes no part. Only the page with the pictures remains afterwards,
    /// even after an interrupt.
    #[command(after_help = "\
Examples:
  forebay demo
  forebay demo --plain --seconds 5")]
    Demo(DemoArguments),
    /// Serve storage to clients through a cache
    #[command(after_help = "\
Examples:
  forebay serve nbd disk.img --create 20G --memory 512M --socket disk.sock")]
    Serve(Box<TypedServe>),
    /// Show a directory through a cache
    ///
    /// Shows the directory SRC at MNT: names and attributes pass through, and file data goes
    /// through a cache of a fixed size. Writes return once they are in memory and are written back
    /// in the background; fsync makes them durable. "fusermount3 -u MNT", SIGTERM or SIGHUP ends
    /// the mount: it writes everything back first and reports how much is left. A second SIGINT
    /// makes it give up and report what was not written.
    #[command(after_help = "\
Examples:
  forebay mount /srv/data /mnt/data --memory 512M
  forebay mount /srv/nfs /mnt/nfs --memory 256M..2G --at-risk 5s
  forebay mount -r -f /srv/data /mnt/data --memory 64M")]
    Mount(TypedMount),
    /// Show which callers of a running server waited, for what, and what is to blame
    ///
    /// Asks the server over its control socket and prints a line for each caller and store, the
    /// longest wait first: how long it waited, what is to blame, and what would have helped.
    Why(TypedWhy),
    /// Watch a running server: levels against limits, stores, and waiting callers
    Top(TypedTop),
    /// Change settings of a running server
    ///
    /// Prints the old and the new value of each. A change lasts until the server ends; see "forebay
    /// config" for settings that apply from the start.
    Set(TypedSet),
    /// Inspect, check, copy and snapshot volumes in buckets
    #[command(
        subcommand,
        after_help = "\
Examples:
  forebay volume info s3://backups/vm1
  forebay volume snapshot s3://backups/vm1 before-upgrade
  forebay volume gc s3://backups/vm1"
    )]
    Volume(TypedVolume),
    /// Print and check settings files, for --config of serve nbd and mount
    #[command(
        subcommand,
        after_help = "\
Examples:
  forebay config print --defaults
  forebay config check disk.toml"
    )]
    Config(TypedConfig),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  forebay completions bash
  forebay completions zsh")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// What the lab's own program does now
    #[command(hide = true, name = "lab", disable_help_flag = true)]
    Lab(Moved),
    /// What the lab's own program does now
    #[command(hide = true, name = "bench", disable_help_flag = true)]
    Bench(Moved),
    /// One contender of the demo
    #[command(hide = true, name = CONTENDER_COMMAND)]
    DemoContender {
        /// Its task.
        assignment: String,
    },
}

#[derive(Subcommand)]
enum TypedConfig {
    /// Print a complete file: every key with its meaning and its default value
    #[command(after_help = "\
Examples:
  forebay config print --defaults")]
    Print {
        /// Print the default values
        #[arg(long, required = true)]
        defaults: bool,
    },
    /// Check a file without starting a server; the first mistake is shown with its line
    #[command(after_help = "\
Examples:
  forebay config check /etc/forebay/disk.toml")]
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// A call that another program takes now.
#[derive(clap::Args)]
struct Moved {
    /// Its words.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Moved {
    /// Says what to call now: the same `words`, after `subcommand` if it keeps its name.
    fn refused(&self, subcommand: Option<&str>) -> clap::Error {
        let words = self.words.iter().map(|word| word.to_string_lossy());
        let call = ["forebay-lab".into()].into_iter();
        let call = call.chain(subcommand.map(Into::into)).chain(words);
        let call: Vec<Cow<'_, str>> = call.collect();
        let text = format!("the lab is a program of its own: {}", call.join(" "));
        clap::Error::raw(ErrorKind::InvalidSubcommand, format!("{text}\n"))
    }
}

/// A checked call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Run the demo.
    Demo(DemoArguments),
    /// Be one contender of a demo that another process runs.
    DemoContender(String),
    /// Serve clients.
    Serve(Box<ServeArguments>),
    /// Mount a folder.
    Mount(Box<MountArguments>),
    /// Ask who waited and why.
    Why(WhyArguments),
    /// Watch a server.
    Top(TopArguments),
    /// Turn knobs of a server.
    Set(SetArguments),
    /// Look after a volume.
    Volume(VolumeArguments),
    /// Print a text that follows from the command line alone.
    Print(String),
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
    let refused = |error| {
        let located = expanded.tuning.in_file(&without_usage(&error));
        // What was typed is refused with the usage of the command.
        located.unwrap_or_else(|| error.exit())
    };
    let mut command = typed.checked().map_err(refused)?;
    command.tune(expanded.tuning);
    Ok(command)
}

/// The script that completes calls in `shell`.
fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Typed::command(), "forebay", &mut script);
    String::from_utf8(script).expect("scripts are text")
}

impl Command {
    /// Refuses what a start would refuse before it takes anything.
    fn check(&self) -> Result<(), CommandError> {
        match self {
            Command::Serve(arguments) => serve::check(arguments),
            Command::Mount(arguments) => mount::check(arguments),
            _ => Ok(()),
        }
    }

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
    for Expanded { words, tuning } in config::calls_of(&Typed::command(), file)? {
        let mut command = match parsed(words) {
            Ok(command) => command,
            Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => continue,
            Err(error) => return Err(tuning.located(without_usage(&error))),
        };
        command.tune(tuning);
        command.check()?;
    }
    Ok(format!("{}: no mistake found\n", file.display()))
}

fn parsed(words: Vec<OsString>) -> Result<Command, clap::Error> {
    Typed::try_parse_from(words)?.checked()
}

impl Typed {
    fn checked(self) -> Result<Command, clap::Error> {
        Ok(match self.command {
            TypedCommand::Demo(arguments) => Command::Demo(arguments),
            TypedCommand::DemoContender { assignment } => Command::DemoContender(assignment),
            TypedCommand::Serve(typed) => Command::Serve(Box::new(typed.checked::<Typed>()?)),
            TypedCommand::Mount(typed) => Command::Mount(Box::new(typed.checked::<Typed>()?)),
            TypedCommand::Why(typed) => Command::Why(typed.into()),
            TypedCommand::Top(typed) => Command::Top(typed.into()),
            TypedCommand::Set(typed) => Command::Set(typed.checked::<Typed>()?),
            TypedCommand::Volume(typed) => Command::Volume(typed.into()),
            TypedCommand::Config(_) => unreachable!("it was done before"),
            TypedCommand::Completions { shell } => Command::Print(completions(shell)),
            TypedCommand::Lab(moved) => return Err(moved.refused(None)),
            TypedCommand::Bench(moved) => return Err(moved.refused(Some("bench"))),
        })
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
