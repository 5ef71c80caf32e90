//! How large the cache is: what the budget gives the zones, once objects have taken their part.
//!
//! Marks, reserves and dirty limits follow at once. A task fills the balloons and so gives up the
//! frames that are over the budget.

use crate::budget::{next_charge, object_room_bytes, object_step_bytes};
use crate::counters::Counter;
use crate::layout::zone_sizes;
use crate::parts::{Capacity, Pages};
use crate::state::zone::ZoneSize;
use forebay_base::sync::{atomic::Ordering, lock};

impl Capacity {
    /// Gives the zones the sizes that follow from what objects take, and from a new budget if one
    /// is given. Two callers do this one after the other.
    pub(crate) fn resize(&self, memory_bytes: Option<u64>) {
        let _alone = lock(&self.pages.balloon.resizing);
        if let Some(memory_bytes) = memory_bytes {
            let budget_bytes = &self.pages.balloon.memory_bytes;
            budget_bytes.store(memory_bytes, Ordering::Relaxed);
            self.make_room_for_objects(memory_bytes);
            self.pages.balloon.room_hand.store(0, Ordering::Relaxed);
        }
        let charged_bytes = self.next_charge();
        let charged = &self.pages.balloon.charged_bytes;
        charged.store(charged_bytes, Ordering::Relaxed);
        let (budget, settings) = (&self.budget, &self.settings);
        let zone_pages = budget.resized(settings, self.pages.memory_bytes(), charged_bytes);
        let spacing = self.pages.kernel.values.mark_spacing(settings);
        self.resize_zones(&zone_sizes(settings, spacing, &zone_pages));
    }

    /// The order in it matters: no memory is given up before every store has forgotten it, and no
    /// store may register it before all of it is back.
    fn resize_zones(&self, sizes: &[ZoneSize]) {
        let zones = || self.memory.zones.iter().zip(sizes);
        let is_whole = zones().all(|(zone, size)| size.managed_pages == zone.spanned_pages);
        if !is_whole {
            self.dirty.stores.forget_memory(self.memory.frames.arena());
        }
        for (zone, size) in zones() {
            zone.set_size(size);
        }
        self.memory.note_reserves();
        self.empty_balloons();
        if is_whole {
            self.dirty
                .stores
                .remember_memory(self.memory.frames.arena());
        }
    }

    /// Gives frames back to zones that may have more.
    fn empty_balloons(&self) {
        for zone in &self.memory.zones {
            loop {
                let freed = zone.empty_balloon(&self.memory.frames);
                if freed == 0 {
                    break;
                }
                self.accounts.count(Counter::BalloonDeflate, freed);
                self.memory.wake_frame_waiters();
            }
        }
    }

    /// Lets objects take their part of a budget of `memory_bytes`.
    pub(crate) fn make_room_for_objects(&self, memory_bytes: u64) {
        let room_bytes = object_room_bytes(&self.settings, memory_bytes);
        self.pages.objects.set_room(room_bytes);
    }

    /// What has to be taken off the pages for the present objects.
    pub(crate) fn next_charge(&self) -> u64 {
        let charged_bytes = self.pages.balloon.charged_bytes.load(Ordering::Relaxed);
        object_step_bytes(&self.settings).map_or(0, |step_bytes| {
            next_charge(charged_bytes, self.pages.objects.bytes(), step_bytes)
        })
    }

    /// The number of objects has changed, so there may be fewer pages, or more. True if that
    /// changed the sizes of the zones.
    pub fn charge_objects(&self) -> bool {
        let is_changed =
            self.next_charge() != self.pages.balloon.charged_bytes.load(Ordering::Relaxed);
        if is_changed {
            self.resize(None);
        }
        is_changed
    }
}

impl Pages {
    /// The memory budget, which may still have to be met.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.balloon.memory_bytes.load(Ordering::Relaxed)
    }

    /// Whether anything is taken off the pages for objects.
    pub fn are_objects_charged(&self) -> bool {
        self.balloon.charged_bytes.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::parts::Kernel;
    use crate::retune::Changes;
    use crate::settings::{Parts, Settings};

    #[test]
    fn sizes_change_only_when_the_charge_for_objects_does() {
        let settings = Settings {
            memory_bytes: 8 << 20,
            prefault: false,
            ..Settings::default()
        };
        let engine = Engine::new(settings, Parts::default(), Kernel::default())
            .expect("the settings are good");
        engine.reclaim.capacity.charge_objects();
        assert!(
            !engine.reclaim.capacity.charge_objects(),
            "no object has come or gone"
        );
    }

    /// The lock is held here as it is while memory is given up.
    #[test]
    fn calls_end_and_knobs_are_reported_while_the_cache_is_resized() {
        let settings = Settings {
            memory_bytes: 8 << 20,
            prefault: false,
            ..Settings::default()
        };
        let engine = Engine::new(settings, Parts::default(), Kernel::default())
            .expect("the settings are good");
        let resizing = lock(&engine.pages.balloon.resizing);
        assert_eq!(engine.dirty.moment().memory_bytes, 8 << 20);
        assert_eq!(engine.tuned().memory_bytes, Some(8 << 20));
        let calmer = Changes {
            swappiness: Some(1),
            ..Changes::default()
        };
        engine.retune(&calmer).expect("it is allowed");
        drop(resizing);
        engine.reclaim.capacity.resize(Some(6 << 20));
        assert_eq!(engine.dirty.moment().memory_bytes, 6 << 20);
    }
}
