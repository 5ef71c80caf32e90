//! The bytes of a client, in the clear or through TLS. Nothing here makes its thread wait.

use crate::connection_state::ConnectionState;
use crate::socket::{Moved, Socket};
use crate::stream::{Stream, decrypted, flush, not_moved, send};
use rustix::fd::{AsFd, BorrowedFd};
use rustls::{ServerConfig, ServerConnection};
use std::sync::Arc;

/// Most bytes of replies that TLS holds in encrypted form while the client does not take them.
const UNSENT_LIMIT_BYTES: usize = 64 << 10;
/// Most bytes of a client that TLS has taken from the socket and not passed on.
const DECRYPTED_LIMIT_BYTES: u64 = 64 << 10;

/// One client's socket, with TLS over it once both sides have agreed on TLS.
#[derive(Debug)]
pub(crate) struct Channel<'a> {
    socket: &'a Socket,
    state: &'a ConnectionState,
    tls: Option<Box<ServerConnection>>,
    /// Bytes of the client that are still read once the server ends: those that had come by then. A
    /// TCP socket accepts bytes even after it was shut down, and the socket of a busy client never
    /// runs empty.
    left_to_hear: Option<u64>,
}

impl<'a> Channel<'a> {
    pub(crate) fn new(socket: &'a Socket, state: &'a ConnectionState) -> Channel<'a> {
        Channel {
            socket,
            state,
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

    /// Whether the client has yet to show a certificate.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Continues TLS's own handshake as far as the client's bytes allow.
    pub(crate) fn shake_hands(&mut self) -> Result<Moved, rustls::Error> {
        let Some(tls) = &mut self.tls else {
            return Ok(Moved::WouldBlock);
        };
        let received = match tls.read_tls(&mut Stream(self.socket)) {
            Ok(0) => Moved::Closed,
            Ok(count) => Moved::Bytes(count),
            Err(error) => not_moved(&error),
        };
        let understood = tls.process_new_packets();
        // The alert that says what was wrong is sent too, if possible.
        let sent = flush(tls, self.socket);
        understood?;
        Ok(match sent {
            Moved::Broken => Moved::Broken,
            _ => received,
        })
    }

    /// Reads into `room`, which is not empty.
    pub(crate) fn receive(&mut self, room: &mut [u8]) -> Moved {
        if self.state.is_draining() && self.left_to_hear.is_none() {
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

    /// Whether bytes of the client may wait here that no poll of the socket reports.
    pub(crate) fn has_unread(&self) -> bool {
        self.tls.is_some()
    }

    /// An upper bound of the bytes that have come and were not received.
    fn unheard(&self) -> u64 {
        // No socket refuses this call.
        let waiting = rustix::io::ioctl_fionread(self.socket).unwrap_or(0);
        let decrypted = self.tls.as_ref().map_or(0, |_tls| DECRYPTED_LIMIT_BYTES);
        waiting + decrypted
    }

    fn receive_any(&mut self, room: &mut [u8]) -> Moved {
        let Some(tls) = &mut self.tls else {
            return self.socket.receive(room);
        };
        loop {
            match decrypted(tls, room) {
                Moved::WouldBlock => {}
                moved => return moved,
            }
            // The reader reports the end of the stream, after the bytes that came before it.
            if let Err(error) = tls.read_tls(&mut Stream(self.socket)) {
                return not_moved(&error);
            }
            if tls.process_new_packets().is_err() {
                // Sends the alert that says what was wrong; the client may already be gone.
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
        send(tls, self.socket, bytes)
    }

    /// Whether some bytes that were taken are still unsent; [`Channel::flush`] sends them.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends what was taken, as far as the client accepts it.
    pub(crate) fn flush(&mut self) -> Moved {
        match &mut self.tls {
            Some(tls) => flush(tls, self.socket),
            None => Moved::WouldBlock,
        }
    }

    /// Closes the sending side: nothing more will come.
    pub(crate) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // A courtesy: the client may already be gone.
            let _ = flush(tls, self.socket);
        }
    }
}

impl AsFd for Channel<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
