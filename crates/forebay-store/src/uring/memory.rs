//! Memory that the kernel has pinned for the ring.

use super::ring::Ring;
use super::submit_queue::MemoryNews;
use crate::registered::{Registered, pieces};
use crate::transfer::IoVector;

impl Ring {
    pub(super) fn apply(&mut self, news: MemoryNews) {
        match news {
            MemoryNews::Use(memory) if memory.number == 0 => {}
            MemoryNews::Use(memory) => {
                let whole = memory.vector();
                for piece in pieces(whole.base, whole.length_bytes) {
                    let free = self.registered.as_ref().and_then(Registered::free_place);
                    if let Some(place) = free
                        && self.update(place, piece)
                        && let Some(table) = &mut self.registered
                    {
                        table.set(place, piece, memory.number);
                    }
                }
            }
            MemoryNews::Forget(memory) => {
                if let Some(table) = &mut self.registered {
                    table.forget(memory.vector());
                }
                self.unpin_forgotten();
            }
        }
    }

    /// Clears the table entries of forgotten memory. A request names its table entry when it is put
    /// into the ring, and the kernel looks the entry up when it takes the request. So the requests
    /// that wait in the ring are submitted first. If the kernel does not take all of them now, a
    /// later turn does this.
    pub(super) fn unpin_forgotten(&mut self) {
        while let Some(place) = self
            .registered
            .as_ref()
            .and_then(Registered::forgotten_place)
        {
            if !self.uring.submission().is_empty() {
                // A refused request stays in the ring, and `enter` gets the same error.
                let _taken = self.uring.submit();
            }
            if !self.uring.submission().is_empty() {
                break;
            }
            // If the kernel kept the memory, it stays pinned until the table entry is used again or
            // the ring ends. No request names it.
            let _unpinned = self.update(place, IoVector::EMPTY);
            if let Some(table) = &mut self.registered {
                table.free(place);
            }
        }
    }

    /// Puts `range` (or nothing, if it is empty) into entry `place` of the kernel's table.
    #[allow(unsafe_code)]
    fn update(&self, place: usize, range: IoVector) -> bool {
        let ranges = std::slice::from_ref(&range);
        // SAFETY: `IoVector` has the layout of `struct iovec`. The kernel only
        // pins what is mapped there now. Requests use it while they carry the number of the range,
        // and as long as that is so it is the same memory (`Memory::new`).
        let updated = unsafe {
            let ranges = std::slice::from_raw_parts(ranges.as_ptr().cast(), 1);
            self.uring
                .submitter()
                .register_buffers_update(place as u32, ranges, None)
        };
        updated.is_ok()
    }
}
