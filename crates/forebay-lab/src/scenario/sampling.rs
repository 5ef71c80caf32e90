//! When the levels of a scenario and the progress of its processes are sampled.

use super::Scenario;
use super::progress::Progress;
use crate::world::World;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use std::sync::Arc;

/// Samples a scenario every `sample_ms` from its beginning on, and at its end.
pub(super) struct Sampling {
    world: World,
    progress: Arc<Progress>,
    began: Instant,
    every: Span,
    length: Span,
    /// The time for which the last sample was due.
    last: Mutex<Span>,
}

impl Sampling {
    /// The series of `world` begins now, and nothing else samples it.
    pub(super) fn new(world: &World, script: &Scenario, progress: Arc<Progress>) -> Sampling {
        world.begin_series();
        Sampling {
            world: world.clone(),
            progress,
            began: world.now(),
            every: script.sample,
            length: script.length,
            last: Mutex::new(Span::ZERO),
        }
    }

    /// Samples until the scenario is over. This is a task of its own, because the one that plays
    /// may wait long for a process that was killed.
    pub(super) async fn watch(self: Arc<Sampling>) {
        let mut due = Span::ZERO;
        while due < self.length {
            due = (due + self.every).min(self.length);
            let passed = self.world.now() - self.began;
            let rest = due.saturating_sub(passed);
            let over = self.world.over();
            if self.world.rt().timeout(rest, over).await.is_ok() {
                return;
            }
            self.look(due);
        }
    }

    /// The last sample, unless it was taken already: both tasks wake at the same moment, in any
    /// order.
    pub(super) fn last(&self) {
        self.look(self.length);
    }

    fn look(&self, due: Span) {
        let mut last = lock(&self.last);
        if due <= *last {
            return;
        }
        *last = due;
        self.progress.note(self.world.now() - self.began);
        self.world.sample();
    }
}
