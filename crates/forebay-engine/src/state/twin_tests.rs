//! Frame words, index, lists and shadows together, under random operations; a naive twin of maps
//! and queues does each of them too. What must hold after each operation is in
//! `twin_walk_tests.rs`.

use crate::lists::shadow::{Shadow, Shadows};
use crate::lists::{List, ZoneLists};
use crate::settings::PageMemory;
use crate::state::arena::Arena;
use crate::state::batch::Batch;
use crate::state::frame::{FrameTable, Refused, SharedHold, claimable, flag};
use crate::state::index::{Index, key};
use crate::state::zone::{Zone, ZonePlan, ZoneSize};
use forebay_base::Prng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const ZONE_PAGES: [u64; 2] = [13, 7];
pub(super) const FRAMES: u32 = 20;
/// Fewer buckets than there are frames, and only pages of two buckets, so that chains get long.
const INDEX_FRAMES: u32 = 16;

pub(super) struct Machine {
    pub(super) frames: FrameTable,
    pub(super) index: Index,
    pub(super) shadows: Shadows,
    pub(super) zones: Vec<Zone>,
    pub(super) lists: [ZoneLists; 2],
}

impl Machine {
    pub(super) fn new() -> Machine {
        let frames = FrameTable::new(
            Arena::new(FRAMES, PageMemory::Real, false).expect("twenty pages can be mapped"),
            2,
        );
        let mut first_frame = 0;
        let zone = |(node, managed_pages)| {
            let plan = ZonePlan {
                number: node,
                name: format!("zone {node}"),
                node,
                first_frame,
                size: ZoneSize {
                    managed_pages,
                    lowmem_reserve: vec![0],
                    ..ZoneSize::default()
                },
            };
            first_frame += managed_pages as u32;
            Zone::new(plan)
        };
        let zones = ZONE_PAGES.into_iter().enumerate().map(zone).collect();
        Machine {
            index: Index::new(INDEX_FRAMES),
            shadows: Shadows::new(FRAMES),
            zones,
            lists: [ZoneLists::default(), ZoneLists::default()],
            frames,
        }
    }

    pub(super) fn zone_of(frame: u32) -> usize {
        usize::from(u64::from(frame) >= ZONE_PAGES[0])
    }
}

/// What a naive program would remember of a zone.
#[derive(Default)]
pub(super) struct TwinZone {
    pub(super) free: BTreeSet<u32>,
    /// Where the next one is taken, or after it.
    pub(super) next: u32,
    /// Newest in front.
    pub(super) lists: [VecDeque<u32>; 4],
    pub(super) isolated: [u64; 2],
}

impl TwinZone {
    /// Takes the next free frame.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        let ahead = self.free.range(self.next..).next();
        let frame = ahead.or(self.free.first()).copied()?;
        self.free.remove(&frame);
        self.next = frame + 1;
        Some(frame)
    }

    /// Frees `blank`, the first of which is taken next.
    pub(super) fn put_free(&mut self, blank: &[u32]) {
        self.free.extend(blank);
        self.next = blank.first().copied().unwrap_or(self.next);
    }
}

/// What a naive program would remember of a frame.
#[derive(Clone, Copy, Default)]
pub(super) struct TwinFrame {
    pub(super) owner: u64,
    pub(super) flags: u64,
    pub(super) holds: u64,
    pub(super) stamp: u64,
}

/// Frames that are off their lists.
pub(super) struct Isolation {
    pub(super) zone: usize,
    pub(super) is_file: bool,
    pub(super) taken: Batch,
}

pub(super) struct Twin<'a> {
    pub(super) machine: &'a Machine,
    pub(super) prng: Prng,
    pub(super) zones: [TwinZone; 2],
    pub(super) frames: [TwinFrame; FRAMES as usize],
    pub(super) pages: BTreeMap<u64, u32>,
    pub(super) shadows: BTreeMap<u64, Shadow>,
    pub(super) holds: Vec<(SharedHold<'a>, u64)>,
    pub(super) isolations: Vec<Isolation>,
    pub(super) stamps: u64,
}

