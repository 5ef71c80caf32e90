//! A memory budget that shrinks and grows while all tasks work.

use super::client::PAGE;
use super::verdict::Oracle;
use super::world::World;
use forebay_base::{Prng, Span};
use forebay_engine::MemoryError;
use forebay_kernels::policy::ReclaimThrottle;
use std::sync::Arc;

/// Changes the budget until the writers have ended. Then it gives all of it back.
pub(super) async fn change_memory(world: Arc<World>) {
    let mut chance = world.chance("budgets", 0);
    let full = world.plan.settings.memory_bytes;
    while world.goes_on() {
        let most_us = [10_000, 500_000, 5_000_000][chance.below(3) as usize];
        world.sleep_below(&mut chance, most_us).await;
        let memory_bytes = match chance.below(4) {
            0 => full,
            1 => smallest(&world).await,
            _ => full / 4 + chance.below(full),
        };
        change(&world, &mut chance, memory_bytes).await;
    }
    if world.is_over() {
        return;
    }
    let given = world.call("set_memory", None, world.cache.set_memory(full));
    let given = given.await;
    let statistics = world.cache.statistics();
    let given_up = statistics.nr_balloon_pages;
    // Objects have those pages, counted in steps, and each zone gives whole pages.
    let step_bytes = (full / 256).max(8 * PAGE);
    let zones = statistics.zones.len() as u64;
    let objects = (statistics.object_bytes + step_bytes).div_ceil(PAGE) + zones;
    if given != Some(Ok(0)) || given_up > objects {
        let what = format!(
            "{given_up} pages are not there after all of it, objects have {objects}: {given:?}"
        );
        world.broken(Oracle::Books, what);
    }
}

async fn smallest(world: &World) -> u64 {
    match world.cache.set_memory(0).await {
        Err(MemoryError::TooSmall { needed_bytes, .. }) => needed_bytes,
        other => {
            world.broken(Oracle::Errors, format!("a budget of nothing: {other:?}"));
            world.plan.settings.memory_bytes
        }
    }
}

async fn change(world: &World, chance: &mut Prng, memory_bytes: u64) {
    let waits = chance.chance(1, 4).then(|| 1 + chance.below(12) as u32);
    let began = world.rt.now();
    let written = world.pages_written();
    world.print(|| format!("set_memory {memory_bytes}"));
    let set = world.call("set_memory", waits, world.cache.set_memory(memory_bytes));
    let set = set.await;
    world.print(|| format!("set_memory ends with {set:?}"));
    world.change_deeds(|deeds| deeds.budgets += 1);
    let statistics = world.cache.statistics();
    world.judge_statistics(&statistics);
    let settings = &world.plan.settings;
    let longest = settings.answer_timeout.max(settings.held_timeout) + Span::from_secs(1);
    let took = world.rt.now().since(began);
    if took > longest && !world.plan.may_jump() {
        let what = format!("a change of the budget took {took}");
        world.broken(Oracle::Bounds, what);
    }
    let is_right = match set {
        None => true,
        Some(Ok(over)) => {
            let allowed = memory_bytes + over;
            let is_written = world.pages_written() > written;
            let dirty_pages = if is_written { statistics.dirty() } else { 0 };
            // Objects take some memory besides the pages. The balloon's task follows that.
            statistics.memory_bytes - statistics.object_bytes <= allowed
                && (over == 0 || may_stay_over(world, over, dirty_pages))
        }
        Some(Err(MemoryError::TooLarge { limit_bytes, .. })) => {
            memory_bytes > settings.memory_bytes && limit_bytes == settings.memory_bytes
        }
        Some(Err(MemoryError::TooSmall { needed_bytes, .. })) => memory_bytes < needed_bytes,
        Some(Err(_)) => false,
    };
    if !is_right {
        let what = format!(
            "a budget of {memory_bytes} bytes ended with {set:?} and {} bytes",
            statistics.memory_bytes
        );
        world.broken(Oracle::Bounds, what);
    }
}

/// Whether there may be pages over the budget that cannot be freed in time. `dirty_pages` were not
/// yet written by stores that worked all the time: one page in each of many objects takes a while.
fn may_stay_over(world: &World, over_bytes: u64, dirty_pages: u64) -> bool {
    // Calls under way hold eight.
    let few = over_bytes <= (8 + dirty_pages) * PAGE;
    let plan = &world.plan;
    // The first versions of waiting for progress sleep in vain at each priority of a pass: one pass
    // may last for five seconds.
    let throttle = plan.policy.reclaim_throttle;
    let sleeps = matches!(
        throttle,
        ReclaimThrottle::PostedV2 | ReclaimThrottle::Linux516Rc
    );
    few || sleeps
        || plan.may_fail()
        || plan.may_hang()
        || plan.may_be_held()
        || plan.anonymous.is_some()
}
