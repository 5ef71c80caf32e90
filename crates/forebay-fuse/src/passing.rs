//! Changes of bytes that pass the pages that the kernel has of a file, and such pages when the
//! kernel returns them.

use crate::handles::OpenFile;
use crate::kernel_pages::Passage;
use crate::parts::OpenFiles;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::Arc;
use fuser::{FopenFlags, INodeNo};
use rustix::io::Errno;
use std::ops::Range;

impl OpenFiles {
    /// Whether files are opened past the kernel's cache. If they are not, the kernel keeps its
    /// pages in step itself, and keeps them locked while it writes through.
    fn passes_pages(&self) -> bool {
        let flags = self.open_flags.get();
        flags.is_some_and(|flags| flags.contains(FopenFlags::FOPEN_DIRECT_IO))
    }

    /// The kernel fetches pages to keep them; to be called before their bytes are read.
    pub(crate) fn fills_pages(&self, open: &OpenFile, range: Range<u64>) {
        if self.passes_pages() {
            open.used.content.kernel_pages.filling(range);
        }
    }

    /// Makes `change`, which changes bytes of `range`. Once the kernel has no page from before it,
    /// calls `done` with its result.
    pub(crate) fn change_bytes(
        self: &Arc<OpenFiles>,
        open: Arc<OpenFile>,
        range: Range<u64>,
        change: impl FnOnce(&OpenFiles, &OpenFile) -> Result<(), Errno>,
        done: impl FnOnce(Result<(), Errno>) + Send + 'static,
    ) {
        if !self.passes_pages() {
            let changed = change(self, &open);
            drop(open);
            return done(changed);
        }
        let pages = open.used.content.kernel_pages.clone();
        let passage = forebay_rt::block_on(pages.change(range.clone()));
        let changed = change(self, &open);
        if changed.is_err() || !pages.changed(&passage) {
            drop((passage, open));
            return done(changed);
        }
        // The kernel waits for pages that it fetches and returns, and we answer these requests: so
        // no thread that answers may wait for the kernel.
        let files = self.clone();
        self.droppers.leave(Box::new(move || {
            files.drop_pages(&open, range, passage);
            drop(open);
            done(changed);
        }));
    }

    /// Makes the kernel return and drop its pages of a range.
    fn drop_pages(&self, open: &OpenFile, range: Range<u64>, passage: Passage) {
        let page = PAGE_BYTES as u64;
        let start = range.start / page * page;
        let (offset, length) = (i64::try_from(start), i64::try_from(range.end - start));
        if let (Some(notifier), Ok(offset), Ok(length)) =
            (self.source.reaper.notifier(), offset, length)
        {
            // If the kernel no longer knows the file, it has no pages of it.
            let _ = notifier.inval_inode(INodeNo(open.used.inode.id), offset, length);
        }
        drop(passage);
    }

    /// Takes the parts of the pages that the kernel returns that no later change in the cache has
    /// replaced.
    pub(crate) fn take_returned(
        &self,
        open: &OpenFile,
        bytes: &[u8],
        offset_bytes: u64,
        drops_privileges: bool,
    ) -> Result<(), Errno> {
        if !self.passes_pages() {
            return self.write(open, bytes, offset_bytes, drops_privileges);
        }
        let range = offset_bytes..offset_bytes + bytes.len() as u64;
        let pages = &open.used.content.kernel_pages;
        let (_passage, parts) = forebay_rt::block_on(pages.take_back(range));
        let place = |at: u64| (at - offset_bytes) as usize;
        parts.into_iter().try_for_each(|part| {
            let bytes = &bytes[place(part.start)..place(part.end)];
            self.write(open, bytes, part.start, drops_privileges)
        })
    }
}
