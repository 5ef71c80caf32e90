//! One client of the control socket: a request, an answer, and the end.

use super::answers::{Answer, Source};
use super::request::{REQUEST_LIMIT_BYTES, Request, parse};
use forebay_base::{Instant, Span};
use rustix::event::PollFlags;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// A client that sends no request, or reads nothing of its answer, for this long is let go.
pub(super) const PATIENCE: Span = Span::from_secs(5);
/// The longest part of a request that is read at once.
const PIECE_BYTES: usize = 4 << 10;

/// Where a client is.
enum Stage {
    /// Its request is still to come.
    Asking(Vec<u8>),
    /// Its answer waits until others have read theirs.
    Waiting(Request),
    /// Its answer is on its way.
    Told,
}

pub(super) struct Client {
    pub(super) stream: UnixStream,
    stage: Stage,
    output: Vec<u8>,
    sent: usize,
    /// When it has to have done something.
    deadline: Instant,
}

impl Client {
    /// A client that has come at `now`.
    pub(super) fn new(stream: UnixStream, now: Instant) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        Ok(Client {
            stream,
            stage: Stage::Asking(Vec::new()),
            output: Vec::new(),
            sent: 0,
            deadline: now + PATIENCE,
        })
    }

    /// Bytes that it has not read.
    pub(super) fn unread_bytes(&self) -> usize {
        self.output.len() - self.sent
    }

    /// What it is waited for; nothing while others have to read first.
    pub(super) fn awaited(&self) -> Option<PollFlags> {
        match &self.stage {
            Stage::Asking(_) => Some(PollFlags::IN),
            Stage::Waiting(_) => None,
            Stage::Told => Some(PollFlags::OUT),
        }
    }

    /// When it is let go, unless it does something before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.awaited().map(|_| self.deadline)
    }

    /// Goes on as far as is possible without waiting. `has_room`: an answer may be made. Returns
    /// whether the client stays.
    pub(super) fn turn(&mut self, now: Instant, has_room: bool, source: &Source) -> bool {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            return false;
        }
        if let Stage::Asking(_) = &self.stage
            && !self.read()
        {
            return false;
        }
        if has_room && let Stage::Waiting(request) = &self.stage {
            self.output = source.answer(request).bytes();
            self.stage = Stage::Told;
            self.deadline = now + PATIENCE;
        }
        match self.stage {
            Stage::Told => self.write(now),
            _ => true,
        }
    }

    /// Reads what has come. Returns whether the client stays.
    fn read(&mut self) -> bool {
        let Stage::Asking(input) = &mut self.stage else {
            return true;
        };
        let mut piece = [0; PIECE_BYTES];
        while input.len() <= REQUEST_LIMIT_BYTES {
            match self.stream.read(&mut piece) {
                Ok(0) => return false,
                Ok(count) => input.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        match parse(input) {
            Ok(None) => {}
            Ok(Some(request)) => self.stage = Stage::Waiting(request),
            Err(unserved) => {
                self.output = Answer::from(unserved).bytes();
                self.stage = Stage::Told;
            }
        }
        true
    }

    /// Writes what the client takes. Returns whether it stays.
    fn write(&mut self, now: Instant) -> bool {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return false,
                Ok(count) => {
                    self.sent += count;
                    self.deadline = now + PATIENCE;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        // The answer is with the system, which keeps it for the client.
        false
    }
}
