//! Where clients come from, and what they may ask for.

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

/// Who the clients of a listener are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// The user that the server runs as, and root.
    Owner,
    /// Everybody: they get metrics and nothing else.
    Public,
}

/// A listener that never blocks.
pub(super) trait Listener: AsFd {
    type Stream: Read + Write + AsFd;
    const AUDIENCE: Audience;

    /// The next client, which never blocks either; `None` for one that is not allowed.
    ///
    /// # Errors
    /// Those of `accept`.
    fn next(&self) -> io::Result<Option<Self::Stream>>;
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    const AUDIENCE: Audience = Audience::Owner;

    fn next(&self) -> io::Result<Option<UnixStream>> {
        let (stream, _) = self.accept()?;
        let is_set = stream.set_nonblocking(true).is_ok();
        Ok((is_set && is_allowed(&stream)).then_some(stream))
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    const AUDIENCE: Audience = Audience::Public;

    fn next(&self) -> io::Result<Option<TcpStream>> {
        let (stream, _) = self.accept()?;
        let is_set = stream.set_nonblocking(true).is_ok();
        Ok(is_set.then_some(stream))
    }
}

/// Whether the other side runs as our user, or as root.
fn is_allowed(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid() || peer.uid.is_root())
}
