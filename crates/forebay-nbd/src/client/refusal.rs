//! Why a server cannot be used.

use super::conversation::ConversationError;
use super::greeting::GreetingError;
use crate::tls::TlsError;
use std::io;
use thiserror::Error;

/// Why a server cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// It cannot be reached, or disconnects during the handshake.
    #[error("the server cannot be reached ({0})")]
    Away(io::Error),
    /// The handshake failed.
    #[error("the server cannot be used: {0}")]
    Greeting(#[from] GreetingError),
    /// The certificates of this side cannot be used.
    #[error("{0}")]
    Certificates(#[from] TlsError),
    /// One side does not trust the other.
    #[error("the server cannot be used: {0}")]
    Untrusted(String),
    /// It sent something that cannot be understood.
    #[error("the server is not understood: {0}")]
    Conversation(#[from] ConversationError),
    /// It is read-only.
    #[error("the server offers the export read-only")]
    ReadOnly,
    /// It cannot make anything durable.
    #[error("the server offers no FLUSH, so nothing that is written there would be safe")]
    NoFlush,
    /// Its export has no bytes.
    #[error("the export has no bytes")]
    Empty,
    /// It came back with another length.
    #[error(
        "the export has {found_bytes} bytes now and had {known_bytes}; nothing is written there"
    )]
    Length {
        /// Its length now.
        found_bytes: u64,
        /// Its length when it was opened.
        known_bytes: u64,
    },
    /// It came back with other limits.
    #[error("the server takes blocks of other sizes than before; nothing is written there")]
    Blocks,
    /// Its connections led to different servers.
    #[error("the server is being replaced by another one")]
    Changing,
    /// This machine has no thread or descriptor left.
    #[error("the system refused: {0}")]
    System(io::Error),
}
