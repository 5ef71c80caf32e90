//! Frames taken off their list, and put back.

use crate::lists::List;
use crate::memory::Memory;
use crate::state::batch::Batch;
use crate::state::zone::Zone;

/// Frames taken off their list. When they are dropped, they go back to it.
pub struct Isolated<'a> {
    memory: &'a Memory,
    pub(crate) zone: &'a Zone,
    pub(crate) list: List,
    pub frames: Batch,
}

impl Isolated<'_> {
    /// Puts `kept` of the frames back; the others have been made blank.
    pub fn put_back(mut self, kept: &Batch) {
        let taken = std::mem::replace(&mut self.frames, Batch::new()).len();
        self.end(kept, taken);
    }

    fn end(&self, kept: &Batch, taken: usize) {
        let lists = self.memory.lists.of(self.zone.number);
        let orphans = lists.put_back(&self.memory.frames, kept, self.list.is_file(), taken);
        self.memory.free_frames(self.zone, orphans.as_slice());
    }
}

impl Drop for Isolated<'_> {
    fn drop(&mut self) {
        if !self.frames.is_empty() {
            self.end(&self.frames, self.frames.len());
        }
    }
}

impl Memory {
    /// Takes up to `wanted` frames off the old end of a list of `zone`.
    pub fn isolate<'a>(&'a self, zone: &'a Zone, list: List, wanted: u64) -> Isolated<'a> {
        let lists = self.lists.of(zone.number);
        Isolated {
            memory: self,
            zone,
            list,
            frames: lists.isolate(&self.frames, list, wanted as usize),
        }
    }
}
