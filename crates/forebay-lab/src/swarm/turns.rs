//! Knobs that are turned while all tasks work.
//!
//! No knob is turned that a promise depends on after the run, and no limit is raised above that of
//! the plan: each promise has to hold with every setting in between.

use super::verdict::Oracle;
use super::world::World;
use forebay_base::{Prng, Span};
use forebay_engine::{BuildError, Changes, StoreChanges, StoreKey};
use std::sync::Arc;

/// Turns knobs until the writers have ended. Then it turns them back.
pub(super) async fn turn_knobs(world: Arc<World>) {
    let mut chance = world.chance("turns", 0);
    let first = tuned(&world);
    while world.goes_on() {
        let most_us = [1_000, 100_000, 2_000_000][chance.below(3) as usize];
        world.sleep_below(&mut chance, most_us).await;
        if !world.is_over() {
            turn(&world, &drawn(&world, &mut chance));
        }
    }
    if world.is_over() {
        return;
    }
    world.judge_statistics(&world.cache.statistics());
    if let Err(error) = world.cache.retune(&first) {
        world.broken(Oracle::Errors, format!("what was set is refused: {error}"));
    }
    let last = tuned(&world);
    if last != first {
        let what = format!("knobs that are turned back are {last:?}, and were {first:?}");
        world.broken(Oracle::Books, what);
    }
}

/// The knobs as they are. The memory is left out, because others may be changing it.
fn tuned(world: &World) -> Changes {
    Changes {
        memory_bytes: None,
        ..world.cache.tuned()
    }
}

fn drawn(world: &World, chance: &mut Prng) -> Changes {
    let dirty = &world.plan.settings.dirty;
    let is_percentage = dirty.dirty_bytes == 0;
    let ratio = 1 + chance.below(dirty.dirty_ratio_percent.max(1));
    let background = chance.below(ratio);
    let max_ratio_percent = chance.below(110);
    let store = chance.below(world.stores.len() as u64) as usize;
    let store = StoreChanges {
        max_ratio_percent: Some(max_ratio_percent),
        ..StoreChanges::of_store(StoreKey::numbered(store))
    };
    let turns_limit = is_percentage && chance.chance(1, 2);
    Changes {
        dirty_ratio_percent: turns_limit.then_some(ratio),
        background_ratio_percent: turns_limit.then_some(background),
        swappiness: Some(chance.below(220)),
        readahead_pages: chance.chance(1, 2).then(|| chance.below(64)),
        stall_threshold: Some(Span::from_micros(chance.below(20_000))),
        stores: if chance.chance(1, 2) {
            vec![store]
        } else {
            Vec::new()
        },
        ..Changes::default()
    }
}

/// Turns knobs, all of them or none.
fn turn(world: &World, changes: &Changes) {
    // The limits in between count too.
    world.judge_statistics(&world.cache.statistics());
    let (before, times) = (tuned(world), world.cache.times_tuned());
    world.print(|| format!("retune {changes:?}"));
    let turned = world.cache.retune(changes);
    let (now, times_now) = (tuned(world), world.cache.times_tuned());
    let is_right = match &turned {
        Ok(_) => times_now == times + 1,
        Err(BuildError::BadSetting { .. }) => now == before && times_now == times,
        Err(_) => false,
    };
    if !is_right {
        let what = format!("{changes:?} is answered by {turned:?}: {before:?} is {now:?}");
        world.broken(Oracle::Errors, what);
    }
    if turned.is_ok() {
        world.change_deeds(|deeds| deeds.turns += 1);
    }
}
