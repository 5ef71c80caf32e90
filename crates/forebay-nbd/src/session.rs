//! What a request means for the export that was agreed on, before anybody acts on it.

use crate::wire::{Errno, PAYLOAD_LIMIT_BYTES, Request, command, command_flag};
use forebay_block::PIECE_BYTES;
use std::ops::Range;

/// The protocol demands that a READ of up to this length is answered in one chunk if the client
/// asks for that.
const ONE_CHUNK_BYTES: usize = 64 << 10;
const _: () = assert!(ONE_CHUNK_BYTES <= PIECE_BYTES, "a piece is a chunk");

/// The part of the agreement that decides whether a request is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Length of the export.
    pub length_bytes: u64,
    /// The export may not be changed.
    pub read_only: bool,
    /// Reads are answered in chunks.
    pub structured: bool,
    /// BLOCK_STATUS may be used.
    pub allocation: bool,
}

/// A request that is valid and can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bytes to the client.
    Read(Range<u64>),
    /// Bytes from the client; they follow.
    Write {
        /// The range.
        range: Range<u64>,
        /// Answer when it is durable.
        durable: bool,
    },
    /// Make everything durable that was answered.
    Flush,
    /// Discard a range.
    Trim {
        /// The range.
        range: Range<u64>,
        /// Answer when it is durable.
        durable: bool,
    },
    /// Turn a range into zeros.
    WriteZeroes {
        /// The range.
        range: Range<u64>,
        /// Answer when it is durable.
        durable: bool,
        /// The range must stay allocated.
        no_hole: bool,
    },
    /// Read a range into the cache.
    Cache(Range<u64>),
    /// Report which parts of a range are allocated.
    BlockStatus {
        /// The range.
        range: Range<u64>,
        /// One extent is enough.
        one_extent: bool,
    },
    /// The client leaves.
    Disconnect,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error that the client gets.
    pub errno: Errno,
    /// The same in words, for replies that have room for it.
    pub reason: &'static str,
}

impl Session {
    /// What `request` asks for. A refused WRITE is still followed by its payload.
    ///
    /// # Errors
    /// A [`Refusal`], to be sent to the client; the session goes on.
    ///
    /// ```
    /// use forebay_nbd::session::{Command, Session};
    /// use forebay_nbd::wire::{Errno, Request, command};
    /// let session =
    ///     Session { length_bytes: 8192, read_only: true, structured: true, allocation: false };
    /// let (kind, offset_bytes, length_bytes) = (command::READ, 1, 8191);
    /// let mut request = Request { flags: 0, kind, cookie: 1, offset_bytes, length_bytes };
    /// assert_eq!(session.check(&request), Ok(Command::Read(1..8192)));
    /// request.kind = command::WRITE;
    /// assert_eq!(session.check(&request).unwrap_err().errno, Errno::NotPermitted);
    /// ```
    pub fn check(&self, request: &Request) -> Result<Command, Refusal> {
        let flags = request.flags;
        let durable = flags & command_flag::FUA != 0;
        if flags & !allowed_flags(request.kind) != 0 {
            return refuse(Errno::Invalid, "the request has an unknown flag");
        }
        match request.kind {
            command::DISC => Ok(Command::Disconnect),
            command::FLUSH => Ok(Command::Flush),
            command::READ => self.check_read(request).map(Command::Read),
            command::WRITE => {
                let range = self.change(request)?;
                check_payload(request)?;
                Ok(Command::Write { range, durable })
            }
            command::TRIM => {
                let range = self.change(request)?;
                Ok(Command::Trim { range, durable })
            }
            command::WRITE_ZEROES => Ok(Command::WriteZeroes {
                range: self.change(request)?,
                durable,
                no_hole: flags & command_flag::NO_HOLE != 0,
            }),
            command::CACHE => self.range(request, Errno::Invalid).map(Command::Cache),
            command::BLOCK_STATUS => self.check_status(request),
            _ => refuse(Errno::Invalid, "the request is of an unknown kind"),
        }
    }

    fn check_read(&self, request: &Request) -> Result<Range<u64>, Refusal> {
        let in_one = request.flags & command_flag::DF != 0;
        if in_one && !self.structured {
            return refuse(Errno::Invalid, "DF needs structured replies");
        }
        check_payload(request)?;
        if in_one && request.length_bytes as usize > ONE_CHUNK_BYTES {
            return refuse(Errno::Overflow, "one chunk carries at most 64 KiB");
        }
        self.range(request, Errno::Invalid)
    }

    fn check_status(&self, request: &Request) -> Result<Command, Refusal> {
        if !self.allocation {
            return refuse(Errno::Invalid, "no metadata context was agreed on");
        }
        if request.length_bytes == 0 {
            return refuse(Errno::Invalid, "a range of no bytes has no status");
        }
        Ok(Command::BlockStatus {
            range: self.range(request, Errno::Invalid)?,
            one_extent: request.flags & command_flag::REQ_ONE != 0,
        })
    }

    /// The range of a request that changes bytes.
    fn change(&self, request: &Request) -> Result<Range<u64>, Refusal> {
        if self.read_only {
            return refuse(Errno::NotPermitted, "the export is read-only");
        }
        self.range(request, Errno::NoSpace)
    }

