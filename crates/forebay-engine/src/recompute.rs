//! The record of a pause: what the law of decisions was asked, and what it answered.

use crate::event::{PauseLimit, PauseRecord};
use forebay_law::decision::{Decision, DecisionInputs, DirtierState, decide};

impl PauseRecord {
    /// The record of `decision`, which was made from `inputs`.
    pub(crate) fn of(inputs: &DecisionInputs, decision: &Decision) -> PauseRecord {
        PauseRecord {
            limit: decision.limit,
            position: inputs.position,
            setpoint: decision.position.setpoint,
            pos_ratio: decision.position.ratio,
            dirty_ratelimit: inputs.dirty_ratelimit,
            task_ratelimit: decision.task_ratelimit,
            dirtied: inputs.before.clock.nr_dirtied,
            clock: inputs.before.clock,
            sizing: decision.sizing,
            is_paced: inputs.is_paced,
            tick: inputs.tick,
            paused_when_us: inputs.before.paused_when_us,
            now_us: inputs.now_us,
            pause_us: decision.pause_us,
        }
    }

    /// What the law was asked.
    fn inputs(&self) -> DecisionInputs {
        DecisionInputs {
            position: self.position,
            dirty_ratelimit: self.dirty_ratelimit,
            before: DirtierState {
                clock: self.clock,
                paused_when_us: self.paused_when_us,
                ..DirtierState::default()
            },
            now_us: self.now_us,
            tick: self.tick,
            is_paced: self.is_paced,
        }
    }

    /// The record that the laws make from the inputs of this one: its position, the base rate, the
    /// pages dirtied and the writer's clock. It is equal to this one. A pause whose limit is
    /// [`PauseLimit::Unmeasured`] is returned as it is, because it ended when a write did.
    #[must_use]
    pub fn recomputed(&self) -> PauseRecord {
        if self.limit == PauseLimit::Unmeasured {
            return *self;
        }
        let inputs = self.inputs();
        PauseRecord::of(&inputs, &decide(&inputs))
    }
}
