//! Searches: what callers do while somebody else holds all of memory. Each look through it costs a
//! run time and shows nothing new, so a task that holds pages lets go after a number of them.

use super::world::World;
use forebay_base::Span;
use forebay_engine::Counter;

/// A call for a page that has waited this often hardly ever gets one more.
pub(super) const USED_UP_WAITS: u32 = 40;
/// The time between two counts of searches.
const COUNT: Span = Span::from_millis(5);

/// Waits for `most`, or until callers have looked through all of memory `searches` times.
pub(super) async fn wait_for_searches(world: &World, most: Span, searches: u64) {
    let scanned = || world.cache.statistics().get(Counter::PgscanDirect);
    let allowed = scanned() + searches * world.cache.statistics().frames;
    let until = world.rt.now() + most;
    while world.rt.now() < until && scanned() < allowed {
        let left = until.since(world.rt.now());
        world.rt.sleep(left.min(COUNT)).await;
    }
}
