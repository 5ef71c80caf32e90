//! A write, with the sync that it asks for by its flags: `O_SYNC` or `O_DSYNC` of the open file, or
//! `RWF_SYNC` or `RWF_DSYNC` of the call, which the kernel turns into the same flags.
//!
//! The kernel sends no sync of its own after a write that passes its cache by.

use crate::change_gate::Inside;
use crate::handles::OpenFile;
use crate::parts::OpenFiles;
use crate::refusals::Refusals;
use forebay_base::sync::Arc;
use fuser::ReplyWrite;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ops::Range;

/// `O_DSYNC` of the kernel, whose bit is in `O_SYNC` too. The library's constant of that name is
/// `O_SYNC` as a whole, and would not find it.
const DSYNC: OFlags = OFlags::from_bits_retain(0o10_000);

/// A write to a file that is open through the cache.
#[derive(Debug)]
pub(crate) struct WriteRequest {
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) open: Arc<OpenFile>,
    pub(crate) offset_bytes: u64,
    /// How the file is open, and what the call asks for in addition.
    pub(crate) flags: i32,
    /// These are pages that a program has mapped and stored to.
    pub(crate) is_returned: bool,
    pub(crate) drops_privileges: bool,
    pub(crate) inside: Inside,
    pub(crate) reply: ReplyWrite,
}

impl WriteRequest {
    /// Writes as much of `data` as there is room for, and answers.
    pub(crate) fn run(self, data: &[u8]) {
        let (files, open, offset_bytes) = (self.files, self.open, self.offset_bytes);
        let room = &files.allocation;
        let granted = match room.room_for(&open, offset_bytes, data.len(), self.is_returned) {
            Ok(granted) => granted,
            Err(errno) => return self.reply.error(self.refusals.answer(errno)),
        };
        let data = &data[..granted];
        let range = offset_bytes..offset_bytes.saturating_add(granted as u64);
        let sync = WriteSync::asked(self.flags, &files, &open, range.clone());
        let length_bytes = granted as u32;
        let (refusals, inside, reply) = (self.refusals, self.inside, self.reply);
        let done = move |written: Result<(), Errno>| {
            let written = written.and_then(|()| sync.map_or(Ok(()), WriteSync::run));
            drop(inside);
            answer_written(&refusals, reply, written.map(|()| length_bytes));
        };
        let drops_privileges = self.drops_privileges;
        if self.is_returned {
            let taken = files.take_returned(&open, data, offset_bytes, drops_privileges);
            drop(open);
            return done(taken);
        }
        let write = |files: &OpenFiles, open: &OpenFile| {
            files.write(open, data, offset_bytes, drops_privileges)
        };
        files.change_bytes(open, range, write, done);
    }
}

/// Answers with how many bytes were written.
pub(crate) fn answer_written(refusals: &Refusals, reply: ReplyWrite, result: Result<u32, Errno>) {
    match result {
        Ok(length_bytes) => reply.written(length_bytes),
        Err(errno) => reply.error(refusals.answer(errno)),
    }
}

/// What is made durable before a write is answered.
#[derive(Debug)]
struct WriteSync {
    files: Arc<OpenFiles>,
    open: Arc<OpenFile>,
    range: Range<u64>,
    data_only: bool,
}

impl WriteSync {
    /// What a write of `range` with `flags` asks for, if it asks.
    fn asked(
        flags: i32,
        files: &Arc<OpenFiles>,
        open: &Arc<OpenFile>,
        range: Range<u64>,
    ) -> Option<WriteSync> {
        let flags = OFlags::from_bits_retain(flags as u32);
        let is_asked = flags.contains(DSYNC) || files.syncs_writes;
        is_asked.then(|| WriteSync {
            files: files.clone(),
            open: open.clone(),
            range,
            data_only: !flags.contains(OFlags::SYNC),
        })
    }

    /// Makes it durable.
    fn run(self) -> Result<(), Errno> {
        self.files
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
            let sync = WriteSync::asked(flags, bench.files(), &open, 0..1);
            sync.map(|sync| sync.data_only)
        };
        assert_eq!(data_only(OFlags::APPEND | OFlags::DIRECT), None);
        assert_eq!(data_only(DSYNC), Some(true));
        assert_eq!(data_only(OFlags::SYNC), Some(false));
        forebay_rt::block_on(bench.cache.close()).unwrap();
    }
}
