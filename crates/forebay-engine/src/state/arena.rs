//! The memory of all frames: one mapping, made at start. Its bytes are touched in `content`.
//!
//! The pages of a phantom arena have addresses and no bytes: nothing here touches them, so that the
//! system never backs the mapping with memory. They are valid addresses all the same, and a store
//! that insists on reading them finds zeros.

#![allow(unsafe_code)]

use forebay_base::PAGE_BYTES;
use forebay_base::sync::atomic::{AtomicU8, Ordering};
use forebay_store::{Memory, PagePointer};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};
use std::ptr::NonNull;

/// Whether pages have bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageMemory {
    /// They do.
    #[default]
    Real,
    /// They have none: copies in and out are skipped, a read leaves its buffer as it was, and in
    /// requests to stores only the number of pages counts ([`forebay_store::Io::has_bytes`]). A
    /// page then costs only its overhead, 64 bytes at most: for simulations of large machines.
    Phantom,
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Asks the processor to fetch the line at `address`.
#[inline]
pub(crate) fn prefetch_line<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see, at whatever address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The page memory of all frames, in frame order.
#[derive(Debug)]
pub(crate) struct Arena {
    base: NonNull<u8>,
    frames: u32,
    mapped_bytes: usize,
    is_phantom: bool,
    memory: Memory,
    /// For each place of a huge page, how often it was broken up since huge pages were wanted last.
    broken: Box<[AtomicU8]>,
}

// SAFETY: the arena is an address range that lives as long as the value; access to its bytes goes
// through holds, which exclude each other across threads (frame.rs, invariants F1 and F2).
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// The mapping starts on a boundary of 2 MiB, the size of the huge pages that matter here.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The system does not break up a huge page that it reads or writes just now, and does not say so:
/// it is asked again for some of its pages.
const TRIES: u8 = 4;

impl Arena {
    /// Maps memory for `frames` pages, in huge pages where the system gives them, and touches each
    /// page once if `prefault`, so that no later access causes a page fault. Phantom pages get
    /// addresses only.
    pub(crate) fn new(frames: u32, memory: PageMemory, prefault: bool) -> std::io::Result<Arena> {
        let bytes = frames as usize * PAGE_BYTES;
        let roomy_bytes = bytes + HUGE_PAGE_BYTES;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no
        // memory that is in use.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                roomy_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let aligned = start
            .cast::<u8>()
            .wrapping_add(start.addr().next_multiple_of(HUGE_PAGE_BYTES) - start.addr());
        let is_phantom = memory == PageMemory::Phantom;
        let slack = aligned.addr() - start.addr();
        if slack > 0 {
            // SAFETY: the bytes before the aligned start belong to the mapping and are not used.
            unsafe { rustix::mm::munmap(start, slack)? };
        }
        // A program that locks its memory would also pay for what is left past the last page.
        let rest = roomy_bytes - slack - bytes;
        if rest > 0 {
            // SAFETY: the bytes past the last page belong to the mapping and are not used.
            unsafe { rustix::mm::munmap(aligned.wrapping_add(bytes).cast(), rest)? };
        }
        let base = NonNull::new(aligned).expect("a mapping is never at address zero");
        // SAFETY: the mapping lives as long as requests, which keep the engine alive; the memory is
        // closed before a page of it is given up.
        let memory = unsafe { Memory::new(base, bytes) };
        let arena = Arena {
            base,
            frames,
            mapped_bytes: bytes,
            is_phantom,
            memory,
            broken: (0..bytes.div_ceil(HUGE_PAGE_BYTES))
                .map(|_| AtomicU8::new(0))
                .collect(),
        };
        arena.keep_from_children();
        arena.want_huge_pages(true);
        if prefault && !is_phantom {
            arena.touch_all();
        }
        Ok(arena)
    }

    /// A process that is made by fork gets no part of the mapping. If it did, a page of ours that
    /// is written next would be copied to another place, while the disk, which knows the old one,
    /// still reads into it: open(2) warns of that for older kernels. Our huge pages would be gone
    /// as well.
    fn keep_from_children(&self) {
        let (base, bytes) = (self.base.as_ptr().cast(), self.mapped_bytes);
        // SAFETY: the range is the mapping; what it holds for this process does not change. No
        // child may use the cache, whose threads it does not have. Every Linux knows this advice.
        let _ = unsafe { rustix::mm::madvise(base, bytes, Advice::LinuxDontFork) };
    }

    fn touch_all(&self) {
        for frame in 0..self.frames {
            // SAFETY: the page lies inside the mapping, and nobody has a reference to it yet.
            unsafe { self.address(frame).write_volatile(0) };
        }
    }

    pub(super) fn address(&self, frame: u32) -> NonNull<u8> {
        assert!(frame < self.frames, "frame {frame} of {}", self.frames);
        // SAFETY: the frame was checked to lie inside the mapping.
        unsafe { self.base.add(frame as usize * PAGE_BYTES) }
    }

    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    /// Whether the pages have no bytes.
    #[inline]
    pub(crate) fn is_phantom(&self) -> bool {
        self.is_phantom
    }

