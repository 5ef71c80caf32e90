//! One run of reclaim: who runs it, what its goal is, and what came of it.

use crate::state::backing::Backing;
use crate::state::tally::Tally;
use crate::state::waits::Waits;
use forebay_base::{Instant, Span};
use std::sync::Arc;

/// Who reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Kswapd,
    Direct,
}

/// The intent of one run of reclaim and what came of it.
#[derive(Clone, Debug)]
pub struct ScanControl<'a> {
    pub who: Who,
    /// The store to which the caller was about to write.
    pub own_store: Option<usize>,
    /// The last store to which a file page was written.
    pub wrote_to: Option<Arc<Backing>>,
    pub priority: u32,
    /// Pages to free.
    pub goal: u64,
    /// Zones that are not too large for the budget are left alone.
    pub(crate) zones_over_only: bool,
    /// Pages of both types may be deactivated, whatever the state of the lists.
    pub(crate) force_deactivate: bool,
    pub(crate) skipped_deactivate: bool,
    /// Pages judged in this pass.
    pub scanned: u64,
    /// Pages freed in this run.
    pub reclaimed: u64,
    pub tally: Tally,
    /// Pages looked at since others last ran.
    pub(crate) unyielded: u64,
    /// What the caller waits for is noted here, if a caller does.
    pub(crate) waits: Option<&'a Waits>,
    /// When this run stops waiting for writes under way. None before the first such wait.
    waits_until: Option<Instant>,
}

/// The goal of a caller that reclaims for itself.
const DIRECT_GOAL: u64 = 32;

impl<'a> ScanControl<'a> {
    pub fn new(who: Who, priority: u32) -> ScanControl<'a> {
        ScanControl {
            who,
            own_store: None,
            wrote_to: None,
            priority,
            goal: DIRECT_GOAL,
            zones_over_only: false,
            force_deactivate: false,
            skipped_deactivate: false,
            scanned: 0,
            reclaimed: 0,
            tally: Tally::default(),
            unyielded: 0,
            waits: None,
            waits_until: None,
        }
    }

    /// When this run stops waiting for writes under way: `longest` after its first wait. A silent
    /// store is waited for once, and not for each batch.
    pub fn waits_until(&mut self, now: Instant, longest: Span) -> Instant {
        *self.waits_until.get_or_insert(now + longest)
    }

    pub fn begin_pass(&mut self) {
        self.scanned = 0;
        self.tally = Tally::default();
    }
}
