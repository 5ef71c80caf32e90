//! A socket as TLS of either side moves its bytes.

use crate::socket::{Moved, Socket};
use rustls::ConnectionCommon;
use std::io::{self, Read, Write};

/// Sends the encrypted bytes that are still unsent. `NotNow` if there were none, or no room for
/// them.
pub(crate) fn flush<Side>(tls: &mut ConnectionCommon<Side>, socket: &Socket) -> Moved {
    let mut sent = 0;
    while tls.wants_write() {
        match tls.write_tls(&mut Stream(socket)) {
            Ok(count) => sent += count,
            Err(error) if not_moved(&error) == Moved::WouldBlock => break,
            Err(_) => return Moved::Broken,
        }
    }
    match sent {
        0 => Moved::WouldBlock,
        _ => Moved::Bytes(sent),
    }
}

/// Takes bytes for the other side, as many as there is room for.
pub(crate) fn send<Side>(tls: &mut ConnectionCommon<Side>, socket: &Socket, bytes: &[u8]) -> Moved {
    if flush(tls, socket) == Moved::Broken {
        return Moved::Broken;
    }
    let taken = match tls.writer().write(bytes) {
        Ok(0) => return Moved::WouldBlock,
        Ok(count) => count,
        Err(_) => return Moved::Broken,
    };
    match flush(tls, socket) {
        Moved::Broken => Moved::Broken,
        _ => Moved::Bytes(taken),
    }
}

/// Moves bytes that have come and were decrypted into `room`; `NotNow` if there are none.
pub(crate) fn decrypted<Side>(tls: &mut ConnectionCommon<Side>, room: &mut [u8]) -> Moved {
    match tls.reader().read(room) {
        Ok(0) => Moved::Closed,
        Ok(count) => Moved::Bytes(count),
        // The other side closed without TLS's closing message; requests and replies carry their
        // length anyway.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Moved::Closed,
        Err(error) => not_moved(&error),
    }
}

pub(crate) fn not_moved(error: &io::Error) -> Moved {
    match error.kind() {
        io::ErrorKind::WouldBlock => Moved::WouldBlock,
        _ => Moved::Broken,
    }
}

/// A socket in the form that the TLS library expects.
pub(crate) struct Stream<'a>(pub(crate) &'a Socket);

fn counted(moved: Moved) -> io::Result<usize> {
    match moved {
        Moved::Bytes(count) => Ok(count),
        Moved::Closed => Ok(0),
        Moved::WouldBlock => Err(io::ErrorKind::WouldBlock.into()),
        Moved::Broken => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        counted(self.0.receive(room))
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        counted(self.0.send(bytes))
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        counted(self.0.send_parts(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
