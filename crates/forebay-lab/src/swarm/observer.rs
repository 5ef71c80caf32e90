//! The observer: it watches the engine's events and reports declared bounds that are exceeded.

use super::explained::{self, ReportedWaits};
use super::part::Part;
use super::plan::Plan;
use super::verdict::{Oracle, Verdict};
use forebay_base::Instant;
use forebay_engine::event::{Event, EventSink, PauseLimit, PauseRecord};
use forebay_kernels::policy::DirtyThrottle;
use forebay_law::position::position;
use std::sync::Arc;

/// Longest pause of a writer (promise 5 of the design), microseconds.
const LONGEST_PAUSE_US: u64 = 200_000;

#[derive(Debug)]
pub(super) struct Observer {
    verdict: Arc<Verdict>,
    reported: Arc<ReportedWaits>,
    /// Whether a wait may last longer than its bound in this run.
    may_be_overdue: bool,
    has_jumps: bool,
    /// Whether each pause of a writer has a cause, and lasts as long as it should.
    decides: bool,
}

impl Observer {
    pub(super) fn new(
        verdict: Arc<Verdict>,
        reported: Arc<ReportedWaits>,
        plan: &Plan,
    ) -> Observer {
        Observer {
            verdict,
            reported,
            may_be_overdue: plan.may_hang() || plan.may_fail() || plan.may_be_held(),
            has_jumps: plan.has(Part::Jumps),
            decides: plan.policy.dirty_throttle == DirtyThrottle::Paced && !plan.has(Part::Jumps),
        }
    }

    fn judge_pause(&self, record: &PauseRecord) {
        // Before the rate of a store is known, a pause is reported by the time that it took, and
        // that includes a jump of the clock. Any other pause is reported by its computed length.
        let is_jumped = self.has_jumps && record.limit == PauseLimit::Unmeasured;
        if record.pause_us > LONGEST_PAUSE_US && !is_jumped {
            let what = format!("a writer pauses for {} us (promise 5)", record.pause_us);
            self.verdict.broken(Oracle::Bounds, what);
        }
        let again = position(&record.position);
        let is_computed = record.limit != PauseLimit::Unmeasured;
        if is_computed && (again.ratio, again.setpoint) != (record.pos_ratio, record.setpoint) {
            let what = format!(
                "a pause records a position ratio of {} at a setpoint of {}; from its inputs \
                 follow {} and {} (promise 5)",
                record.pos_ratio, record.setpoint, again.ratio, again.setpoint
            );
            self.verdict.broken(Oracle::Bounds, what);
        }
    }
}

impl EventSink for Observer {
    fn record(&self, at: Instant, event: &Event) {
        match event {
            Event::BalanceDirtyPages { record, .. } => {
                self.judge_pause(record);
                explained::judge_pause(record, &self.verdict);
            }
            Event::CallWaited { call } => {
                explained::judge_causes(call, self.decides, &self.verdict);
                self.reported.note(call, &self.verdict);
            }
            Event::WaitOverdue { what, bound } if !self.may_be_overdue => {
                let what = format!(
                    "at {} ms a wait for {what} passed its bound of {bound} though every \
                     store answered",
                    at.as_millis()
                );
                self.verdict.broken(Oracle::Bounds, what);
            }
            _ => {}
        }
    }
}
