//! Values of the state in which kernels differ. Those of today are the default.
//!
//! What older kernels did otherwise is in the crate `forebay-kernels`, which only the lab and tests
//! link: values that a cache is built with, and flows that `flow/doors.rs` calls.

mod file_system;

pub use self::file_system::{CongestionSignal, GivenUp, InodeCache, PastFileSystem, ReclaimWrites};

use crate::lists::{Rule, TwoLists};
use crate::settings::Settings;
use forebay_law::pause::Tick;
use forebay_law::watermark::MarkSpacing;
use std::sync::Arc;

/// The values of a kernel.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a difference between two kernels that stands for itself"
)]
pub struct KernelValues {
    /// The rule by which pages are evicted.
    pub rule: Arc<dyn Rule>,
    /// The watermarks lie a quarter of the min mark apart, whatever `watermark_scale_factor` says.
    pub quarters_marks: bool,
    /// Of which memory a part may be dirty.
    pub dirtyable: Dirtyable,
    /// How many writes of the flusher may be under way at one store.
    pub write_depth: WriteDepth,
    /// How a store's rate becomes known.
    pub estimate: Estimate,
    /// Completed writes are aged by periods of completed pages, and not of time
    /// (spec/writeback.md 2.5).
    pub counts_periods: bool,
    /// Pauses are cut fine, and every writer is checked at each of its pages while the hard
    /// limit is reached.
    pub is_paced: bool,
    /// The tick in which pauses are counted.
    pub pause_tick: Tick,
    /// Callers wait at a gate while a node's reserve is half gone.
    pub has_gates: bool,
    /// kswapd balances zones, so that each has locks and flags of its own.
    pub balances_zones: bool,
    /// Closed files are listed in the order in which they were closed, for a kernel that drops them
    /// with their pages.
    pub strips_closed_files: bool,
    /// A stream reads ahead as far as the setting says, whatever the store.
    pub readahead_is_fixed: bool,
    /// Pages that are in swap and in memory are counted, for a rule that weighs the two kinds of
    /// pages by their costs.
    pub counts_clean_swap: bool,
}

impl Default for KernelValues {
    fn default() -> KernelValues {
        KernelValues {
            rule: Arc::new(TwoLists),
            quarters_marks: false,
            dirtyable: Dirtyable::default(),
            write_depth: WriteDepth::default(),
            estimate: Estimate::default(),
            counts_periods: false,
            is_paced: true,
            pause_tick: Tick::FINE,
            has_gates: true,
            balances_zones: false,
            strips_closed_files: false,
            readahead_is_fixed: false,
            counts_clean_swap: true,
        }
    }
}

impl KernelValues {
    /// How far the watermarks lie apart.
    pub(crate) fn mark_spacing(&self, settings: &Settings) -> MarkSpacing {
        if self.quarters_marks {
            MarkSpacing::Quarter
        } else {
            MarkSpacing::Scale {
                per_ten_thousand: settings.watermark_scale_factor,
            }
        }
    }
}

/// Of which memory a part may be dirty (spec/writeback.md 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dirtyable {
    /// Free pages and those of files, and anonymous ones if there is swap (2.6.32 to 3.2).
    WithAnonymous,
    /// The same without what zones reserve (3.3 to 3.12).
    WithAnonymousLessReserve,
    /// Free pages without what zones reserve, and those of files (4.8 and later).
    #[default]
    Files,
}

/// How many writes of the flusher may be under way at one store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteDepth {
    /// As many as its queue has room for: a disk's 128 requests are 64 MiB (before the block layer
    /// kept writes from holding up reads, Linux 4.10 and multi-queue devices). Each request has a
    /// long vector, outside the budget.
    FullQueue,
    /// The same, in requests as long as what a file system writes as one: its pages end their
    /// writeback together (5.15 and later on a store whose queue has no end of its own).
    WholeTurns,
    /// As many as the store finishes in a fifth of a second.
    #[default]
    FifthOfSecond,
}

impl WriteDepth {
    /// Whether a store's queue may run full.
    pub fn fills_queues(self) -> bool {
        self != WriteDepth::FifthOfSecond
    }
}

/// How a store's rate becomes known (spec/writeback.md 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimate {
    /// It is taken for 100 MB/s, and a window of four seconds follows what it writes, whether it
    /// has enough to do or not (Linux).
    Learned,
    /// The first samples count for more, and time without work does not.
    Early,
    /// The same, and once the rate is known: if the last 2.4 s agree with each other and not with
    /// it, they are believed.
    #[default]
    Steps,
}
