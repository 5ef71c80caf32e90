//! Two lists of each kind: a page that was touched again goes to the active list, and an active
//! page that was not touched goes back (spec/reclaim.md 2.3 to 2.8). Laws: `scan`, `refault`.

use crate::lists::list::List;
use crate::lists::queues::Change;
use crate::lists::queues::ZoneLists;
use crate::lists::rule::{Rule, Source, Verdict};
use crate::lists::touch::last_touch;
use crate::state::frame::flag;
use forebay_law::refault::{WorkingsetSizes, activates};
use forebay_law::scan::{
    ListSizes, ScanInputs, ScanTargets, inactive_is_low, inactive_is_under_tenth, scan_targets,
};

/// Today's rule.
#[derive(Debug)]
pub struct TwoLists;

impl Rule for TwoLists {
    fn returning(&self, distance: u64, is_file: bool, sizes: &WorkingsetSizes) -> Option<Change> {
        let change = Change {
            set: flag::ACTIVE,
            clear: 0,
            ages_zone: true,
        };
        activates(distance, is_file, sizes).then_some(change)
    }

    fn verdict(&self, word: u64) -> Verdict {
        if word & flag::PROMOTE != 0 {
            Verdict::Activate
        } else {
            Verdict::Free
        }
    }

    fn activation(&self) -> Change {
        Change {
            set: flag::ACTIVE,
            clear: flag::TOUCHED_AGAIN,
            ages_zone: true,
        }
    }

    fn out_of_the_way(&self) -> Change {
        self.activation()
    }

    fn spares_active(&self, word: u64) -> Option<u64> {
        last_touch(word)
    }

    fn targets(&self, inputs: &ScanInputs, _lists: &ZoneLists, _is_kswapd: bool) -> ScanTargets {
        scan_targets(inputs)
    }

    fn source(&self, list: List, _lists: &ZoneLists) -> Source {
        Source {
            list,
            is_judged: !list.is_active(),
        }
    }

    /// The refault of a file page that was activated shortens the inactive list's part by itself.
    fn gives_up(&self, is_file: bool, sizes: &ListSizes, refaulted: bool) -> bool {
        if is_file {
            inactive_is_under_tenth(sizes.inactive_file, sizes.active_file)
        } else {
            refaulted || inactive_is_low(sizes.inactive_anon, sizes.active_anon)
        }
    }

    fn counts_activations(&self) -> bool {
        true
    }

    fn ages_anon(&self, sizes: &ListSizes) -> bool {
        inactive_is_low(sizes.inactive_anon, sizes.active_anon)
    }
}
