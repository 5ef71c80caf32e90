//! Lists: which list a page is on, what a touch is worth, and what becomes of a page at the end of
//! its list.
//!
//! It owns the lists of all zones, the touches in the words of frames, the shadows of evicted
//! pages, and the rule of eviction. Flows ask it and do the waiting; it never knows the clock, a
//! store, the engine, or a waiter.
//!
//! | file | what it answers |
//! |---|---|
//! | `list` | what lists there are |
//! | `touch` | what a touch does |
//! | `queues` | how pages are put on the lists of a zone, isolated and put back |
//! | `shadow` | what is remembered of evicted pages |
//! | `rule` | what a rule decides |
//! | `two_lists` | today's rule |

mod list;
mod queues;
mod rule;
pub(crate) mod shadow;
mod touch;
mod two_lists;

pub use self::list::List;
pub use self::queues::{Change, ZoneLists};
pub use self::rule::{Rule, Source, Verdict};
pub use self::touch::{last_touch, touches_again};
pub use self::two_lists::TwoLists;

use self::shadow::{AGE_BITS, Shadow, Shadows};
use crate::state::frame::{ExclusiveHold, FrameTable, flag};
use forebay_law::refault::{WorkingsetSizes, refault_distance};
use forebay_law::scan::{ListSizes, ScanInputs, ScanTargets};
use std::sync::Arc;

/// The lists of all zones.
#[derive(Debug)]
pub struct Lists {
    zones: Box<[ZoneLists]>,
    shadows: Shadows,
    rule: Arc<dyn Rule>,
}

/// What became of a page that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refault {
    /// The zone from which it should not have been evicted, if it is active from now on.
    pub(crate) activated_for: Option<usize>,
    /// It was active before its eviction and is active again.
    pub(crate) is_restored: bool,
}

/// Held pages of one zone that are new.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals<'a> {
    pub(crate) zone: usize,
    /// Their frames, in the order of their arrival.
    pub(crate) run: &'a [u32],
}

impl Lists {
    /// Empty lists for this many zones, which have this many frames together.
    pub(crate) fn new(rule: Arc<dyn Rule>, zones: usize, frames: u32) -> Lists {
        Lists {
            zones: (0..zones).map(|_| ZoneLists::default()).collect(),
            shadows: Shadows::new(if rule.remembers() { frames } else { 0 }),
            rule,
        }
    }

    /// The lists of the zone with this number.
    pub fn of(&self, zone: usize) -> &ZoneLists {
        &self.zones[zone]
    }

