//! Knobs that are turned while the cache runs.
//!
//! The whole change is checked before any of it is done. A lower dirty limit takes the smoothed
//! path of the limits law: writers that are above it now are slowed and not stopped.

use crate::engine::Engine;
use crate::error::BuildError;
use crate::retune::{Changes, StoreChanges};
use crate::state::incidents::KnobTurn;
use crate::state::knobs::KnobValues;

impl Engine {
    /// Turns the knobs of `changes`, and returns their old values. If one is refused, all stay.
    pub(crate) fn retune(&self, changes: &Changes) -> Result<Changes, BuildError> {
        if self.accounts.is_closing() {
            return Err(BuildError::Closed);
        }
        let mut old = Changes::default();
        let limit_pages_before = self.dirty.dirty_limits().thresh;
        self.dirty.stores.check_keys(&changes.stores)?;
        self.knobs.change(|values| {
            let after = self.check_changes(changes, values)?;
            let moment = self.dirty.moment();
            old = changes.old(&values, self.pages.memory_bytes());
            self.dirty.check_drains(&changes.stores)?;
            if let Some(Some(at_risk)) = changes.at_risk {
                self.dirty.check_at_risk(at_risk)?;
            }
            old.stores = self.dirty.stores.retune(&changes.stores)?;
            // Later, the moment before the change shows that a limit was turned down.
            self.accounts.ledger.remember_turn(moment);
            self.smooth_limit();
            Ok::<_, BuildError>(after)
        })?;
        if changes.at_risk.is_some() {
            self.dirty
                .stores
                .for_each(|backing| self.dirty.begin_drain(backing));
        } else {
            self.dirty.begin_drains(&changes.stores);
        }
        if let Some(memory_bytes) = changes.memory_bytes {
            self.reclaim.budget_becomes(memory_bytes);
        }
        for backing in self.dirty.stores.all() {
            // The limits may be lower now, and the next look for old pages sooner.
            backing.flushing.requests.ask_for_background();
            backing.flushing.requests.wake();
        }
        let turn = KnobTurn {
            from: old.clone(),
            to: changes.clone(),
            limit_pages_before,
            limit_pages: self.dirty.dirty_limits().thresh,
        };
        self.accounts.incidents.turned(self.rt.now(), turn);
        Ok(old)
    }

    /// Every knob as it is now.
    pub(crate) fn tuned(&self) -> Changes {
        let mut all = Changes::all(&self.knobs.values(), self.pages.memory_bytes());
        self.dirty.stores.for_each(|backing| {
            let key = self.dirty.stores.key_of(backing.number);
            let settings = backing.knobs.put_into(backing.settings);
            all.stores.push(StoreChanges::of(key, &settings));
        });
        all
    }

    fn check_changes(
        &self,
        changes: &Changes,
        values: KnobValues,
    ) -> Result<KnobValues, BuildError> {
        let after = changes.applied(values);
        Changes::check(&self.settings, &after)?;
        if let Some(memory_bytes) = changes.memory_bytes {
            self.budget.check(&self.settings, memory_bytes)?;
        }
        Ok(after)
    }

    /// Moves the smoothed limit to the present limit. From there it falls.
    fn smooth_limit(&self) {
        let thresh = self.dirty.dirty_limits().thresh;
        let dirty = self.dirty.global.pages();
        self.dirty
            .global
            .advance_limit(thresh, dirty, self.accounts.now_ms());
    }
}
