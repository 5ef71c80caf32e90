//! Which file is which.
//!
//! A file is known by its place (device and number) and its time of birth, because a number is used
//! again. Neither is for ever: an overlay gives a file that it copies up another birth, and other
//! file systems another number once nobody holds the file. So what holds a file open has the last
//! word: the system does not put another file behind a descriptor
//! ([the decision](../../../docs/decisions/mount.md#which-file-is-which) has the alternatives).

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, makedev};
use rustix::io::Errno;

/// Where a file is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) device: u64,
    pub(crate) number: u64,
}

/// What distinguishes a file from every other one, also from a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) place: Place,
    pub(crate) kind: FileType,
    /// When it was made, if the file system knows.
    pub(crate) born: Option<(i64, u32)>,
}

/// What has to be asked for an identity.
pub(crate) const IDENTIFYING: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::INO)
    .union(StatxFlags::BTIME);

impl Place {
    pub(crate) fn of(found: &Statx) -> Place {
        Place {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            number: found.stx_ino,
        }
    }
}

impl Identity {
    pub(crate) fn of(found: &Statx) -> Identity {
        let mask = StatxFlags::from_bits_retain(found.stx_mask);
        let born = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
        Identity {
            place: Place::of(found),
            kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
            born: mask.contains(StatxFlags::BTIME).then_some(born),
        }
    }

    /// Whether a file that nothing holds, and that was `before`, may be this one, which has its
    /// name or its number. `births_change` is whether the file system renews births.
    ///
    /// A symbolic link is never taken for an earlier one: the kernel keeps where it led to.
    pub(crate) fn may_have_been(&self, before: &Identity, births_change: bool) -> bool {
        let is_born_as = self.born.is_some() && self.born == before.born;
        let is_there = self.place == before.place && births_change;
        self.kind == before.kind && self.kind != FileType::Symlink && (is_born_as || is_there)
    }
}

/// What distinguishes the file `fd` from others.
pub(crate) fn identity_of(fd: impl AsFd) -> Result<Identity, Errno> {
    let found = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, IDENTIFYING)?;
    Ok(Identity::of(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Identity = Identity {
        place: Place {
            device: 5,
            number: 77,
        },
        kind: FileType::RegularFile,
        born: Some((7, 8)),
    };

    #[test]
    fn a_birth_that_is_renewed_makes_no_other_file_of_it() {
        let copied = Identity {
            born: Some((9, 0)),
            ..KNOWN
        };
        assert!(copied.may_have_been(&KNOWN, true));
        assert!(
            !copied.may_have_been(&KNOWN, false),
            "its number was used again"
        );
        let folder = Identity {
            kind: FileType::Directory,
            ..copied
        };
        assert!(!folder.may_have_been(&KNOWN, true));
    }

    #[test]
    fn a_number_that_is_made_up_anew_makes_no_other_file_of_it() {
        let moved = Identity {
            place: Place {
                number: 78,
                ..KNOWN.place
            },
            ..KNOWN
        };
        assert!(moved.may_have_been(&KNOWN, false));
        let unknown = |identity| Identity {
            born: None,
            ..identity
        };
        assert!(!unknown(moved).may_have_been(&unknown(KNOWN), true));
    }

    /// The kernel keeps where a link leads for as long as it knows the link.
    #[test]
    fn a_symbolic_link_is_another_as_soon_as_it_seems_so() {
        let link = Identity {
            kind: FileType::Symlink,
            ..KNOWN
        };
        let other = Identity {
            born: Some((9, 0)),
            ..link
        };
        assert!(!other.may_have_been(&link, true));
    }
}
