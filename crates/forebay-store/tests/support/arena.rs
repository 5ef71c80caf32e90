//! Aligned pages that outlive the requests that use them, with a safe interface.

use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Mutex, lock};
use forebay_store::{Memory, PagePointer};
use std::ptr::NonNull;

#[repr(align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Pages that are lent to one request at a time. They are never unmapped, so that a store that
/// still writes to one after its request was finished is noticed by a comparison, not by a crash.
pub(crate) struct Arena {
    memory: Memory,
    free: Mutex<Vec<PagePointer>>,
}

impl Arena {
    pub(crate) fn new(count: usize) -> Arena {
        let pages: Vec<Page> = (0..count).map(|_| Page([0; PAGE_BYTES])).collect();
        let first = NonNull::from(pages.leak()).cast::<u8>();
        let page = |index| {
            // SAFETY: the page is aligned, lives for ever and is inside the allocation, whose
            // only reference ended above. Each page is in `free` once, so it is lent once.
            #[allow(unsafe_code)]
            unsafe {
                PagePointer::new(first.add(index * PAGE_BYTES))
            }
        };
        let free = Mutex::new((0..count).map(page).collect());
        // SAFETY: the pages are never unmapped.
        #[allow(unsafe_code)]
        let memory = unsafe { Memory::new(first, count * PAGE_BYTES) };
        Arena { memory, free }
    }

    /// All of it, as it is announced to stores.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Lends `count` pages, filled with `byte`.
    pub(crate) fn lend(&self, count: usize, byte: u8) -> Vec<PagePointer> {
        let mut free = lock(&self.free);
        assert!(count <= free.len(), "the test asks for too many pages");
        let split = free.len() - count;
        let pages = free.split_off(split);
        for page in &pages {
            // SAFETY: the page was free, so no request and nobody else uses it.
            #[allow(unsafe_code)]
            unsafe {
                page.address().write_bytes(byte, PAGE_BYTES);
            }
        }
        pages
    }

    /// Copies `bytes` into pages lent for them.
    pub(crate) fn lend_with(&self, bytes: &[u8]) -> Vec<PagePointer> {
        let pages = self.lend(bytes.len().div_ceil(PAGE_BYTES), 0xEE);
        for (page, chunk) in pages.iter().zip(bytes.chunks(PAGE_BYTES)) {
            // SAFETY: the page was just lent to the caller, which has not given it away yet; the
            // chunk fits it.
            #[allow(unsafe_code)]
            unsafe {
                page.address()
                    .copy_from_nonoverlapping(NonNull::from(chunk).cast(), chunk.len());
            }
        }
        pages
    }

    /// Takes pages back from a finished request and returns what is in them.
    pub(crate) fn take_back(&self, pages: Vec<PagePointer>) -> Vec<u8> {
        let mut bytes = vec![0; pages.len() * PAGE_BYTES];
        for (page, chunk) in pages.iter().zip(bytes.chunks_mut(PAGE_BYTES)) {
            // SAFETY: the request is finished, so the page is the caller's alone.
            #[allow(unsafe_code)]
            unsafe {
                page.address()
                    .copy_to_nonoverlapping(NonNull::from(chunk).cast(), PAGE_BYTES);
            }
        }
        // The pages come back in reverse, so that later requests get them in no tidy order.
        lock(&self.free).extend(pages.into_iter().rev());
        bytes
    }
}
