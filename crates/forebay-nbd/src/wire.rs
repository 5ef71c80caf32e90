//! The numbers of the NBD protocol, and its fixed pieces as bytes.
//!
//! Source: "The NBD protocol" of the NetworkBlockDevice project, fixed newstyle with structured
//! replies. Every integer is big-endian. Nothing here knows about sockets or caches.

/// The first eight bytes that a server sends: "NBDMAGIC".
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Begins the newstyle greeting and each option: "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins each simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins each chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply without its payload.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of the head of a chunk.
pub const CHUNK_HEAD_BYTES: usize = 20;
/// Bytes of the head of an option.
pub const OPTION_HEAD_BYTES: usize = 16;
/// Longest READ or WRITE that is served: the limit that clients assume by default.
pub const PAYLOAD_LIMIT_BYTES: u32 = 32 << 20;

/// Flags of the handshake, both directions.
pub mod handshake_flag {
    /// The server speaks fixed newstyle; the client does too.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The 124 zeros after the answer to EXPORT_NAME may be left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options that a client can send during the handshake.
pub mod option {
    /// Begin with the named export; if that fails, the connection ends.
    pub const EXPORT_NAME: u32 = 1;
    /// End the handshake.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Switch to TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and begin.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts of an export.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// How a server answers an option.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export.
    pub const SERVER: u32 = 2;
    /// One fact about an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is unknown.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option is malformed, or not allowed now.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// TLS has to come first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Facts about an export.
pub mod info {
    /// Length and flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// Smallest, preferred and largest block.
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub mod transmission_flag {
    /// The other flags mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// It cannot be written.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The flag FUA is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The flag DF is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes that were answered on all connections.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
}

/// Kinds of requests.
pub mod command {
    /// Bytes to the client.
    pub const READ: u16 = 0;
    /// Bytes from the client.
    pub const WRITE: u16 = 1;
    /// The client leaves.
    pub const DISC: u16 = 2;
    /// Make what was answered durable.
    pub const FLUSH: u16 = 3;
    /// Discard a range.
    pub const TRIM: u16 = 4;
    /// Read a range into the cache.
    pub const CACHE: u16 = 5;
    /// Turn a range into zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Report which parts of a range are allocated.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub mod command_flag {
    /// Answer when it is durable.
    pub const FUA: u16 = 1;
    /// Zeros must not become a hole.
    pub const NO_HOLE: u16 = 1 << 1;
    /// Answer a READ in one chunk.
    pub const DF: u16 = 1 << 2;
    /// Answer a BLOCK_STATUS with one extent.
    pub const REQ_ONE: u16 = 1 << 3;
}

/// Kinds of chunks of a structured reply.
pub mod chunk {
    /// Flag: the last chunk of its reply.
    pub const DONE: u16 = 1;
    /// No content, only the end of the reply.
    pub const NONE: u16 = 0;
    /// Bytes of a READ.
    pub const OFFSET_DATA: u16 = 1;
    /// A range of a READ that is zeros. This server sends none.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents of one metadata context.
    pub const BLOCK_STATUS: u16 = 5;
    /// Something failed.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// Something failed at a known offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
    /// Flag in a kind: something failed, whatever else the chunk says.
    pub const IS_ERROR: u16 = 1 << 15;
}

/// The metadata context that is served.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";
/// The number that stands for it on the wire.
pub const ALLOCATION_CONTEXT_ID: u32 = 1;

/// Flags of an extent of [`ALLOCATION_CONTEXT`].
pub mod extent_flag {
    /// No storage is allocated.
    pub const HOLE: u32 = 1;
    /// It reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// The errors that the protocol knows, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// EPERM: the export is read-only.
    NotPermitted = 1,
    /// EIO: the store failed.
    Io = 5,
    /// ENOMEM: no frame came free.
    NoMemory = 12,
    /// EINVAL: the request makes no sense.
    Invalid = 22,
    /// ENOSPC: past the end, or the store is full.
    NoSpace = 28,
    /// EOVERFLOW: too many bytes for one reply.
    Overflow = 75,
    /// ENOTSUP: not supported.
    Unsupported = 95,
    /// ESHUTDOWN: the server is shutting down.
    Shutdown = 108,
}

impl Errno {
    /// The protocol's error for a Linux `errno` value; EIO if it has no better one.
    ///
    /// ```
    /// use forebay_nbd::wire::Errno;
    /// assert_eq!(Errno::from_linux(28), Errno::NoSpace);
    /// assert_eq!(Errno::from_linux(110), Errno::Io);
    /// ```
    pub fn from_linux(errno: i32) -> Errno {
        match errno {
            1 | 9 | 13 | 30 => Errno::NotPermitted,
            12 => Errno::NoMemory,
            22 => Errno::Invalid,
            // EFBIG, ENOSPC, EDQUOT
            27 | 28 | 122 => Errno::NoSpace,
            75 => Errno::Overflow,
            95 => Errno::Unsupported,
            108 => Errno::Shutdown,
            _ => Errno::Io,
        }
    }
}

/// A request as it came. Only its magic was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags of [`command_flag`].
    pub flags: u16,
    /// One of [`command`].
    pub kind: u16,
    /// Returned with the reply.
    pub cookie: u64,
    /// First byte of the range.
    pub offset_bytes: u64,
    /// Bytes of the range.
    pub length_bytes: u32,
}

impl Request {
    /// Reads a request; `None` if it does not begin as one.
    ///
    /// ```
    /// use forebay_nbd::wire::{Request, command};
    /// let kind = command::READ;
    /// let request = Request { flags: 0, kind, cookie: 7, offset_bytes: 512, length_bytes: 4 };
    /// assert_eq!(Request::decode(&request.encode()), Some(request));
    /// ```
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        (u32_at(bytes, 0) == REQUEST_MAGIC).then(|| Request {
            flags: u16_at(bytes, 4),
            kind: u16_at(bytes, 6),
            cookie: u64_at(bytes, 8),
            offset_bytes: u64_at(bytes, 16),
            length_bytes: u32_at(bytes, 24),
        })
    }

