//! The small server of HTTP in every daemon: its state and its knobs at the control socket, for the
//! user that it runs as, and its metrics at an address, for everybody who can reach it.
//!
//! One thread for each of them answers. What it holds is bounded: clients, the bytes of their
//! requests, and the bytes of answers that they have not read.

mod answers;
mod client;
mod feed;
mod lines;
mod listener;
mod request;
mod turns;

pub(crate) use answers::Source;
pub(crate) use feed::Feed;

use crate::daemon::address::Address;
use crate::daemon::say::say;
use crate::error::CommandError;
use forebay_control::place;
use forebay_nbd::PrivateSocket;
use listener::Listener;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// The control socket of this process. Its path is removed with it.
pub(crate) struct Control {
    _socket: PrivateSocket,
}

/// Answers at `asked`, or else at the usual place if this user has one.
///
/// # Errors
/// If `asked` cannot be used. If the usual place cannot be used, this is only reported.
pub(crate) fn start(
    asked: Option<&Path>,
    source: impl FnOnce(PathBuf) -> Source,
) -> Result<Option<Control>, CommandError> {
    let served = |error: &dyn std::fmt::Display| CommandError::Served(error.to_string());
    if let Some(path) = asked {
        let control = listen(path, source).map_err(|error| served(&error))?;
        return Ok(Some(control));
    }
    let usual = match place::of_this_process() {
        None => return Ok(None),
        Some(Err(error)) => Err(served(&error)),
        Some(Ok(path)) => listen(&path, source),
    };
    Ok(usual
        .inspect_err(|error| say(format_args!("no control socket: {error}")))
        .ok())
}

fn listen(path: &Path, source: impl FnOnce(PathBuf) -> Source) -> Result<Control, CommandError> {
    let failed = || CommandError::system("listen for control");
    // A user may type the commands of its answers in another folder.
    let source = source(std::path::absolute(path).map_err(failed())?);
    let socket =
        PrivateSocket::bind(path).map_err(|error| CommandError::Served(error.to_string()))?;
    let listener = socket.listener().try_clone().map_err(failed())?;
    listener.set_nonblocking(true).map_err(failed())?;
    answer("control", listener, source).map_err(failed())?;
    say(format_args!("control socket at {}", path.display()));
    Ok(Control { _socket: socket })
}

/// Answers requests for metrics at `address`, and announces it, with the port that was chosen if it
/// was 0, and who can read them.
pub(crate) fn start_metrics(address: &Address, source: Source) -> Result<(), CommandError> {
    let failed = || CommandError::system("listen for metrics");
    let refused = |error| CommandError::Served(format!("--metrics: cannot use {address}: {error}"));
    let found = address.resolve().map_err(refused)?;
    // The first that can be used, which is reported.
    let listener = TcpListener::bind(&found[..]).map_err(refused)?;
    listener.set_nonblocking(true).map_err(failed())?;
    let bound = listener.local_addr().map_err(failed())?;
    answer("metrics", listener, source).map_err(failed())?;
    say(format_args!("metrics at http://{bound}/metrics"));
    say(format_args!("status page at http://{bound}/"));
    if !bound.ip().is_loopback() {
        say("everyone who can reach this address can read both, without a password");
    }
    Ok(())
}

/// Answers until the program ends, on a thread called `name`.
fn answer(
    name: &'static str,
    listener: impl Listener + Send + 'static,
    source: Source,
) -> io::Result<()> {
    forebay_rt::thread::spawn_small(name, move || turns::answer_all(&listener, &source)).map(drop)
}
