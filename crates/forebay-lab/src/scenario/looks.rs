//! When levels and everybody's progress are looked at.

use super::Scenario;
use super::progress::Progress;
use crate::world::World;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use std::sync::Arc;

/// Looks at a scenario each `sample_ms` from its beginning on, and at its end.
pub(super) struct Looks {
    world: World,
    progress: Arc<Progress>,
    began: Instant,
    every: Span,
    length: Span,
    /// For when the last look was.
    last: Mutex<Span>,
}

impl Looks {
    /// The series of `world` begins now, and nobody else looks.
    pub(super) fn new(world: &World, script: &Scenario, progress: Arc<Progress>) -> Looks {
        world.begin_series();
        Looks {
            world: world.clone(),
            progress,
            began: world.now(),
            every: script.sample,
            length: script.length,
            last: Mutex::new(Span::ZERO),
        }
    }

    /// Looks until the scenario is over. This is a task of its own: the one that plays may wait
    /// long for a process that was killed.
    pub(super) async fn watch(self: Arc<Looks>) {
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

    /// The last look, unless it was taken already: both wake at the same moment, in any order.
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
