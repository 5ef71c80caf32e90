//! Promises in seconds: how many pages of a store may be dirty to be written in time.
//!
//! The law is `forebay_law::drain`. It is asked where the rate of a store is measured, every 200 ms
//! at most; writers and the flusher only read its result
//! (docs/decisions/writeback-and-throttling.md).

use crate::error::BuildError;
use crate::parts::Dirty;
use crate::retune::StoreChanges;
use crate::state::backing::Backing;
use crate::statistics::DrainStatistics;
use forebay_base::Span;
use forebay_base::sync::lock;
use forebay_law::at_risk::least_at_risk_ms;
use forebay_law::drain::{DrainInputs, DrainLimit, MEASURED_MS};
use forebay_law::drain::{aim_pages, floor_pages, least_promise_ms};

/// Above this part of the promise, percent, it counts as broken.
const OVERSHOT_PERCENT: u64 = 110;

impl Dirty {
    /// Lets the limit of `backing` follow its rate, if it has a promise and it is time.
    pub(crate) fn step_drain(&self, backing: &Backing) {
        let Some(promise) = self.drain_of(backing) else {
            return;
        };
        if !lock(&backing.rates).drain.is_due(self.accounts.now_ms()) {
            return;
        }
        let inputs = self.drain_inputs(backing, promise);
        let mut rates = lock(&backing.rates);
        rates.drain = rates.drain.advanced(&inputs);
        let is_known = inputs.busy_ms >= MEASURED_MS;
        if is_known && drain_us(&inputs) * 100 > promise.as_micros() * OVERSHOT_PERCENT {
            rates.drain_overshoots += 1;
        }
    }

    /// The limit of a store that was just attached, or whose promise was changed.
    pub(crate) fn begin_drain(&self, backing: &Backing) {
        let begun = self
            .drain_of(backing)
            .map(|promise| DrainLimit::begun(&self.drain_inputs(backing, promise)));
        lock(&backing.rates).drain = begun.unwrap_or_default();
    }

    /// The same for each store whose promise is one of `changes`.
    pub(crate) fn begin_drains(&self, changes: &[StoreChanges]) {
        for change in changes.iter().filter(|it| it.drain.is_some()) {
            self.begin_drain(&self.stores.get(change.store.number()));
        }
    }

    /// Refuses promises that a store cannot keep at the rate that it has now.
    pub(crate) fn check_drains(&self, changes: &[StoreChanges]) -> Result<(), BuildError> {
        let backings = self.stores.all();
        for change in changes {
            let number = change.store.number();
            let (Some(Some(given)), Some(backing)) = (change.drain, backings.get(number)) else {
                continue;
            };
            let inputs = self.drain_inputs(backing, given);
            let least = least_promise_ms(inputs.floor_pages, inputs.average_pages_per_s);
            if inputs.busy_ms >= MEASURED_MS && given < Span::from_millis(least) {
                return Err(BuildError::DrainTooShort {
                    bdi: number,
                    given,
                    least: Span::from_millis(least),
                });
            }
        }
        Ok(())
    }

    /// Refuses a limit on the age of bytes that a store cannot keep at the rate that it has now.
    pub(crate) fn check_at_risk(&self, given: Span) -> Result<(), BuildError> {
        for backing in self.stores.all() {
            let inputs = self.drain_inputs(&backing, given);
            let least = least_at_risk_ms(inputs.floor_pages, inputs.average_pages_per_s);
            if inputs.busy_ms >= MEASURED_MS && given < Span::from_millis(least) {
                return Err(BuildError::AtRiskTooShort {
                    bdi: backing.number,
                    given,
                    least: Span::from_millis(least),
                });
            }
        }
        Ok(())
    }

    /// What is known of the promise of `backing`, if it has one.
    pub(crate) fn drain_statistics(&self, backing: &Backing) -> Option<DrainStatistics> {
        let promise = self.drain_of(backing)?;
        let inputs = self.drain_inputs(backing, promise);
        let rates = *lock(&backing.rates);
        let unbounded = DrainInputs {
            most_pages: u64::MAX,
            ..inputs
        };
        Some(DrainStatistics {
            promise,
            limit: rates.drain.allowed_pages(inputs.most_pages),
            takes: Span::from_micros(drain_us(&inputs)),
            cost_percent: rates.drain.cost_percent,
            is_costly: rates.drain.is_costly(),
            is_idle: inputs.busy_ms >= MEASURED_MS && aim_pages(&unbounded) > inputs.most_pages,
            overshoots: rates.drain_overshoots,
        })
    }

    fn drain_inputs(&self, backing: &Backing, promise: Span) -> DrainInputs {
        let now = self.rt.now();
        let longest = self.pages.vectors.pages() as u64;
        let write_pages = longest.min(u64::from(backing.geometry.max_io_pages));
        let thresh = self.dirty_limits().thresh;
        let most_percent = backing.knobs.max_ratio_percent();
        let rates = *lock(&backing.rates);
        DrainInputs {
            promise_ms: promise.as_millis(),
            average_pages_per_s: rates.bandwidth.average_pages_per_s,
            has_leapt: rates.steady.has_leapt(),
            busy_ms: backing.activity.times(now).busy.as_millis(),
            floor_pages: floor_pages(write_pages),
            most_pages: thresh * most_percent / 100,
            dirty_pages: backing.dirty_pages(),
            written_pages: backing.taken_pages(),
            now_ms: now.as_millis(),
        }
    }
}

/// How long it takes to write what is dirty, microseconds.
fn drain_us(inputs: &DrainInputs) -> u64 {
    let rate = inputs.average_pages_per_s.max(1);
    inputs.dirty_pages.saturating_mul(1_000_000) / rate
}
