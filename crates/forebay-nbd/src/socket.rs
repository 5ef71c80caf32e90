//! A client's socket, of either family. It never makes its thread wait.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// The result of a try to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// This many bytes.
    Bytes(usize),
    /// None at the moment.
    WouldBlock,
    /// None any more: the other side closed the connection in order.
    Closed,
    /// None any more: the connection is broken.
    Broken,
}

impl Socket {
    /// Another handle to the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Unix(stream) => Socket::Unix(stream.try_clone()?),
            Socket::Tcp(stream) => Socket::Tcp(stream.try_clone()?),
        })
    }

    /// Ends one direction or both. If the connection is already gone, nothing is left to do.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        let _ = match self {
            Socket::Unix(stream) => stream.shutdown(how),
            Socket::Tcp(stream) => stream.shutdown(how),
        };
    }

    /// Whether the other side closed, or the connection broke. Bytes sent before may still be
    /// unread.
    pub(crate) fn was_left(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::RDHUP)];
        // A poll that does not wait fails only for lack of memory; then the client counts as
        // connected.
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    pub(crate) fn receive(&self, room: &mut [u8]) -> Moved {
        match recv(self, room, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Moved::Closed,
            Ok((count, _)) => Moved::Bytes(count),
            Err(errno) => not_moved(errno),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Moved {
        match send(self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => Moved::Bytes(count),
            Err(errno) => not_moved(errno),
        }
    }

    /// As [`Socket::send`], for bytes that lie in several places.
    pub(crate) fn send_parts(&self, parts: &[IoSlice<'_>]) -> Moved {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(self, parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(count) => Moved::Bytes(count),
            Err(errno) => not_moved(errno),
        }
    }
}

fn not_moved(errno: Errno) -> Moved {
    match errno {
        Errno::AGAIN | Errno::INTR => Moved::WouldBlock,
        _ => Moved::Broken,
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Tcp(stream) => stream.as_fd(),
        }
    }
}
