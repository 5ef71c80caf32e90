//! The control socket of a server: its state and its knobs, for the user that it runs as.
//!
//! One thread answers. What it holds is bounded: clients, the bytes of their requests, and the
//! bytes of answers that they have not read.

mod answers;
mod client;
mod feed;
mod lines;
mod request;
mod turns;

pub(crate) use answers::Source;
pub(crate) use feed::Feed;

use crate::daemon::say::say;
use crate::error::CommandError;
use forebay_control::place;
use forebay_nbd::PrivateSocket;
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
    let answering = forebay_rt::thread::spawn_small("control", move || {
        turns::answer_all(&listener, &source);
    });
    // It answers until the program ends.
    drop(answering.map_err(failed())?);
    say(format_args!("control socket at {}", path.display()));
    Ok(Control { _socket: socket })
}
