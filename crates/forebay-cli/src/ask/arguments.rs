//! The arguments of the commands that ask a server.

use crate::refusal::refusal;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory};
use forebay_base::Span;
use forebay_control::knobs;
use forebay_control::time::parse_time;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The socket of a server.
#[derive(Args)]
struct TypedSocket {
    /// Control socket of the server [default: the only server that runs, found in
    /// $XDG_RUNTIME_DIR/forebay and /run/forebay]
    #[arg(
        short = 's',
        long = "socket",
        value_name = "SOCK",
        id = "flag",
        conflicts_with = "place"
    )]
    flag: Option<PathBuf>,
    /// The same as --socket SOCK
    #[arg(value_name = "SOCK", id = "place")]
    place: Option<PathBuf>,
}

/// The words of `forebay why`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  forebay why
  forebay why -s disk.ctl --last 30s
  forebay why -s disk.ctl --trace stalls.json")]
pub(crate) struct TypedWhy {
    #[command(flatten)]
    socket: TypedSocket,
    /// How far back to look; more than about 9 minutes means since the start
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = parse_time)]
    last: Span,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Also write the stalls to FILE, as a trace for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// The words of `forebay top`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  forebay top
  forebay top --once -s disk.ctl")]
pub(crate) struct TypedTop {
    #[command(flatten)]
    socket: TypedSocket,
    /// Print one screen as text, after a second, and exit
    #[arg(long)]
    once: bool,
    /// Print the state as one JSON object and exit
    #[arg(long, conflicts_with = "once")]
    json: bool,
}

/// The words of `forebay set`.
#[derive(Args)]
#[command(
    override_usage = "forebay set [-s SOCK] KEY=VALUE...",
    after_help = format!(
        "Keys:\n{}\n\
Examples:
  forebay set dirty_ratio=10
  forebay set -s disk.ctl store.0.drain=2s dirty_bytes=64M",
        knobs::help()
    )
)]
pub(crate) struct TypedSet {
    /// Control socket of the server [default: the only server that runs, found in
    /// $XDG_RUNTIME_DIR/forebay and /run/forebay]
    #[arg(short = 's', long, value_name = "SOCK")]
    socket: Option<PathBuf>,
    /// The settings to change: all of them are changed, or none. Without --socket the first word
    /// may be the socket
    #[arg(value_name = "KEY=VALUE", required = true)]
    words: Vec<OsString>,
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
    pub(super) socket: Option<PathBuf>,
    pub(super) knobs: Vec<(String, String)>,
}

impl TypedSocket {
    fn given(self) -> Option<PathBuf> {
        self.flag.or(self.place)
    }
}

impl From<TypedWhy> for WhyArguments {
    fn from(typed: TypedWhy) -> WhyArguments {
        WhyArguments {
            socket: typed.socket.given(),
            last: typed.last,
            json: typed.json,
            trace: typed.trace,
        }
    }
}

impl From<TypedTop> for TopArguments {
    fn from(typed: TypedTop) -> TopArguments {
        TopArguments {
            socket: typed.socket.given(),
            once: typed.once,
            json: typed.json,
        }
    }
}

impl TypedSet {
    /// Checks them; `C` is the command line that they are a part of.
    ///
    /// # Errors
    /// A bad call, reported by clap.
    pub(crate) fn checked<C: CommandFactory>(self) -> Result<SetArguments, clap::Error> {
        let TypedSet { mut socket, words } = self;
        let mut words = words.into_iter().peekable();
        if socket.is_none() {
            socket = words.next_if(|word| is_path(word)).map(PathBuf::from);
        }
        let knobs: Result<Vec<_>, String> = words.map(|word| knob(&word)).collect();
        let refuse = |text: &str| refusal::<C>(&["set"], "", ErrorKind::ValueValidation, text);
        let knobs = knobs.map_err(|text| refuse(&text))?;
        if knobs.is_empty() {
            return Err(refuse("give a setting to change as KEY=VALUE"));
        }
        Ok(SetArguments { socket, knobs })
    }
}

/// Whether a word is a socket, as opposed to KEY=VALUE.
fn is_path(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    let key = bytes.split(|&byte| byte == b'=').next();
    key.is_some_and(|key| key.len() == bytes.len() || key.contains(&b'/'))
}

/// Splits a knob from its value; the server checks both.
fn knob(word: &OsStr) -> Result<(String, String), String> {
    let text = word.to_string_lossy();
    let refused = || format!("'{text}' is not a setting: write it as KEY=VALUE");
    let (name, value) = text.split_once('=').ok_or_else(refused)?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        set: TypedSet,
    }

    fn typed(words: &[&str]) -> Result<SetArguments, clap::Error> {
        let words = [&["set"], words].concat();
        Line::try_parse_from(words)?.set.checked::<Line>()
    }

    #[test]
    fn a_socket_comes_after_its_flag_or_first_or_not_at_all() {
        let knobs = vec![("a".to_owned(), "1".to_owned())];
        for (words, socket) in [
            (&["-s", "c", "a=1"][..], Some("c")),
            (&["a=1", "--socket", "c"], Some("c")),
            (&["c", "a=1"], Some("c")),
            (&["/tmp/x=y", "a = 1"], Some("/tmp/x=y")),
            (&["a=1"], None),
        ] {
            let socket = socket.map(PathBuf::from);
            let knobs = knobs.clone();
            let expected = SetArguments { socket, knobs };
            assert_eq!(typed(words).unwrap(), expected, "{words:?}");
        }
        for refused in [
            &[][..],
            &["c"],
            &["-s", "c"],
            &["-s", "c", "d", "a=1"],
            &["c", "a=1", "b"],
        ] {
            let error = typed(refused).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{refused:?}");
        }
    }
}
