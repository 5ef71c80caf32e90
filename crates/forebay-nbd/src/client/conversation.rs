//! Requests to a server and its replies, as bytes in and bytes out.
//!
//! Bytes of a READ are passed on as they come, however they are cut. Only heads are collected, and
//! the short chunks that describe holes and errors. Whatever a server sends, the bytes that are
//! passed on lie within the request that they are for.

use crate::wire::{
    CHUNK_HEAD_BYTES, CHUNK_MAGIC, REQUEST_BYTES, Request, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC,
    chunk, command, u16_at, u32_at, u64_at,
};
use std::ops::Range;
use thiserror::Error;

/// Longest chunk that is read as a whole: extents, or an error.
pub const CHUNK_LIMIT_BYTES: u32 = 64 << 10;

/// Most bytes of a reply that have to be there together.
pub const INPUT_BYTES: usize = CHUNK_HEAD_BYTES + CHUNK_LIMIT_BYTES as usize;

/// Why a server is not understood; the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// A reply does not begin as one.
    #[error("a reply begins with {0:#x}; the server does not speak the NBD protocol")]
    Magic(u32),
    /// A reply is for no request that is under way.
    #[error("a reply is for request {0:#x}, which is not under way")]
    Cookie(u64),
    /// A chunk is too long, too short, or for another kind of request.
    #[error("a chunk of kind {kind} and {length_bytes} bytes does not fit its request")]
    Chunk {
        /// The kind that it claims.
        kind: u16,
        /// Its length.
        length_bytes: u32,
    },
    /// A chunk has bytes outside of the range that was asked for, or some of them twice.
    #[error("a chunk has bytes that were not asked for")]
    Range,
    /// A READ ended before all of its bytes had come.
    #[error("a read ended {0} bytes short")]
    Short(u32),
    /// A read was answered in the form that was not agreed on.
    #[error("a read was answered in the form that was not agreed on")]
    Form,
}

/// The meaning of some bytes of the server. A *slot* is the number that [`Conversation::ask`] gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// Nothing yet: more bytes are needed.
    More,
    /// A part of a reply with nothing to pass on.
    Noted,
    /// Bytes of a READ.
    Data {
        /// The request that it belongs to.
        slot: usize,
        /// The place in its range.
        at: u32,
        /// The bytes.
        bytes: &'i [u8],
    },
    /// Zeros of a READ.
    Zeros {
        /// The request that it belongs to.
        slot: usize,
        /// The place in its range.
        range: Range<u32>,
    },
    /// Extents as length and flags, of the context that was asked for.
    Extents {
        /// The request that it belongs to.
        slot: usize,
        /// Eight bytes each.
        bytes: &'i [u8],
    },
    /// The request has ended; its slot is free again.
    Ended {
        /// Which request.
        slot: usize,
        /// What failed, by its number in the protocol; never 0.
        error: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    cookie: u64,
    kind: u16,
    offset_bytes: u64,
    length_bytes: u32,
    /// Bytes of a READ that have not come.
    left_bytes: u32,
    error: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Head,
    /// This many bytes of a READ, then perhaps the end.
    Data {
        slot: usize,
        at: u32,
        left_bytes: u32,
        is_last: bool,
    },
}

/// One connection after its handshake.
///
/// ```
/// use forebay_nbd::client::conversation::{Conversation, Event};
/// use forebay_nbd::wire::{command, simple_reply};
/// let mut conversation = Conversation::new(false, 16);
/// let (slot, _bytes) = conversation.ask(command::FLUSH, 0, 0, 0).expect("there is room");
/// let reply = simple_reply(conversation.cookie(slot), None);
/// let (taken, event) = conversation.advance(&reply)?;
/// assert_eq!((taken, event), (16, Event::Ended { slot, error: None }));
/// # Ok::<(), forebay_nbd::client::conversation::ConversationError>(())
/// ```
#[derive(Debug)]
pub struct Conversation {
    is_structured: bool,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<usize>,
    serial: u64,
    reading: Reading,
}

