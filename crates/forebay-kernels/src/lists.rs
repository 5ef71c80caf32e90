//! Two lists as older kernels kept them: today's rule, changed by each of four choices.

use crate::Policy;
use crate::policy::{ActiveReferences, InactiveShare, Refaults, ScanBalance};
use forebay_engine::lists::{Change, List, Rule, Source, TwoLists, Verdict, ZoneLists};
use forebay_engine::state::frame::flag;
use forebay_law::history::{RotationScan, RotationWeights, scan_targets_by_rotation};
use forebay_law::refault::{WorkingsetSizes, activates_by_active_file};
use forebay_law::scan::{ListSizes, ScanInputs, ScanTargets, inactive_is_low};

/// The four choices of a policy that differs from today's in at least one of them.
#[derive(Debug)]
pub(crate) struct PastLists {
    references: ActiveReferences,
    share: InactiveShare,
    refaults: Refaults,
    balance: ScanBalance,
}

impl PastLists {
    /// The choices of `policy`, if they are not today's.
    pub(crate) fn of(policy: &Policy) -> Option<PastLists> {
        let Policy {
            active_references: references,
            inactive_share: share,
            refaults,
            scan_balance: balance,
            ..
        } = *policy;
        let is_today = references == ActiveReferences::default()
            && share == InactiveShare::default()
            && refaults == Refaults::default()
            && balance == ScanBalance::default();
        (!is_today).then_some(PastLists {
            references,
            share,
            refaults,
            balance,
        })
    }

    fn goes_by_rotations(&self) -> bool {
        self.balance <= ScanBalance::Rotations
    }

    fn weights(&self) -> RotationWeights {
        match self.balance {
            ScanBalance::EarlyRotations => RotationWeights::PlusOne,
            _ => RotationWeights::Plain,
        }
    }
}

impl Rule for PastLists {
    /// Up to 5.8, anonymous pages counted as in use until shown otherwise.
    fn newcomer(&self, is_anon: bool) -> u64 {
        if is_anon && self.goes_by_rotations() {
            flag::ACTIVE
        } else {
            0
        }
    }

    fn returning(&self, distance: u64, is_file: bool, sizes: &WorkingsetSizes) -> Option<Change> {
        if self.refaults == Refaults::OfFileReads
            && !(is_file && activates_by_active_file(distance, sizes.active_file))
        {
            return None;
        }
        TwoLists.returning(distance, is_file, sizes)
    }

    /// Up to 5.7 anonymous pages come back to the active list in any case.
    fn leaves_shadow(&self, word: u64) -> bool {
        self.refaults != Refaults::OfFileReads || word & flag::ANON == 0
    }

    fn remembers(&self) -> bool {
        self.refaults != Refaults::Ignored
    }

    fn forgets_overwritten(&self) -> bool {
        matches!(self.refaults, Refaults::OfFileReads | Refaults::OfReads)
    }

    fn verdict(&self, word: u64) -> Verdict {
        TwoLists.verdict(word)
    }

    fn activation(&self) -> Change {
        let today = TwoLists.activation();
        let forgotten = match self.references {
            ActiveReferences::Counted => 0,
            ActiveReferences::Ignored => flag::REFERENCED,
        };
        Change {
            clear: today.clear | forgotten,
            ..today
        }
    }

    fn out_of_the_way(&self) -> Change {
        self.activation()
    }

    fn spares_active(&self, word: u64) -> Option<u64> {
        match self.references {
            ActiveReferences::Counted => TwoLists.spares_active(word),
            ActiveReferences::Ignored => None,
        }
    }

    fn targets(&self, inputs: &ScanInputs, lists: &ZoneLists, is_kswapd: bool) -> ScanTargets {
        if !self.goes_by_rotations() {
            return TwoLists.targets(inputs, lists, is_kswapd);
        }
        let [anon, file] = lists.rotations();
        let scan = RotationScan {
            anon,
            file,
            weights: self.weights(),
            is_kswapd,
        };
        scan_targets_by_rotation(inputs, &scan)
    }

    fn source(&self, list: List, lists: &ZoneLists) -> Source {
        TwoLists.source(list, lists)
    }

    /// From 4.12 on, refaults of a kind open its active list, whatever the lengths.
    fn gives_up(&self, is_file: bool, sizes: &ListSizes, refaulted: bool) -> bool {
        let (inactive, active) = if is_file {
            (sizes.inactive_file, sizes.active_file)
        } else {
            (sizes.inactive_anon, sizes.active_anon)
        };
        match self.share {
            InactiveShare::Tenth => TwoLists.gives_up(is_file, sizes, refaulted),
            InactiveShare::Half if is_file => inactive < active,
            InactiveShare::Half | InactiveShare::SquareRoot => inactive_is_low(inactive, active),
            InactiveShare::SquareRootOrRefaults => refaulted || inactive_is_low(inactive, active),
        }
    }

    fn ages_anon(&self, sizes: &ListSizes) -> bool {
        TwoLists.ages_anon(sizes)
    }

    /// From 5.8 to 6.2, dirty file pages that reclaim meets in vain cost nothing.
    fn cost(&self, written: u64, put_back: u64) -> u64 {
        match self.balance {
            ScanBalance::IoCost => written,
            _ => TwoLists.cost(written, put_back),
        }
    }

    fn counts_rotations(&self) -> bool {
        self.goes_by_rotations()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn lists_of(preset: &str) -> PastLists {
        let policy = Policy::preset(preset).expect("it is known");
        PastLists::of(&policy).expect("it is of the past")
    }

    #[test]
    fn up_to_5_7_a_page_that_comes_back_competes_with_active_file_pages_alone() {
        let sizes = WorkingsetSizes {
            active_file: 100,
            inactive_file: 1_000,
            active_anon: 1_000,
            inactive_anon: 1_000,
            swap_has_room: true,
        };
        let activates = |preset: &str, distance, is_file| {
            let change = lists_of(preset).returning(distance, is_file, &sizes);
            change.is_some()
        };
        assert!(activates("linux-4.11", 100, true));
        assert!(!activates("linux-4.11", 101, true));
        assert!(!activates("linux-4.11", 1, false));
        assert!(activates("linux-5.15", 2_100, true) && !activates("linux-5.15", 2_101, true));
        assert!(activates("linux-5.15", 2_100, false) && !activates("linux-5.15", 2_101, false));
    }

    #[test]
    fn up_to_5_7_anonymous_pages_are_not_remembered() {
        let remembers = |preset: &str, word| lists_of(preset).leaves_shadow(word);
        assert!(remembers("linux-4.11", 0) && !remembers("linux-4.11", flag::ANON));
        assert!(remembers("linux-5.15", 0) && remembers("linux-5.15", flag::ANON));
    }

    #[test]
    fn each_choice_of_the_past_needs_its_rules() {
        let today = Policy::default();
        assert!(PastLists::of(&today).is_none());
        for setting in [
            "active_references=ignored",
            "inactive_share=half",
            "refaults=ignored",
            "scan_balance=rotations",
        ] {
            let mut past = today;
            assert_eq!(past.set(setting), Ok(()));
            assert!(PastLists::of(&past).is_some(), "{setting}");
        }
    }
}
