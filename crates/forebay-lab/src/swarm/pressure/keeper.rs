//! The keepers of the nodes: the rule by which kswapd reclaims also decides when it sleeps, and it
//! does not sleep while its node is below its low marks (spec/reclaim.md 4.4 to 4.6; 10, I-6, I-7,
//! I-8 and I-21).
//!
//! A caller that finds no zone above its low mark wakes kswapd before it takes a frame. So kswapd
//! is awake before all zones of a node are below their low marks. Requests may use every zone of
//! their node, so the reserve of the highest class counts.

use forebay_base::Instant;
use forebay_engine::statistics::ZoneStatistics;

/// Runs in vain after which a node is given up.
const HOPELESS_RUNS: u64 = 16;

/// The kswapd of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeper {
    /// It sleeps until it is woken.
    is_asleep: bool,
    /// Its runs in vain since a page of the node was freed, at most.
    fruitless_runs: u64,
    /// It was given up when it went to sleep: its flags stay, and its zones may be at any mark.
    is_given_up: bool,
    /// A look at which it was asleep with all zones below their low marks, if it still is.
    low_since: Option<Instant>,
}

/// How much a zone has beyond a mark and the reserve of requests that may use every zone.
pub(super) fn beyond(zone: &ZoneStatistics, mark: u64) -> i64 {
    zone.free as i64 - (mark + reserve(zone)) as i64
}

fn reserve(zone: &ZoneStatistics) -> u64 {
    zone.lowmem_reserve.last().copied().unwrap_or(0)
}

fn levels(zones: &[&ZoneStatistics]) -> String {
    let level = |zone: &&ZoneStatistics| {
        format!(
            "{} has {} free of {}, low mark {}, high mark {}, reserve {}",
            zone.name,
            zone.free,
            zone.managed,
            zone.low,
            zone.high,
            reserve(zone)
        )
    };
    zones.iter().map(level).collect::<Vec<_>>().join("; ")
}

impl Keeper {
    pub(super) fn wakes(&mut self) {
        self.is_asleep = false;
        self.is_given_up = false;
        self.low_since = None;
        self.fruitless_runs += 1;
    }

    /// Notes that a page of its node was freed, by kswapd or by a caller. If a caller freed it, a
    /// run that is under way may still end in vain.
    pub(super) fn frees_pages(&mut self) {
        self.fruitless_runs = u64::from(!self.is_asleep);
    }

    /// Judges that it goes to sleep until it is woken, with these zones of its node.
    pub(super) fn sleeps(&mut self, zones: &[&ZoneStatistics]) -> Option<String> {
        self.is_asleep = true;
        self.is_given_up = self.fruitless_runs >= HOPELESS_RUNS;
        self.low_since = None;
        let is_balanced = zones.iter().any(|zone| beyond(zone, zone.high) > 0);
        (!is_balanced && !self.is_given_up).then(|| {
            format!(
                "kswapd sleeps after {} runs in vain of {HOPELESS_RUNS}, and no zone is above its \
                 high mark: {} (spec/reclaim.md 4.5 and 4.6, I-6)",
                self.fruitless_runs,
                levels(zones)
            )
        })
    }

    /// Whether it sleeps and has not been given up: its flags have to be clear.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_asleep && !self.is_given_up
    }

    /// Looks at the zones of its node.
    pub(super) fn look(&mut self, now: Instant, zones: &[&ZoneStatistics]) -> Option<String> {
        let is_low = self.is_at_rest() && zones.iter().all(|zone| beyond(zone, zone.low) < 0);
        if !is_low {
            self.low_since = None;
            return None;
        }
        // A kswapd that was woken in this instant has its turn before the next look.
        let since = *self.low_since.get_or_insert(now);
        (now > since).then(|| {
            format!(
                "kswapd sleeps from {} to {} ms, and all zones are below their low marks: {} \
                 (spec/reclaim.md 1.8 A and 4.2, I-7)",
                since.as_millis(),
                now.as_millis(),
                levels(zones)
            )
        })
    }
}

/// A zone with `free` free frames, for tests.
#[cfg(test)]
pub(super) fn zone(free: u64) -> ZoneStatistics {
    ZoneStatistics {
        name: "Normal".into(),
        node: 0,
        managed: 1_000,
        free,
        min: 40,
        low: 50,
        high: 60,
        inactive_anon: 0,
        active_anon: 0,
        inactive_file: 0,
        active_file: 0,
        isolated_anon: 0,
        isolated_file: 0,
        lowmem_reserve: vec![0, 5],
        dirty_limit: 0,
        dirtyable: 0,
        dirty: 0,
        writeback: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::at;

    #[test]
    fn a_sleep_below_the_high_mark_is_found() {
        let (enough, short) = (zone(66), zone(65));
        assert_eq!(Keeper::default().sleeps(&[&short, &enough]), None);
        let found = Keeper::default().sleeps(&[&short, &short]);
        assert!(found.expect("both are short").contains("65 free of 1000"));
    }

    #[test]
    fn a_node_that_was_given_up_may_sleep_at_any_mark() {
        let mut keeper = Keeper::default();
        (0..HOPELESS_RUNS).for_each(|_| keeper.wakes());
        assert_eq!(keeper.clone().sleeps(&[&zone(0)]), None);
        keeper.frees_pages();
        assert!(keeper.sleeps(&[&zone(0)]).is_some());
    }

    #[test]
    fn a_keeper_that_sleeps_on_below_the_low_marks_is_found() {
        let mut keeper = Keeper::default();
        keeper.sleeps(&[&zone(66)]);
        assert_eq!(keeper.look(at(10), &[&zone(55)]), None);
        assert_eq!(keeper.look(at(20), &[&zone(54), &zone(55)]), None);
        assert_eq!(
            keeper.look(at(30), &[&zone(54)]),
            None,
            "it may be woken now"
        );
        assert!(keeper.look(at(40), &[&zone(54)]).is_some());
        keeper.wakes();
        assert_eq!(keeper.look(at(50), &[&zone(54)]), None);
    }
}