    /// The page of `frame` as a store sees it. The caller puts it into a request only while the
    /// frame is exclusively held (a fill) or under writeback (a write).
    pub(crate) fn pointer(&self, frame: u32) -> PagePointer {
        // SAFETY: the page is valid while the arena lives, which the engine keeps until the last
        // request is finished; the frame word keeps others off as `PagePointer::new` demands, and
        // a second request too.
        unsafe { PagePointer::new(self.address(frame)) }
    }

    /// The frame whose page a finished request carried.
    pub(crate) fn frame_at(&self, page: &PagePointer) -> u32 {
        let offset = page.address().addr().get() - self.base.addr().get();
        debug_assert!(
            offset / PAGE_BYTES < self.frames as usize,
            "the page is one of ours"
        );
        (offset / PAGE_BYTES) as u32
    }

    /// All pages, for stores that register memory.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The pages that were given up have come back, and none is given up until
    /// [`Memory::close`] is called.
    pub(crate) fn memory_is_whole(&self) {
        // SAFETY: the mapping lives as long as requests, which keep the engine alive; the caller
        // closes the memory before a page of it is given up.
        unsafe { self.memory.open_again() };
    }

    /// Asks the system for huge pages, or asks it to make none, because a huge page would fill the
    /// gaps that [`Arena::give_up`] has left.
    pub(crate) fn want_huge_pages(&self, wanted: bool) {
        for place in self.broken.iter().filter(|_| wanted) {
            place.store(0, Ordering::Relaxed);
        }
        let advice = if wanted && !self.is_phantom {
            Advice::LinuxHugepage
        } else {
            Advice::LinuxNoHugepage
        };
        let bytes = self.frames as usize * PAGE_BYTES;
        // SAFETY: the range lies inside the mapping; the advice changes how it is backed, never
        // what it holds. Refusal is harmless.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), bytes, advice) };
    }

    /// Breaks up the huge page that the page of `frame` is a part of, if it is one. The system
    /// keeps the whole memory of a huge page as long as any part of it is used.
    pub(super) fn break_up(&self, frame: u32) {
        let place = &self.broken[frame as usize * PAGE_BYTES / HUGE_PAGE_BYTES];
        if place.load(Ordering::Relaxed) >= TRIES {
            return;
        }
        place.fetch_add(1, Ordering::Relaxed);
        let page = self.address(frame).as_ptr().cast();
        // Advice for a part of a huge page makes the system break it up. This advice says only that
        // the page is not needed soon.
        // SAFETY: the page lies inside the mapping, and the advice does not change what it holds.
        let advise = || unsafe { rustix::mm::madvise(page, PAGE_BYTES, Advice::LinuxCold) };
        if advise() == Err(Errno::INVAL) {
            // Servers lock their memory, and this advice is refused for that.
            // SAFETY: as above; what the page holds does not depend on its lock.
            let is_free = unsafe { rustix::mm::munlock(page, PAGE_BYTES) };
            if is_free.is_ok() {
                let _ = advise();
                // SAFETY: as above.
                let _ = unsafe { rustix::mm::mlock_with(page, PAGE_BYTES, MlockFlags::ONFAULT) };
            }
        }
    }

    /// Asks the processor to fetch the first `lines` cache lines of the page of `frame`, so that
    /// the bytes arrive while the frame word is still being changed.
    #[inline]
    pub(crate) fn prefetch(&self, frame: u32, lines: usize) {
        if self.is_phantom {
            return;
        }
        let page = self.base.as_ptr().wrapping_add(frame as usize * PAGE_BYTES);
        for line in 0..lines {
            prefetch_line(page.wrapping_add(line * LINE_BYTES));
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nobody can hold a page of it any more: holds
        // borrow the arena and requests keep the engine alive.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "the arena is one mapping");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The flags of the mapping that `address` lies in, as the kernel reports them.
    fn mapping_flags(address: usize) -> String {
        let text = std::fs::read_to_string("/proc/self/smaps").expect("this is Linux");
        let mut is_ours = false;
        for line in text.lines() {
            let range = line.split(' ').next().and_then(|word| word.split_once('-'));
            let bound = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((Some(from), Some(to))) = range.map(|(from, to)| (bound(from), bound(to))) {
                is_ours = (from..to).contains(&address);
            }
            if is_ours && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.to_owned();
            }
        }
        panic!("no mapping has {address:#x}");
    }

    #[test]
    fn children_get_no_page() {
        for memory in [PageMemory::Real, PageMemory::Phantom] {
            let arena = Arena::new(700, memory, false).expect("700 pages can be mapped");
            for frame in [0, 699] {
                let flags = mapping_flags(arena.address(frame).addr().get());
                let is_kept = flags.split_whitespace().any(|flag| flag == "dc");
                assert!(is_kept, "{flags}");
            }
        }
    }
}
