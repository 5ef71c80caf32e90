//! The size of a zone as its users see it, and the balloon: frames that it has given up.
//!
//! invariant Z4: every frame of a zone is either one that the zone has or one in its balloon. Only
//! a free frame goes into the balloon, and its memory belongs to the system until it comes back.

use crate::state::batch::Batch;
use crate::state::frame::{FrameTable, NO_FRAME};
use crate::state::zone::{Zone, ZoneSize};
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_law::watermark::Watermarks;

impl Zone {
    /// Frames that the zone may have: its marks and limits are computed from this.
    pub fn managed_pages(&self) -> u64 {
        self.size.managed_pages.load(Ordering::Relaxed)
    }

    pub fn marks(&self) -> Watermarks {
        let [min, low, high] = &self.size.marks;
        Watermarks {
            min: min.load(Ordering::Relaxed),
            low: low.load(Ordering::Relaxed),
            high: high.load(Ordering::Relaxed),
        }
    }

    /// Free frames that requests of `class` must leave.
    pub fn lowmem_reserve(&self, class: usize) -> u64 {
        self.size.lowmem_reserve[class].load(Ordering::Relaxed)
    }

    /// The same for every class.
    pub fn lowmem_reserves(&self) -> Vec<u64> {
        let reserves = self.size.lowmem_reserve.iter();
        reserves
            .map(|pages| pages.load(Ordering::Relaxed))
            .collect()
    }

    /// Pages that never count as dirtyable: what requests must leave, and the high mark.
    pub(crate) fn reserved_pages(&self) -> u64 {
        self.size.reserved_pages.load(Ordering::Relaxed)
    }

    /// Frames that the zone has.
    pub(crate) fn present_pages(&self) -> u64 {
        self.spanned_pages - self.size.balloon_pages.load(Ordering::Relaxed)
    }

    /// Frames that the zone has beyond its size: they go into the balloon when they are free.
    pub(crate) fn pages_over(&self) -> u64 {
        self.present_pages().saturating_sub(self.managed_pages())
    }

    /// Changes the size of the zone. [`Zone::fill_balloon`] and [`Zone::empty_balloon`] then adjust
    /// the balloon.
    pub(crate) fn set_size(&self, size: &ZoneSize) {
        let _balloon = lock(&self.size.balloon);
        let Watermarks { min, low, high } = size.marks;
        for (mark, pages) in self.size.marks.iter().zip([min, low, high]) {
            mark.store(pages, Ordering::Relaxed);
        }
        for (reserve, &pages) in self.size.lowmem_reserve.iter().zip(&size.lowmem_reserve) {
            reserve.store(pages, Ordering::Relaxed);
        }
        self.size
            .managed_pages
            .store(size.managed_pages, Ordering::Relaxed);
        self.size
            .reserved_pages
            .store(size.reserved_pages(), Ordering::Relaxed);
    }

