//! From a name to something that a server can serve: the second seam, after [`Store`].
//!
//! A [`Store`] takes requests for numbered objects and does not care how they came to be open.
//! Whoever is given a name by a person, a path or an address, asks an [`Opener`] what it is.

mod files;
mod memory;
mod openers;

pub use openers::Openers;

use crate::Store;
use crate::claims::Holder;
use crate::error::Failure;
use crate::files::OpenError;
use crate::holes::Holes;
use crate::request::ObjectId;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use thiserror::Error;

/// What a volume is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeMode {
    /// To be read; others may read it too.
    ReadOnly,
    /// To be read and written, by nobody else.
    ReadWrite,
    /// The same, and made with this length if it is not there. One that is there has to have it.
    Create {
        /// Its length in bytes.
        length_bytes: u64,
    },
}

impl VolumeMode {
    /// Whether it lets nothing be changed.
    pub fn is_read_only(self) -> bool {
        self == VolumeMode::ReadOnly
    }
}

/// Something with a length that was opened by name: one object of a store.
pub struct Volume {
    /// The store that serves its bytes and says what it promises. Volumes of one store share it:
    /// attach it to a cache once.
    pub store: Arc<dyn Store>,
    /// Its number in `store`.
    pub object: ObjectId,
    /// Its length in bytes when it was opened; never 0.
    pub length_bytes: u64,
    /// What can be asked of it while it is open. It is open, and refused to others, until this is
    /// dropped: keep it until everything is written.
    pub medium: Arc<dyn Medium>,
    /// What a person should know who serves it.
    pub warning: Option<String>,
}

/// A number that a volume has to say of itself, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Words joined by underscores; a unit comes last.
    pub name: &'static str,
    /// What it is, in a few words. Figures of one name have one text.
    pub help: &'static str,
    /// What distinguishes it from others of its name: names and values.
    pub labels: Vec<(&'static str, &'static str)>,
    /// Whether it only grows.
    pub is_counter: bool,
    /// The number.
    pub value: u64,
}

impl Figure {
    /// A figure that is the only one of its name.
    ///
    /// ```
    /// let figure = forebay_store::Figure::new("staged_bytes", "Bytes on their way", false, 7);
    /// assert!(figure.labels.is_empty());
    /// ```
    pub fn new(name: &'static str, help: &'static str, is_counter: bool, value: u64) -> Figure {
        Figure {
            name,
            help,
            labels: Vec::new(),
            is_counter,
            value,
        }
    }
}

/// An open volume, apart from its bytes: its holes, and what became of it.
pub trait Medium: Holes {
    /// Why a commit has failed, if one has and what was written before may be lost: then every
    /// later one fails too. A store that keeps or can repeat what it took has no such loss.
    fn loss(&self) -> Option<Failure> {
        None
    }

    /// Opens it again, so that commits succeed after a loss. Call it when everybody who had bytes
    /// in it has heard of the loss.
    ///
    /// # Errors
    /// [`VolumeError`]; it is then as it was.
    fn open_anew(&self) -> Result<(), VolumeError> {
        Ok(())
    }

    /// Makes durable what commits were answered for, if they are answered before that.
    ///
    /// # Errors
    /// [`VolumeError`]; nothing is given up by that, and it can be tried again.
    fn settle(&self) -> Result<(), VolumeError> {
        Ok(())
    }

    /// Whether nothing is left for [`Medium::settle`].
    fn is_settled(&self) -> bool {
        true
    }

    /// Leaves it to others: everything is written and committed, and nobody will write any more.
    /// Most volumes are free when this is dropped, and need no such step.
    ///
    /// # Errors
    /// [`VolumeError`]; others may have to be asked to take it over then.
    fn close(&self) -> Result<(), VolumeError> {
        Ok(())
    }

    /// Calls `drops` with bytes that somebody else has changed, if it follows a writer. `drops`
    /// returns whether nothing of them is left in memory, and is called again if not.
    fn follow(&self, _drops: Box<dyn Fn(Range<u64>) -> bool + Send + Sync>) {}

    /// What it has to say of itself; figures of one name stand together.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Whether somebody has cut it: it is shorter than when it was opened.
    fn is_cut(&self) -> bool {
        false
    }

    /// Whether it has lost its name, so that what is written to it is gone with the last who has it
    /// open.
    fn is_removed(&self) -> bool {
        false
    }
}

/// Knows what names of one kind mean.
///
/// # Contract
/// Held over every opener by `tests/volumes.rs`:
/// 1. a volume has one writer or any number of readers at a time, whoever opens it on this machine;
///    it is free again when its [`Medium`] is dropped;
/// 2. a volume that could not be made is not left behind;
/// 3. what was refused has changed nothing.
pub trait Opener: Send + Sync {
    /// Opens what `address` names, scheme included where it has one.
    ///
    /// # Errors
    /// [`VolumeError`], with the address in its text.
    fn open_volume(&self, address: &OsStr, mode: VolumeMode) -> Result<Volume, VolumeError>;
}

/// Who has a volume that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeUser {
    /// Another server, of this program or of another one that claims what it serves.
    Server,
    /// The machine itself: a device that is mounted, or a part of another device.
    Machine,
    /// This process has it, or what contains it.
    Process(Holder),
}

impl fmt::Display for VolumeUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VolumeUser::Server => f.write_str("another server has it open; stop that one first"),
            VolumeUser::Machine => f.write_str(
                "this machine uses it: it is mounted, or is part of another device; unmount it \
                 first, or only read it",
            ),
            VolumeUser::Process(holder) => write!(f, "it is in use by {holder}; end that first"),
        }
    }
}

/// Why a volume could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// Somebody else has it.
    #[error("{}: {user}", .address.display())]
    InUse {
        /// Which one.
        address: OsString,
        /// Who has it.
        user: VolumeUser,
    },
    /// It is there, with another length than was asked for.
    #[error("{}: it has {found_bytes} bytes, not {asked_bytes}", .address.display())]
    WrongLength {
        /// Which one.
        address: OsString,
        /// Its length.
        found_bytes: u64,
        /// The length that was asked for.
        asked_bytes: u64,
    },
    /// It has no bytes.
    #[error("{}: it has no bytes; give it a length first", .address.display())]
    Empty {
        /// Which one.
        address: OsString,
    },
    /// It could not be opened as what it is.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system, or a server that has it, refused for another reason.
    #[error("cannot {action} {}: {cause}", .address.display())]
    Refused {
        /// Which step.
        action: &'static str,
        /// Of which volume.
        address: OsString,
        /// What was answered.
        cause: io::Error,
    },
    /// No opener knows addresses of this kind.
    #[error(
        "{}: addresses that begin with {scheme}:// are not known here; known are paths{known}; \
         a file of that name is ./{0}",
        .address.display()
    )]
    UnknownScheme {
        /// The whole address.
        address: OsString,
        /// How it begins.
        scheme: String,
        /// The schemes that are known, each as ", NAME://".
        known: String,
    },
}
