//! A budget that follows the memory of the machine.
//!
//! A program looks at what is left, the law says how large the cache may be, and the balloon's task
//! does the rest. Nobody waits here: a writer that is above the smaller limits is slowed by them.

use crate::counters::Counter;
use crate::elastic::{Cause, MemoryLook, MemorySeen, MemoryStep};
use crate::engine::Engine;
use crate::event::Event;
use forebay_base::units::page_of;

impl Engine {
    /// Lets the budget follow what was seen; none if it is not elastic.
    pub(crate) fn memory_seen(&self, seen: &MemorySeen) -> Option<MemoryLook> {
        let look = self.next_budget(seen)?;
        self.accounts.count(Counter::MemoryLooks, 1);
        self.accounts
            .count(Counter::MemoryPressure, u64::from(seen.is_pressed));
        if let Some(step) = look.step
            && !self.accounts.is_closing()
        {
            self.follow(step);
        }
        Some(look)
    }

    fn follow(&self, step: MemoryStep) {
        let pages = page_of(step.from_bytes.abs_diff(step.to_bytes));
        let counter = match step.cause {
            Cause::Room => Counter::MemoryGivenRoom,
            Cause::Pressure => Counter::MemoryGivenPressure,
            Cause::Spare => Counter::MemoryTaken,
        };
        self.accounts.count(counter, pages);
        self.accounts.record(&Event::MemoryTarget { step });
        self.accounts
            .incidents
            .resized(self.rt.now(), step.from_bytes, step.to_bytes);
        self.reclaim.budget_becomes(step.to_bytes);
    }
}
