//! Counts the requests that pass.

use crate::Store;
use crate::io::{Ending, Intercept, Io};
use crate::request::IoKind;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::Rt;
use std::sync::Arc;

/// What has passed of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests submitted.
    pub requests: u64,
    /// Bytes of their ranges.
    pub bytes: u64,
    /// Pages that they carried.
    pub pages: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests submitted and not yet finished.
    pub in_flight: u64,
    /// The most that were in flight at once.
    pub most_in_flight: u64,
    /// Sum over the finished ones of the time from submit to finish.
    pub spent: Span,
}

const KINDS: [IoKind; 5] = [
    IoKind::Read,
    IoKind::Write,
    IoKind::Commit,
    IoKind::Discard,
    IoKind::SetLength,
];

/// A store that counts the requests to another.
///
/// ```
/// use forebay_rt::Rt;
/// use forebay_store::{CountStore, IoKind, MemoryStore};
/// use std::sync::Arc;
/// let counted = CountStore::new(Rt::real(), Arc::new(MemoryStore::new()));
/// assert_eq!(counted.counts(IoKind::Write).requests, 0);
/// ```
pub struct CountStore {
    rt: Rt,
    inner: Arc<dyn Store>,
    ledger: Arc<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    by_kind: [Mutex<Counts>; KINDS.len()],
}

impl Ledger {
    fn of(&self, kind: IoKind) -> &Mutex<Counts> {
        &self.by_kind[kind as usize]
    }
}

impl CountStore {
    /// Counts the requests to `inner`; time is that of `rt`.
    pub fn new(rt: Rt, inner: Arc<dyn Store>) -> CountStore {
        CountStore {
            rt,
            inner,
            ledger: Arc::default(),
        }
    }

    /// What has passed of the kind `kind`.
    pub fn counts(&self, kind: IoKind) -> Counts {
        *lock(self.ledger.of(kind))
    }

    /// Requests of any kind that are submitted and not yet finished.
    pub fn in_flight(&self) -> u64 {
        KINDS.iter().map(|&kind| self.counts(kind).in_flight).sum()
    }
}

impl Store for CountStore {
    forward_to!(inner);

    fn submit(&self, mut io: Io) {
        let request = io.request();
        {
            let mut counts = lock(self.ledger.of(request.kind));
            counts.requests += 1;
            counts.bytes += request.length_bytes;
            counts.pages += io.page_count() as u64;
            counts.in_flight += 1;
            counts.most_in_flight = counts.most_in_flight.max(counts.in_flight);
        }
        io.intercept(Arc::new(Counting {
            rt: self.rt.clone(),
            ledger: Arc::clone(&self.ledger),
            submitted: self.rt.now(),
        }));
        self.inner.submit(io);
    }
}

/// Counts the end of one request.
struct Counting {
    rt: Rt,
    ledger: Arc<Ledger>,
    submitted: Instant,
}

impl Intercept for Counting {
    fn ended(&self, ending: Ending) {
        {
            let mut counts = lock(self.ledger.of(ending.request().kind));
            counts.in_flight -= 1;
            counts.failed += u64::from(ending.result().is_err());
            counts.spent += self.rt.now() - self.submitted;
        }
        ending.pass();
    }
}
