//! A client's bytes on their way, in the clear or through TLS, never making its thread wait.

use crate::socket::{Moved, Socket};
use crate::standing::Standing;
use rustix::fd::{AsFd, BorrowedFd};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Bytes of replies that TLS holds encrypted at most while the client does not take them.
const UNSENT_LIMIT_BYTES: usize = 64 << 10;
/// Bytes of a client that TLS has taken from the socket and not given on, at most.
const DECRYPTED_LIMIT_BYTES: u64 = 64 << 10;

/// One client's socket, with TLS over it once that was agreed on.
#[derive(Debug)]
pub(crate) struct Channel<'a> {
    socket: &'a Socket,
    standing: &'a Standing,
    tls: Option<Box<ServerConnection>>,
    /// What is still heard of the client once the server ends: what had come until then. A socket
    /// of TCP takes bytes though it was shut, and one of a busy client never runs empty.
    left_to_hear: Option<u64>,
}

impl<'a> Channel<'a> {
    pub(crate) fn new(socket: &'a Socket, standing: &'a Standing) -> Channel<'a> {
        Channel {
            socket,
            standing,
            tls: None,
            left_to_hear: None,
        }
    }

    /// From the next byte on, both sides speak TLS.
    pub(crate) fn begin_tls(&mut self, config: Arc<ServerConfig>) -> Result<(), rustls::Error> {
        let mut tls = Box::new(ServerConnection::new(config)?);
        tls.set_buffer_limit(Some(UNSENT_LIMIT_BYTES));
        self.tls = Some(tls);
        Ok(())
    }

    /// Whether the client has still to show a certificate.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Goes on with TLS's own handshake as far as the client's bytes allow.
    pub(crate) fn shake_hands(&mut self) -> Result<Moved, rustls::Error> {
        let Some(tls) = &mut self.tls else {
            return Ok(Moved::NotNow);
        };
        let received = match tls.read_tls(&mut Stream(self.socket)) {
            Ok(0) => Moved::Closed,
            Ok(count) => Moved::Bytes(count),
            Err(error) => not_moved(&error),
        };
        let understood = tls.process_new_packets();
        // The alert that says what was wrong goes out too, if it can.
        let sent = flush(tls, self.socket);
        understood?;
        Ok(match sent {
            Moved::Broken => Moved::Broken,
            _ => received,
        })
    }

    /// Reads into `room`, which is not empty.
    pub(crate) fn receive(&mut self, room: &mut [u8]) -> Moved {
        if self.standing.is_draining() && self.left_to_hear.is_none() {
            self.left_to_hear = Some(self.unheard());
        }
        if self.left_to_hear == Some(0) {
            return Moved::Closed;
        }
        let moved = self.receive_any(room);
        if let (Moved::Bytes(count), Some(left)) = (moved, &mut self.left_to_hear) {
            *left = left.saturating_sub(count as u64);
        }
        moved
    }

    /// Bytes that have come and were not received, at most.
    fn unheard(&self) -> u64 {
        // No socket refuses to tell.
        let waiting = rustix::io::ioctl_fionread(self.socket).unwrap_or(0);
        let decrypted = self.tls.as_ref().map_or(0, |_tls| DECRYPTED_LIMIT_BYTES);
        waiting + decrypted
    }

    fn receive_any(&mut self, room: &mut [u8]) -> Moved {
        let Some(tls) = &mut self.tls else {
            return self.socket.receive(room);
        };
        loop {
            match tls.reader().read(room) {
                Ok(0) => return Moved::Closed,
                Ok(count) => return Moved::Bytes(count),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {}
                    // The other side closed without saying so; requests say where they end.
                    io::ErrorKind::UnexpectedEof => return Moved::Closed,
                    _ => return Moved::Broken,
                },
            }
            // The end of the stream is for the reader to tell, behind what came before it.
            if let Err(error) = tls.read_tls(&mut Stream(self.socket)) {
                return not_moved(&error);
            }
            if tls.process_new_packets().is_err() {
                // The alert that says what was wrong; the client may be gone already.
                let _ = flush(tls, self.socket);
                return Moved::Broken;
            }
        }
    }

    /// Takes bytes for the client, as many as it has room for.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Moved {
        let Some(tls) = &mut self.tls else {
            return self.socket.send(bytes);
        };
        if flush(tls, self.socket) == Moved::Broken {
            return Moved::Broken;
        }
        let taken = match tls.writer().write(bytes) {
            Ok(0) => return Moved::NotNow,
            Ok(count) => count,
            Err(_) => return Moved::Broken,
        };
        match flush(tls, self.socket) {
            Moved::Broken => Moved::Broken,
            _ => Moved::Bytes(taken),
        }
    }

    /// Whether bytes that were taken are not on their way yet; [`Channel::flush`] sends them.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends what was taken, as far as the client lets it.
    pub(crate) fn flush(&mut self) -> Moved {
        match &mut self.tls {
            Some(tls) => flush(tls, self.socket),
            None => Moved::NotNow,
        }
    }

    /// Says that nothing more will come.
    pub(crate) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // A courtesy: the client may be gone already.
            let _ = flush(tls, self.socket);
        }
    }
}

impl AsFd for Channel<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends what is encrypted and not sent. `NotNow` if there was nothing, or no room for it.
fn flush(tls: &mut ServerConnection, socket: &Socket) -> Moved {
    let mut sent = 0;
    while tls.wants_write() {
        match tls.write_tls(&mut Stream(socket)) {
            Ok(count) => sent += count,
            Err(error) if not_moved(&error) == Moved::NotNow => break,
            Err(_) => return Moved::Broken,
        }
    }
    match sent {
        0 => Moved::NotNow,
        _ => Moved::Bytes(sent),
    }
}

fn not_moved(error: &io::Error) -> Moved {
    match error.kind() {
        io::ErrorKind::WouldBlock => Moved::NotNow,
        _ => Moved::Broken,
    }
}

/// A socket as the TLS library asks for it.
struct Stream<'a>(&'a Socket);

fn counted(moved: Moved) -> io::Result<usize> {
    match moved {
        Moved::Bytes(count) => Ok(count),
        Moved::Closed => Ok(0),
        Moved::NotNow => Err(io::ErrorKind::WouldBlock.into()),
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
