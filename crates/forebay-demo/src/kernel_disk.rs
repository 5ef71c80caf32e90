//! The disk of the kernel's page cache: a loop device that the kernel holds to the rate, with a
//! limit on its dirty pages.

use super::dirty_limit::DirtyLimit;
use forebay_host::{HostError, LoopDisk, Scratch};
use std::path::Path;

pub(super) struct KernelDisk {
    // Lifted before the device goes.
    _limit: DirtyLimit,
    disk: LoopDisk,
}

impl KernelDisk {
    /// A disk that is as fast as its file until [`KernelDisk::slow_down`].
    ///
    /// # Errors
    /// The reason why there is none on this machine, as a text.
    pub(super) fn create(
        scratch: &Scratch,
        bytes: u64,
        bytes_per_s: u64,
        dirty_bytes: u64,
    ) -> Result<KernelDisk, String> {
        let disk = LoopDisk::create(&scratch.folder().join("disk"), bytes, bytes_per_s)
            .map_err(|reason| format!("it needs a disk held to a rate: {reason}"))?;
        let limit = DirtyLimit::set(disk.number(), dirty_bytes)
            .map_err(|reason| format!("it needs a limit on dirty data: {reason}"))?;
        disk.release().map_err(|reason| reason.to_string())?;
        Ok(KernelDisk {
            _limit: limit,
            disk,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.disk.device()
    }

    pub(super) fn slow_down(&self) -> Result<(), HostError> {
        self.disk.slow_device().throttle()
    }

    /// Lets what is dirty at the end be written at the file's speed.
    pub(super) fn release(&self) -> Result<(), HostError> {
        self.disk.release()
    }
}
