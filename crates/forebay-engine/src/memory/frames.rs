//! Frames: from a zone, one or a run of them, and back.

use crate::counters::Counter;
use crate::memory::{Memory, NodePolicy};
use crate::state::batch::Batch;
use crate::state::frame::{ExclusiveHold, HOLDS, flag};
use crate::state::zone::Zone;
use forebay_law::watermark::{MarkRelief, Watermarks, is_above, pages_left};

/// A free frame that was taken for a page. It goes back to its zone if it is dropped.
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

/// Free frames of one zone that were taken together. Those that are left go back when this is
/// dropped.
pub(crate) struct FreshRun<'a> {
    memory: &'a Memory,
    frames: Batch,
}

impl FreshRun<'_> {
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The first `count` frames, to put pages into them. The others are given back. The caller
    /// holds the frames that it gets.
    pub(crate) fn into_frames(mut self, count: usize) -> Batch {
        let (used, left) = self.frames.split_at(count);
        self.frames = left;
        used
    }
}

impl<'a> From<FreshFrame<'a>> for FreshRun<'a> {
    fn from(fresh: FreshFrame<'a>) -> FreshRun<'a> {
        let memory = fresh.memory;
        let mut frames = Batch::new();
        frames.push(fresh.into_hold().leave());
        FreshRun { memory, frames }
    }
}

impl Drop for FreshRun<'_> {
    fn drop(&mut self) {
        let Some(&first) = self.frames.as_slice().first() else {
            return;
        };
        for &frame in self.frames.as_slice() {
            self.memory.frames.adopt(frame).blank();
        }
        let zone = self.memory.zone_of(first);
        self.memory.free_frames(zone, self.frames.as_slice());
    }
}

impl Memory {
    /// Up to `wanted` free frames of the zone, which keeps `kept` of those that it has.
    fn take_run(&self, zone: &Zone, wanted: usize, kept: u64) -> Option<FreshRun<'_>> {
        let frames = zone.take_free_run(wanted, kept);
        if frames.is_empty() {
            return None;
        }
        self.counters.add(Counter::Pgalloc, frames.len() as u64);
        let run = frames.as_slice();
        for &frame in run {
            self.frames.prefetch_frame(frame);
        }
        for &frame in run {
            self.frames.exclude_free(frame).leave();
        }
        Some(FreshRun {
            memory: self,
            frames,
        })
    }

    /// Up to `wanted` free frames of a zone that a request may use down to `mark`.
    pub(crate) fn run_above(
        &self,
        node_policy: NodePolicy,
        wanted: usize,
        mark: impl Fn(Watermarks) -> u64,
    ) -> Option<FreshRun<'_>> {
        self.zone_list(node_policy).find_map(|(_, zone, class)| {
            let reserve = zone.lowmem_reserve(class);
            let kept = pages_left(mark(zone.marks()), reserve, MarkRelief::default());
            self.take_run(zone, wanted, kept)
        })
    }

    /// A free frame of the zone, if it has one.
    pub(crate) fn take_frame(&self, zone: &Zone) -> Option<FreshFrame<'_>> {
        let frame = zone.take_free()?;
        self.counters.add(Counter::Pgalloc, 1);
        Some(FreshFrame {
            memory: self,
            hold: Some(self.frames.exclude_free(frame)),
        })
    }

    /// A free frame of a zone that a request may use down to its min mark.
    pub(crate) fn frame_above_min(&self, node_policy: NodePolicy) -> Option<FreshFrame<'_>> {
        self.zone_list(node_policy).find_map(|(_, zone, class)| {
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
            zone.put_free(blank);
            self.frames_are_free(blank.len());
        }
    }

    /// The same, only frames whose pages were evicted.
    pub(crate) fn free_evicted(&self, zone: &Zone, blank: &[u32]) {
        if !blank.is_empty() {
            zone.put_evicted(blank);
            self.frames_are_free(blank.len());
        }
    }

    fn frames_are_free(&self, count: usize) {
        self.counters.add(Counter::Pgfree, count as u64);
        self.wake_frame_waiters();
    }

    /// Wakes the callers that wait for frames, on all nodes: each may take frames of every node.
    pub(crate) fn wake_frame_waiters(&self) {
        for node in &self.nodes {
            node.freed.wake_all();
        }
    }

    /// Pages that somebody holds, counted over all frames: for a message, never for a decision.
    pub(crate) fn held_pages(&self) -> u64 {
        let held = |&frame: &u32| self.frames.word(frame) & (HOLDS | flag::EXCLUSIVE) != 0;
        (0..self.frames.len()).filter(held).count() as u64
    }
}
