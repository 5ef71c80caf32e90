//! Tasks of the engine are watched. One that ends although it should go on, by a panic of ours or
//! of the program's code that it called, is an incident: it is said, counted, and started again, so
//! that the cache does not silently go on without its flusher.
//!
//! What such a task held goes back by guards when it is dropped, as when a runtime ends.

use crate::counters::Counter;
use crate::parts::Accounts;
use forebay_base::Span;
use std::future::Future;
use std::sync::Arc;

/// The pause before a task that ended is started again, and the longest one: it doubles each time.
const PAUSE: (Span, Span) = (Span::from_secs(1), Span::from_secs(60));

impl Accounts {
    /// Runs what `begin` makes as a task, and again whenever it ends before the cache is closed.
    pub(crate) fn keep<F>(
        self: &Arc<Self>,
        name: &'static str,
        begin: impl Fn() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let accounts = self.clone();
        self.rt.spawn(name, async move {
            let mut pause = PAUSE.0;
            loop {
                accounts.rt.caught(begin()).await;
                if accounts.is_closing() {
                    return;
                }
                accounts.task_ended(name, "it is started again");
                accounts.rest(pause).await;
                pause = pause.saturating_mul(2).min(PAUSE.1);
            }
        });
    }

    /// The output of `work`, a task of its own that is not begun again: none if it panicked.
    pub(crate) async fn watched<T>(
        &self,
        name: &'static str,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let output = self.rt.caught(work).await;
        if output.is_none() {
            self.task_ended(name, "its caller gets an error, or does it again");
        }
        output
    }

    fn task_ended(&self, name: &'static str, next: &str) {
        self.count(Counter::TaskEnds, 1);
        self.incidents.task_ended(self.rt.now(), name);
        forebay_rt::say(format_args!(
            "the task '{name}' of the cache ended unexpectedly; {next}; report it with the lines \
             before this one"
        ));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::incident::Happening;
    use forebay_base::sync::atomic::{AtomicU32, Ordering};
    use forebay_rt::wait::Gate;
    use forebay_rt::{Rt, block_on};

    fn ends(engine: &Engine) -> (u64, Vec<&'static str>) {
        let incidents = engine.incidents(None).into_iter();
        let names = incidents.filter_map(|incident| match incident.what {
            Happening::TaskEnded { name, .. } => Some(name),
            _ => None,
        });
        (
            engine.accounts.records.counters.get(Counter::TaskEnds),
            names.collect(),
        )
    }

    #[test]
    fn a_task_that_panics_or_returns_is_an_incident_and_begins_anew() {
        let engine = Engine::alone(Rt::real());
        let (begun, third) = (Arc::new(AtomicU32::new(0)), Arc::new(Gate::new(false)));
        let (count, gate) = (begun.clone(), third.clone());
        let accounts = engine.accounts.clone();
        engine.accounts.keep("test", move || {
            let (number, gate) = (count.fetch_add(1, Ordering::AcqRel), gate.clone());
            let accounts = accounts.clone();
            async move {
                match number {
                    0 => panic!("a bug"),
                    1 => {}
                    _ => {
                        gate.open();
                        accounts.closed.listen().await;
                    }
                }
            }
        });
        block_on(third.wait());
        assert_eq!(ends(&engine), (2, vec!["test"]), "one incident for both");
        engine.shut_down();
        assert_eq!(begun.load(Ordering::Acquire), 3);
    }

    #[test]
    fn work_that_panics_leaves_no_caller_waiting() {
        let engine = Engine::alone(Rt::real());
        assert_eq!(
            block_on(engine.accounts.watched("work", async { 7 })),
            Some(7)
        );
        let broken = engine.accounts.watched("work", async { panic!("a bug") });
        assert_eq!(block_on(broken), None::<()>);
        assert_eq!(ends(&engine), (1, vec!["work"]));
    }
}