    /// The request as bytes, for clients.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length_bytes.to_be_bytes());
        bytes
    }
}

/// A simple reply; the bytes of a READ that succeeded follow it.
pub fn simple_reply(cookie: u64, error: Option<Errno>) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    let number = error.map_or(0, |error| error as u32);
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The head of a chunk of `length_bytes` bytes.
pub fn chunk_head(flags: u16, kind: u16, cookie: u64, length_bytes: u32) -> [u8; CHUNK_HEAD_BYTES] {
    let mut bytes = [0; CHUNK_HEAD_BYTES];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&length_bytes.to_be_bytes());
    bytes
}

/// The two bytes of `bytes` from `at` on, as a number.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The four bytes of `bytes` from `at` on, as a number.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    (u32::from(u16_at(bytes, at)) << 16) | u32::from(u16_at(bytes, at + 2))
}

/// The eight bytes of `bytes` from `at` on, as a number.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    (u64::from(u32_at(bytes, at)) << 32) | u64::from(u32_at(bytes, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_request_is_read() {
        // fio 3.33 with libnbd 1.14: a read of 4096 bytes at offset 12288.
        let mut recorded = [0_u8; REQUEST_BYTES];
        recorded[..8].copy_from_slice(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0]);
        recorded[15] = 9;
        recorded[22] = 0x30;
        recorded[26] = 0x10;
        let expected = Request {
            flags: 0,
            kind: command::READ,
            cookie: 9,
            offset_bytes: 12_288,
            length_bytes: 4096,
        };
        assert_eq!(Request::decode(&recorded), Some(expected));
        assert_eq!(expected.encode(), recorded);
    }

    #[test]
    fn another_magic_is_no_request() {
        assert_eq!(Request::decode(&[0; REQUEST_BYTES]), None);
    }

    #[test]
    fn replies_have_their_places() {
        assert_eq!(
            simple_reply(0x0102, Some(Errno::NoSpace)),
            [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 1, 2]
        );
        assert_eq!(
            chunk_head(chunk::DONE, chunk::OFFSET_DATA, 3, 0x1008),
            [
                0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0x10, 8
            ]
        );
    }

    #[test]
    fn the_words_in_the_magics_are_what_the_protocol_says() {
        assert_eq!(&NBD_MAGIC.to_be_bytes(), b"NBDMAGIC");
        assert_eq!(&OPTION_MAGIC.to_be_bytes(), b"IHAVEOPT");
    }
}
