//! A folder mounted through a Forebay cache.
//!
//! Names and attributes pass through to the folder behind; the data of regular files goes through
//! one [`forebay::Cache`]. The kernel keeps no data of its own except pages that a program has
//! mapped: files are opened past its cache, and the kernel and this crate keep mapped pages in step
//! with the cache.
//!
//! The rule of this crate: a thread that reads requests answers at once what it can, and leaves
//! requests that have to wait to others.

// If nobody reads the output, they would end a serving thread with a panic.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod agreement;
mod allocation;
mod attributes;
mod buffers;
mod change_gate;
mod changes;
mod content;
mod contents;
mod crossing;
mod data;
mod description;
mod directory;
mod fd_cache;
mod folder;
mod handles;
mod holding;
mod identity;
mod inode;
mod kernel_pages;
mod length_limit;
mod listing;
mod losses;
mod mount;
mod mount_point;
mod names;
mod parts;
mod passed;
mod passing;
mod permissions;
mod reaper;
mod reaper_thread;
mod refusals;
mod requests;
mod room;
mod settings;
mod shares;
mod source;
#[cfg(test)]
mod testing;
mod worker_pool;
mod write_request;

pub mod floor;
pub mod mounts;

pub use mount::{Mount, can_mount, grant_descriptors, raise_descriptor_limit};
pub use room::Fullness;
pub use settings::{MountError, MountFlags, MountParts, MountSettings};
pub use shares::Shares;
