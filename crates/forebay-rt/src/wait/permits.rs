//! A counted resource, shared in the order of asking.

use super::line::{Line, WakerBatch};
use forebay_base::sync::{Mutex, lock};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Requests that may wait without an allocation.
const ROOM: usize = 2;

/// A fixed number of permits. The first request is served first, so small requests that come later
/// do not starve a large one.
///
/// ```
/// use forebay_rt::{block_on, wait::Permits};
/// let permits = Permits::new(3);
/// let two = block_on(permits.acquire(2));
/// assert!(permits.try_acquire(2).is_none());
/// drop(two);
/// assert_eq!(permits.available(), 3);
/// ```
#[derive(Debug)]
pub struct Permits {
    total: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    available: usize,
    /// What each waiter needs. There are waiters only while the first of them does not fit.
    line: Line<usize>,
}

impl Permits {
    /// `total` permits, all of them available.
    pub fn new(total: usize) -> Permits {
        Permits {
            total,
            state: Mutex::new(State {
                available: total,
                line: Line::with_room(ROOM),
            }),
        }
    }

    /// Asks for `count` permits now; ready once they are there.
    ///
    /// # Panics
    /// If there are fewer than `count` in all: that wait would never end.
    pub fn acquire(&self, count: usize) -> Acquire<'_> {
        assert!(
            count <= self.total,
            "{count} permits were asked for and there are {} in all",
            self.total
        );
        let mut state = lock(&self.state);
        let place = if state.take(count) {
            None
        } else {
            Some(state.line.join(count))
        };
        Acquire {
            permits: self,
            count,
            stage: place.map_or(Stage::Granted, Stage::Waiting),
        }
    }

    /// As [`Permits::acquire`], with a permit that borrows nothing. It asks when first polled.
    ///
    /// # Panics
    /// When polled, if there are fewer than `count` in all.
    ///
    /// ```
    /// use forebay_rt::{block_on, wait::Permits};
    /// use std::sync::Arc;
    /// let permits = Arc::new(Permits::new(2));
    /// let permit = block_on(permits.acquire_owned(2));
    /// assert_eq!((permit.count(), permits.available()), (2, 0));
    /// ```
    pub fn acquire_owned(
        self: &Arc<Self>,
        count: usize,
    ) -> impl Future<Output = OwnedPermit> + Send + use<> {
        let permits = Arc::clone(self);
        async move {
            let held = permits.acquire(count).await.disarm();
            OwnedPermit {
                permits,
                count: held,
            }
        }
    }

    /// `count` permits if they are available at once and nobody waits.
    pub fn try_acquire(&self, count: usize) -> Option<Permit<'_>> {
        let taken = lock(&self.state).take(count);
        // Made lazily, because a permit gives back what it holds when it is dropped.
        taken.then(|| Permit {
            permits: self,
            count,
        })
    }

    /// As [`Permits::try_acquire`], with a permit that borrows nothing.
    pub fn try_acquire_owned(self: &Arc<Self>, count: usize) -> Option<OwnedPermit> {
        let held = self.try_acquire(count)?.disarm();
        Some(OwnedPermit {
            permits: Arc::clone(self),
            count: held,
        })
    }

    /// Permits that nobody holds. It may have changed when the caller looks at it.
    pub fn available(&self) -> usize {
        lock(&self.state).available
    }

    /// How many requests wait.
    pub fn waiters(&self) -> usize {
        lock(&self.state).line.waiting()
    }

    /// Puts `returned` permits back and serves the requests that fit now, in order.
    fn serve(&self, mut returned: usize) {
        loop {
            let mut batch = WakerBatch::default();
            let mut state = lock(&self.state);
            state.available += returned;
            returned = 0;
            while !batch.is_full() && state.serve_front() {
                batch.add(state.line.call_front());
            }
            drop(state);
            let more = batch.is_full();
            batch.wake();
            if !more {
                return;
            }
        }
    }
}

impl State {
    fn take(&mut self, count: usize) -> bool {
        let fits = self.line.waiting() == 0 && count <= self.available;
        if fits {
            self.available -= count;
        }
        fits
    }

    fn serve_front(&mut self) -> bool {
        match self.line.front() {
            Some(&mut need) if need <= self.available => {
                self.available -= need;
                true
            }
            _ => false,
        }
    }
}

/// A request for permits, in line since it was made. Dropping it leaves the line.
#[derive(Debug)]
#[must_use = "a request that is dropped leaves the line"]
pub struct Acquire<'a> {
    permits: &'a Permits,
    count: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Waiting(u32),
    Granted,
    Given,
}

impl<'a> Future for Acquire<'a> {
    type Output = Permit<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit<'a>> {
        match self.stage {
            Stage::Waiting(place) => {
                let (served, replaced) =
                    lock(&self.permits.state).line.poll(place, context.waker());
                drop(replaced);
                if !served {
                    return Poll::Pending;
                }
            }
            Stage::Granted => {}
            Stage::Given => panic!("a request for permits was polled after it was ready"),
        }
        self.stage = Stage::Given;
        Poll::Ready(Permit {
            permits: self.permits,
            count: self.count,
        })
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        match self.stage {
            Stage::Waiting(place) => {
                let (unused, waker) = lock(&self.permits.state).line.leave(place);
                drop(waker);
                // Even if nothing comes back, the requests after one that was too large may fit.
                self.permits.serve(unused.unwrap_or(0));
            }
            Stage::Granted => self.permits.serve(self.count),
            Stage::Given => {}
        }
    }
}

/// Held permits; they go back when this is dropped.
#[derive(Debug)]
#[must_use = "permits go back as soon as this is dropped"]
pub struct Permit<'a> {
    permits: &'a Permits,
    count: usize,
}

impl Permit<'_> {
    /// How many are held.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Gives up the duty to return the permits, and returns their number.
    fn disarm(mut self) -> usize {
        std::mem::take(&mut self.count)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.permits.serve(self.count);
        }
    }
}

/// As [`Permit`], and keeps the [`Permits`] alive.
#[derive(Debug)]
#[must_use = "permits go back as soon as this is dropped"]
pub struct OwnedPermit {
    permits: Arc<Permits>,
    count: usize,
}

impl OwnedPermit {
    /// How many are held.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        if self.count > 0 {
            self.permits.serve(self.count);
        }
    }
}
