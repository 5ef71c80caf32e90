//! The bytes of a connection to a server, in the clear or through TLS. Nothing here makes its
//! thread wait.

use super::trust::Trust;
use crate::socket::{Moved, Socket};
use crate::stream::{Stream, decrypted, flush, not_moved, send};
use rustix::fd::{AsFd, BorrowedFd};
use rustls::ClientConnection;

/// Most bytes that TLS holds in encrypted form while the server does not take them.
const UNSENT_LIMIT_BYTES: usize = 64 << 10;
/// Memory of TLS for one connection: bytes that are unsent, and records that have come.
pub(crate) const TLS_BYTES: usize = UNSENT_LIMIT_BYTES + (96 << 10);

/// A socket, with TLS over it once both sides have agreed on TLS.
#[derive(Debug)]
pub(crate) struct Line {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    /// What was wrong with the server's side of TLS.
    failure: Option<rustls::Error>,
}

impl Line {
    pub(crate) fn new(socket: Socket) -> Line {
        Line {
            socket,
            tls: None,
            failure: None,
        }
    }

    /// From the next byte on, both sides speak TLS. What is sent waits for TLS's own handshake,
    /// which goes on with each call of [`Line::receive`].
    pub(crate) fn begin_tls(&mut self, trust: &Trust) -> Result<(), rustls::Error> {
        let connection = ClientConnection::new(trust.config.clone(), trust.name.clone())?;
        let mut tls = Box::new(connection);
        tls.set_buffer_limit(Some(UNSENT_LIMIT_BYTES));
        self.tls = Some(tls);
        Ok(())
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What was wrong with the server's side of TLS.
    pub(crate) fn failure(&self) -> Option<&rustls::Error> {
        self.failure.as_ref()
    }

    /// Takes bytes for the server, as many as there is room for.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Moved {
        let Some(tls) = &mut self.tls else {
            return self.socket.send(bytes);
        };
        send(tls, &self.socket, bytes)
    }

    /// Whether some bytes that were taken are still unsent; [`Line::flush`] sends them.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Sends what was taken, as far as the server accepts it.
    pub(crate) fn flush(&mut self) -> Moved {
        match &mut self.tls {
            Some(tls) => flush(tls, &self.socket),
            None => Moved::WouldBlock,
        }
    }

    /// Reads into `room`, which is not empty.
    pub(crate) fn receive(&mut self, room: &mut [u8]) -> Moved {
        let Some(tls) = &mut self.tls else {
            return self.socket.receive(room);
        };
        loop {
            match decrypted(tls, room) {
                Moved::WouldBlock => {}
                moved => return moved,
            }
            match tls.read_tls(&mut Stream(&self.socket)) {
                Ok(0) if tls.is_handshaking() => return Moved::Closed,
                Ok(_) => {}
                Err(error) => return not_moved(&error),
            }
            if let Err(error) = tls.process_new_packets() {
                // Sends the alert that says what was wrong; the server may already be gone.
                let _ = flush(tls, &self.socket);
                self.failure = Some(error);
                return Moved::Broken;
            }
            // TLS's own handshake has its answers.
            if flush(tls, &self.socket) == Moved::Broken {
                return Moved::Broken;
            }
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
