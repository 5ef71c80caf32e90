//! The program's heap, kept within a bound.
//!
//! The usual allocator of Linux makes a heap for nearly every thread and keeps freed memory in it.
//! No setting counts this memory, and it grows with the number of processors. A server allocates
//! its buffers once and little else, so two heaps are enough. A large allocation is better as a
//! separate mapping, which goes back to the system as soon as it is freed.

#![allow(unsafe_code)]

/// Bounds the heap of this process. Call it before the first thread is started.
pub(crate) fn bound() {
    #[cfg(target_env = "gnu")]
    {
        use std::ffi::c_int;
        // The names and numbers in malloc.h.
        const M_MMAP_THRESHOLD: c_int = -3;
        const M_ARENA_MAX: c_int = -8;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        // SAFETY: this is the function of glibc with the types of its header. It changes how later
        // allocations are made, and no existing one.
        let _ = unsafe { mallopt(M_ARENA_MAX, 2) };
        // SAFETY: as above. Once set, the threshold no longer moves. A refusal of either call is
        // harmless: memory use is then as it would have been without it.
        let _ = unsafe { mallopt(M_MMAP_THRESHOLD, 128 << 10) };
    }
}
