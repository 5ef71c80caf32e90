//! What can be wrong with a volume, by name.

use crate::snapshot_name::SnapshotName;
use thiserror::Error;

/// Why a volume cannot be used, or not any longer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum VolumeFault {
    /// Nothing is there.
    #[error("there is no volume; make one with --create")]
    NotThere,
    /// An object was made by a later program.
    #[error("{key} has format {found}, and this program knows format {known}; use a newer one")]
    Newer {
        /// Which object.
        key: String,
        /// Its format.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// An object is not what was written.
    #[error("{key} is damaged: {what}; restore it, or the volume, from a copy")]
    Damaged {
        /// Which object.
        key: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An object that the volume names is not there.
    #[error("{key} is missing; restore it from a copy")]
    Missing {
        /// Which object.
        key: String,
    },
    /// The bucket lets two writers make one object.
    #[error(
        "this bucket does not support conditional writes (put-if-absent), without which two \
         writers would destroy each other's data; use a bucket that does"
    )]
    NoPutIfAbsent,
    /// A listing does not show what is there.
    #[error(
        "this bucket does not list an object immediately after it was made, which volumes rely \
         on; use a bucket with consistent listings"
    )]
    LateListing,
    /// A writer has it, or ended without closing it.
    #[error(
        "{who} opened it for writing and did not close it; if that server has ended, or may be \
         shut out, give --take-over (volume remove: --force)"
    )]
    InUse {
        /// What the writer said of itself.
        who: String,
    },
    /// A volume is there with another length.
    #[error("it has {found_bytes} bytes, not {asked_bytes}")]
    WrongLength {
        /// Its length.
        found_bytes: u64,
        /// The length that was asked for.
        asked_bytes: u64,
    },
    /// The volume is encrypted, and no key was given.
    #[error("it is encrypted; give its key with --key-file or FOREBAY_VOLUME_KEY")]
    KeyNeeded,
    /// The volume is encrypted with another key.
    #[error("it is encrypted with another key")]
    WrongKey,
    /// A key was given for a volume that is not encrypted.
    #[error("it is not encrypted; open it without a key")]
    NotEncrypted,
    /// A snapshot is being taken: nothing is removed meanwhile.
    #[error("a snapshot is being taken")]
    Pinned,
    /// A remover did not wait for a snapshot that was being taken.
    #[error("the snapshot took so long that others removed objects meanwhile; take it again")]
    PinDropped,
    /// There is a snapshot of that name.
    #[error("there is a snapshot {name} already")]
    SnapshotExists {
        /// Its name.
        name: SnapshotName,
    },
    /// There is no snapshot of that name.
    #[error("there is no snapshot {name}")]
    NoSnapshot {
        /// The name.
        name: SnapshotName,
    },
    /// A snapshot was to be opened for writing.
    #[error("{name} is a snapshot, which can only be read")]
    ReadOnlySnapshot {
        /// Its name.
        name: SnapshotName,
    },
    /// A length or size that no volume has.
    #[error("{what}")]
    OutOfRange {
        /// What is wrong with it.
        what: String,
    },
    /// Another writer has taken the volume over: nothing is committed any more.
    #[error("another writer has taken the volume over; stop this one")]
    Fenced,
}
