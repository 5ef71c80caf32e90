//! The pages of a request, and the memory that they come from: the addresses that a submitter
//! vouches for.

use forebay_base::PAGE_BYTES;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// One page of [`PAGE_BYTES`] bytes that is lent to a request. It is the right to use the page, so
/// it cannot be copied: while it exists, the page is used for its request and for nothing else.
#[derive(Debug)]
pub struct PagePointer(NonNull<u8>);

// SAFETY: a page pointer is an address; access to the bytes that it points to follows the promise
// made at `PagePointer::new`, which does not depend on the thread.
#[allow(unsafe_code)]
unsafe impl Send for PagePointer {}
// SAFETY: as above; a shared page pointer gives no access by itself.
#[allow(unsafe_code)]
unsafe impl Sync for PagePointer {}

/// The address of pages without bytes: aligned, and used by nobody.
const NOWHERE: NonNull<u8> = NonNull::without_provenance(match NonZero::new(PAGE_BYTES) {
    Some(address) => address,
    None => unreachable!(),
});

impl PagePointer {
    /// The page at `address`.
    ///
    /// # Safety
    /// While the value exists, and for ever if it is leaked, `address` must be valid for reads and
    /// writes of [`PAGE_BYTES`] bytes and aligned to them, and no other page pointer may have it,
    /// except in copies of one write ([`Io::mirror`](crate::Io::mirror)), which only read.
    /// While a read request carries it, nobody else may access the bytes. While a write request
    /// carries it, nobody else in this program may write them, unless the request says so
    /// ([`Io::changing`](crate::Io::changing)).
    ///
    /// A page of a request without bytes ([`Io::without_bytes`](crate::Io::without_bytes)) is an
    /// address alone, and nothing is demanded of it.
    #[allow(unsafe_code)]
    pub unsafe fn new(address: NonNull<u8>) -> PagePointer {
        debug_assert_eq!(
            address.as_ptr().align_offset(PAGE_BYTES),
            0,
            "a page is aligned"
        );
        PagePointer(address)
    }

    /// A page without bytes.
    pub(crate) fn nowhere() -> PagePointer {
        PagePointer(NOWHERE)
    }

    /// The address, for a submitter that finds its page again, and for a store that passes it to
    /// the system.
    pub fn address(&self) -> NonNull<u8> {
        self.0
    }
}

/// A range of memory from which the pages of many requests come, as it is announced to stores.
///
/// A store that registers it with the system compares its number with that of each request
/// ([`Io::memory`](crate::Io::memory)): only a request of the same number means the memory that
/// was registered. So a store that was never told to forget a range harms nobody.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    length_bytes: usize,
    number: AtomicU64,
}

// 0 is the number of requests from no such range.
static NEXT: AtomicU64 = AtomicU64::new(1);

// SAFETY: the range is two numbers; it gives no access to its bytes.
#[allow(unsafe_code)]
unsafe impl Send for Memory {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Memory {}

impl Memory {
    /// The `length_bytes` bytes at `base`, with a number that no other range of this program has.
    ///
    /// # Safety
    /// As long as requests carry its number, the addresses must be mapped and must mean the same
    /// memory.
    #[allow(unsafe_code)]
    pub unsafe fn new(base: NonNull<u8>, length_bytes: usize) -> Memory {
        Memory {
            base,
            length_bytes,
            number: AtomicU64::new(NEXT.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Its first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length in bytes.
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// The number that its requests carry now; 0 if it is not to be registered.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Before the addresses come to mean other memory: requests made from now on do not ask for
    /// what was registered before.
    pub fn close(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    /// After [`Memory::close`]: the addresses mean what they will mean from now on.
    ///
    /// # Safety
    /// As for [`Memory::new`].
    #[allow(unsafe_code)]
    pub unsafe fn open_again(&self) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
    }
}

/// `count` pages that lie one after the other and are never freed, for unit tests.
#[cfg(test)]
#[allow(unsafe_code)]
pub(crate) fn leaked_pages(count: usize) -> Vec<PagePointer> {
    #[repr(align(4096))]
    struct Page([u8; PAGE_BYTES]);
    let pages: Vec<Page> = (0..count).map(|_| Page([0xEE; PAGE_BYTES])).collect();
    pages
        .leak()
        .iter_mut()
        // SAFETY: the page is aligned, lives for ever, and its only reference ends here.
        .map(|page| unsafe { PagePointer::new(NonNull::from(&mut page.0).cast()) })
        .collect()
}
