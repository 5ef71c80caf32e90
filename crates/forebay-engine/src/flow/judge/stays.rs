//! What stands in the way of freeing a page, and what then becomes of the page.

use crate::counters::Counter;
use crate::parts::{Pages, Reclaim};
use crate::state::frame::{ExclusiveHold, flag};
use crate::state::tally::Tally;

/// What becomes of a page.
pub enum Fate {
    Free,
    Activate,
    /// To the active list, because it cannot be freed now.
    OutOfTheWay,
    /// Back to its list, where this many touches are used up.
    Round(u64),
    Keep,
    /// It is written: to swap, or as an older kernel did.
    PageOut,
}

impl Pages {
    /// The fate of a page whose write has not ended: it is marked and goes out of reclaim's way,
    /// and is freed when the write has ended. A page that is `met_again`, when every page that
    /// reclaim meets is like it, makes kswapd wait.
    pub fn leave_in_writeback(
        &self,
        hold: &ExclusiveHold<'_>,
        met_again: bool,
        tally: &mut Tally,
    ) -> Fate {
        if met_again {
            tally.immediate += 1;
        } else {
            self.memory.frames.set(hold.frame(), flag::RECLAIM);
            tally.writeback += 1;
        }
        Fate::OutOfTheWay
    }

    /// Marks a dirty file page, so that it is freed as soon as its flusher has written it.
    pub fn leave_dirty_file(&self, hold: &ExclusiveHold<'_>) -> Fate {
        self.memory.frames.set(hold.frame(), flag::RECLAIM);
        self.accounts.count(Counter::NrVmscanImmediateReclaim, 1);
        Fate::OutOfTheWay
    }

    /// The fate of a dirty anonymous page that has a slot of swap: it is written, unless swap
    /// refused it just now.
    pub fn page_out_or_put_off(&self, hold: &ExclusiveHold<'_>) -> Fate {
        if hold.word() & flag::FAILED != 0 && !self.takes_swap_retry() {
            Fate::OutOfTheWay
        } else {
            Fate::PageOut
        }
    }
}

impl Reclaim {
    /// Whether the store of a page is congested.
    pub fn meets_congestion(&self, hold: &ExclusiveHold<'_>) -> bool {
        let is_congested = || {
            let object = self.pages.objects.of_page(hold.owner());
            self.dirty.backing_of(&object).is_congested()
        };
        self.congestion.is_anywhere() && is_congested()
    }
}
