//! The sync that a write asks for by its flags: `O_SYNC` or `O_DSYNC` of the open file, or
//! `RWF_SYNC` or `RWF_DSYNC` of the call, which the kernel turns into the same flags.
//!
//! The kernel sends no sync of its own after a write that passes its cache by.

use crate::folder::Folder;
use crate::handles::OpenFile;
use forebay_base::sync::Arc;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ops::Range;

/// `O_DSYNC` of the kernel, whose bit is in `O_SYNC` too. The library's constant of that name is
/// `O_SYNC` as a whole, and would not find it.
const DSYNC: OFlags = OFlags::from_bits_retain(0o10_000);

/// What is made durable before a write is answered.
#[derive(Debug)]
pub(crate) struct WriteSync {
    folder: Arc<Folder>,
    open: Arc<OpenFile>,
    range: Range<u64>,
    data_only: bool,
}

impl WriteSync {
    /// What a write of `range` with `flags` asks for, if it asks.
    pub(crate) fn asked(
        flags: i32,
        folder: &Arc<Folder>,
        open: &Arc<OpenFile>,
        range: Range<u64>,
    ) -> Option<WriteSync> {
        let flags = OFlags::from_bits_retain(flags as u32);
        let is_asked = flags.contains(DSYNC) || folder.syncs_writes;
        is_asked.then(|| WriteSync {
            folder: folder.clone(),
            open: open.clone(),
            range,
            data_only: !flags.contains(OFlags::SYNC),
        })
    }

    /// Makes it durable.
    pub(crate) fn run(self) -> Result<(), Errno> {
        self.folder
            .sync_range(&self.open, self.range, self.data_only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestFolder;

    #[test]
    fn only_a_write_that_asks_is_synced_and_as_far_as_it_asks() {
        let bench = TestFolder::new();
        let open = bench.create("file", 0o600);
        let data_only = |flags: OFlags| {
            let flags = (flags | OFlags::WRONLY).bits() as i32;
            let sync = WriteSync::asked(flags, &bench.folder, &open, 0..1);
            sync.map(|sync| sync.data_only)
        };
        assert_eq!(data_only(OFlags::APPEND | OFlags::DIRECT), None);
        assert_eq!(data_only(DSYNC), Some(true));
        assert_eq!(data_only(OFlags::SYNC), Some(false));
        forebay_rt::block_on(bench.cache.close()).unwrap();
    }
}
