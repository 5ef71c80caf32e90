//! The gate of a step: its threads pass it before and after the measured part. One of them reads
//! the resources that they have used together while the others stand still.

use crate::error::BenchError;
use crate::measure::{processor_ns, voluntary_switches};
use forebay_rt::thread::Stopwatch;
use std::sync::{Barrier, Mutex, PoisonError};

/// The place where the threads of a step wait for each other. Each thread must pass twice, even one
/// that failed, because the others wait for it.
pub(crate) struct Gate {
    barrier: Barrier,
    watch: Stopwatch,
    readings: Mutex<Vec<Reading>>,
}

struct Reading {
    at_ns: u64,
    switches: Result<u64, BenchError>,
    processor_ns: Result<u64, BenchError>,
}

/// The resources used between the two passages.
pub(crate) struct Used {
    pub(crate) elapsed_ns: u64,
    /// Voluntary context switches of this process.
    pub(crate) switches: u64,
    /// Processor time of this process.
    pub(crate) processor_ns: u64,
}

impl Gate {
    /// A gate for `threads`.
    pub(crate) fn new(threads: usize) -> Gate {
        Gate {
            barrier: Barrier::new(threads),
            watch: Stopwatch::start(),
            readings: Mutex::default(),
        }
    }

    /// Waits for all threads. One of them reads the clock and the counters while the others stand
    /// still, because the counters of a thread are lost when it ends. Standing still adds at most
    /// two switches for each thread.
    pub(crate) fn pass(&self) {
        if self.barrier.wait().is_leader() {
            let reading = Reading {
                at_ns: self.watch.elapsed().as_nanos(),
                switches: voluntary_switches(),
                processor_ns: processor_ns(),
            };
            self.readings().push(reading);
        }
        self.barrier.wait();
    }

    /// The resources used between the passages.
    ///
    /// # Panics
    /// If the threads have not passed twice.
    pub(crate) fn used(&self) -> Result<Used, BenchError> {
        let mut readings = self.readings();
        let after = readings.pop().expect("each step ends with a reading");
        let before = readings.pop().expect("each step begins with a reading");
        Ok(Used {
            elapsed_ns: (after.at_ns - before.at_ns).max(1),
            switches: after.switches?.saturating_sub(before.switches?),
            processor_ns: after.processor_ns?.saturating_sub(before.processor_ns?),
        })
    }

    fn readings(&self) -> std::sync::MutexGuard<'_, Vec<Reading>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::together;
    use forebay_base::Span;
    use forebay_rt::thread::pause_current;
    use std::sync::Arc;

    /// The counters are those of the process: threads of another test that end between the
    /// readings take theirs along, so that a single try may count too few.
    #[test]
    fn what_threads_used_between_the_passages_is_counted() {
        let counted = || {
            let gate = Arc::new(Gate::new(2));
            let shared = Arc::clone(&gate);
            together(vec![(), ()], move |_, ()| {
                shared.pass();
                pause_current(Span::from_millis(1));
                shared.pass();
                Ok(())
            })
            .unwrap();
            let used = gate.used().unwrap();
            used.elapsed_ns >= 1_000_000 && used.switches >= 2
        };
        assert!((0..100).any(|_| counted()));
    }
}
