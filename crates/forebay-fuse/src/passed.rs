//! Files whose bytes pass by the cache, because it could not read or write them as it needs: those
//! to which bytes can only be appended, and those that the mount may write and not read.

use crate::fd_cache::InodeFd;
use crate::handles::{Handle, PassedFile};
use crate::parts::OpenFiles;
use crate::requests::Requests;
use forebay_base::sync::Arc;
use fuser::{ReplyData, ReplyLseek};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

impl OpenFiles {
    /// Leaves `job` to a thread that has time for it, with the passed file of the number `handle`.
    pub(crate) fn with_passed(
        &self,
        handle: u64,
        job: impl FnOnce(Result<&PassedFile, Errno>) + Send + 'static,
    ) {
        match self.handles.passed(handle) {
            Some(passed) => self.workers.run(move || job(Ok(&passed))),
            None => job(Err(Errno::BADF)),
        }
    }

    /// Writes to a passed file, and calls `done` with how many bytes were taken.
    pub(crate) fn write_passed(
        &self,
        handle: u64,
        offset_bytes: u64,
        data: Vec<u8>,
        done: impl FnOnce(Result<u32, Errno>) + Send + 'static,
    ) {
        self.with_passed(handle, move |passed| {
            let written = passed.and_then(|passed| passed.write(&data, offset_bytes));
            done(written.map(|length_bytes| length_bytes as u32));
        });
    }

    /// Makes a file `length_bytes` long past the cache, which could not open it for `refused`.
    pub(crate) fn cut_passed(
        &self,
        held: &InodeFd,
        length_bytes: u64,
        refused: Errno,
    ) -> Result<(), Errno> {
        if held.content.is_in_use() {
            return Err(refused);
        }
        let fd = self
            .source
            .sparing_surely(|| self.source.through.open(held, OFlags::WRONLY))?;
        rustix::fs::ftruncate(fd, length_bytes)
    }

    /// Opens a file that the cache cannot open for what is asked with `flags`; `refused` is why.
    /// Its content must not be in use.
    pub(crate) fn pass(&self, held: &InodeFd, flags: i32, refused: Errno) -> Result<u64, Errno> {
        if held.content.is_in_use() {
            return Err(refused);
        }
        let asked = OFlags::from_bits_retain(flags as u32);
        let how = asked & (OFlags::RWMODE | OFlags::APPEND | OFlags::SYNC | OFlags::DSYNC);
        let fd = self
            .source
            .sparing_surely(|| self.source.through.open(held, how))?;
        Ok(self.handles.insert(Handle::Passed(Arc::new(PassedFile {
            fd,
            appends: asked.contains(OFlags::APPEND),
        }))))
    }
}

impl Requests {
    /// Answers a read of a passed file.
    pub(crate) fn read_passed(
        &self,
        handle: u64,
        offset_bytes: u64,
        size_bytes: u32,
        reply: ReplyData,
    ) {
        let refusals = self.refusals.clone();
        self.open_files.with_passed(handle, move |passed| {
            let mut buffer = vec![0; size_bytes as usize];
            match passed.and_then(|passed| passed.read(&mut buffer, offset_bytes)) {
                Ok(length_bytes) => reply.data(&buffer[..length_bytes]),
                Err(errno) => reply.error(refusals.answer(errno)),
            }
        });
    }

    /// Answers where the next data or hole of a passed file is.
    pub(crate) fn seek_passed(&self, handle: u64, to: SeekFrom, reply: ReplyLseek) {
        let refusals = self.refusals.clone();
        self.open_files.with_passed(handle, move |passed| {
            match passed.and_then(|passed| passed.seek(to)) {
                Ok(offset_bytes) => reply.offset(offset_bytes as i64),
                Err(errno) => reply.error(refusals.answer(errno)),
            }
        });
    }
}

#[cfg(test)]
#[path = "passed_tests.rs"]
mod tests;
