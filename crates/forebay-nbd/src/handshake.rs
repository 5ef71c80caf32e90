//! The handshake, as bytes in and bytes out: which export, and which extensions.
//!
//! Only fixed newstyle is supported. Each call of [`Handshake::advance`] takes at most one option,
//! so the bytes to be sent in between are never more than one answer.

use crate::option_fields::{
    asks_for_allocation, block_sizes, push_invalid, push_reply, push_text, split_infos, split_text,
};
use crate::wire::{
    ALLOCATION_CONTEXT, ALLOCATION_CONTEXT_ID, NBD_MAGIC, OPTION_HEAD_BYTES, OPTION_MAGIC,
    handshake_flag, info, option, option_reply, u16_at, u32_at, u64_at,
};
use thiserror::Error;

/// Longest option that is read: a name and several dozen queries fit.
pub const OPTION_LIMIT_BYTES: usize = 32 << 10;

/// The facts about an export that the server sends to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFacts {
    /// Its name.
    pub name: String,
    /// Its length.
    pub length_bytes: u64,
    /// Flags of [`crate::wire::transmission_flag`].
    pub flags: u16,
}

/// What client and server agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Index of the export.
    pub export: usize,
    /// Reads are answered in chunks.
    pub structured: bool,
    /// BLOCK_STATUS may be asked.
    pub allocation: bool,
}

/// What follows after some bytes of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The next option, or the rest of this one.
    Options,
    /// TLS, from the client's next byte on; after that [`Handshake::secured`] and options again.
    Tls,
    /// Requests.
    Transmission(Agreement),
    /// The end, at the client's wish.
    Over,
}

/// Why the handshake failed; the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// The client's flags ask for what was not offered.
    #[error(
        "the client's handshake flags are {0:#x}; this server speaks fixed newstyle (0x1, 0x3)"
    )]
    Flags(u32),
    /// Bytes where an option should be do not begin like one.
    #[error("an option begins with {0:#x}; the client does not speak the NBD protocol")]
    Magic(u64),
    /// An option is longer than any sensible one.
    #[error("option {option} has {length_bytes} bytes; at most {OPTION_LIMIT_BYTES} are read")]
    TooLong {
        /// The option.
        option: u32,
        /// Its length.
        length_bytes: u32,
    },
    /// There is no such export, and the client used the option to which no error can be sent.
    #[error("the client asked for an export that is not served")]
    UnknownExport,
    /// The client asked for an export in the clear where TLS is demanded, with the option to which
    /// no error can be sent.
    #[error("the client asked for an export without TLS, which this address demands")]
    NotSecured,
}

/// Whether a client must switch to TLS before its options are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Privacy {
    /// No TLS: options are taken in the clear.
    Clear,
    /// TLS is demanded and not yet on.
    Demanded,
    /// TLS is on.
    Secured,
}

/// The server's side of one handshake.
///
/// ```
/// use forebay_nbd::handshake::{Handshake, Progress};
/// let mut handshake = Handshake::new(&[]);
/// let mut output = Vec::new();
/// let mut input = vec![0, 0, 0, 3];
/// input.extend(b"IHAVEOPT\0\0\0\x02\0\0\0\0");
/// assert_eq!(handshake.advance(&input, &mut output), Ok((4, Progress::Options)));
/// assert_eq!(handshake.advance(&input[4..], &mut output), Ok((16, Progress::Over)));
/// ```
#[derive(Debug)]
pub struct Handshake<'a> {
    exports: &'a [ExportFacts],
    /// Whether the client's flags have come.
    is_greeted: bool,
    privacy: Privacy,
    no_zeroes: bool,
    structured: bool,
    /// The export for which the client chose the allocation context.
    allocation_of: Option<usize>,
}