    /// Puts new pages of a zone on its lists, in their order. A page that was evicted not long
    /// ago may go to the active list at once (spec/reclaim.md 2.8). `returned` is called for those
    /// that are remembered.
    pub(crate) fn arrive(
        &self,
        frames: &FrameTable,
        arrivals: Arrivals<'_>,
        swap_has_room: impl Fn() -> bool,
        mut returned: impl FnMut(&ExclusiveHold<'_>, Refault),
    ) {
        let Arrivals { zone, run } = arrivals;
        if run.len() > 1 {
            for &frame in run {
                self.prefetch_shadow(frames.owner(frame));
            }
        }
        let mut listed = 0;
        for (at, &frame) in run.iter().enumerate() {
            let mut hold = frames.adopt(frame);
            let flags = self.rule.newcomer(hold.word() & flag::ANON != 0);
            if flags != 0 {
                hold.set(flags);
            }
            if let Some(shadow) = self.shadows.take(hold.owner()) {
                // The law looks at the lengths of the lists with the pages before this one.
                self.list(frames, zone, &run[listed..at]);
                listed = at;
                let refault = self.settle_refault(shadow, &mut hold, &swap_has_room);
                returned(&hold, refault);
            }
            hold.leave();
        }
        self.list(frames, zone, &run[listed..]);
    }

    fn list(&self, frames: &FrameTable, zone: usize, run: &[u32]) {
        if run.is_empty() {
            return;
        }
        if self.rule.counts_rotations() {
            self.of(zone).list_run_scanned(frames, run);
        } else {
            self.of(zone).list_run(frames, run);
        }
    }

    fn settle_refault(
        &self,
        shadow: Shadow,
        hold: &mut ExclusiveHold<'_>,
        swap_has_room: impl Fn() -> bool,
    ) -> Refault {
        let mut refault = Refault {
            activated_for: None,
            is_restored: false,
        };
        let Some(lists) = self.zones.get(shadow.zone) else {
            return refault;
        };
        let is_file = hold.word() & flag::ANON == 0;
        let distance = refault_distance(lists.age(), shadow.age, AGE_BITS);
        let sizes = lists.sizes();
        let sizes = WorkingsetSizes {
            active_file: sizes.active_file,
            inactive_file: sizes.inactive_file,
            active_anon: sizes.active_anon,
            inactive_anon: sizes.inactive_anon,
            swap_has_room: swap_has_room(),
        };
        let Some(change) = self.rule.returning(distance, is_file, &sizes) else {
            return refault;
        };
        lists.change(hold, change);
        refault.activated_for = Some(shadow.zone);
        if shadow.workingset {
            hold.set(flag::WORKINGSET);
            lists.note_cost(u64::from(!is_file), u64::from(is_file));
            refault.is_restored = true;
        }
        refault
    }

    /// A file page that is not resident is about to be overwritten.
    pub(crate) fn overwritten(&self, key: u64) {
        if self.rule.forgets_overwritten() {
            self.shadows.take(key);
        }
    }

    /// Prefetches what is remembered of the page `key`.
    #[inline]
    pub(crate) fn prefetch_shadow(&self, key: u64) {
        self.shadows.prefetch(key);
    }

    /// Whether each page that is active was activated where that is counted.
    pub(crate) fn counts_activations(&self) -> bool {
        self.rule.counts_activations()
    }

    /// About how many evictions are remembered now.
    pub(crate) fn shadows(&self) -> usize {
        self.shadows.len()
    }

    /// The page `owner`, which was in `zone` and had the flags `word`, was evicted.
    pub(crate) fn evicted(&self, zone: usize, owner: u64, word: u64) {
        if self.rule.leaves_shadow(word) {
            let shadow = Shadow {
                zone,
                age: self.of(zone).grow_older(),
                workingset: word & flag::WORKINGSET != 0,
            };
            self.shadows.remember(owner, shadow);
        }
    }

    /// What becomes of a page with the flags `word` that reclaim took off a list to judge it.
    pub fn verdict(&self, word: u64) -> Verdict {
        self.rule.verdict(word)
    }

    /// Sends a page that was judged to the active list.
    pub(crate) fn activate(&self, zone: usize, hold: &mut ExclusiveHold<'_>) {
        self.of(zone).change(hold, self.rule.activation());
    }

    /// Moves a page that cannot be freed before its write ends to a place where reclaim does not
    /// find it again soon.
    pub(crate) fn put_out_of_the_way(&self, zone: usize, hold: &mut ExclusiveHold<'_>) {
        self.of(zone).change(hold, self.rule.out_of_the_way());
    }

    /// Ages an isolated page of an active list that nobody holds: it uses up a touch and stays, or
    /// goes to the inactive list. Returns whether it stays.
    pub(crate) fn age_active(&self, frames: &FrameTable, frame: u32) -> bool {
        if let Some(touch) = self.rule.spares_active(frames.word(frame)) {
            frames.clear(frame, touch);
            return true;
        }
        frames.set(frame, flag::WORKINGSET);
        frames.clear(frame, flag::ACTIVE);
        false
    }

    /// How many pages of each list of a zone a pass takes.
    pub(crate) fn targets(&self, zone: usize, inputs: &ScanInputs, is_kswapd: bool) -> ScanTargets {
        self.rule.targets(inputs, self.of(zone), is_kswapd)
    }

    /// The list from which a batch that is due from `list` is taken.
    pub(crate) fn source(&self, zone: usize, list: List) -> Source {
        self.rule.source(list, self.of(zone))
    }

    /// Whether the active list of a kind gives pages up. `refaulted`: pages of the kind came back
    /// too early since the last run.
    pub(crate) fn gives_up(&self, is_file: bool, sizes: &ListSizes, refaulted: bool) -> bool {
        self.rule.gives_up(is_file, sizes, refaulted)
    }

    /// Whether active anonymous pages are aged although no pass asks for it.
    pub(crate) fn ages_anon(&self, sizes: &ListSizes) -> bool {
        self.rule.ages_anon(sizes)
    }

    /// Notes for the next pass what a batch of one kind has cost.
    pub(crate) fn note_effort(&self, zone: usize, is_file: bool, effort: Effort) {
        let lists = self.of(zone);
        if self.rule.counts_rotations() {
            lists.note_rotations(is_file, effort.scanned, effort.rotated);
        }
        let cost = self.rule.cost(effort.written, effort.put_back);
        if is_file {
            lists.note_cost(0, cost);
        } else {
            lists.note_cost(cost, 0);
        }
    }
}

/// What a batch cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Pages looked at.
    pub(crate) scanned: u64,
    /// Pages among them that are in use and stay or become active.
    pub(crate) rotated: u64,
    /// Pages written.
    pub(crate) written: u64,
    /// Pages looked at and kept.
    pub(crate) put_back: u64,
}

#[cfg(all(test, not(loom)))]
#[path = "arrival_tests.rs"]
mod arrival_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_kind_pays_for_itself() {
        let lists = Lists::new(Arc::new(TwoLists), 1, 16);
        let effort = Effort {
            scanned: 64,
            put_back: 64,
            ..Effort::default()
        };
        lists.note_effort(0, true, effort);
        let of_files = lists.of(0).cost();
        assert!(of_files.file > 0 && of_files.anon == 0, "{of_files:?}");
        lists.note_effort(0, false, effort);
        let cost = lists.of(0).cost();
        assert!(cost.anon > 0, "{cost:?}");
        // What is older fades, because no list has a page.
        assert!(cost.file < of_files.file, "{cost:?}");
    }
}
