//! One medium of a given speed: requests pass one after the other, in the order they came.
//!
//! Each takes the medium for `max(bytes / bytes_per_s, 1 / operations_per_s)`. The instant at which
//! it is free is computed; it is not the instant at which a timer woke. So a late timer delays only
//! the request that waited for it, not the ones after it, and the rate is exact while requests
//! wait.

use super::Held;
use crate::Store;
use crate::io::Io;
use crate::request::{IoKind, Request};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::Rt;
use forebay_rt::wait::WaitQueue;
use std::collections::VecDeque;
use std::sync::Arc;

/// How fast a medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes a second; 0 stops the medium until the rate is changed.
    pub bytes_per_s: u64,
    /// Requests a second; 0 stops the medium until the rate is changed.
    pub operations_per_s: u64,
    /// Bytes that pass at once after the medium was idle for as long as they take.
    pub burst_bytes: u64,
}

impl Rate {
    /// Both limits out of reach.
    pub const UNLIMITED: Rate = Rate {
        bytes_per_s: u64::MAX,
        operations_per_s: u64::MAX,
        burst_bytes: 0,
    };

    /// This many bytes a second, no limit of requests, no bursts.
    ///
    /// ```
    /// assert_eq!(forebay_store::Rate::bytes(30_000_000).bytes_per_s, 30_000_000);
    /// ```
    pub const fn bytes(bytes_per_s: u64) -> Rate {
        Rate {
            bytes_per_s,
            ..Rate::UNLIMITED
        }
    }

    /// How long `request` takes the medium; [`Span::MAX`] if the medium stands still.
    pub fn span_of(self, request: Request) -> Span {
        let moved = match request.kind {
            IoKind::Read | IoKind::Write => time_of(request.length_bytes, self.bytes_per_s),
            IoKind::Commit | IoKind::Discard | IoKind::SetLength => Span::ZERO,
        };
        moved.max(time_of(1, self.operations_per_s))
    }

    fn burst_span(self) -> Span {
        time_of(self.burst_bytes, self.bytes_per_s)
    }
}

fn time_of(amount: u64, per_s: u64) -> Span {
    const NANOS_PER_S: u128 = 1_000_000_000;
    match (u128::from(amount) * NANOS_PER_S).checked_div(u128::from(per_s)) {
        Some(nanos) => Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
        None if amount == 0 => Span::ZERO,
        None => Span::MAX,
    }
}

/// A store behind a medium of a given speed.
///
/// ```
/// use forebay_rt::Rt;
/// use forebay_store::{MemoryStore, Rate, RateStore};
/// use std::sync::Arc;
/// let disk = RateStore::new(Rt::real(), Arc::new(MemoryStore::new()), Rate::bytes(30_000_000));
/// disk.set_rate(Rate::bytes(60_000_000));
/// assert_eq!(disk.rate().bytes_per_s, 60_000_000);
/// ```
pub struct RateStore {
    medium: Arc<Medium>,
}

struct Medium {
    rt: Rt,
    inner: Arc<dyn Store>,
    queue: Mutex<Queue>,
    rate_changed: WaitQueue,
}

struct Queue {
    waiting: VecDeque<Arrived>,
    rate: Rate,
    /// When the last request has passed.
    free_at: Instant,
    /// Whether a task serves the queue. There is one while something waits, and none otherwise.
    served: bool,
}

struct Arrived {
    held: Held,
    at: Instant,
}

impl RateStore {
    /// Puts a medium of speed `rate` before `inner`; time is that of `rt`.
    pub fn new(rt: Rt, inner: Arc<dyn Store>, rate: Rate) -> RateStore {
        RateStore {
            medium: Arc::new(Medium {
                rt,
                inner,
                queue: Mutex::new(Queue {
                    waiting: VecDeque::new(),
                    rate,
                    free_at: Instant::ZERO,
                    served: false,
                }),
                rate_changed: WaitQueue::new(),
            }),
        }
    }

    /// Changes the speed from now on. The rest of a request that is passing goes on at the new
    /// speed.
    pub fn set_rate(&self, rate: Rate) {
        lock(&self.medium.queue).rate = rate;
        self.medium.rate_changed.wake_all();
    }

    /// The speed now.
    pub fn rate(&self) -> Rate {
        lock(&self.medium.queue).rate
    }

