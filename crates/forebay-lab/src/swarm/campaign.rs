//! A campaign: many seeds, spread over the processors of the machine.

use super::plan::Reduction;
use super::run::{Outcome, run_seed, run_twin};
use super::verdict::{Oracle, Violation};
use forebay_base::Span;
use forebay_base::hash::mix;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_engine::Mark;
use forebay_rt::thread::{Stopwatch, spawn};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// A run takes a fraction of a second. One that takes this long runs in circles while its clock
/// stands still.
const ENDLESS_AFTER: Span = Span::from_secs(300);

/// Which seeds to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Seeds that are run first: they found something once.
    pub kept: Vec<u64>,
    /// The seeds.
    pub seeds: Range<u64>,
    /// No seed begins after this time.
    pub longest: Option<Span>,
    /// One seed in this many is run twice and compared; 0 for none.
    pub twin_every: u64,
    /// Threads.
    pub threads: usize,
    /// Stop after this many violations.
    pub most_violations: usize,
    /// What to leave out of each run.
    pub reduction: Reduction,
}

/// A seed that found something.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What it found.
    pub violation: Violation,
}

/// What all runs together did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Seeds that ran.
    pub seeds: u64,
    /// Seeds that ran a second time, to compare the two runs.
    pub twins: u64,
    /// Seeds that found something.
    pub failed: Vec<Failed>,
    /// Real time, s.
    pub seconds: f64,
    /// Simulated time, hours.
    pub simulated_hours: f64,
    /// Calls of the cache.
    pub calls: u64,
    /// Calls whose future was dropped.
    pub abandoned: u64,
    /// Calls that ended with an error.
    pub refused: u64,
    /// Syncs.
    pub syncs: u64,
    /// Runs that ended with a loss of power.
    pub crashes: u64,
    /// Pages read from and written to stores.
    pub pages_moved: u64,
    /// A hash of all that happened: equal if two builds did the same with the same seeds.
    pub trace: u64,
    /// What went wrong, by the kind of fault: mostly requests that a fault struck.
    pub faults: BTreeMap<&'static str, u64>,
    /// Each error arm of the engine, by name.
    pub marks: BTreeMap<&'static str, Reached>,
}

/// The seeds that took an error arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// How many seeds.
    pub seeds: u64,
    /// The lowest of them.
    pub first: Option<u64>,
}

impl Report {
    fn new() -> Report {
        let unreached = |mark: &Mark| (mark.name(), Reached::default());
        Report {
            marks: Mark::ALL.iter().map(unreached).collect(),
            ..Report::default()
        }
    }

    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.simulated_hours += outcome.simulated_ms as f64 / 3_600_000.0;
        self.calls += outcome.calls;
        self.abandoned += outcome.abandoned;
        self.refused += outcome.refused;
        self.syncs += outcome.syncs;
        self.crashes += u64::from(outcome.crashed);
        self.pages_moved += outcome.pages_moved;
        // A sum, because the threads end their seeds in any order.
        self.trace = self.trace.wrapping_add(mix(seed ^ outcome.trace));
        for (name, count) in outcome.faults {
            *self.faults.entry(name).or_default() += count;
        }
        for name in outcome.marks {
            let reached = self.marks.entry(name).or_default();
            reached.seeds += 1;
            reached.first = Some(reached.first.map_or(seed, |first| first.min(seed)));
        }
        if let Some(violation) = outcome.violation {
            self.failed.push(Failed { seed, violation });
        }
    }

    /// Seeds a second.
    pub fn seeds_per_s(&self) -> f64 {
        self.seeds as f64 / self.seconds.max(0.001)
    }
}

/// What the threads share.
struct Shared {
    campaign: Campaign,
    /// Which seed comes next. The kept ones are counted first.
    next: AtomicU64,
    stop: AtomicBool,
    started: Stopwatch,
    /// What each thread runs, and since when.
    running: Vec<Mutex<Option<(u64, Stopwatch)>>>,
}

impl Campaign {
    fn seed_at(&self, number: u64) -> Option<u64> {
        let kept = self.kept.get(number as usize).copied();
        let beyond = || number.checked_sub(self.kept.len() as u64);
        let fresh = || beyond()?.checked_add(self.seeds.start);
        kept.or_else(|| fresh().filter(|seed| self.seeds.contains(seed)))
    }

    /// Runs the seeds. Calls `found` for each seed that finds something, at that moment.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn run(&self, mut found: impl FnMut(&Failed)) -> io::Result<Report> {
        let shared = Arc::new(Shared {
            campaign: self.clone(),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            started: Stopwatch::start(),
            running: (0..self.threads).map(|_| Mutex::new(None)).collect(),
        });
        let (sender, receiver) = sync_channel(16);
        for number in 0..self.threads {
            let (shared, sender) = (shared.clone(), sender.clone());
            spawn("swarm", move || shared.work(number, &sender))?;
        }
        drop(sender);
        let mut report = Report::new();
        loop {
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok((seed, is_twin, outcome)) => {
                    let is_found = Outcome::is_broken(&outcome);
                    report.twins += u64::from(is_twin);
                    report.add(seed, outcome);
                    if is_found {
                        found(report.failed.last().expect("it was just added"));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(failed) = shared.endless() {
                        found(&failed);
                        report.failed.push(failed);
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if report.failed.len() >= self.most_violations {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        report.seconds = shared.started.elapsed().as_secs_f64();
        Ok(report)
    }
}

impl Shared {
    fn work(&self, number: usize, results: &SyncSender<(u64, bool, Outcome)>) {
        let Campaign {
            longest,
            twin_every,
            reduction,
            ..
        } = &self.campaign;
        while !self.stop.load(Ordering::Relaxed) {
            if longest.is_some_and(|longest| self.started.elapsed() >= longest) {
                return;
            }
            let Some(seed) = self
                .campaign
                .seed_at(self.next.fetch_add(1, Ordering::Relaxed))
            else {
                return;
            };
            let is_twin = *twin_every > 0 && seed.is_multiple_of(*twin_every);
            *lock(&self.running[number]) = Some((seed, Stopwatch::start()));
            let run = if is_twin { run_twin } else { run_seed };
            let outcome = run(seed, reduction);
            *lock(&self.running[number]) = None;
            if results.send((seed, is_twin, outcome)).is_err() {
                return;
            }
        }
    }

    /// A run whose virtual clock has stood still for too long.
    fn endless(&self) -> Option<Failed> {
        let running = self.running.iter().filter_map(|running| *lock(running));
        let mut endless = running.filter(|(_, since)| since.elapsed() > ENDLESS_AFTER);
        endless.next().map(|(seed, since)| Failed {
            seed,
            violation: Violation {
                oracle: Oracle::Stuck,
                what: format!("the run goes round without end: {} so far", since.elapsed()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_of_a_range_is_run_and_none_finds_anything() {
        let campaign = Campaign {
            kept: vec![7, 3],
            seeds: 100..130,
            longest: None,
            twin_every: 10,
            threads: 2,
            most_violations: 1,
            reduction: Reduction::default(),
        };
        let report = campaign
            .run(|failed| panic!("{failed:?}"))
            .expect("threads start");
        assert_eq!((report.seeds, report.twins), (32, 3));
        assert!(
            report.calls > 1_000 && report.pages_moved > 1_000,
            "{report:?}"
        );
        assert!(report.crashes > 3 && report.faults.len() > 3, "{report:?}");
    }
}