impl Conversation {
    /// One with room for `slots` requests at a time, at most 65,536.
    pub fn new(is_structured: bool, slots: usize) -> Conversation {
        Conversation {
            is_structured,
            in_flight: vec![None; slots],
            free: (0..slots).rev().collect(),
            serial: 0,
            reading: Reading::Head,
        }
    }

    /// How many more requests there is room for.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Begins a request. Returns its slot and its head, after which the payload of a WRITE is sent.
    /// None if there is no room.
    pub fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Option<(usize, [u8; REQUEST_BYTES])> {
        let slot = self.free.pop()?;
        self.serial += 1;
        let cookie = self.serial << 16 | slot as u64;
        let request = Request {
            flags,
            kind,
            cookie,
            offset_bytes,
            length_bytes,
        };
        self.in_flight[slot] = Some(InFlight {
            cookie,
            kind,
            offset_bytes,
            length_bytes,
            left_bytes: if kind == command::READ {
                length_bytes
            } else {
                0
            },
            error: None,
        });
        Some((slot, request.encode()))
    }

    /// The number by which the server knows the request in `slot`; 0 if there is none.
    pub fn cookie(&self, slot: usize) -> u64 {
        self.in_flight[slot].map_or(0, |in_flight| in_flight.cookie)
    }

    /// Takes the next part of a reply from `input` if enough of it is there. Returns how many bytes
    /// it took, and what they say.
    ///
    /// # Errors
    /// [`ConversationError`]: nothing more can be understood.
    pub fn advance<'i>(
        &mut self,
        input: &'i [u8],
    ) -> Result<(usize, Event<'i>), ConversationError> {
        match self.reading {
            Reading::Head => self.take_head(input),
            Reading::Data {
                left_bytes: 0,
                slot,
                is_last,
                ..
            } => {
                self.reading = Reading::Head;
                self.end(slot, is_last).map(|event| (0, event))
            }
            Reading::Data {
                slot,
                at,
                left_bytes,
                is_last,
            } => {
                let count = input.len().min(left_bytes as usize);
                if count == 0 {
                    return Ok((0, Event::More));
                }
                let bytes = &input[..count];
                self.reading = Reading::Data {
                    slot,
                    at: at + count as u32,
                    left_bytes: left_bytes - count as u32,
                    is_last,
                };
                Ok((count, Event::Data { slot, at, bytes }))
            }
        }
    }

    fn take_head<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Event<'i>), ConversationError> {
        if input.len() < SIMPLE_REPLY_BYTES {
            return Ok((0, Event::More));
        }
        match u32_at(input, 0) {
            SIMPLE_REPLY_MAGIC => {
                let slot = self.slot_of(u64_at(input, 8))?;
                self.simple(slot, u32_at(input, 4))
                    .map(|event| (SIMPLE_REPLY_BYTES, event))
            }
            CHUNK_MAGIC if input.len() < CHUNK_HEAD_BYTES => Ok((0, Event::More)),
            CHUNK_MAGIC => self.take_chunk(input),
            magic => Err(ConversationError::Magic(magic)),
        }
    }

    fn slot_of(&self, cookie: u64) -> Result<usize, ConversationError> {
        let slot = (cookie & 0xffff) as usize;
        let in_flight = self.in_flight.get(slot).copied().flatten();
        in_flight
            .filter(|in_flight| in_flight.cookie == cookie)
            .map(|_| slot)
            .ok_or(ConversationError::Cookie(cookie))
    }

    fn simple(&mut self, slot: usize, error: u32) -> Result<Event<'static>, ConversationError> {
        let is_structured = self.is_structured;
        let in_flight = self.under_way(slot);
        if error != 0 {
            in_flight.error = Some(error);
            return self.end(slot, true);
        }
        match in_flight.kind {
            command::READ if is_structured => Err(ConversationError::Form),
            command::BLOCK_STATUS => Err(ConversationError::Form),
            command::READ => {
                let left_bytes = std::mem::take(&mut in_flight.left_bytes);
                self.reading = Reading::Data {
                    slot,
                    at: 0,
                    left_bytes,
                    is_last: true,
                };
                Ok(Event::Noted)
            }
            _ => self.end(slot, true),
        }
    }

    fn under_way(&mut self, slot: usize) -> &mut InFlight {
        self.in_flight[slot]
            .as_mut()
            .expect("its cookie was found there")
    }

    fn take_chunk<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Event<'i>), ConversationError> {
        let (flags, kind) = (u16_at(input, 4), u16_at(input, 6));
        let (slot, length_bytes) = (self.slot_of(u64_at(input, 8))?, u32_at(input, 16));
        let is_last = flags & chunk::DONE != 0;
        if kind == chunk::OFFSET_DATA {
            return self.take_data(input, slot, length_bytes, is_last);
        }
        let misfit = ConversationError::Chunk { kind, length_bytes };
        if length_bytes > CHUNK_LIMIT_BYTES {
            return Err(misfit);
        }
        let end = CHUNK_HEAD_BYTES + length_bytes as usize;
        let Some(data) = input.get(CHUNK_HEAD_BYTES..end) else {
            return Ok((0, Event::More));
        };
        let in_flight = self.under_way(slot);
        let event = match (kind, in_flight.kind) {
            (chunk::NONE, _) if data.is_empty() && is_last => {
                return Ok((end, self.end(slot, true)?));
            }
            (chunk::OFFSET_HOLE, command::READ) if data.len() == 12 => {
                let range = in_flight.take_part(u64_at(data, 0), u32_at(data, 8))?;
                Event::Zeros { slot, range }
            }
            (chunk::BLOCK_STATUS, command::BLOCK_STATUS)
                if data.len() >= 12 && data.len() % 8 == 4 =>
            {
                let bytes = &data[4..];
                Event::Extents { slot, bytes }
            }
            (kind, _) if kind & chunk::IS_ERROR != 0 && data.len() >= 6 && u32_at(data, 0) != 0 => {
                in_flight.error.get_or_insert(u32_at(data, 0));
                Event::Noted
            }
            _ => return Err(misfit),
        };
        if is_last {
            // The end is an event of its own, after the content of the chunk.
            self.reading = Reading::Data {
                slot,
                at: 0,
                left_bytes: 0,
                is_last,
            };
        }
        Ok((end, event))
    }

    fn take_data<'i>(
        &mut self,
        input: &'i [u8],
        slot: usize,
        length_bytes: u32,
        is_last: bool,
    ) -> Result<(usize, Event<'i>), ConversationError> {
        let in_flight = self.under_way(slot);
        if in_flight.kind != command::READ || length_bytes <= 8 {
            let kind = chunk::OFFSET_DATA;
            return Err(ConversationError::Chunk { kind, length_bytes });
        }
        let head = CHUNK_HEAD_BYTES + 8;
        if input.len() < head {
            return Ok((0, Event::More));
        }
        let part = in_flight.take_part(u64_at(input, CHUNK_HEAD_BYTES), length_bytes - 8)?;
        self.reading = Reading::Data {
            slot,
            at: part.start,
            left_bytes: part.end - part.start,
            is_last,
        };
        Ok((head, Event::Noted))
    }

    /// Ends the request in `slot` if `is_last`.
    fn end(&mut self, slot: usize, is_last: bool) -> Result<Event<'static>, ConversationError> {
        if !is_last {
            return Ok(Event::Noted);
        }
        let in_flight = *self.under_way(slot);
        if in_flight.error.is_none() && in_flight.left_bytes > 0 {
            return Err(ConversationError::Short(in_flight.left_bytes));
        }
        self.in_flight[slot] = None;
        self.free.push(slot);
        let error = in_flight.error;
        Ok(Event::Ended { slot, error })
    }
}

impl InFlight {
    /// Notes that `length_bytes` bytes at `offset_bytes` of the export have come, and returns their
    /// place in the range. If some come twice, others are missing at the end, which is noticed.
    fn take_part(
        &mut self,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Result<Range<u32>, ConversationError> {
        let at = offset_bytes
            .checked_sub(self.offset_bytes)
            .filter(|&at| at < u64::from(self.length_bytes))
            .ok_or(ConversationError::Range)? as u32;
        if length_bytes > self.length_bytes - at || length_bytes > self.left_bytes {
            return Err(ConversationError::Range);
        }
        self.left_bytes -= length_bytes;
        Ok(at..at + length_bytes)
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
