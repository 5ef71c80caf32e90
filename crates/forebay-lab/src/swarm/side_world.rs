//! Side worlds: what a seed plays in addition to its run. Little goes wrong in a side world, and
//! one kind of promise is judged that cannot be judged in a run, because too much happens there at
//! once.

use super::loops::{
    judge_ages, judge_elastic, judge_loops, judge_promises, judge_strict, judge_work,
};
use super::pressure::judge_pressure;
use super::shares::judge_shares;
use super::verdict::Violation;
use super::volumes::judge_volumes;

/// A side world, and which seeds have it.
#[derive(Debug)]
pub struct SideWorld {
    name: &'static str,
    /// One seed in this many has it: those with this remainder.
    one_in: u64,
    remainder: u64,
    judge: fn(u64) -> Option<Violation>,
}

const fn world(
    name: &'static str,
    one_in: u64,
    remainder: u64,
    judge: fn(u64) -> Option<Violation>,
) -> SideWorld {
    SideWorld {
        name,
        one_in,
        remainder,
        judge,
    }
}

/// Each side world. Those that take long are rare, and few seeds have several of them.
const ALL: [SideWorld; 9] = [
    world("shares", 32, 0, judge_shares),
    world("work", 32, 16, judge_work),
    world("loops", 8, 4, judge_loops),
    world("promises", 8, 2, judge_promises),
    world("pressure", 8, 6, judge_pressure),
    world("ages", 8, 6, judge_ages),
    world("elastic", 8, 3, judge_elastic),
    world("strict", 8, 5, judge_strict),
    world("volumes", 2, 0, judge_volumes),
];

impl SideWorld {
    /// The side world called `name`.
    pub fn named(name: &str) -> Option<&'static SideWorld> {
        ALL.iter().find(|world| world.name == name)
    }

    /// What is wrong in this world as `seed` draws it. The seed need not have it.
    pub(super) fn judge(&self, seed: u64) -> Option<Violation> {
        (self.judge)(seed)
    }

    /// The first thing that is wrong in a side world of `seed`.
    pub(super) fn judge_all_of(seed: u64) -> Option<Violation> {
        let mut its = ALL
            .iter()
            .filter(|world| seed % world.one_in == world.remainder);
        its.find_map(|world| world.judge(seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_world_has_a_name_of_its_own_and_a_seed_below_its_period() {
        let names: BTreeSet<&str> = ALL.iter().map(|world| world.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|world| world.remainder < world.one_in));
        assert!(SideWorld::named("pressure").is_some());
        assert!(SideWorld::named("nothing").is_none());
    }
}
