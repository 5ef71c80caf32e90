//! One run: a machine is switched on, a workload runs on it, and the outcome is recorded.

pub use crate::launch::launch;
pub use crate::look::Look;
pub use crate::plan::{Ending, Plan, Ready, RunError};

use crate::outcome::Outcome;
use crate::scenario;
use crate::world::World;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_rt::thread::{self, Stopwatch};

/// Runs `plan` to its end.
///
/// # Errors
/// [`RunError`].
///
/// ```
/// use forebay_lab::run::{Plan, run};
/// let plan = Plan::new("simple-wb", "amd4-512m")?.with("iterations", "1").with("scale", "16");
/// let outcome = run(&plan)?;
/// assert!(outcome.elapsed_s > 0.0);
/// assert_eq!(outcome.figure("page_writes_file"), Some(0.0));
/// # Ok::<(), forebay_lab::run::RunError>(())
/// ```
pub fn run(plan: &Plan) -> Result<Outcome, RunError> {
    let ready = plan.check()?;
    if let Some(scenario) = &plan.scenario {
        return scenario::run(scenario, |body| launch(plan, &ready, body));
    }
    let body = |world: World| (ready.workload.run)(world, ready.knobs.clone());
    launch(plan, &ready, body)
}

/// One of several runs has ended.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Its place among the plans.
    pub index: usize,
    /// How many have ended.
    pub ended: usize,
    /// How many there are.
    pub all: usize,
    /// How long it took in real time.
    pub real_s: f64,
}

/// Runs all `plans`, `threads` at a time, and returns their outcomes in the same order. `report` is
/// called after each, on the thread that ran it.
///
/// # Errors
/// The outcome of a plan that failed is its [`RunError`].
pub fn run_all(
    plans: Vec<Plan>,
    threads: usize,
    report: impl Fn(Progress) + Send + Sync + 'static,
) -> Vec<Result<Outcome, RunError>> {
    let shared = Arc::new(PlanQueue {
        next: Mutex::new((0, 0)),
        outcomes: Mutex::new(plans.iter().map(|_| None).collect()),
        plans,
        report: Box::new(report),
    });
    let mut joiners = Vec::new();
    for _ in 1..threads.max(1) {
        let batch = shared.clone();
        // The threads that could be started share the work; if there is none, the caller does it
        // all.
        joiners.extend(thread::spawn("lab run", move || batch.work()));
    }
    shared.work();
    joiners.into_iter().for_each(thread::Joiner::join);
    let outcomes = std::mem::take(&mut *lock(&shared.outcomes));
    outcomes
        .into_iter()
        .map(|outcome| outcome.expect("every plan was run"))
        .collect()
}

struct PlanQueue {
    plans: Vec<Plan>,
    /// The next plan, and how many have ended.
    next: Mutex<(usize, usize)>,
    outcomes: Mutex<Vec<Option<Result<Outcome, RunError>>>>,
    report: Box<dyn Fn(Progress) + Send + Sync>,
}

impl PlanQueue {
    fn work(&self) {
        loop {
            let index = {
                let mut next = lock(&self.next);
                next.0 += 1;
                next.0 - 1
            };
            let Some(plan) = self.plans.get(index) else {
                return;
            };
            let stopwatch = Stopwatch::start();
            let outcome = run(plan);
            let real_s = stopwatch.elapsed().as_secs_f64();
            lock(&self.outcomes)[index] = Some(outcome);
            let ended = {
                let mut next = lock(&self.next);
                next.1 += 1;
                next.1
            };
            (self.report)(Progress {
                index,
                ended,
                all: self.plans.len(),
                real_s,
            });
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
