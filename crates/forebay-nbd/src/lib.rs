//! An NBD server before a Forebay cache: block exports for qemu, the kernel, fio, nbdcopy.
//!
//! What every block front needs is in `forebay-block`; this crate adds NBD. Bytes and sockets are
//! kept apart: [`wire`], [`handshake`] and [`session`] are the protocol as pure functions of bytes.
//! A connection is one thread. It reads many requests at once, serves what is in memory
//! immediately, lets the other requests wait in slots that were made when the client came, and
//! writes many replies at once. A request that waits for the store, or for its turn as a writer,
//! never holds up the requests after it.
//!
//! ```
//! use forebay::{Cache, Settings};
//! use forebay_nbd::{Export, Listener, Server, ServerSettings};
//! use forebay_store::{MemoryStore, ObjectId};
//!
//! # let folder = tempfile::tempdir()?;
//! # let socket = folder.path().join("nbd.sock");
//! let cache = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
//! let store = cache.attach(std::sync::Arc::new(MemoryStore::new()))?;
//! let file = cache.open(&store, ObjectId(1), 64 << 20)?;
//! let listener = Listener::unix(&socket)?;
//! let exports = vec![Export::new("disk", file)];
//! let server = Server::start(listener, exports, ServerSettings::default())?;
//! // qemu-img info 'nbd+unix:///disk?socket=...'
//! server.drain();
//! forebay_rt::block_on(server.ended());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// These would end a serving thread by a panic, in a place where nobody reads the message.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod buffer_pool;
mod busy_poll;
mod channel;
mod clients;
mod connection;
mod connection_state;
mod export;
mod listener;
mod opening;
mod option_fields;
mod pipeline;
mod private_socket;
mod queue;
mod request_error;
mod server;
mod socket;
mod stream;
mod tls;
mod writes;

pub mod client;
pub mod handshake;
pub mod session;
pub mod wire;

pub use export::Export;
pub use listener::Listener;
pub use private_socket::{ListenError, PrivateSocket};
pub use server::{
    CONNECTION_BYTES, Notice, REQUESTS_BYTES, STRANGERS_BYTES, Server, ServerSettings, StartError,
    TLS_BYTES,
};
pub use tls::{TlsCredentials, TlsError};
