//! The arguments of the commands that ask a server.

use crate::control::time::parse_time;
use clap::Args;
use forebay_base::Span;
use std::path::PathBuf;

/// The words of `forebay why`.
#[derive(Args)]
pub(crate) struct TypedWhy {
    /// The server's control socket; it can be left out if only one server runs
    #[arg(value_name = "SOCK")]
    socket: Option<PathBuf>,
    /// The time that it is about; more than about 9 minutes means since the start
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_time)]
    last: Span,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The arguments of `forebay why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WhyArguments {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) last: Span,
    pub(crate) json: bool,
}

impl From<TypedWhy> for WhyArguments {
    fn from(typed: TypedWhy) -> WhyArguments {
        WhyArguments {
            socket: typed.socket,
            last: typed.last,
            json: typed.json,
        }
    }
}
