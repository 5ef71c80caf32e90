//! The flags that every server has.

use super::patience::parse_seconds;
use super::promises::Promises;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use forebay_base::Span;
use forebay_nbd::PrivateSocket;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reads the path of a socket that is to be made.
pub(crate) fn socket_path() -> impl TypedValueParser<Value = PathBuf> {
    let checked = |path: PathBuf| PrivateSocket::check_path(&path).map(|()| path);
    PathBufValueParser::new().try_map(checked)
}

/// The flags that every server has.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFlags {
    /// Answer OpenMetrics requests at http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Answer forebay why, top and set on a unix socket that only this user may connect to; by
    /// default $XDG_RUNTIME_DIR/forebay/PID.sock, if that is set
    #[arg(long, value_name = "SOCK", value_parser = socket_path())]
    pub(crate) control: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) promises: Promises,
    /// Fail requests that the storage has not answered for this long; by default they wait
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub(crate) answer_timeout: Option<Span>,
}
