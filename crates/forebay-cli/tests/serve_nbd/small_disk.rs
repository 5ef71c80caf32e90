//! A file system that is soon full.

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use std::path::{Path, PathBuf};

/// A separate file system of 4 MiB, unmounted with the test.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, with a printed message, if the system does not allow `test` to have one.
    pub(crate) fn mount(folder: &Path, test: &str) -> Option<SmallDisk> {
        if mount("none", folder, "tmpfs", MountFlags::empty(), c"size=4m").is_err() {
            eprintln!("SKIPPED {test}: mounting a tmpfs needs CAP_SYS_ADMIN");
            return None;
        }
        Some(SmallDisk(folder.to_owned()))
    }

    pub(crate) fn grow(&self) {
        mount_remount(&self.0, MountFlags::empty(), c"size=80m").expect("it is ours");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Nobody else will: a failed test may have left the server's files open.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
