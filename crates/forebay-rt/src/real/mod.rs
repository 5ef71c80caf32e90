//! The real body: a pool of threads, one thread for timers, the machine's clock.

mod deadlines;
mod timers;
mod workers;

use crate::alarm::AlarmId;
use crate::task::{Ending, TaskFuture};
use crate::thread::Stopwatch;
use crate::timer::TimerId;
use forebay_base::{Instant, Prng};
use std::sync::Arc;
use std::task::{Context, Poll};
use timers::Timers;
use workers::Workers;

/// What the handles share. The threads share only its parts, so that they do not keep it alive.
pub(crate) struct Real {
    timers: Arc<Timers>,
    workers: Arc<Workers>,
    streams: Prng,
}

impl Real {
    pub(crate) fn new() -> Real {
        Real {
            timers: Arc::new(Timers::new(Stopwatch::start())),
            workers: Arc::new(Workers::new()),
            streams: Prng::from_seed(seed_from_time()),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.timers.now()
    }

    pub(crate) fn stream(&self, name: &str) -> Prng {
        self.streams.child(name)
    }

    pub(crate) fn spawn(&self, name: &'static str, future: TaskFuture, ending: Ending) {
        self.workers.spawn(name, future, ending);
    }

    pub(crate) fn poll_timer(
        &self,
        deadline: Instant,
        timer: &mut Option<TimerId>,
        alarm: &mut Option<AlarmId>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        self.timers.poll(deadline, timer, alarm, context.waker())
    }

    /// Whether a timer was ever set for which no blocked thread could be its own alarm.
    #[cfg(test)]
    pub(crate) fn has_timer_thread(&self) -> bool {
        self.timers.has_thread()
    }

    pub(crate) fn cancel_timer(&self, timer: TimerId) {
        self.timers.cancel(timer);
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.workers.stop();
        self.timers.stop();
    }
}

fn seed_from_time() -> u64 {
    // A schedule is to be the same when it is run again.
    if cfg!(shuttle) {
        return 0;
    }
    since_1970().as_nanos() as u64
}

/// Milliseconds since 1970 by the clock on the wall, to be shown to people: it decides nothing.
///
/// ```
/// assert!(forebay_rt::unix_time_ms() > 1_700_000_000_000);
/// ```
pub fn unix_time_ms() -> u64 {
    since_1970().as_millis() as u64
}

#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a seed and what is shown to people are all that depends on the wall clock"
)]
fn since_1970() -> std::time::Duration {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 is as good as any other seed.
    since.unwrap_or_else(|before| before.duration())
}
