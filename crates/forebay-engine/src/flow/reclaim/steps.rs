//! The steps of a run of reclaim in which kernels differ. Today's are the default bodies.
//! What older kernels do instead is in `forebay-kernels`; the passes call those that they were
//! given.

use crate::flow::judge::stays::Fate;
use crate::lists::List;
use crate::parts::Reclaim;
use crate::state::frame::ExclusiveHold;
use crate::state::node::Node;
use crate::state::scan_control::{ScanControl, Who};
use crate::state::tally::Tally;
use crate::state::zone::Zone;
use forebay_base::Span;
use forebay_law::history::PagesLookedAt;
use forebay_law::throttle::ThrottleReason;

/// What a run of reclaim does at each of its steps. The methods are in the order of the run, and
/// their bodies are what today's kernel does.
#[expect(
    async_fn_in_trait,
    reason = "a run of reclaim is generic over its steps; code that boxes one names a type"
)]
pub trait Steps: Sized {
    /// The part that reclaims.
    fn reclaim(&self) -> &Reclaim;

    /// Lets a caller wait while too many pages are off the lists. False if it gives up.
    async fn passes_isolated(&self, zone: &Zone, list: List, control: &ScanControl<'_>) -> bool {
        self.reclaim()
            .passes_isolated(self, zone, list, control)
            .await
    }

    /// What becomes of a page.
    fn fate(
        &self,
        zone: &Zone,
        hold: &ExclusiveHold<'_>,
        control: &ScanControl<'_>,
        tally: &mut Tally,
    ) -> Fate {
        self.reclaim().fate(zone, hold, control, tally)
    }

    /// Writes a dirty page whose fate is that.
    fn page_out(&self, hold: ExclusiveHold<'_>, control: &mut ScanControl<'_>, tally: &mut Tally) {
        tally.paged_out += 1;
        self.reclaim().page_out(hold, control.who);
    }

    /// Whether a batch in which all was dirty asks the flushers.
    fn asks_flushers(&self) -> bool {
        true
    }

    /// Waits after a batch in which it met `batch`.
    async fn after_batch(&self, _zone: &Zone, control: &mut ScanControl<'_>, batch: Tally) {
        if batch.paged_out > 0 {
            self.reclaim().wait_for_swap_queue(control).await;
        }
    }

    /// Waits after a pass over a zone.
    async fn after_zone(&self, _control: &mut ScanControl<'_>) {}

    /// Asks the shrinkers, after a pass that looked at `part` of the pages.
    async fn shrink_caches(&self, _part: PagesLookedAt, control: &mut ScanControl<'_>) {
        self.reclaim().shrink_caches(control.priority);
    }

    /// Raises flags and waits after a pass over a node.
    async fn after_node(&self, node: &Node, control: &ScanControl<'_>) {
        self.reclaim()
            .throttle_after_pass(self, node, control)
            .await;
    }

    /// Lets a caller wait after a pass over all its nodes, the first of which is `node`.
    async fn after_pass(&self, node: &Node, control: &ScanControl<'_>) {
        self.reclaim().wait_for_progress(self, node, control).await;
    }

    /// Lets a caller wait after a pass that freed too little. It has looked at `total_scanned`
    /// pages by now.
    async fn after_failure(&self, _node: usize, _control: &ScanControl<'_>, _total_scanned: u64) {}

    /// Waits for `reason` on `node`.
    async fn throttle(&self, node: &Node, who: Who, reason: ThrottleReason) {
        let reclaim = self.reclaim();
        let brief = matches!(
            reason,
            ThrottleReason::NoProgress | ThrottleReason::Congested
        );
        if brief && reclaim.memory.skips_throttle(node) {
            reclaim.rt.yield_now().await;
            return;
        }
        let tick_ms = reclaim.settings.tick.as_millis().max(1);
        let timeout = Span::from_millis(reason.timeout_ms(tick_ms));
        reclaim.wait_for_reason(node, who, reason, timeout).await;
    }
}

/// Today's steps.
#[derive(Clone, Copy)]
pub struct Today<'a>(pub &'a Reclaim);

impl Steps for Today<'_> {
    fn reclaim(&self) -> &Reclaim {
        self.0
    }
}
