//! An NBD client as a store. The `nbd://` server may restart, and nothing is lost.
//!
//! Bytes and sockets are kept apart here too. [`greeting`] and [`conversation`] are the client's
//! side of the protocol as functions of bytes, over the numbers in [`crate::wire`] that the server
//! uses. [`ledger`] knows which finished writes no flush has covered. One thread for each server
//! moves the bytes of all its connections, so that they begin and end together.
//!
//! A write that the server answered may be only in its memory until a FLUSH. So the store is
//! [`forebay_store::Durability::Unstable`]: a cache keeps what it wrote until a commit. A commit
//! after a restart of the server ends with [`forebay_store::Failure::Forgotten`], which asks for
//! the writes again.

mod address;
mod connecting;
pub mod conversation;
mod dialing;
pub mod greeting;
pub mod ledger;
mod line;
mod link;
mod mail;
mod opener;
mod outbox;
mod pending;
mod refusal;
mod store;
mod trust;
mod worker;

pub(crate) use address::encoded;
pub use address::{Address, AddressError};
pub use opener::{NbdOpener, SCHEMES};
pub use refusal::ClientError;
pub use store::{ClientSettings, NbdStore, SERVER_BYTES};
