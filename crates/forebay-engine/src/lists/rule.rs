//! What a rule of eviction decides. It sees flags and lengths of lists and returns flags and
//! numbers; its callers carry them out.

use crate::lists::list::List;
use crate::lists::queues::{Change, ZoneLists};
use forebay_law::refault::WorkingsetSizes;
use forebay_law::scan::{ListSizes, ScanInputs, ScanTargets};
use std::fmt;

/// What becomes of a page at the old end of a list, judged by its touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go, if nothing else prevents it.
    Free,
    /// It goes to the active list.
    Activate,
    /// It stays on its list for another round, which uses up these touches.
    Round(u64),
}

/// The list from which a batch is taken, and what is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub list: List,
    /// Whether its pages are judged and may be freed; otherwise they are only deactivated.
    pub is_judged: bool,
}

/// A rule of eviction. The defaults are what most rules have in common.
pub trait Rule: fmt::Debug + Send + Sync {
    /// Flags of a new page that is not remembered.
    fn newcomer(&self, _is_anon: bool) -> u64 {
        0
    }

    /// How a page starts that comes back `distance` steps after its eviction; none if it starts as
    /// a new page.
    fn returning(&self, distance: u64, is_file: bool, sizes: &WorkingsetSizes) -> Option<Change>;

    /// Whether evictions are remembered.
    fn remembers(&self) -> bool {
        true
    }

    /// Whether the eviction of a page with the flags `word` is remembered.
    fn leaves_shadow(&self, _word: u64) -> bool {
        true
    }

    /// Whether a file page that comes back to be overwritten starts as a new page.
    fn forgets_overwritten(&self) -> bool {
        false
    }

    /// What becomes of a page with the flags `word` at the old end of a list that is judged.
    fn verdict(&self, word: u64) -> Verdict;

    /// How a page changes when its verdict is to activate it.
    fn activation(&self) -> Change;

    /// How a page changes when it cannot be freed now and should be out of reclaim's way.
    fn out_of_the_way(&self) -> Change;

    /// The touch that an active page uses up to stay active, if it may stay.
    fn spares_active(&self, _word: u64) -> Option<u64> {
        None
    }

    /// How many pages of each list a pass takes.
    fn targets(&self, inputs: &ScanInputs, lists: &ZoneLists, is_kswapd: bool) -> ScanTargets;

    /// The list from which a batch that is due from `list` is taken.
    fn source(&self, list: List, lists: &ZoneLists) -> Source;

    /// Whether the active list of a kind gives pages up. `refaulted`: pages of the kind came back
    /// too early since the last run.
    fn gives_up(&self, is_file: bool, sizes: &ListSizes, refaulted: bool) -> bool;

    /// Whether active anonymous pages are aged although no pass asks for it.
    fn ages_anon(&self, sizes: &ListSizes) -> bool;

    /// What work on one kind of pages has cost: pages written, and pages put back.
    fn cost(&self, written: u64, put_back: u64) -> u64 {
        32 * written + put_back
    }

    /// Whether each page that is active was activated where that is counted, so that there are no
    /// more of them than the counters say.
    fn counts_activations(&self) -> bool {
        false
    }

    /// Whether the zone counts the pages that are looked at and put back.
    fn counts_rotations(&self) -> bool {
        false
    }
}