impl<'a> Twin<'a> {
    pub(super) fn new(machine: &'a Machine, seed: u64) -> Twin<'a> {
        let mut zones: [TwinZone; 2] = Default::default();
        zones[0].free = (0..ZONE_PAGES[0] as u32).collect();
        zones[1].free = (ZONE_PAGES[0] as u32..FRAMES).collect();
        Twin {
            machine,
            prng: Prng::from_seed(seed),
            zones,
            frames: [TwinFrame::default(); FRAMES as usize],
            pages: BTreeMap::new(),
            shadows: BTreeMap::new(),
            holds: Vec::new(),
            isolations: Vec::new(),
            stamps: 0,
        }
    }

    pub(super) fn draw_key(&mut self) -> u64 {
        let object = 1 + self.prng.below(7) as u32;
        key(object, self.prng.below(2) * 16 + self.prng.below(2))
    }

    pub(super) fn draw_page(&mut self) -> Option<(u64, u32)> {
        let wanted = self.draw_key();
        let mut found = self.pages.range(wanted..).chain(&self.pages);
        found.next().map(|(&key, &frame)| (key, frame))
    }

    pub(super) fn twin(&mut self, frame: u32) -> &mut TwinFrame {
        &mut self.frames[frame as usize]
    }

    /// What an exclusive hold of the page finds.
    fn refusal(&self, frame: u32, unwanted: u64) -> Option<Refused> {
        let TwinFrame { flags, holds, .. } = self.frames[frame as usize];
        (holds > 0 || flags & (flag::EXCLUSIVE | unwanted) != 0).then_some(Refused::Busy)
    }

    pub(super) fn step(&mut self) {
        match self.prng.below(13) {
            0..=2 => self.bring_in(),
            3 => self.finish_fill(),
            4..=5 => self.hold(),
            6 => self.drop_hold(),
            7 => self.write(),
            8 => self.write_back(),
            9 => self.isolate(),
            10 => self.put_back(),
            11 => self.release(),
            _ => self.rotate(),
        }
    }

    fn bring_in(&mut self) {
        let Machine {
            frames,
            index,
            shadows,
            zones,
            lists,
        } = self.machine;
        let zone = self.prng.below(2) as usize;
        // Pages in a row, some of which may be there, and fewer frames if there are not enough.
        let (first, wanted) = (self.draw_key(), 1 + self.prng.below(4) as usize);
        let kept = self.prng.below(3);
        let room = (self.zones[zone].free.len() as u64).saturating_sub(kept);
        let expected: Vec<u32> = (0..room.min(wanted as u64))
            .filter_map(|_| self.zones[zone].take_free())
            .collect();
        let run = zones[zone].take_free_run(wanted, kept);
        assert_eq!(run.as_slice(), expected);
        let marks = (flag::ANON * self.prng.below(2)) | (flag::ACTIVE * self.prng.below(2));
        for &frame in run.as_slice() {
            frames.exclude_free(frame).leave();
        }
        let placed = index.insert_run(frames, first, run.as_slice(), marks);
        let (mut new, mut refused) = (Vec::new(), Vec::new());
        for (at, &frame) in run.as_slice().iter().enumerate() {
            let key = first + at as u64;
            let is_new = !self.pages.contains_key(&key);
            assert_eq!(placed & 1 << at != 0, is_new, "X2");
            if !is_new {
                assert_eq!(frames.adopt(frame).blank(), frame);
                refused.push(frame);
                continue;
            }
            new.push(frame);
            let shadow = shadows.take(key);
            let remembered = self.shadows.remove(&key);
            assert!(shadow.is_none() || shadow == remembered, "{shadow:?}");
            self.pages.insert(key, frame);
            *self.twin(frame) = TwinFrame {
                owner: key,
                flags: marks | flag::MAPPED | flag::LISTED | flag::EXCLUSIVE,
                ..TwinFrame::default()
            };
            self.zones[zone].lists[List::of(marks) as usize].push_front(frame);
        }
        lists[zone].list_run(frames, &new);
        zones[zone].put_free(&refused);
        self.zones[zone].put_free(&refused);
    }

    /// Ends the oldest fill, which fails now and then.
    fn finish_fill(&mut self) {
        let filling = |frame: &TwinFrame| frame.flags & flag::EXCLUSIVE != 0;
        let Some(frame) = self.frames.iter().position(filling) else {
            return;
        };
        let frame = frame as u32;
        let mut hold = self.machine.frames.adopt(frame);
        self.twin(frame).flags &= !flag::EXCLUSIVE;
        if self.prng.chance(1, 4) {
            self.machine.index.remove(&self.machine.frames, &hold);
            self.disowned(
                frame,
                self.machine.lists[Machine::zone_of(frame)].disown(&self.machine.frames, hold),
            );
            return;
        }
        self.stamps += 1;
        let stamp = self.stamps;
        let arena = self.machine.frames.arena();
        arena.copy_in(&mut hold, 8, &stamp.to_le_bytes());
        self.machine.frames.end_fill(hold.leave());
        self.twin(frame).stamp = stamp;
        self.twin(frame).flags |= flag::UPTODATE;
    }

    fn hold(&mut self) {
        let Some((key, frame)) = self.draw_page() else {
            return;
        };
        let strange = self.draw_key();
        let frames = &self.machine.frames;
        let flags = self.frames[frame as usize].flags;
        let is_filling = flags & flag::EXCLUSIVE != 0;
        if strange != key {
            let refused = if is_filling {
                Refused::Busy
            } else {
                Refused::Gone
            };
            assert_eq!(frames.hold(frame, strange).err(), Some(refused), "F3");
        }
        let hold = frames.hold(frame, key);
        assert_eq!(
            hold.as_ref().err(),
            is_filling.then_some(&Refused::Busy),
            "F2"
        );
        let Ok(hold) = hold else { return };
        self.twin(frame).holds += 1;
        if self.prng.chance(1, 2) {
            hold.mark_accessed();
            self.note_access(frame);
        }
        let stamp = self.frames[frame as usize].stamp;
        self.holds.push((hold, stamp));
    }

    fn note_access(&mut self, frame: u32) {
        let flags = &mut self.twin(frame).flags;
        *flags |= if *flags & flag::REFERENCED == 0 {
            flag::REFERENCED
        } else if *flags & flag::PROMOTE == 0 {
            flag::PROMOTE
        } else if *flags & flag::FREQUENT == 0 {
            flag::FREQUENT
        } else {
            flag::CONSTANT
        };
    }

    fn drop_hold(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        let at = self.prng.below(self.holds.len() as u64) as usize;
        let (hold, stamp) = self.holds.swap_remove(at);
        let mut bytes = [0; 8];
        self.machine.frames.arena().copy_out(&hold, 8, &mut bytes);
        assert_eq!(u64::from_le_bytes(bytes), stamp, "held bytes changed (F1)");
        self.twin(hold.frame()).holds -= 1;
    }

    fn write(&mut self) {
        let Some((key, frame)) = self.draw_page() else {
            return;
        };
        let frames = &self.machine.frames;
        let unwanted = flag::WRITEBACK * self.prng.below(2);
        let hold = frames.exclude(frame, key, unwanted);
        assert_eq!(
            hold.as_ref().err(),
            self.refusal(frame, unwanted).as_ref(),
            "F2"
        );
        let Ok(mut hold) = hold else { return };
        assert_eq!(
            frames.hold(frame, key).err(),
            Some(Refused::Busy),
            "an exclusive hold excludes others (F2)"
        );
        self.stamps += 1;
        let stamp = self.stamps;
        frames.arena().copy_in(&mut hold, 8, &stamp.to_le_bytes());
        hold.set(flag::DIRTY);
        hold.mark_accessed();
        self.twin(frame).stamp = stamp;
        self.twin(frame).flags |= flag::DIRTY;
        self.note_access(frame);
    }

    /// Claims a page for writing, or ends its write.
    fn write_back(&mut self) {
        let Some((_, frame)) = self.draw_page() else {
            return;
        };
        let frames = &self.machine.frames;
        if self.frames[frame as usize].flags & flag::WRITEBACK != 0 {
            frames.clear(frame, flag::WRITEBACK);
            self.twin(frame).flags &= !flag::WRITEBACK;
            return;
        }
        let found = frames.claim_for_writing(frame);
        let flags = &mut self.twin(frame).flags;
        let may = *flags & (flag::DIRTY | flag::EXCLUSIVE) == flag::DIRTY;
        assert_eq!(claimable(found), may, "{found:#x}");
        if may {
            *flags = *flags & !flag::DIRTY | flag::WRITEBACK;
        }
    }

    /// Drops a page as a cut of its object does, wherever its frame is.
    fn release(&mut self) {
        let Some((key, frame)) = self.draw_page() else {
            return;
        };
        let Machine {
            frames,
            index,
            lists,
            ..
        } = self.machine;
        let hold = frames.exclude(frame, key, flag::WRITEBACK);
        assert_eq!(
            hold.as_ref().err(),
            self.refusal(frame, flag::WRITEBACK).as_ref(),
            "F2"
        );
        let Ok(mut hold) = hold else { return };
        hold.unset(flag::DIRTY);
        index.remove(frames, &hold);
        let blank = lists[Machine::zone_of(frame)].disown(frames, hold);
        self.disowned(frame, blank);
    }

    /// The page of `frame` is gone; a listed frame is free now, an isolated one when it comes back.
    fn disowned(&mut self, frame: u32, blank: Option<u32>) {
        let TwinFrame { owner, flags, .. } = std::mem::take(self.twin(frame));
        self.pages.remove(&owner);
        assert_eq!(blank, (flags & flag::LISTED != 0).then_some(frame));
        if blank.is_none() {
            return;
        }
        let zone = Machine::zone_of(frame);
        self.zones[zone].lists[List::of(flags) as usize].retain(|&other| other != frame);
        self.machine.zones[zone].put_free(&[frame]);
        self.zones[zone].put_free(&[frame]);
    }
}