/// What the server sends first.
pub fn greeting() -> [u8; 18] {
    let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&NBD_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

impl<'a> Handshake<'a> {
    /// Whether the client has said its first word, and it was one of the protocol.
    pub(crate) fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    /// A handshake over `exports`; the first one is the default, with the empty name.
    pub fn new(exports: &'a [ExportFacts]) -> Handshake<'a> {
        Handshake {
            exports,
            is_greeted: false,
            privacy: Privacy::Clear,
            no_zeroes: false,
            structured: false,
            allocation_of: None,
        }
    }

    /// The same for clients that must ask for TLS before anything else.
    #[must_use]
    pub fn behind_tls(mut self) -> Handshake<'a> {
        self.privacy = Privacy::Demanded;
        self
    }

    /// Notes that what follows comes through TLS.
    pub fn secured(&mut self) {
        self.privacy = Privacy::Secured;
    }

    /// Takes the next step from `input` if all of it has come, and appends the answer to `output`.
    /// Returns how many bytes it took and what comes next; 0 bytes means that more are needed.
    ///
    /// # Errors
    /// [`HandshakeError`]; what was appended to `output` should still be sent.
    pub fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Progress), HandshakeError> {
        if !self.is_greeted {
            return self.take_flags(input);
        }
        if input.len() < OPTION_HEAD_BYTES {
            return Ok((0, Progress::Options));
        }
        let magic = u64_at(input, 0);
        if magic != OPTION_MAGIC {
            return Err(HandshakeError::Magic(magic));
        }
        let (option, length_bytes) = (u32_at(input, 8), u32_at(input, 12));
        let length = length_bytes as usize;
        if length > OPTION_LIMIT_BYTES {
            push_reply(output, option, option_reply::ERR_TOO_BIG, b"too long");
            return Err(HandshakeError::TooLong {
                option,
                length_bytes,
            });
        }
        let Some(data) = input[OPTION_HEAD_BYTES..].get(..length) else {
            return Ok((0, Progress::Options));
        };
        let progress = self.take_option(option, data, output)?;
        Ok((OPTION_HEAD_BYTES + length, progress))
    }

    fn take_flags(&mut self, input: &[u8]) -> Result<(usize, Progress), HandshakeError> {
        if input.len() < 4 {
            return Ok((0, Progress::Options));
        }
        let flags = u32_at(input, 0);
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        if flags & !known != 0 || flags & u32::from(handshake_flag::FIXED_NEWSTYLE) == 0 {
            return Err(HandshakeError::Flags(flags));
        }
        self.is_greeted = true;
        self.no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
        Ok((4, Progress::Options))
    }

    fn take_option(
        &mut self,
        option: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        if option == option::ABORT {
            push_reply(output, option, option_reply::ACK, &[]);
            return Ok(Progress::Over);
        }
        if self.privacy == Privacy::Demanded {
            return demand_tls(option, data, output);
        }
        match option {
            option::EXPORT_NAME => return self.begin_by_name(data, output),
            option::INFO | option::GO => return Ok(self.describe(option, data, output)),
            option::LIST if data.is_empty() => self.list(output),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                push_reply(output, option, option_reply::ACK, &[]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(option, data, output);
            }
            option::LIST | option::STRUCTURED_REPLY => {
                push_invalid(output, option, "this option has no data");
            }
            option::STARTTLS if self.privacy == Privacy::Secured => {
                push_invalid(output, option, "this is TLS already");
            }
            _ => {
                let reply = option_reply::ERR_UNSUP;
                push_reply(
                    output,
                    option,
                    reply,
                    b"this server does not know the option",
                );
            }
        }
        Ok(Progress::Options)
    }

    fn begin_by_name(&self, data: &[u8], output: &mut Vec<u8>) -> Result<Progress, HandshakeError> {
        let export = self.find(data).ok_or(HandshakeError::UnknownExport)?;
        let facts = &self.exports[export];
        output.extend(facts.length_bytes.to_be_bytes());
        output.extend(facts.flags.to_be_bytes());
        if !self.no_zeroes {
            output.extend([0; 124]);
        }
        Ok(Progress::Transmission(self.agreement(export)))
    }

    fn agreement(&self, export: usize) -> Agreement {
        Agreement {
            export,
            structured: self.structured,
            allocation: self.allocation_of == Some(export),
        }
    }

    /// The export called `name`; the empty name is the first one.
    fn find(&self, name: &[u8]) -> Option<usize> {
        let named = |facts: &ExportFacts| facts.name.as_bytes() == name;
        let found = self.exports.iter().position(named);
        found.or((name.is_empty() && !self.exports.is_empty()).then_some(0))
    }

    fn list(&self, output: &mut Vec<u8>) {
        for facts in self.exports {
            let mut answer = Vec::new();
            push_text(&mut answer, &facts.name);
            push_reply(output, option::LIST, option_reply::SERVER, &answer);
        }
        push_reply(output, option::LIST, option_reply::ACK, &[]);
    }

    /// Answers INFO and GO.
    fn describe(&self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Progress {
        let Some((name, wanted)) = split_infos(data) else {
            push_invalid(output, option, "the lengths in the option do not add up");
            return Progress::Options;
        };
        let Some(export) = self.find(name) else {
            let reply = option_reply::ERR_UNKNOWN;
            push_reply(output, option, reply, b"no export has this name");
            return Progress::Options;
        };
        let facts = &self.exports[export];
        let mut push = |kind: u16, rest: &[u8]| {
            let answer = [&kind.to_be_bytes(), rest].concat();
            push_reply(output, option, option_reply::INFO, &answer);
        };
        let (length, flags) = (facts.length_bytes.to_be_bytes(), facts.flags.to_be_bytes());
        push(info::EXPORT, &[&length[..], &flags[..]].concat());
        for kind in wanted.chunks_exact(2).map(|pair| u16_at(pair, 0)) {
            match kind {
                info::NAME => push(kind, facts.name.as_bytes()),
                info::BLOCK_SIZE => push(kind, &block_sizes()),
                _ => {}
            }
        }
        push_reply(output, option, option_reply::ACK, &[]);
        if option == option::GO {
            Progress::Transmission(self.agreement(export))
        } else {
            Progress::Options
        }
    }

    /// Answers LIST_META_CONTEXT and SET_META_CONTEXT.
    fn contexts(&mut self, option: u32, data: &[u8], output: &mut Vec<u8>) {
        let sets = option == option::SET_META_CONTEXT;
        if sets {
            self.allocation_of = None;
        }
        if sets && !self.structured {
            push_invalid(output, option, "ask for structured replies first");
            return;
        }
        let Some((name, wanted)) = split_text(data).and_then(|(name, rest)| {
            let wanted = asks_for_allocation(rest, !sets)?;
            Some((name, wanted))
        }) else {
            push_invalid(output, option, "the lengths in the option do not add up");
            return;
        };
        let Some(export) = self.find(name) else {
            let reply = option_reply::ERR_UNKNOWN;
            push_reply(output, option, reply, b"no export has this name");
            return;
        };
        if wanted {
            let id = if sets { ALLOCATION_CONTEXT_ID } else { 0 };
            let answer = [&id.to_be_bytes(), ALLOCATION_CONTEXT.as_bytes()].concat();
            push_reply(output, option, option_reply::META_CONTEXT, &answer);
        }
        if wanted && sets {
            self.allocation_of = Some(export);
        }
        push_reply(output, option, option_reply::ACK, &[]);
    }
}

/// Answers an option of a client that must ask for TLS first.
fn demand_tls(option: u32, data: &[u8], output: &mut Vec<u8>) -> Result<Progress, HandshakeError> {
    match option {
        option::EXPORT_NAME => return Err(HandshakeError::NotSecured),
        option::STARTTLS if data.is_empty() => {
            push_reply(output, option, option_reply::ACK, &[]);
            return Ok(Progress::Tls);
        }
        option::STARTTLS => push_invalid(output, option, "this option has no data"),
        _ => {
            let reply = option_reply::ERR_TLS_REQD;
            push_reply(output, option, reply, b"ask for TLS first");
        }
    }
    Ok(Progress::Options)
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
