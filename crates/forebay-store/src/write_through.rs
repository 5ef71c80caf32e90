//! Files whose writes past the kernel's cache can be made durable by the write itself.
//!
//! A file system may take a write with `RWF_DSYNC`, call it done and flush nothing: FUSE does so
//! where it passes the kernel's cache by, and then most of its servers ignore the flag too. So the
//! flag is trusted only where it is known to work. Elsewhere a commit follows the write.

/// The same number for ext2, ext3 and ext4.
const EXT: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683E;
const TMPFS: u64 = 0x0102_1994;

/// Whether a file of the file system with the number `magic` can do that.
fn is_known_to_flush(magic: u64) -> bool {
    matches!(magic, EXT | XFS | BTRFS | TMPFS)
}

/// Whether a file of the file system with the number `magic`, or a block device, can do that. A
/// device lies on another file system than its own bytes.
pub(crate) fn is_possible_for(magic: u64, is_device: bool) -> bool {
    is_device || is_known_to_flush(magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_that_flush_are_trusted() {
        const FUSE: u64 = 0x6573_5546;
        const OVERLAY: u64 = 0x794C_7630;
        const NFS: u64 = 0x6969;
        assert!([EXT, XFS, BTRFS, TMPFS].map(is_known_to_flush) == [true; 4]);
        assert!([FUSE, OVERLAY, NFS, 0].map(is_known_to_flush) == [false; 4]);
    }

    #[test]
    fn a_device_is_trusted_wherever_its_file_lies() {
        let elsewhere = std::fs::File::open("/proc/self/stat").unwrap().into();
        let magic = crate::stable::file_system_magic(&elsewhere);
        assert!(!is_possible_for(magic, false));
        assert!(is_possible_for(magic, true));
    }
}
