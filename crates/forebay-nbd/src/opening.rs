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

/// A client that says nothing for this long during the handshake is let go. A client that has yet
/// to show a certificate has this long for the whole handshake; otherwise a few strangers could
/// hold every place.
const PATIENCE: Span = Span::from_secs(30);

/// Why the client and the server did not agree.
#[derive(Debug, Error)]
pub(crate) enum OpeningError {
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the client sent plain text after it asked for TLS")]
    InTheClear,
    #[error("the client took longer than {PATIENCE} for its part of the handshake")]
    Silent,
    /// A client that showed a certificate, but for which there is no place.
    #[error("{0}")]
    Full(String),
    #[error("waiting for the client: {0}")]
    System(#[from] Errno),
}

/// The check that strangers must pass.
pub(crate) struct Gate<'g> {
    pub(crate) credentials: TlsCredentials,
    /// Gives a stranger that showed its certificate a client's place, or returns the reason why
    /// not.
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
    gate: Option<&'o Gate<'o>>,
    /// Provides the room for the requests of a client.
    furnish: &'o mut dyn FnMut() -> ByteQueue,
    /// Runs since the client came.
    watch: Stopwatch,
    is_stranger: bool,
}

impl<'o, 'c> Opening<'o, 'c> {
    /// With a `gate`, the client must show a certificate; after that, `furnish` provides its full
    /// `input`.
    pub(crate) fn new(
        channel: &'o mut Channel<'c>,
        input: &'o mut ByteQueue,
        facts: &'o [ExportFacts],
        gate: Option<&'o Gate<'o>>,
        furnish: &'o mut dyn FnMut() -> ByteQueue,
    ) -> Opening<'o, 'c> {
        let handshake = Handshake::new(facts);
        Opening {
            channel,
            input,
            handshake: match gate {
                Some(_) => handshake.behind_tls(),
                None => handshake,
            },
            gate,
            furnish,
            watch: Stopwatch::start(),
            is_stranger: gate.is_some(),
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
        let gate = self.gate.expect("TLS is offered with credentials only");
        self.channel.begin_tls(gate.credentials.config())?;
        while self.channel.is_shaking_hands() || self.channel.has_unsent() {
            match self.channel.shake_hands()? {
                Moved::Bytes(_) => {}
                Moved::NotNow => self.wait_for_both()?,
                Moved::Closed | Moved::Broken => return Ok(false),
            }
        }
        (gate.welcome)().map_err(OpeningError::Full)?;
        *self.input = (self.furnish)();
        self.handshake.secured();
        self.is_stranger = false;
        Ok(true)
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
                Moved::NotNow => self.wait(PollFlags::OUT)?,
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
                Moved::NotNow => self.wait(PollFlags::IN)?,
                Moved::Closed | Moved::Broken => return Ok(false),
            }
        }
    }

    fn wait(&self, what: PollFlags) -> Result<(), OpeningError> {
        let mut left_ms = PATIENCE.as_millis();
        if self.is_stranger {
            left_ms = left_ms.saturating_sub(self.watch.elapsed().as_millis());
        }
        let patience = Timespec {
            tv_sec: left_ms as i64 / 1000,
            tv_nsec: (left_ms as i64 % 1000) * 1_000_000,
        };
        match poll(&mut [PollFd::new(self.channel, what)], Some(&patience)) {
            Ok(0) => Err(OpeningError::Silent),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
