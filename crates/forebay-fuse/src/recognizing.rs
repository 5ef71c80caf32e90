//! Files that were found by their names, and the numbers that programs see of them.

use crate::fd_cache::InodeFd;
use crate::folder::Folder;
use crate::identity::Identity;
use crate::losses::name_of;
use crate::source::PATH_ONLY;
use forebay_base::hash::{TraceHash, mix};
use rustix::fs::Mode;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

impl Folder {
    /// Learns what numbers of the device of `found` are made of, which was found as `name` in the
    /// folder `parent`. They have to be the same after the next start, or a backup would read every
    /// file again.
    pub(crate) fn learn_device(&self, found: &Identity, parent: &InodeFd, name: &OsStr) {
        let (device, _) = found.place;
        if !self.inodes.is_new(device) {
            return;
        }
        let opened = rustix::fs::openat(parent, name, PATH_ONLY, Mode::empty());
        let system = opened.and_then(rustix::fs::fstatvfs);
        let seed = match system {
            // Where a file system has a number of its own, that is the same wherever it is mounted.
            Ok(system) if system.f_fsid != 0 => mix(system.f_fsid),
            _ => {
                let mut seed = TraceHash::default();
                let path = name_of(parent).join(name);
                let bytes = path.as_os_str().as_bytes();
                for byte in bytes {
                    seed.note(u64::from(*byte));
                }
                seed.value()
            }
        };
        self.inodes.record_device(device, seed);
    }

    /// Takes note that the file at the place of `found` is `found`, if it is still the same file.
    pub(crate) fn recognize(&self, found: &Identity, parent: &InodeFd) {
        let Some(known) = self.inodes.at(found.place) else {
            return;
        };
        if known.identity() != *found && self.is_still(&known, found, parent) {
            self.inodes.renew(&known, *found);
        }
    }
}
