//! The memory around a cache whose budget gives way: a group, the other programs in it, and who
//! looks.

use super::script::MemoryChange;
use crate::world::World;
use forebay_base::sync::{Mutex, lock};
use forebay_base::units::byte_of;
use forebay_base::{Instant, Span};
use forebay_engine::elastic::{MemorySeen, Scarce};
use std::sync::Arc;

/// Programs that have waited for so long are pressure, which ends the sleep of whoever looks.
const PRESSED_AFTER: Span = Span::from_millis(150);

/// A memory group that the cache shares.
pub(super) struct Surroundings(Mutex<Group>);

#[derive(Clone, Copy, Debug)]
struct Group {
    limit_bytes: u64,
    /// What others had when that began to change, and what they go to.
    from_bytes: u64,
    to_bytes: u64,
    since: Instant,
    over: Span,
}

impl Group {
    /// What other programs have, or want.
    fn others_bytes(&self, now: Instant) -> u64 {
        let passed = now.since(self.since).min(self.over).as_nanos();
        let over = self.over.as_nanos();
        if over == 0 {
            return self.to_bytes;
        }
        let part = |bytes: u64, nanos: u64| u128::from(bytes) * u128::from(nanos);
        let sum = part(self.from_bytes, over - passed) + part(self.to_bytes, passed);
        u64::try_from(sum / u128::from(over)).expect("it lies between two numbers of 64 bits")
    }
}

impl Surroundings {
    /// Those of the machine of `world`, if its cache gives way.
    pub(super) fn of(world: &World) -> Option<Arc<Surroundings>> {
        let plan = world.machine().elastic?;
        Some(Arc::new(Surroundings(Mutex::new(Group {
            limit_bytes: plan.group_bytes,
            from_bytes: 0,
            to_bytes: 0,
            since: world.now(),
            over: Span::ZERO,
        }))))
    }

    /// Makes the change of an event.
    pub(super) fn change(&self, change: MemoryChange, now: Instant) {
        let mut group = lock(&self.0);
        group.limit_bytes = change.limit_bytes.unwrap_or(group.limit_bytes);
        if let Some(to_bytes) = change.others_bytes {
            group.from_bytes = group.others_bytes(now);
            group.to_bytes = to_bytes;
            group.since = now;
            group.over = change.over;
        }
    }

    /// Looks until the run is over, as a server does.
    pub(super) async fn watch(self: Arc<Surroundings>, world: World) {
        let mut is_pressed = false;
        loop {
            let left_bytes = self.left_bytes(&world);
            let look = world.cache().memory_seen(&MemorySeen {
                headroom_bytes: left_bytes,
                free_bytes: left_bytes,
                is_pressed,
                scarce: Scarce::Group,
            });
            let Some(look) = look else { return };
            let Some(was_pressed) = self.sleep(&world, look.next_look).await else {
                return;
            };
            is_pressed = was_pressed;
        }
    }

    /// Sleeps for `most`, or until programs have waited for memory. Returns whether they did, none
    /// if the run is over.
    async fn sleep(&self, world: &World, most: Span) -> Option<bool> {
        let until = world.now() + most;
        while world.now() < until {
            let was_full = self.left_bytes(world) == 0;
            let rest = PRESSED_AFTER.min(until - world.now());
            if world.rt().timeout(rest, world.over()).await.is_ok() {
                return None;
            }
            if was_full && self.left_bytes(world) == 0 {
                return Some(true);
            }
        }
        Some(false)
    }

    /// What neither the cache nor others have of the group.
    fn left_bytes(&self, world: &World) -> u64 {
        let group = *lock(&self.0);
        let statistics = world.cache().statistics();
        // A frame that came back takes nothing before a page is in it.
        let used = byte_of(statistics.frames - statistics.free());
        let taken = group.others_bytes(world.now()).saturating_add(used);
        group.limit_bytes.saturating_sub(taken)
    }
}
