//! The client's side of the handshake, as bytes in and bytes out: structured replies, holes, GO.

use crate::wire::{
    ALLOCATION_CONTEXT, NBD_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, PAYLOAD_LIMIT_BYTES,
    handshake_flag, info, option, option_reply, transmission_flag, u16_at, u32_at, u64_at,
};
use thiserror::Error;

/// Bytes of the greeting of a server.
const GREETING_BYTES: usize = 18;
/// Bytes of the head of an answer to an option.
const REPLY_HEAD_BYTES: usize = 20;
/// Longest answer to an option that is read: a name and a text fit.
pub const REPLY_LIMIT_BYTES: usize = 32 << 10;
/// Most answers to one option that are read.
const REPLIES_LIMIT: u32 = 64;

/// The facts of an export, as the server reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its length.
    pub length_bytes: u64,
    /// Flags of [`transmission_flag`].
    pub flags: u16,
    /// Ranges begin and end at multiples of it; a power of two.
    pub least_block_bytes: u32,
    /// The longest READ or WRITE.
    pub payload_limit_bytes: u32,
    /// Reads are answered in chunks.
    pub is_structured: bool,
    /// The number of the context of holes, if BLOCK_STATUS may be asked.
    pub allocation: Option<u32>,
}

impl Facts {
    /// Whether the server announced all of `flags`.
    pub fn can(&self, flags: u16) -> bool {
        self.flags & transmission_flag::HAS_FLAGS != 0 && self.flags & flags == flags
    }
}

/// Why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GreetingError {
    /// It does not begin like an NBD server.
    #[error("it does not speak the NBD protocol")]
    Magic,
    /// It speaks an old form.
    #[error("it speaks an old form of the protocol; fixed newstyle with GO is needed")]
    Oldstyle,
    /// An answer does not belong to its option, is too long, or is one too many.
    #[error("its answer to option {0} makes no sense")]
    Answer(u32),
    /// It requires TLS.
    #[error("it requires TLS; its address begins with nbds:// or nbds+unix://")]
    WantsTls,
    /// It has no TLS.
    #[error(
        "it offers no TLS; nothing is sent to it in the clear unless its address begins with \
             nbd:// or nbd+unix://"
    )]
    NoTls,
    /// Bytes came in the clear where TLS begins: somebody between may have added them.
    #[error("it sent bytes in the clear after it had agreed on TLS")]
    Clear,
    /// It has no such export.
    #[error("it has no such export")]
    UnknownExport,
    /// It refused for another reason.
    #[error("it refused the export with error {error:#x}: {text}")]
    Refused {
        /// Its number in the protocol.
        error: u32,
        /// What it said.
        text: String,
    },
    /// Its blocks are of no use to a cache of pages.
    #[error("its smallest block has {0} bytes; a power of two up to 4096 is needed")]
    Block(u32),
    /// Nothing can be sent to it.
    #[error("its longest request has {0} bytes; at least 4096 are needed")]
    Payload(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Greeting,
    StartTls,
    /// The caller has to begin TLS.
    Tls,
    Structured,
    Contexts,
    Go,
}

/// The client's side of one handshake.
///
/// ```
/// use forebay_nbd::client::greeting::Greeting;
/// use forebay_nbd::handshake;
/// let mut client = Greeting::new("disk");
/// let mut output = Vec::new();
/// let (taken, facts) = client.advance(&handshake::greeting(), &mut output)?;
/// assert_eq!((taken, facts), (18, None));
/// assert_eq!(output[4..12], *b"IHAVEOPT", "flags, then the first option");
/// # Ok::<(), forebay_nbd::client::greeting::GreetingError>(())
/// ```
#[derive(Debug)]
pub struct Greeting<'n> {
    export: &'n str,
    is_tls: bool,
    waiting: Waiting,
    replies: u32,
    has_length: bool,
    facts: Facts,
}

