//! The program's heap, kept within a bound.
//!
//! The usual allocator of Linux makes a heap for nearly every thread and keeps what was freed in
//! it: memory that no number counts, and more of it with every processor. A server allocates its
//! buffers once and little else; two heaps are enough for that, and what is large is better a
//! mapping of its own, which goes back to the system as soon as it is freed.

#![allow(unsafe_code)]

/// Bounds the heap of this process. Call it before the first thread is started.
pub(crate) fn bound() {
    #[cfg(target_env = "gnu")]
    {
        use std::ffi::c_int;
        // The names and numbers of malloc.h.
        const M_MMAP_THRESHOLD: c_int = -3;
        const M_ARENA_MAX: c_int = -8;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        // SAFETY: the function of glibc with the types of its header; it changes how later
        // allocations are made and nothing that was allocated.
        let _ = unsafe { mallopt(M_ARENA_MAX, 2) };
        // SAFETY: as above. A threshold that is set does not move any more. Refusal of either is
        // harmless: memory is then as it would have been.
        let _ = unsafe { mallopt(M_MMAP_THRESHOLD, 128 << 10) };
    }
}
