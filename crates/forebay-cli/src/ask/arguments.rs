//! The arguments of the commands that ask a server.

use clap::Args;
use forebay_base::Span;
use forebay_control::knobs;
use forebay_control::time::parse_time;
use std::path::PathBuf;

/// The words of `forebay why`.
#[derive(Args)]
pub(crate) struct TypedWhy {
    /// The server's control socket; it can be left out if only one server runs
    #[arg(value_name = "SOCK")]
    socket: Option<PathBuf>,
    /// The time that it covers, up to now; more than about 9 minutes means since the start
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_time)]
    last: Span,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Also write the stalls to FILE, as a trace that Perfetto and chrome://tracing show
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The words of `forebay top`.
#[derive(Args)]
pub(crate) struct TypedTop {
    /// The server's control socket; it can be left out if only one server runs
    #[arg(value_name = "SOCK")]
    socket: Option<PathBuf>,
    /// Print one screen as text, after a second, and end
    #[arg(long)]
    once: bool,
    /// Print the state as one JSON object and end
    #[arg(long, conflicts_with = "once")]
    json: bool,
}

/// The words of `forebay set`.
#[derive(Args)]
#[command(after_help = format!("Knobs:\n{}", knobs::help()))]
pub(crate) struct TypedSet {
    /// The server's control socket
    #[arg(value_name = "SOCK")]
    socket: PathBuf,
    /// What to change: all of it is changed, or nothing
    #[arg(value_name = "KEY=VALUE", required = true, value_parser = knob)]
    knobs: Vec<(String, String)>,
}

/// The arguments of `forebay why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WhyArguments {
    pub(super) socket: Option<PathBuf>,
    pub(super) last: Span,
    pub(super) json: bool,
    pub(super) trace: Option<PathBuf>,
}

/// The arguments of `forebay top`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopArguments {
    pub(super) socket: Option<PathBuf>,
    pub(super) once: bool,
    pub(super) json: bool,
}

/// The arguments of `forebay set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetArguments {
    pub(super) socket: PathBuf,
    pub(super) knobs: Vec<(String, String)>,
}

impl From<TypedWhy> for WhyArguments {
    fn from(typed: TypedWhy) -> WhyArguments {
        WhyArguments {
            socket: typed.socket,
            last: typed.last,
            json: typed.json,
            trace: typed.trace,
        }
    }
}

impl From<TypedTop> for TopArguments {
    fn from(typed: TypedTop) -> TopArguments {
        TopArguments {
            socket: typed.socket,
            once: typed.once,
            json: typed.json,
        }
    }
}

impl From<TypedSet> for SetArguments {
    fn from(typed: TypedSet) -> SetArguments {
        SetArguments {
            socket: typed.socket,
            knobs: typed.knobs,
        }
    }
}

/// Splits a knob from its value; the server checks both.
fn knob(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
