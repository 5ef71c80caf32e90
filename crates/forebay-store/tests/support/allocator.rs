//! An allocator that counts. It counts for every thread, so a test that uses it is a program of its
//! own.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use std::alloc::{GlobalAlloc, Layout, System};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations so far.
pub(crate) static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// About what the allocations that are not freed take of the system.
pub(crate) static BYTES: AtomicU64 = AtomicU64::new(0);

struct Counting;

/// About what the system's allocator takes for `bytes`: a header, and whole steps.
fn taken(bytes: usize) -> u64 {
    (bytes as u64 + 8).next_multiple_of(16)
}

// SAFETY: every call goes to the system's allocator unchanged.
#[allow(unsafe_code, reason = "an allocator is")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.dealloc(pointer, layout) }
    }
}
