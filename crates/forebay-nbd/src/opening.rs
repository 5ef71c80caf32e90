//! The first exchange with a client: the export, and the client's certificate if one is demanded.

use crate::channel::Channel;
use crate::handshake::{Agreement, ExportFacts, Handshake, HandshakeError, Progress, greeting};
use crate::queue::ByteQueue;
use crate::socket::Moved;
use crate::tls::TlsCredentials;
use forebay_base::Span;
use forebay_rt::thread::Stopwatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use thiserror::Error;

/// A client that says nothing for this long during the handshake is let go.
const PATIENCE: Span = Span::from_secs(30);
/// A stranger has this long for all that makes it a client.
const STRANGER_PATIENCE: Span = Span::from_secs(10);

/// Why the client and the server did not agree.
#[derive(Debug, Error)]
pub(crate) enum OpeningError {
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the client sent plain text after it asked for TLS")]
    InTheClear,
    #[error("the client took longer than {0} for its part of the handshake")]
    Silent(Span),
    /// A client for which there is no place.
    #[error("{0}")]
    Full(String),
    #[error("waiting for the client: {0}")]
    System(#[from] Errno),
}

/// The check that strangers must pass: they show a certificate that the credentials accept, or say
/// a first word of the protocol if there are none.
pub(crate) struct Gate<'g> {
    pub(crate) credentials: Option<TlsCredentials>,
    /// Gives a stranger a client's place, or returns the reason why not.
    pub(crate) welcome: Box<dyn Fn() -> Result<(), String> + 'g>,
}

/// The result of one step.
enum Step {
    GoOn,
    Agreed(Agreement),
    /// The client left.
    Over,
}

/// The opening phase of one connection.
pub(crate) struct Opening<'o, 'c> {
    channel: &'o mut Channel<'c>,
    input: &'o mut ByteQueue,
    handshake: Handshake<'o>,
    gate: &'o Gate<'o>,
    /// Provides the room for the requests of a client.
    furnish: &'o mut dyn FnMut() -> ByteQueue,
    /// Runs since the client came.
    watch: Stopwatch,
    is_stranger: bool,
}

impl<'o, 'c> Opening<'o, 'c> {
    /// Once the client has passed the `gate`, `furnish` provides its full `input`.
    pub(crate) fn new(
        channel: &'o mut Channel<'c>,
        input: &'o mut ByteQueue,
        facts: &'o [ExportFacts],
        gate: &'o Gate<'o>,
        furnish: &'o mut dyn FnMut() -> ByteQueue,
    ) -> Opening<'o, 'c> {
        let handshake = Handshake::new(facts);
        Opening {
            channel,
            input,
            handshake: match gate.credentials {
                Some(_) => handshake.behind_tls(),
                None => handshake,
            },
            gate,
            furnish,
            watch: Stopwatch::start(),
            is_stranger: true,
        }
    }

    /// Exchanges messages until there is an agreement; `None` if the client left in order.
    pub(crate) fn run(mut self) -> Result<Option<Agreement>, OpeningError> {
        if !self.send_all(&greeting())? {
            return Ok(None);
        }
        loop {
            match self.step()? {
                Step::GoOn => {}
                Step::Agreed(agreement) => return Ok(Some(agreement)),
                Step::Over => return Ok(None),
            }
        }
    }

    fn step(&mut self) -> Result<Step, OpeningError> {
        let mut output = Vec::new();
        let advanced = self.handshake.advance(self.input.filled(), &mut output);
        let is_heard = self.send_all(&output)?;
        let (taken, progress) = advanced?;
        self.input.consume(taken);
        if self.is_stranger && self.gate.credentials.is_none() && self.handshake.is_greeted() {
            self.enter()?;
        }
        let goes_on = match progress {
            Progress::Over => false,
            Progress::Transmission(agreement) if is_heard => return Ok(Step::Agreed(agreement)),
            Progress::Tls if is_heard => self.secure()?,
            Progress::Options if is_heard && taken == 0 => self.receive_some()?,
            _ => is_heard,
        };
        Ok(if goes_on { Step::GoOn } else { Step::Over })
    }

    /// Switches to TLS. False if the client is gone.
    fn secure(&mut self) -> Result<bool, OpeningError> {
        // Bytes that came in the clear after the request for TLS may be anybody's. They must not
        // count as sent under TLS.
        if !self.input.is_empty() {
            return Err(OpeningError::InTheClear);
        }
        let credentials = self.gate.credentials.as_ref();
        let credentials = credentials.expect("TLS is offered with credentials only");
        self.channel.begin_tls(credentials.config())?;
        while self.channel.is_shaking_hands() || self.channel.has_unsent() {
            match self.channel.shake_hands()? {
                Moved::Bytes(_) => {}
                Moved::WouldBlock => self.wait_for_both()?,
                Moved::Closed | Moved::Broken => return Ok(false),
            }
        }
        self.enter()?;
        self.handshake.secured();
        Ok(true)
    }

    /// The stranger becomes a client, and what it has sent already is a client's.
    fn enter(&mut self) -> Result<(), OpeningError> {
        (self.gate.welcome)().map_err(OpeningError::Full)?;
        let early = std::mem::replace(self.input, (self.furnish)());
        self.input.push(early.filled());
        self.is_stranger = false;
        Ok(())
    }

    fn wait_for_both(&self) -> Result<(), OpeningError> {
        let mut wanted = PollFlags::IN;
        wanted.set(PollFlags::OUT, self.channel.has_unsent());
        self.wait(wanted)
    }

    /// Sends `bytes`, and waits for the client within reason. False if the client is gone.
    fn send_all(&mut self, bytes: &[u8]) -> Result<bool, OpeningError> {
        let mut sent = 0;
        while sent < bytes.len() || self.channel.has_unsent() {
            let moved = if sent < bytes.len() {
                self.channel.send(&bytes[sent..])
            } else {
                self.channel.flush()
            };
            match moved {
                Moved::Bytes(count) => sent = bytes.len().min(sent + count),
                Moved::WouldBlock => self.wait(PollFlags::OUT)?,
                Moved::Closed | Moved::Broken => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Waits for bytes from the client. False if it is gone.
    fn receive_some(&mut self) -> Result<bool, OpeningError> {
        loop {
            match self.channel.receive(self.input.spare()) {
                Moved::Bytes(count) => {
                    self.input.commit(count);
                    return Ok(true);
                }
                Moved::WouldBlock => self.wait(PollFlags::IN)?,
                Moved::Closed | Moved::Broken => return Ok(false),
            }
        }
    }

    fn wait(&self, what: PollFlags) -> Result<(), OpeningError> {
        let (patience, spent) = if self.is_stranger {
            (STRANGER_PATIENCE, self.watch.elapsed())
        } else {
            (PATIENCE, Span::ZERO)
        };
        let left_ms = patience.saturating_sub(spent).as_millis();
        let left = Timespec {
            tv_sec: left_ms as i64 / 1000,
            tv_nsec: (left_ms as i64 % 1000) * 1_000_000,
        };
        match poll(&mut [PollFd::new(self.channel, what)], Some(&left)) {
            Ok(0) => Err(OpeningError::Silent(patience)),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