impl<'n> Greeting<'n> {
    /// A handshake that asks for `export`.
    pub fn new(export: &'n str) -> Greeting<'n> {
        Greeting {
            export,
            is_tls: false,
            waiting: Waiting::Greeting,
            replies: 0,
            has_length: false,
            facts: Facts {
                length_bytes: 0,
                flags: 0,
                // The defaults of the protocol, for a server that does not report them.
                least_block_bytes: 512,
                payload_limit_bytes: PAYLOAD_LIMIT_BYTES,
                is_structured: false,
                allocation: None,
            },
        }
    }

    /// A handshake that asks for TLS before anything else.
    pub fn with_tls(export: &'n str) -> Greeting<'n> {
        Greeting {
            is_tls: true,
            ..Greeting::new(export)
        }
    }

    /// Whether the server has agreed on TLS, and the caller has to begin it. Then
    /// [`Greeting::secured`] goes on.
    pub fn begins_tls(&self) -> bool {
        self.waiting == Waiting::Tls
    }

    /// Goes on: what is appended to `output` is sent through TLS. `input` is what had come in the
    /// clear.
    ///
    /// # Errors
    /// [`GreetingError::Clear`] if there was any.
    pub fn secured(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), GreetingError> {
        if !input.is_empty() {
            return Err(GreetingError::Clear);
        }
        self.ask(Waiting::Structured, &[], output);
        Ok(())
    }

    /// Takes the next step from `input` if it is there in full, and appends what is to be sent to
    /// `output`. Returns how many bytes it took, and at the end what the server said.
    ///
    /// # Errors
    /// [`GreetingError`].
    pub fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Option<Facts>), GreetingError> {
        if self.waiting == Waiting::Greeting {
            if input.len() < GREETING_BYTES {
                return Ok((0, None));
            }
            self.take_greeting(input, output)?;
            return Ok((GREETING_BYTES, None));
        }
        if input.len() < REPLY_HEAD_BYTES || self.begins_tls() {
            return Ok((0, None));
        }
        let asked = self.asked();
        let length = u32_at(input, 16) as usize;
        let is_answer = u64_at(input, 0) == OPTION_REPLY_MAGIC && u32_at(input, 8) == asked;
        if !is_answer || length > REPLY_LIMIT_BYTES || self.replies == REPLIES_LIMIT {
            return Err(GreetingError::Answer(asked));
        }
        let Some(data) = input[REPLY_HEAD_BYTES..].get(..length) else {
            return Ok((0, None));
        };
        self.replies += 1;
        let facts = self.take_reply(u32_at(input, 12), data, output)?;
        Ok((REPLY_HEAD_BYTES + length, facts))
    }

    fn asked(&self) -> u32 {
        match self.waiting {
            Waiting::Greeting | Waiting::Structured => option::STRUCTURED_REPLY,
            Waiting::StartTls | Waiting::Tls => option::STARTTLS,
            Waiting::Contexts => option::SET_META_CONTEXT,
            Waiting::Go => option::GO,
        }
    }

    fn take_greeting(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), GreetingError> {
        if u64_at(input, 0) != NBD_MAGIC {
            return Err(GreetingError::Magic);
        }
        let flags = u16_at(input, 16);
        let is_fixed = flags & handshake_flag::FIXED_NEWSTYLE != 0;
        if u64_at(input, 8) != OPTION_MAGIC || !is_fixed {
            return Err(GreetingError::Oldstyle);
        }
        let no_zeroes = flags & handshake_flag::NO_ZEROES;
        output.extend(u32::from(handshake_flag::FIXED_NEWSTYLE | no_zeroes).to_be_bytes());
        let first = if self.is_tls {
            Waiting::StartTls
        } else {
            Waiting::Structured
        };
        self.ask(first, &[], output);
        Ok(())
    }

    fn ask(&mut self, next: Waiting, data: &[u8], output: &mut Vec<u8>) {
        self.waiting = next;
        self.replies = 0;
        output.extend(OPTION_MAGIC.to_be_bytes());
        output.extend(self.asked().to_be_bytes());
        output.extend((data.len() as u32).to_be_bytes());
        output.extend(data);
    }

    fn ask_to_go(&mut self, output: &mut Vec<u8>) {
        let mut data = text(self.export);
        data.extend(1_u16.to_be_bytes());
        data.extend(info::BLOCK_SIZE.to_be_bytes());
        self.ask(Waiting::Go, &data, output);
    }

    fn take_reply(
        &mut self,
        kind: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Facts>, GreetingError> {
        let refused = kind & (1 << 31) != 0;
        match (self.waiting, kind) {
            (_, option_reply::ERR_TLS_REQD) => return Err(GreetingError::WantsTls),
            (Waiting::StartTls, option_reply::ACK) => self.waiting = Waiting::Tls,
            (Waiting::StartTls, _) if refused => return Err(GreetingError::NoTls),
            (Waiting::Structured, option_reply::ACK) => {
                self.facts.is_structured = true;
                let mut data = text(self.export);
                data.extend(1_u32.to_be_bytes());
                data.extend(text(ALLOCATION_CONTEXT));
                self.ask(Waiting::Contexts, &data, output);
            }
            (Waiting::Contexts, option_reply::META_CONTEXT) if data.len() >= 4 => {
                if data[4..] == *ALLOCATION_CONTEXT.as_bytes() {
                    self.facts.allocation = Some(u32_at(data, 0));
                }
            }
            // A server refuses options that it does not know, and the client goes on without them.
            (Waiting::Structured | Waiting::Contexts, _)
                if refused || kind == option_reply::ACK =>
            {
                self.ask_to_go(output);
            }
            (Waiting::Go, option_reply::INFO) if data.len() >= 2 => return self.note(data),
            (Waiting::Go, option_reply::ACK) if self.has_length => return self.checked().map(Some),
            (Waiting::Go, option_reply::ERR_UNKNOWN) => return Err(GreetingError::UnknownExport),
            (Waiting::Go, option_reply::ERR_UNSUP) => return Err(GreetingError::Oldstyle),
            (Waiting::Go, error) if refused => {
                let text = String::from_utf8_lossy(data).into_owned();
                return Err(GreetingError::Refused { error, text });
            }
            _ => return Err(GreetingError::Answer(self.asked())),
        }
        Ok(None)
    }

    /// Notes a fact of the export.
    fn note(&mut self, data: &[u8]) -> Result<Option<Facts>, GreetingError> {
        match (u16_at(data, 0), data.len()) {
            (info::EXPORT, 12) => {
                self.facts.length_bytes = u64_at(data, 2);
                self.facts.flags = u16_at(data, 10);
                self.has_length = true;
            }
            (info::BLOCK_SIZE, 14) => {
                self.facts.least_block_bytes = u32_at(data, 2);
                self.facts.payload_limit_bytes = u32_at(data, 10).min(PAYLOAD_LIMIT_BYTES);
            }
            (info::EXPORT | info::BLOCK_SIZE, _) => {
                return Err(GreetingError::Answer(option::GO));
            }
            // The client did not ask for it; the protocol allows this.
            _ => {}
        }
        Ok(None)
    }

    fn checked(&self) -> Result<Facts, GreetingError> {
        let facts = self.facts;
        let block = facts.least_block_bytes;
        if !block.is_power_of_two() || block > 4096 {
            return Err(GreetingError::Block(block));
        }
        if facts.payload_limit_bytes < 4096 {
            return Err(GreetingError::Payload(facts.payload_limit_bytes));
        }
        Ok(facts)
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
#[path = "greeting_tests.rs"]
mod tests;
