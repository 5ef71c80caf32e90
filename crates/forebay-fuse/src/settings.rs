//! What is mounted and how, and why it cannot be.

use crate::shares::Shares;
use forebay::{AttachedStore, Cache};
use forebay_base::sync::Arc;
use forebay_rt::Rt;
use forebay_store::FileStore;
use forebay_store::claims::Holder;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// What is mounted, and how.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// The folder that is shown.
    pub source: PathBuf,
    /// Where it is shown.
    pub mount_point: PathBuf,
    /// Whether users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// What else its users may do, and what they get.
    pub flags: MountFlags,
    /// How its memory is shared out; the cache should get [`Shares::cache_bytes`] and
    /// [`Shares::objects`].
    pub shares: Shares,
}

/// What [`mount(2)`] lets users of a mount do; without them as little as FUSE gives.
///
/// [`mount(2)`]: https://man7.org/linux/man-pages/man2/mount.2.html
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the system"
)]
pub struct MountFlags {
    /// Programs there may get the rights of their owner. The system grants it to root alone.
    pub suid: bool,
    /// Devices there work. The system grants it to root alone.
    pub dev: bool,
    /// No program there is executed.
    pub noexec: bool,
    /// A write is durable when it returns.
    pub sync: bool,
}

/// Through what a folder's data goes.
#[derive(Clone)]
pub struct MountParts {
    /// The runtime of the cache.
    pub rt: Rt,
    /// The cache.
    pub cache: Cache,
    /// Files, for this mount alone.
    pub files: Arc<FileStore>,
    /// The same files as the cache knows them: directly, or through wrappers.
    pub store: AttachedStore,
}

impl fmt::Debug for MountParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountParts")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// Why a folder cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The source cannot be opened.
    #[error("cannot open {}: {source}; name a directory that can be read", path.display())]
    Source {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process may open too few descriptors.
    #[error(
        "a mount needs at least {least} descriptors and may open {granted}; raise the limit \
         (ulimit -n)"
    )]
    Descriptors {
        /// How many it may open.
        granted: u64,
        /// How many it needs.
        least: u64,
    },
    /// Another process has the source, a part of it, or a folder around it.
    #[error(
        "{} is in use by {}; end that first", path.display(),
        holder.as_ref().map_or("another mount or program".to_owned(), ToString::to_string)
    )]
    InUse {
        /// The source's path.
        path: PathBuf,
        /// Who has it, where the system shows it.
        holder: Option<Holder>,
    },
    /// Other users are allowed, and access lists that a mount cannot apply say what they may do.
    #[error(
        "{} has access lists of a kind ({attribute}) that a mount cannot apply, so others could \
         read what they are denied; mount it without --allow-other", path.display()
    )]
    ForeignLists {
        /// The source's path.
        path: PathBuf,
        /// The attribute that holds the lists.
        attribute: &'static str,
    },
    /// The system refuses the mount.
    #[error("cannot mount at {}: {source}{}", path.display(), advice(source))]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something that every mount needs is missing.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; name an existing directory, and check that /dev/fuse exists",
        io::ErrorKind::NotADirectory => "; name a directory",
        io::ErrorKind::NotConnected => "; a mount there was killed: remove it with fusermount3 -u",
        io::ErrorKind::PermissionDenied => {
            "; name a directory of your own, and for --allow-other put user_allow_other into \
             /etc/fuse.conf"
        }
        _ => "",
    }
}
