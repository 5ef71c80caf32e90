//! Frames: taken from a free list, and given back.

use crate::counters::Counter;
use crate::memory::Memory;
use crate::state::frame::{ExclusiveHold, HOLDS, flag};
use crate::state::zone::Zone;
use forebay_law::watermark::{MarkRelief, is_above};

/// A free frame that was taken for a page. When it is dropped, it goes back to its free list.
pub(crate) struct FreshFrame<'a> {
    memory: &'a Memory,
    hold: Option<ExclusiveHold<'a>>,
}

impl<'a> FreshFrame<'a> {
    /// The hold, to put a page into the frame.
    pub(crate) fn into_hold(mut self) -> ExclusiveHold<'a> {
        self.hold
            .take()
            .expect("a fresh frame has its hold until it is used")
    }
}

impl Drop for FreshFrame<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            self.memory.free_frame(hold.blank());
        }
    }
}

impl Memory {
    /// A free frame of the zone, if it has one.
    pub(crate) fn take_frame(&self, zone: &Zone) -> Option<FreshFrame<'_>> {
        let frame = zone.take_free(&self.frames)?;
        self.counters.add(Counter::Pgalloc, 1);
        Some(FreshFrame {
            memory: self,
            hold: Some(self.frames.exclude_free(frame)),
        })
    }

    /// A free frame of a zone that a request of `node` may use down to its min mark.
    pub(crate) fn frame_above_min(&self, node: usize) -> Option<FreshFrame<'_>> {
        self.zone_list(node).find_map(|(_, zone, class)| {
            let reserve = zone.lowmem_reserve(class);
            let min = zone.marks().min;
            let may = is_above(zone.free_pages(), min, reserve, MarkRelief::default());
            may.then(|| self.take_frame(zone)).flatten()
        })
    }

    /// Gives a blank frame back.
    pub(crate) fn free_frame(&self, blank: u32) {
        self.free_frames(self.zone_of(blank), &[blank]);
    }

    /// Gives blank frames of one zone back and wakes the callers that wait for some.
    pub(crate) fn free_frames(&self, zone: &Zone, blank: &[u32]) {
        if !blank.is_empty() {
            zone.put_free(&self.frames, blank);
            self.counters.add(Counter::Pgfree, blank.len() as u64);
            self.nodes[zone.node].freed.wake_all();
        }
    }

    /// Pages that are held, counted over all frames: for a message, never for a decision.
    pub(crate) fn held_pages(&self) -> u64 {
        let held = |&frame: &u32| self.frames.word(frame) & (HOLDS | flag::EXCLUSIVE) != 0;
        (0..self.frames.len()).filter(held).count() as u64
    }
}