    /// Puts up to a batch of free frames above the low mark into the balloon, as long as the zone
    /// is over its size. Returns how many.
    pub(crate) fn fill_balloon(&self, frames: &FrameTable) -> u64 {
        let mut first = lock(&self.size.balloon);
        let low = self.marks().low;
        let wanted = self.pages_over().min(Batch::LIMIT as u64);
        let mut holds = Vec::with_capacity(Batch::LIMIT);
        while (holds.len() as u64) < wanted && self.free_pages() > low {
            let Some(frame) = self.take_free() else {
                break;
            };
            holds.push(frames.exclude_free(frame));
        }
        frames.arena().give_up(&mut holds);
        let taken = holds.len() as u64;
        for hold in holds {
            let frame = hold.blank();
            frames.frame(frame).older.store(*first, Ordering::Relaxed);
            *first = frame;
            self.size.balloon_pages.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Takes up to a batch of frames out of the balloon, as long as the zone may have them, and
    /// frees them. Returns how many.
    pub(crate) fn empty_balloon(&self, frames: &FrameTable) -> u64 {
        let mut first = lock(&self.size.balloon);
        let mut free = Batch::new();
        while free.len() < Batch::LIMIT
            && *first != NO_FRAME
            && self.present_pages() < self.managed_pages()
        {
            free.push(*first);
            *first = frames.frame(*first).older.load(Ordering::Relaxed);
            self.size.balloon_pages.fetch_sub(1, Ordering::Relaxed);
        }
        self.put_free(free.as_slice());
        free.len() as u64
    }

    /// The frames of the balloon, for the consistency walk.
    pub(crate) fn balloon_members(&self, frames: &FrameTable) -> Vec<u32> {
        let first = lock(&self.size.balloon);
        self.chain(frames, *first)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::settings::PageMemory;
    use crate::state::arena::Arena;
    use crate::state::frame::flag;
    use crate::state::zone::ZonePlan;
    use forebay_base::Prng;
    use std::collections::BTreeSet;

    const PAGES: u64 = 200;

    fn size(managed_pages: u64) -> ZoneSize {
        ZoneSize {
            managed_pages,
            marks: Watermarks {
                min: 4,
                low: 8,
                high: 12,
            },
            lowmem_reserve: vec![0],
        }
    }

    fn zone() -> (Zone, FrameTable) {
        let arena = Arena::new(PAGES as u32, PageMemory::Real, false).expect("it can be mapped");
        let frames = FrameTable::new(arena, 2);
        let plan = ZonePlan {
            number: 0,
            name: "Normal".into(),
            node: 0,
            first_frame: 0,
            size: size(PAGES),
        };
        (Zone::new(plan), frames)
    }

    #[test]
    fn invariant_z4_a_frame_is_free_in_use_or_in_the_balloon() {
        let (zone, frames) = zone();
        let mut chance = Prng::from_seed(4);
        let mut used = Vec::new();
        for _ in 0..5_000 {
            match chance.below(5) {
                0 => used.extend(zone.take_free()),
                1 if !used.is_empty() => {
                    let at = chance.below(used.len() as u64) as usize;
                    zone.put_free(&[used.swap_remove(at)]);
                }
                2 => zone.set_size(&size(chance.below(PAGES + 1))),
                3 => {
                    let (free, over) = (zone.free_pages(), zone.pages_over());
                    let taken = zone.fill_balloon(&frames);
                    assert_eq!(taken, over.min(free.saturating_sub(8)).min(32));
                }
                _ => {
                    let missing = zone.managed_pages().saturating_sub(zone.present_pages());
                    assert_eq!(zone.empty_balloon(&frames), missing.min(32));
                }
            }
            let free = zone.free_members();
            let balloon = zone.balloon_members(&frames);
            assert_eq!(balloon.len() as u64, PAGES - zone.present_pages());
            let all: BTreeSet<u32> = free
                .into_iter()
                .chain(balloon)
                .chain(used.clone())
                .collect();
            assert_eq!(all.len() as u64, PAGES, "each is somewhere");
        }
    }

    #[test]
    fn a_page_comes_back_from_the_balloon_as_zeros() {
        let (zone, frames) = zone();
        let all: Vec<u32> = (0..PAGES).filter_map(|_| zone.take_free()).collect();
        for &frame in &all {
            frames
                .arena()
                .copy_in(&mut frames.exclude_free(frame), 0, &[9]);
        }
        zone.put_free(&all);
        zone.set_size(&size(PAGES / 2));
        while zone.fill_balloon(&frames) > 0 {}
        assert_eq!(zone.balloon_members(&frames).len() as u64, PAGES / 2);
        zone.set_size(&size(PAGES));
        while zone.empty_balloon(&frames) > 0 {}
        let is_zero = |&frame: &u32| {
            let mut byte = [1];
            let mut hold = frames.exclude_free(frame);
            hold.set_owner(1 << 40);
            hold.set(flag::MAPPED | flag::UPTODATE);
            drop(hold);
            let hold = frames.hold(frame, 1 << 40).expect("nobody has it alone");
            frames.arena().copy_out(&hold, 0, &mut byte);
            byte == [0]
        };
        assert_eq!(
            all.iter().filter(|&frame| is_zero(frame)).count() as u64,
            PAGES / 2
        );
    }
}
