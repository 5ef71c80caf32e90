//! The steps of a run of reclaim before 6.16. Where an older kernel did what is done today, the
//! step is today's.

use crate::Policy;
use crate::past::Past;
use forebay_base::Span;
use forebay_engine::flow::judge::stays::Fate;
use forebay_engine::flow::reclaim::{Steps, Today};
use forebay_engine::lists::List;
use forebay_engine::parts::Reclaim;
use forebay_engine::state::frame::{ExclusiveHold, flag};
use forebay_engine::state::node::Node;
use forebay_engine::state::scan_control::{ScanControl, Who};
use forebay_engine::state::tally::Tally;
use forebay_engine::state::zone::Zone;
use forebay_law::history::{PagesLookedAt, early_timeout_ms};
use forebay_law::throttle::ThrottleReason;

/// The steps of older kernels, as the policy of the cache names them.
pub(crate) struct Older<'a> {
    pub(crate) reclaim: &'a Reclaim,
    pub(crate) policy: &'a Policy,
    pub(crate) past: &'a Past,
}

impl<'a> Older<'a> {
    fn today(&self) -> Today<'a> {
        Today(self.reclaim)
    }
}

impl Steps for Older<'_> {
    fn reclaim(&self) -> &Reclaim {
        self.reclaim
    }

    async fn passes_isolated(&self, zone: &Zone, list: List, control: &ScanControl<'_>) -> bool {
        if self.past.naps.is_some() {
            self.naps_while_isolated(zone, list).await
        } else {
            self.reclaim
                .passes_isolated(self, zone, list, control)
                .await
        }
    }

    fn fate(
        &self,
        zone: &Zone,
        hold: &ExclusiveHold<'_>,
        control: &ScanControl<'_>,
        tally: &mut Tally,
    ) -> Fate {
        if self.past.judges {
            self.past_fate(zone, hold, control, tally)
        } else {
            self.reclaim.fate(zone, hold, control, tally)
        }
    }

    fn page_out(&self, hold: ExclusiveHold<'_>, control: &mut ScanControl<'_>, tally: &mut Tally) {
        if hold.word() & flag::ANON != 0 {
            self.today().page_out(hold, control, tally);
        } else {
            self.write_file_page(hold, control);
        }
    }

    fn asks_flushers(&self) -> bool {
        self.past.writes.is_none() || self.asked_after_batches()
    }

    async fn after_batch(&self, zone: &Zone, control: &mut ScanControl<'_>, batch: Tally) {
        self.wait_after_writes(control).await;
        self.today().after_batch(zone, control, batch).await;
        if self.past.naps.is_some() {
            self.nap_after_batch(zone, control, batch).await;
        }
    }

    async fn after_zone(&self, control: &mut ScanControl<'_>) {
        if self.past.naps.is_some() {
            self.nap_after_zone(control).await;
        }
    }

    async fn shrink_caches(&self, part: PagesLookedAt, control: &mut ScanControl<'_>) {
        if self.past.caches {
            self.past_shrink_caches(part, control).await;
        } else {
            self.reclaim.shrink_caches(control.priority);
        }
    }

    async fn after_node(&self, node: &Node, control: &ScanControl<'_>) {
        if self.past.waits_for_events() {
            self.reclaim.throttle_after_pass(self, node, control).await;
        } else {
            self.nap_after_pass(self, node, control).await;
        }
    }

    async fn after_pass(&self, node: &Node, control: &ScanControl<'_>) {
        if self.past.waits_for_events() {
            self.reclaim.wait_for_progress(self, node, control).await;
        }
    }

    async fn after_failure(&self, node: usize, control: &ScanControl<'_>, total_scanned: u64) {
        if self.past.writes.is_some() {
            self.ask_flushers_after(total_scanned);
        }
        if self.past.naps.is_some() {
            self.nap_in_vain(node, control).await;
        }
    }

    async fn throttle(&self, node: &Node, who: Who, reason: ThrottleReason) {
        match self.past.early_events {
            None => self.today().throttle(node, who, reason).await,
            Some(version) => {
                let timeout = Span::from_millis(early_timeout_ms(reason, version));
                self.reclaim
                    .wait_for_reason(node, who, reason, timeout)
                    .await;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "reclaim_tests.rs"]
mod tests;