    /// Requests that wait for the medium, without the one that is passing.
    pub fn waiting(&self) -> usize {
        lock(&self.medium.queue).waiting.len()
    }
}

impl Store for RateStore {
    forward_to!(medium.inner);

    fn submit(&self, io: Io) {
        let medium = &self.medium;
        let arrived = Arrived {
            held: Held::new(io),
            at: medium.rt.now(),
        };
        let served = {
            let mut queue = lock(&medium.queue);
            queue.waiting.push_back(arrived);
            std::mem::replace(&mut queue.served, true)
        };
        if !served {
            medium.rt.spawn("store medium", serve(Arc::clone(medium)));
        }
    }
}

/// Lets requests pass until none waits.
async fn serve(medium: Arc<Medium>) {
    while let Some((held, start)) = medium.next() {
        medium.pass(held.io().request(), start).await;
        medium.inner.submit(held.release());
    }
}

impl Medium {
    /// The next request, and when its passing begins or has begun.
    fn next(&self) -> Option<(Held, Instant)> {
        let mut queue = lock(&self.queue);
        let Some(Arrived { held, at }) = queue.waiting.pop_front() else {
            queue.served = false;
            return None;
        };
        let burst_ns = queue.rate.burst_span().as_nanos();
        let earliest = Instant::from_nanos(at.as_nanos().saturating_sub(burst_ns));
        Some((held, queue.free_at.max(earliest)))
    }

    /// Waits until `request`, whose passing begins at `start`, has passed.
    async fn pass(&self, request: Request, start: Instant) {
        let mut from = start;
        let mut left = Share::WHOLE;
        loop {
            let changed = self.rate_changed.listen();
            let whole = lock(&self.queue).rate.span_of(request);
            let end = from + left.of(whole);
            if end == Instant::NEVER {
                changed.await;
            } else {
                let wait = end - self.rt.now();
                if wait == Span::ZERO || self.rt.timeout(wait, changed).await.is_err() {
                    lock(&self.queue).free_at = end;
                    return;
                }
            }
            let now = self.rt.now().max(from);
            left = left.without(now - from, whole);
            from = now;
        }
    }
}

/// A part of a request, in 2^-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share(u64);

impl Share {
    const WHOLE: Share = Share(1 << 32);

    fn of(self, whole: Span) -> Span {
        if whole == Span::MAX {
            return Span::MAX;
        }
        Span::from_nanos(((u128::from(whole.as_nanos()) * u128::from(self.0)) >> 32) as u64)
    }

    /// What is left after `passed` of the time `whole` that all of it takes.
    fn without(self, passed: Span, whole: Span) -> Share {
        let part = (u128::from(passed.as_nanos()) << 32) / u128::from(whole.as_nanos().max(1));
        Share(
            self.0
                .saturating_sub(u64::try_from(part).unwrap_or(u64::MAX)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ObjectId;

    fn request(kind: IoKind, length_bytes: u64) -> Request {
        Request {
            kind,
            object: ObjectId(1),
            offset_bytes: 0,
            length_bytes,
        }
    }

    #[test]
    fn the_slower_limit_counts() {
        let rate = Rate {
            bytes_per_s: 1_000_000,
            operations_per_s: 1_000,
            burst_bytes: 0,
        };
        assert_eq!(
            rate.span_of(request(IoKind::Write, 4096)),
            Span::from_micros(4096)
        );
        assert_eq!(
            rate.span_of(request(IoKind::Read, 100)),
            Span::from_millis(1)
        );
        assert_eq!(
            rate.span_of(request(IoKind::Commit, 0)),
            Span::from_millis(1)
        );
        let still = Rate::bytes(0);
        assert_eq!(still.span_of(request(IoKind::Read, 1)), Span::MAX);
        assert_eq!(still.span_of(request(IoKind::Commit, 0)), Span::ZERO);
    }

    #[test]
    fn shares_add_up() {
        let whole = Span::from_secs(8);
        let left = Share::WHOLE.without(Span::from_secs(2), whole);
        assert_eq!(left.of(whole), Span::from_secs(6));
        assert_eq!(left.of(Span::from_secs(4)), Span::from_secs(3));
        assert_eq!(
            left.without(Span::from_secs(60), whole).of(whole),
            Span::ZERO
        );
        assert_eq!(
            left.without(Span::from_secs(60), Span::MAX).of(Span::MAX),
            Span::MAX
        );
    }
}
