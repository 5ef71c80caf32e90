//! Commits that are answered at once, and recorded together after an interval: a bucket takes tens
//! of milliseconds for a record, and many programs flush more often than they need.
//!
//! - invariant BS4: what a commit was answered for is staged, and stays so until a record holds it.
//!   A record that fails is tried again later, and the next commit hears of it.

use crate::retrying_client::pause_while;
use forebay_base::Span;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::{Gate, Slot, WaitQueue, either};
use forebay_store::{Failure, Finish, FinishedIo};

/// A bucket that has just refused a record is not asked again at once, however short the interval.
const RETRY_INTERVAL: Span = Span::from_secs(2);

/// See above. One thread waits for [`Gathering::owed`] and makes the records.
#[derive(Debug)]
pub(crate) struct Gathering {
    interval: Span,
    state: Mutex<State>,
    arrivals: WaitQueue,
    stopped: Gate,
}

#[derive(Debug, Default)]
struct State {
    /// A commit was answered, and no record that was begun since then is there.
    is_owed: bool,
    /// Records that are being made for those before.
    under_way: u32,
    /// The next commit hears of it.
    failure: Option<Failure>,
    /// Whether the last record failed.
    has_failed: bool,
}

impl Gathering {
    pub(crate) fn new(interval: Span) -> Gathering {
        Gathering {
            interval,
            state: Mutex::default(),
            arrivals: WaitQueue::new(),
            stopped: Gate::new(false),
        }
    }

    /// Answers a commit.
    ///
    /// # Errors
    /// Why the record of an earlier one failed, if nobody has heard of that.
    pub(crate) fn answer(&self) -> Result<(), Failure> {
        let failure = {
            let mut state = lock(&self.state);
            state.is_owed = true;
            state.failure.take()
        };
        self.arrivals.wake_one();
        failure.map_or(Ok(()), Err)
    }

    /// Whether all commits that were answered are in records.
    pub(crate) fn is_settled(&self) -> bool {
        let state = lock(&self.state);
        !state.is_owed && state.under_way == 0
    }

    /// Waits until a record is owed and the interval has passed. False: it is stopped.
    pub(crate) async fn owed(&self) -> bool {
        loop {
            let arrival = self.arrivals.listen();
            if self.stopped.is_open() {
                return false;
            }
            if lock(&self.state).is_owed {
                return self.pause();
            }
            either(arrival, self.stopped.wait()).await;
        }
    }

    fn pause(&self) -> bool {
        let interval = if lock(&self.state).has_failed {
            self.interval.max(RETRY_INTERVAL)
        } else {
            self.interval
        };
        pause_while(interval, || !self.stopped.is_open());
        !self.stopped.is_open()
    }

    /// A record is begun that holds what is owed.
    pub(crate) fn begin(&self) {
        let mut state = lock(&self.state);
        state.is_owed = false;
        state.under_way += 1;
    }

    /// It has ended.
    pub(crate) fn end(&self, result: Result<(), Failure>) {
        {
            let mut state = lock(&self.state);
            state.under_way -= 1;
            // Nothing is lost by a failure before that.
            state.failure = result.err();
            state.has_failed = result.is_err();
            state.is_owed |= result.is_err();
        }
        if result.is_err() {
            self.arrivals.wake_one();
        }
    }

    /// Waits for the end of a commit; none if it is stopped before.
    pub(crate) async fn result_of(&self, commit: &Commit) -> Option<Result<(), Failure>> {
        let mut result = None;
        let ended = async { result = Some(commit.result.take().await) };
        either(ended, self.stopped.wait()).await;
        result
    }

    pub(crate) fn stop(&self) {
        self.stopped.open();
    }
}

/// A commit of the store's own.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    result: Slot<Result<(), Failure>>,
}

impl Finish for Commit {
    fn finished(&self, io: FinishedIo) {
        self.result.set(io.result.map_err(|error| error.failure));
    }
}
