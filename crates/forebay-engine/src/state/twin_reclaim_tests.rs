//! What reclaim does to frames, mirrored by the twin: isolating, judging, putting back, rotating.

use crate::lists::List;
use crate::lists::shadow::Shadow;
use crate::state::batch::Batch;
use crate::state::frame::flag;
use crate::state::twin_tests::{Isolation, Machine, Twin, TwinFrame};

impl Twin<'_> {
    pub(super) fn isolate(&mut self) {
        let zone = self.prng.below(2) as usize;
        let list = List::ALL[self.prng.below(4) as usize];
        let wanted = 1 + self.prng.below(5) as usize;
        let taken = self.machine.lists[zone].isolate(&self.machine.frames, list, wanted);
        let members = &mut self.zones[zone].lists[list as usize];
        let kept = members.len().saturating_sub(wanted);
        let mut expected: Vec<u32> = members.split_off(kept).into();
        expected.reverse();
        assert_eq!(taken.as_slice(), expected, "the old end is taken first");
        let is_file = list.is_file();
        self.zones[zone].isolated[usize::from(is_file)] += expected.len() as u64;
        for frame in expected {
            self.twin(frame).flags &= !flag::LISTED;
        }
        self.isolations.push(Isolation {
            zone,
            is_file,
            taken,
        });
    }

    /// Judges an isolated batch in every way that reclaim does, and puts back what is kept.
    pub(super) fn put_back(&mut self) {
        if self.isolations.is_empty() {
            return;
        }
        let at = self.prng.below(self.isolations.len() as u64) as usize;
        let Isolation {
            zone,
            is_file,
            taken,
        } = self.isolations.swap_remove(at);
        let (mut kept, mut freed) = (Batch::new(), Batch::new());
        for &frame in taken.as_slice() {
            match self.prng.below(4) {
                0 => self.deactivate(frame),
                1 => self.activate(frame),
                2 if self.evict(zone, frame) => {
                    freed.push(frame);
                    continue;
                }
                _ => {}
            }
            kept.push(frame);
        }
        let Machine {
            frames,
            zones,
            lists,
            ..
        } = self.machine;
        let orphans = lists[zone].put_back(frames, &kept, is_file, taken.len());
        let gone = |frame: &&u32| self.frames[**frame as usize].owner == 0;
        let expected: Vec<u32> = kept.as_slice().iter().filter(gone).copied().collect();
        assert_eq!(
            orphans.as_slice(),
            expected,
            "a frame that lost its page is handed back"
        );
        for &frame in kept
            .as_slice()
            .iter()
            .filter(|frame| !expected.contains(frame))
        {
            let flags = &mut self.frames[frame as usize].flags;
            *flags |= flag::LISTED;
            self.zones[zone].lists[List::of(*flags) as usize].push_front(frame);
        }
        self.zones[zone].isolated[usize::from(is_file)] -= taken.len() as u64;
        zones[zone].put_evicted(freed.as_slice());
        self.zones[zone].free.extend(freed.as_slice());
        zones[zone].put_free(orphans.as_slice());
        self.zones[zone].put_free(orphans.as_slice());
    }

    /// Ages an active list as reclaim does: without a hold, although the page may be gone by now.
    fn deactivate(&mut self, frame: u32) {
        self.machine.frames.set(frame, flag::WORKINGSET);
        self.machine.frames.clear(frame, flag::ACTIVE);
        let flags = &mut self.twin(frame).flags;
        if *flags & flag::MAPPED != 0 {
            *flags = *flags & !flag::ACTIVE | flag::WORKINGSET;
        }
    }

    fn activate(&mut self, frame: u32) {
        let frames = &self.machine.frames;
        let Ok(mut hold) = frames.exclude(frame, frames.owner(frame), 0) else {
            return;
        };
        hold.set(flag::ACTIVE);
        self.twin(frame).flags |= flag::ACTIVE;
    }

    fn evict(&mut self, zone: usize, frame: u32) -> bool {
        let Machine {
            frames,
            index,
            shadows,
            lists,
            ..
        } = self.machine;
        let owner = frames.owner(frame);
        let dirty = flag::DIRTY | flag::WRITEBACK;
        let Ok(hold) = frames.exclude(frame, owner, dirty) else {
            return false;
        };
        index.remove(frames, &hold);
        let shadow = Shadow {
            zone,
            age: lists[zone].grow_older(),
            workingset: hold.word() & flag::WORKINGSET != 0,
        };
        shadows.remember(owner, shadow);
        self.shadows.insert(owner, shadow);
        assert_eq!(hold.blank(), frame);
        self.pages.remove(&owner);
        *self.twin(frame) = TwinFrame::default();
        true
    }

    pub(super) fn rotate(&mut self) {
        let Some((_, frame)) = self.draw_page() else {
            return;
        };
        let zone = Machine::zone_of(frame);
        let rotated = self.machine.lists[zone].rotate(&self.machine.frames, frame);
        let flags = &mut self.frames[frame as usize].flags;
        assert_eq!(rotated, *flags & flag::LISTED != 0);
        if rotated {
            self.zones[zone].lists[List::of(*flags) as usize].retain(|&other| other != frame);
            *flags &= !(flag::ACTIVE | flag::PROMOTE | flag::FREQUENT | flag::CONSTANT);
            self.zones[zone].lists[List::of(*flags) as usize].push_back(frame);
        }
    }
}
