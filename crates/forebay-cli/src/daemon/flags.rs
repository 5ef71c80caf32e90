//! The flags that every server has.

use super::address::Address;
use super::headings::{PROMISES, WATCHING};
use super::patience::answer_time;
use super::promises::Promises;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use forebay_base::Span;
use forebay_nbd::PrivateSocket;
use std::path::PathBuf;

/// Reads the path of a socket that is to be made.
pub(crate) fn socket_path() -> impl TypedValueParser<Value = PathBuf> {
    let checked = |path: PathBuf| PrivateSocket::check_path(&path).map(|()| path);
    PathBufValueParser::new().try_map(checked)
}

/// The flags that every server has.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFlags {
    #[command(flatten)]
    pub(crate) promises: Promises,
    /// Fail requests that the storage has not answered for TIME [default: wait for the storage]
    #[arg(long, value_name = "TIME", value_parser = answer_time, help_heading = PROMISES)]
    pub(crate) answer_timeout: Option<Span>,
    /// Serve OpenMetrics at http://ADDR/metrics and a status page at http://ADDR/. ADDR is
    /// HOST:PORT, or only PORT for this machine; everyone who can reach it can read both
    #[arg(long, value_name = "ADDR", help_heading = WATCHING)]
    pub(crate) metrics: Option<Address>,
    /// Answer "forebay why", "top" and "set" on a Unix socket that only this user and root can
    /// connect to [default: $XDG_RUNTIME_DIR/forebay/PID.sock, if that variable is set]
    #[arg(long, value_name = "SOCK", value_parser = socket_path(), help_heading = WATCHING)]
    pub(crate) control: Option<PathBuf>,
}
