//! The first words with a client: which export, and its certificate where that is asked.

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

/// A client that says nothing for so long during the handshake is let go; one that has still to
/// show who it is has no more in all, or a few strangers would hold every place.
const PATIENCE: Span = Span::from_secs(30);

/// Why no agreement came about.
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
    /// A client that showed a certificate, and has no place.
    #[error("{0}")]
    Full(String),
    #[error("waiting for the client: {0}")]
    System(#[from] Errno),
}

/// What strangers have to pass.
pub(crate) struct Gate<'g> {
    pub(crate) credentials: TlsCredentials,
    /// Gives a stranger that showed its certificate a client's place, or says why not.
    pub(crate) welcome: Box<dyn Fn() -> Result<(), String> + 'g>,
}

/// What a step of the opening came to.
enum Step {
    GoOn,
    Agreed(Agreement),
    /// The client left.
    Over,
}

/// Agrees with one client.
pub(crate) struct Opening<'o, 'c> {
    channel: &'o mut Channel<'c>,
    input: &'o mut ByteQueue,
    handshake: Handshake<'o>,
    gate: Option<&'o Gate<'o>>,
    /// Gives a client the room for its requests.
    furnish: &'o mut dyn FnMut() -> ByteQueue,
    /// Since the client came.
    watch: Stopwatch,
    is_stranger: bool,
}

impl<'o, 'c> Opening<'o, 'c> {
    /// With a client that has to show who it is if there is a `gate`; `furnish` then gives it the
    /// `input` of one that did.
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

    /// Speaks until there is an agreement; `None` if the client left in order.
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

    /// Goes over to TLS. False if the client is gone.
    fn secure(&mut self) -> Result<bool, OpeningError> {
        // What came in the clear behind the wish may be anybody's, and must not count as said
        // under TLS.
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

    /// Sends `bytes` however long it takes within reason. False if the client is gone.
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

    /// Waits for bytes of the client. False if it is gone.
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
