//! The walk that checks whether all state is consistent: lists, index, words and books against each
//! other.
//!
//! It cites the invariants by number and calls none of the code that maintains them.

mod marks;

use crate::engine::Engine;
use crate::lists::List;
use crate::state::backing::Backing;
use crate::state::dirty_index::Tag;
use crate::state::frame::{HOLDS, flag};
use crate::state::index::{object_of, page_of};
use crate::state::ledger::Sums;
use crate::state::object::{ObjectState, Origin, QueuePlace};
use crate::state::zone::Zone;
use forebay_base::sync::{
    atomic::{AtomicU64, Ordering},
    lock,
};
use forebay_base::units::pages_for;
use forebay_law::blame::Cause;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where the walk found a frame.
const FREE: u8 = 1;
const LISTED: u8 = 2;
const BALLOON: u8 = 4;

impl Engine {
    /// Says what is wrong, a sentence for each fault. Meaningful while nothing is in flight.
    pub(crate) fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut places = vec![0_u8; self.memory.frames.len() as usize];
        self.check_lists(&mut places, &mut wrong);
        self.check_index(&mut wrong);
        self.check_frames(&places, &mut wrong);
        self.check_books(&mut wrong);
        self.check_queues(&mut wrong);
        self.check_slots(&mut wrong);
        self.check_waits(&mut wrong);
        wrong
    }

    /// Pages past the end of an object that is not being resized now (O1), a sentence for each.
    pub(crate) fn check_ends(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for frame in 0..self.memory.frames.len() {
            if self.memory.frames.word(frame) & flag::MAPPED == 0 {
                continue;
            }
            let owner = self.memory.frames.owner(frame);
            let object = self.pages.objects.get(object_of(owner));
            if let Some(object) = object.filter(|object| !object.is_resized()) {
                check_end(&object, page_of(owner), &mut wrong);
            }
        }
        wrong
    }

    fn check_lists(&self, places: &mut [u8], wrong: &mut Vec<String>) {
        for zone in &self.memory.zones {
            let free = zone.free_members();
            if free.len() as u64 != zone.free_pages() {
                wrong.push(format!(
                    "{}: {} free, {} counted",
                    zone.name,
                    free.len(),
                    zone.free_pages()
                ));
            }
            for frame in free {
                places[frame as usize] |= FREE;
            }
            self.check_balloon(zone, places, wrong);
            let lists = self.memory.lists.of(zone.number);
            for list in List::ALL {
                let members = lists.members(&self.memory.frames, list);
                if members.len() as u64 != lists.size(list) {
                    wrong.push(format!(
                        "{list:?} has {} frames, not {} (Z2)",
                        members.len(),
                        lists.size(list)
                    ));
                }
                for frame in members {
                    if places[frame as usize] != 0 {
                        wrong.push(format!("frame {frame} is in two places (Z1)"));
                    }
                    places[frame as usize] |= LISTED;
                    let word = self.memory.frames.word(frame);
                    if word & flag::LISTED == 0 || List::of(word) != list {
                        wrong.push(format!(
                            "frame {frame} is on {list:?}, which its flags deny (Z3)"
                        ));
                    }
                }
            }
            for is_file in [false, true] {
                if lists.isolated(is_file) != 0 {
                    wrong.push(format!(
                        "{}: {} frames isolated at rest",
                        zone.name,
                        lists.isolated(is_file)
                    ));
                }
            }
        }
    }

    fn check_balloon(&self, zone: &Zone, places: &mut [u8], wrong: &mut Vec<String>) {
        let members = zone.balloon_members(&self.memory.frames);
        let given_up = zone.spanned_pages - zone.present_pages();
        if members.len() as u64 != given_up || zone.present_pages() < zone.managed_pages() {
            wrong.push(format!(
                "{}: {} frames in the balloon, {given_up} counted; {} of {} may be there (Z4)",
                zone.name,
                members.len(),
                zone.managed_pages(),
                zone.spanned_pages
            ));
        }
        for frame in members {
            if places[frame as usize] != 0 {
                wrong.push(format!("frame {frame} is free and in the balloon (Z4)"));
            }
            places[frame as usize] |= BALLOON;
        }
    }

    fn check_index(&self, wrong: &mut Vec<String>) {
        let mut met = vec![0_u32; self.memory.frames.len() as usize];
        let mut pages = BTreeSet::new();
        for frame in self.memory.index.buckets(&self.memory.frames).flatten() {
            met[frame as usize] += 1;
            if self.memory.frames.word(frame) & flag::MAPPED == 0 {
                wrong.push(format!(
                    "frame {frame} is in the index and has no page (X1)"
                ));
            }
            if !pages.insert(self.memory.frames.owner(frame)) {
                wrong.push(format!(
                    "the page of frame {frame} is in another frame too (X2)"
                ));
            }
        }
        for (frame, times) in met.iter().enumerate().filter(|(_, times)| **times > 1) {
            wrong.push(format!("frame {frame} is in the index {times} times (X1)"));
        }
        let off = self.memory.index.stretches_off(pages.into_iter());
        if off > 0 {
            wrong.push(format!("{off} counts of stretches are wrong (X3)"));
        }
    }

    fn check_frames(&self, places: &[u8], wrong: &mut Vec<String>) {
        for frame in 0..self.memory.frames.len() {
            let word = self.memory.frames.word(frame);
            let place = places[frame as usize];
            let owner = self.memory.frames.owner(frame);
            if word & (HOLDS | flag::EXCLUSIVE) != 0 {
                wrong.push(format!("frame {frame} is held at rest: {word:#x}"));
            }
            if place == 0 {
                wrong.push(format!("frame {frame} is nowhere: {word:#x} (Z1)"));
            }
            if place & (FREE | BALLOON) != 0 && (word & flag::OF_PAGE != 0 || owner != 0) {
                wrong.push(format!("free frame {frame} has a page: {word:#x} (F4)"));
            }
            if word & flag::MAPPED == 0 {
                continue;
            }
            if self.memory.find_surely(owner) != Some(frame) {
                wrong.push(format!("frame {frame} is mapped and not in the index (X1)"));
            }
            self.check_tags(frame, word, owner, wrong);
        }
    }

    fn check_tags(&self, frame: u32, word: u64, owner: u64, wrong: &mut Vec<String>) {
        let Some(object) = self.pages.objects.get(object_of(owner)) else {
            wrong.push(format!("frame {frame} belongs to no object"));
            return;
        };
        check_end(&object, page_of(owner), wrong);
        let page = page_of(owner);
        if object.pages_had(&(page..page + 1)).is_empty() {
            wrong.push(format!("page {page} is outside its object's range (O3)"));
        }
        if object.is_anonymous() {
            return;
        }
        let tagged = |tag| {
            let page = page_of(owner);
            let found = lock(&object.dirty).next_tagged(&self.pages.slab, tag, page..page + 1);
            found == Some(page)
        };
        if word & flag::DIRTY != 0 && !tagged(Tag::Dirty) {
            wrong.push(format!(
                "page {} is dirty and not tagged (D1)",
                page_of(owner)
            ));
        }
        let in_flight = word & (flag::WRITEBACK | flag::UNSTABLE) != 0;
        if in_flight && !tagged(Tag::InFlight) {
            wrong.push(format!(
                "page {} is in flight and not tagged (D2)",
                page_of(owner)
            ));
        }
    }

    fn check_waits(&self, wrong: &mut Vec<String>) {
        let rows = self.accounts.ledger.sums(None);
        let histograms = self.accounts.times.waits();
        for cause in Cause::ALL {
            let of_cause = rows.iter().filter(|(key, _)| key.cause == cause);
            let mut waits = Sums::default();
            of_cause.for_each(|(_, sums)| waits.add(*sums));
            let counted = histograms.iter().find(|(known, _)| *known == cause);
            let counted = counted.map(|(_, it)| *it).unwrap_or_default();
            let name = cause.name();
            compare(
                wrong,
                &format!("{name}: waits (HT1)"),
                counted.count(),
                waits.calls,
            );
            compare(
                wrong,
                &format!("{name}: us (HT1)"),
                counted.sum_us,
                waits.us,
            );
        }
    }

    fn check_books(&self, wrong: &mut Vec<String>) {
        let (mut dirty, mut writeback, mut uncommitted) = (0, 0, 0);
        for frame in 0..self.memory.frames.len() {
            let word = self.memory.frames.word(frame);
            let is_file = word & flag::ANON == 0;
            dirty += u64::from(is_file && word & flag::DIRTY != 0);
            writeback += u64::from(word & (flag::WRITEBACK | flag::UNSTABLE) != 0);
            uncommitted += u64::from(word & flag::UNSTABLE != 0);
        }
        let backings = self.dirty.stores.all();
        let of_stores = |gauge: fn(&Backing) -> &AtomicU64| {
            backings.iter().map(|backing| read(gauge(backing))).sum()
        };
        let of_zones = self.memory.zones.iter().map(|zone| read(&zone.dirty)).sum();
        let objects = self.pages.objects.all();
        let object_bytes = objects.iter().map(|object| object.origin.object_bytes());
        let reported_bytes = self.pages.objects.bytes();
        compare(
            wrong,
            "bytes of objects (U3)",
            reported_bytes,
            object_bytes.sum(),
        );
        let tags = objects
            .iter()
            .map(|object| lock(&object.dirty).dirty_pages());
        for (what, counted, found) in [
            ("dirty", read(&self.dirty.global.dirty), dirty),
            ("writeback", read(&self.dirty.global.writeback), writeback),
            (
                "uncommitted",
                read(&self.dirty.global.uncommitted),
                uncommitted,
            ),
            (
                "reclaimable of all stores (B1)",
                of_stores(|backing| &backing.counts.reclaimable),
                dirty,
            ),
            (
                "uncommitted of all stores",
                of_stores(|backing| &backing.counts.uncommitted),
                uncommitted,
            ),
            ("dirty of all zones", of_zones, dirty),
            ("dirty tags", tags.sum(), dirty),
        ] {
            compare(wrong, what, counted, found);
        }
        self.check_failed(wrong);
    }

    /// Pages that could not be written, and anonymous pages that swap has a copy of or has refused.
    fn check_failed(&self, wrong: &mut Vec<String>) {
        let frames_with = |is_one: fn(u64) -> bool| {
            let words = (0..self.memory.frames.len()).map(|frame| self.memory.frames.word(frame));
            words.filter(|&word| is_one(word)).count() as u64
        };
        let objects = self.pages.objects.all();
        let failed = objects
            .iter()
            .map(|object| u64::from(object.failures.pages.load(Ordering::Relaxed)))
            .sum();
        let marked = frames_with(|word| word & (flag::FAILED | flag::ANON) == flag::FAILED);
        compare(wrong, "failed pages", failed, marked);
        let of_cache = read(&self.dirty.global.failed);
        compare(wrong, "failed pages of the cache", of_cache, marked);
        let Some(swap) = self.memory.swap.get() else {
            return;
        };
        let clean = frames_with(|word| {
            word & (flag::MAPPED | flag::ANON | flag::DIRTY) == flag::MAPPED | flag::ANON
        });
        compare(
            wrong,
            "clean anonymous pages",
            read(&swap.clean_pages),
            clean,
        );
        let refused =
            frames_with(|word| word & (flag::FAILED | flag::ANON) == flag::FAILED | flag::ANON);
        let counted = lock(&swap.retry).refused_pages();
        compare(wrong, "pages that swap refused", counted, refused);
    }

    fn check_queues(&self, wrong: &mut Vec<String>) {
        for object in self.pages.objects.all() {
            let Origin::File { backing, .. } = object.origin else {
                continue;
            };
            let place = lock(&object.queueing).place;
            let is_dirty = lock(&object.dirty).dirty_pages() > 0;
            let backing = self.dirty.stores.get(backing);
            let lists = lock(&backing.flushing.lists);
            let all = lists.all();
            // Not by number: a forgotten file may stay listed, clean, until its turn comes, and its
            // number may belong to another file by then.
            let is_it = |queued: &&Arc<ObjectState>| Arc::ptr_eq(queued, &object);
            let times = all.filter(is_it).count();
            let expected = usize::from(place == QueuePlace::Queued);
            if times != expected || (is_dirty && place == QueuePlace::None) {
                wrong.push(format!(
                    "object {} is on lists {times} times, {place:?}, dirty: {is_dirty} (B2)",
                    object.number
                ));
            }
        }
    }

    fn check_slots(&self, wrong: &mut Vec<String>) {
        let Some(swap) = self.memory.swap.get() else {
            return;
        };
        let (mut slots, mut distinct) = (0, BTreeSet::new());
        for object in self.pages.objects.all() {
            let Origin::Anonymous { slots: of_object } = &object.origin else {
                continue;
            };
            let taken = of_object.iter().map(|slot| slot.load(Ordering::Relaxed));
            for slot in taken.filter(|&slot| slot != 0) {
                slots += 1;
                distinct.insert(slot);
            }
        }
        let taken = swap.slots.total() - swap.slots.free_slots();
        if slots != taken || distinct.len() as u64 != slots {
            wrong.push(format!(
                "{taken} slots are taken, pages have {slots}, {} of them distinct (S1)",
                distinct.len()
            ));
        }
    }
}

fn check_end(object: &ObjectState, page: u64, wrong: &mut Vec<String>) {
    if page >= pages_for(object.length_bytes()) {
        wrong.push(format!("page {page} lies past the end of its object"));
    }
}

fn read(gauge: &AtomicU64) -> u64 {
    gauge.load(Ordering::Relaxed)
}

fn compare(wrong: &mut Vec<String>, what: &str, counted: u64, found: u64) {
    if counted != found {
        wrong.push(format!(
            "{what}: the books say {counted}, the frames {found}"
        ));
    }
}
