//! Where the folder below leads to other file systems, and never into the mount itself: a thread
//! that answers the kernel would wait for itself, and no signal ends that.

use crate::identity::Place;
use crate::mounts::{self, leads_to};
use forebay_base::sync::{Mutex, lock};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, StatxFlags, major, minor};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::OnceLock;

/// The devices that were met below.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    /// The device of the mount, once it is there.
    own: OnceLock<u64>,
    /// The source's file system answers from memory, whatever it is asked.
    is_local: bool,
    /// Whether other devices lead into the mount.
    leads_back: Mutex<BTreeMap<u64, bool>>,
}

impl Crossings {
    /// Those below the folder `source`.
    pub(crate) fn below(source: impl AsFd) -> Crossings {
        const LOCAL: [u32; 6] = [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0xf2f5_2010,
            0x794c_7630,
        ];
        let found = rustix::fs::fstatfs(source);
        Crossings {
            is_local: found.is_ok_and(|found| LOCAL.contains(&(found.f_type as u32))),
            ..Crossings::default()
        }
    }

    /// The mount has the device `own`.
    pub(crate) fn mounted_as(&self, own: u64) {
        // A folder is mounted once.
        let _ = self.own.set(own);
    }

    /// Whether `device` leads into the mount.
    fn leads_back(&self, device: u64) -> bool {
        let Some(&own) = self.own.get() else {
            return false;
        };
        if device == own {
            return true;
        }
        if let Some(&known) = lock(&self.leads_back).get(&device) {
            return known;
        }
        let list = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let numbers = |device| (major(device), minor(device));
        let leads_back = leads_to(&mounts::read(&list), numbers(device), numbers(own));
        lock(&self.leads_back).insert(device, leads_back);
        leads_back
    }

    /// Whether a file on `device` is up to date as the kernel knows it: it is on the source's own
    /// device, `root`, whose file system answers from memory.
    ///
    /// # Errors
    /// [`Errno::LOOP`] if the device is that of the mount, or leads into it.
    pub(crate) fn is_up_to_date(&self, device: u64, root: u64) -> Result<bool, Errno> {
        if device == root {
            return Ok(self.is_local);
        }
        if self.leads_back(device) {
            return Err(Errno::LOOP);
        }
        Ok(false)
    }
}

/// The device and the number of the file `name`, as far as the kernel knows them.
pub(crate) fn place_of(parent: impl AsFd, name: &OsStr) -> Result<Place, Errno> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(parent, name, flags, StatxFlags::INO)?;
    Ok(Place::of(&found))
}
