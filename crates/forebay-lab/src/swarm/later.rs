//! What the swarm does only for later seeds: it draws today's policy, the other rule of eviction,
//! write units, knobs that are turned and crowds, and bounds the search of callers in a squeeze.

use super::part::{Part, StorePlan};
use forebay::Policy;
use forebay::policy::Eviction;
use forebay_base::Prng;

/// The first of them. Those below keep what they always drew, so that what they found can be played
/// again.
pub(super) const SINCE_SEED: u64 = 1_000_000;

/// The first seeds that have worlds of elastic memory and of the age of bytes. Those below had none
/// when they found what is kept of them.
pub(super) const LIMITS_SINCE_SEED: u64 = 2_000_000;

/// The first seeds that have worlds of volumes.
pub(super) const VOLUMES_SINCE_SEED: u64 = 3_000_000;

/// The first seeds that have worlds of strict stores.
pub(super) const STRICT_SINCE_SEED: u64 = 4_000_000;

/// Whether `seed` is one of the later ones.
pub(super) fn is_later(seed: u64) -> bool {
    seed >= SINCE_SEED
}

/// Parts that half of the later seeds have, each for itself.
pub(super) fn parts(seed: u64, root: &Prng) -> impl Iterator<Item = Part> {
    let parts = [(Part::Turns, "turns"), (Part::Crowd, "crowd")].into_iter();
    let is_drawn = move |name: &str| is_later(seed) && root.child(name).chance(1, 2);
    let drawn = parts.filter(move |&(_, name)| is_drawn(name));
    drawn.map(|(part, _)| part)
}

/// Gives half of the later seeds today's policy, because that is the one with promises. Draws
/// S3-FIFO for a third of them, and write units of several pages for a third of their stores. Some
/// units are longer than the longest request of their store.
pub(super) fn draw(seed: u64, root: &Prng, policy: &mut Policy, stores: &mut [StorePlan]) {
    if !is_later(seed) {
        return;
    }
    if root.child("policy").chance(1, 2) {
        *policy = Policy::default();
    }
    let mut chance = root.child("units");
    if chance.chance(1, 3) {
        policy.eviction = Eviction::S3Fifo;
    }
    for store in stores {
        if chance.chance(1, 3) {
            store.geometry.write_unit_pages = [2, 3, 16, 64][chance.below(4) as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Plan, Reduction};
    use super::*;
    use std::collections::BTreeSet;

    /// Whether `seed` draws S3-FIFO, and whether it draws a write unit.
    fn drawn(seed: u64) -> (bool, bool) {
        let plan = Plan::draw(seed, &Reduction::default());
        let has_unit = |store: &StorePlan| store.geometry.write_unit_pages > 1;
        let is_s3_fifo = plan.settings.policy.eviction == Eviction::S3Fifo;
        (is_s3_fifo, plan.stores.iter().any(has_unit))
    }

    #[test]
    fn earlier_seeds_draw_neither() {
        let mut seeds = (0..100).chain(SINCE_SEED - 100..SINCE_SEED);
        assert!(seeds.all(|seed| drawn(seed) == (false, false)));
    }

    #[test]
    fn half_of_the_later_seeds_and_few_of_the_others_have_todays_policy() {
        let today = Policy::default();
        let has_it = |seed: &u64| {
            let policy = Plan::draw(*seed, &Reduction::default()).settings.policy;
            let eviction = today.eviction;
            Policy { eviction, ..policy } == today
        };
        let later = (SINCE_SEED..SINCE_SEED + 100).filter(has_it).count();
        assert!((40..=65).contains(&later), "{later}");
        let earlier = (0..100).filter(has_it).count();
        assert!(earlier < 20, "{earlier}");
    }

    #[test]
    fn later_seeds_draw_one_of_them_or_both_or_neither() {
        let seeds = SINCE_SEED..SINCE_SEED + 100;
        let all: BTreeSet<(bool, bool)> = seeds.map(drawn).collect();
        assert_eq!(all.len(), 4);
    }
}
