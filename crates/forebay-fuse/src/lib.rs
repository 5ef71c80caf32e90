//! A folder mounted through a Forebay cache.
//!
//! Names and attributes pass through to the folder behind; the data of regular files goes through
//! one [`forebay::Cache`]. The kernel keeps no data of its own but for pages that somebody has
//! mapped: files are opened past its cache, and what is mapped is kept in step by it.
//!
//! The rule of this crate: a thread that reads requests answers what it can at once and leaves to
//! others what has to wait.

// They would end a thread that serves by a panic where nobody reads what is said.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod attributes;
#[cfg(test)]
mod bench;
mod buffers;
mod content;
mod contents;
mod crew;
mod data;
mod directory;
mod door;
mod folder;
mod handles;
mod held;
mod inode;
mod keeper;
mod losses;
mod mount;
mod names;
mod permissions;
mod place;
mod requests;
mod shares;
mod source;

pub mod floor;

pub use mount::{Mount, MountError, MountParts, MountSettings, can_mount, grant_descriptors};
pub use shares::Shares;