    fn range(&self, request: &Request, past_end: Errno) -> Result<Range<u64>, Refusal> {
        let end = request
            .offset_bytes
            .checked_add(u64::from(request.length_bytes));
        match end {
            Some(end) if end <= self.length_bytes => Ok(request.offset_bytes..end),
            _ => refuse(past_end, "the range goes past the end of the export"),
        }
    }
}

fn check_payload(request: &Request) -> Result<(), Refusal> {
    if request.length_bytes > PAYLOAD_LIMIT_BYTES {
        return refuse(
            Errno::Overflow,
            "at most 32 MiB are read or written at once",
        );
    }
    Ok(())
}

/// FUA means nothing for a request that writes nothing, but clients may set it on every request.
fn allowed_flags(kind: u16) -> u16 {
    let own = match kind {
        command::READ => command_flag::DF,
        command::WRITE_ZEROES => command_flag::NO_HOLE,
        command::BLOCK_STATUS => command_flag::REQ_ONE,
        _ => 0,
    };
    own | command_flag::FUA
}

fn refuse<T>(errno: Errno, reason: &'static str) -> Result<T, Refusal> {
    Err(Refusal { errno, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SESSION: Session = Session {
        length_bytes: 1 << 20,
        read_only: false,
        structured: true,
        allocation: true,
    };

    fn request(kind: u16, flags: u16, offset_bytes: u64, length_bytes: u32) -> Request {
        Request {
            flags,
            kind,
            cookie: 1,
            offset_bytes,
            length_bytes,
        }
    }

    fn errno(session: Session, request: Request) -> Errno {
        session.check(&request).unwrap_err().errno
    }

    #[test]
    fn ranges_past_the_end_are_refused_with_the_error_of_their_kind() {
        for (kind, expected) in [
            (command::READ, Errno::Invalid),
            (command::WRITE, Errno::NoSpace),
            (command::TRIM, Errno::NoSpace),
            (command::WRITE_ZEROES, Errno::NoSpace),
            (command::CACHE, Errno::Invalid),
            (command::BLOCK_STATUS, Errno::Invalid),
        ] {
            for (offset, length) in [((1 << 20) - 1, 2), (u64::MAX, 1), (u64::MAX - 1, 4096)] {
                assert_eq!(errno(SESSION, request(kind, 0, offset, length)), expected);
            }
        }
    }

    #[test]
    fn a_read_only_export_lets_nothing_be_changed() {
        let session = Session {
            read_only: true,
            ..SESSION
        };
        for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(errno(session, request(kind, 0, 0, 1)), Errno::NotPermitted);
        }
        assert_eq!(
            session.check(&request(command::FLUSH, 0, 0, 0)),
            Ok(Command::Flush)
        );
    }

    #[test]
    fn lengths_over_the_limit_are_refused() {
        let session = Session {
            length_bytes: 1 << 40,
            ..SESSION
        };
        let too_long = PAYLOAD_LIMIT_BYTES + 1;
        for kind in [command::READ, command::WRITE] {
            assert_eq!(
                errno(session, request(kind, 0, 0, too_long)),
                Errno::Overflow
            );
        }
        let in_one = request(
            command::READ,
            command_flag::DF,
            0,
            ONE_CHUNK_BYTES as u32 + 1,
        );
        assert_eq!(errno(session, in_one), Errno::Overflow);
        assert!(
            session
                .check(&request(command::TRIM, 0, 0, u32::MAX))
                .is_ok()
        );
    }

    #[test]
    fn unknown_kinds_and_flags_are_refused() {
        assert_eq!(errno(SESSION, request(8, 0, 0, 0)), Errno::Invalid);
        assert_eq!(
            errno(SESSION, request(command::READ, 1 << 15, 0, 1)),
            Errno::Invalid
        );
        assert_eq!(
            errno(
                SESSION,
                request(command::WRITE, command_flag::NO_HOLE, 0, 1)
            ),
            Errno::Invalid
        );
    }

    #[test]
    fn what_was_not_agreed_on_is_refused() {
        let session = Session {
            structured: false,
            allocation: false,
            ..SESSION
        };
        for asked in [
            request(command::READ, command_flag::DF, 0, 1),
            request(command::BLOCK_STATUS, 0, 0, 1),
        ] {
            assert_eq!(errno(session, asked), Errno::Invalid);
        }
    }

    proptest! {
        #[test]
        fn what_passes_lies_within_the_export(
            flags: u16, kind in 0_u16..10, offset in prop_oneof![any::<u64>(), 0_u64..2 << 20],
            length in prop_oneof![any::<u32>(), 0_u32..2 << 20], read_only: bool,
        ) {
            let session = Session { read_only, ..SESSION };
            let range = match session.check(&request(kind, flags, offset, length)) {
                Ok(Command::Read(range) | Command::Cache(range)
                    | Command::BlockStatus { range, .. }) => range,
                Ok(Command::Write { range, .. } | Command::Trim { range, .. }
                    | Command::WriteZeroes { range, .. }) => {
                    prop_assert!(!read_only);
                    range
                }
                Ok(Command::Flush | Command::Disconnect) | Err(_) => return Ok(()),
            };
            prop_assert_eq!(range.start, offset);
            prop_assert_eq!(range.end - range.start, u64::from(length));
            prop_assert!(range.end <= session.length_bytes);
        }
    }
}
