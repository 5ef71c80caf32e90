//! Makes chosen requests go wrong. What goes wrong is data: a list of [`Fault`]s.

use super::Held;
use super::delay::submit_later;
use crate::Store;
use crate::error::Failure;
use crate::io::Io;
use crate::request::{IoKind, ObjectId, Request};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_rt::Rt;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Which requests go wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Only requests of this kind; `None` for every kind.
    pub kind: Option<IoKind>,
    /// Only requests of this object; `None` for every object.
    pub object: Option<ObjectId>,
    /// Only reads, writes and discards that touch these bytes; `None` for every request.
    pub range_bytes: Option<Range<u64>>,
    /// How often, among the requests that the filters let through.
    pub when: FaultWhen,
    /// What happens to them.
    pub action: FaultAction,
}

impl Fault {
    /// `action` for each request of the kind `kind`.
    ///
    /// ```
    /// use forebay_store::{Failure, Fault, FaultAction, FaultWhen, IoKind};
    /// let broken = Fault::each(IoKind::Write, FaultAction::Fail(Failure::Device(5)));
    /// let once = Fault { when: FaultWhen::First(1), ..broken };
    /// ```
    pub fn each(kind: IoKind, action: FaultAction) -> Fault {
        Fault {
            kind: Some(kind),
            object: None,
            range_bytes: None,
            when: FaultWhen::Always,
            action,
        }
    }

    fn concerns(&self, request: Request) -> bool {
        let start = request.offset_bytes;
        let end = start.saturating_add(request.length_bytes);
        let ranged = !matches!(request.kind, IoKind::Commit | IoKind::SetLength);
        self.kind.is_none_or(|kind| kind == request.kind)
            && self.object.is_none_or(|object| object == request.object)
            && self
                .range_bytes
                .as_ref()
                .is_none_or(|range| ranged && range.start < end && start < range.end)
    }
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultWhen {
    /// Each time until [`FaultStore::clear`].
    Always,
    /// The first times, this many.
    First(u64),
    /// Only this time, counted from 1.
    Nth(u64),
    /// By chance: `numerator` times of `denominator`, drawn from the runtime's stream.
    Chance {
        /// How many
        numerator: u64,
        /// of how many.
        denominator: u64,
    },
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// The request fails; the wrapped store does not see it.
    Fail(Failure),
    /// The request waits until [`FaultStore::release`].
    NeverAnswer,
    /// The first pages of a write are written, then it fails. Other requests fail.
    Torn {
        /// This many pages are written, or all except the last if there are not more.
        pages: usize,
        /// How it fails.
        failure: Failure,
    },
    /// The request begins this much later.
    Delay(Span),
}

/// A store in which chosen requests go wrong.
///
/// ```
/// use forebay_rt::Rt;
/// use forebay_store::{Failure, Fault, FaultAction, FaultStore, IoKind, MemoryStore};
/// use std::sync::Arc;
/// let disk = FaultStore::new(Rt::real(), Arc::new(MemoryStore::new()));
/// disk.inject(Fault::each(IoKind::Write, FaultAction::Fail(Failure::NoSpace)));
/// disk.clear();
/// assert_eq!(disk.injected(IoKind::Write), 0);
/// ```
pub struct FaultStore {
    rt: Rt,
    inner: Arc<dyn Store>,
    script: Mutex<Script>,
}

struct Script {
    faults: Vec<Pending>,
    chance: Prng,
    injected: BTreeMap<IoKind, u64>,
    held: Vec<Held>,
}

struct Pending {
    fault: Fault,
    seen: u64,
}

impl FaultStore {
    /// Wraps `inner`; until a fault is injected everything passes. Chance is drawn from the stream
    /// "store faults" of `rt`, delays are on its clock.
    pub fn new(rt: Rt, inner: Arc<dyn Store>) -> FaultStore {
        let chance = rt.stream("store faults");
        FaultStore {
            rt,
            inner,
            script: Mutex::new(Script {
                faults: Vec::new(),
                chance,
                injected: BTreeMap::new(),
                held: Vec::new(),
            }),
        }
    }

    /// Adds `fault`. If several strike a request, the one that was added first does.
    pub fn inject(&self, fault: Fault) {
        lock(&self.script).faults.push(Pending { fault, seen: 0 });
    }

    /// Removes every fault. Requests that are held stay held.
    pub fn clear(&self) {
        lock(&self.script).faults.clear();
    }

    /// Passes on the requests that [`FaultAction::NeverAnswer`] held, and says how many.
    pub fn release(&self) -> usize {
        let held = std::mem::take(&mut lock(&self.script).held);
        let count = held.len();
        for held in held {
            self.inner.submit(held.release());
        }
        count
    }

    /// Requests that are held now.
    pub fn held(&self) -> usize {
        lock(&self.script).held.len()
    }

    /// How many requests of the kind `kind` a fault has struck.
    pub fn injected(&self, kind: IoKind) -> u64 {
        lock(&self.script).injected.get(&kind).copied().unwrap_or(0)
    }
}

impl Script {
    /// What happens to `request`, if a fault strikes it.
    fn strike(&mut self, request: Request) -> Option<FaultAction> {
        let Script { faults, chance, .. } = self;
        let action = faults
            .iter_mut()
            .filter(|pending| pending.fault.concerns(request))
            .find_map(|pending| {
                pending.seen += 1;
                let strikes = match pending.fault.when {
                    FaultWhen::Always => true,
                    FaultWhen::First(count) => pending.seen <= count,
                    FaultWhen::Nth(nth) => pending.seen == nth,
                    FaultWhen::Chance {
                        numerator,
                        denominator,
                    } => chance.chance(numerator, denominator),
                };
                strikes.then_some(pending.fault.action)
            })?;
        *self.injected.entry(request.kind).or_default() += 1;
        Some(action)
    }
}

impl Store for FaultStore {
    forward_to!(inner);

    fn submit(&self, io: Io) {
        // What is made durable is left to commits, so that their faults strike it.
        let io = io.without_durability();
        let action = lock(&self.script).strike(io.request());
        match action {
            None => self.inner.submit(io),
            Some(FaultAction::Fail(failure)) => io.fail(failure),
            Some(FaultAction::NeverAnswer) => lock(&self.script).held.push(Held::new(io)),
            Some(FaultAction::Delay(span)) => submit_later(&self.rt, &self.inner, io, span),
            Some(FaultAction::Torn { pages, failure }) => self.tear(io, pages, failure),
        }
    }
}

impl FaultStore {
    fn tear(&self, io: Io, pages: usize, failure: Failure) {
        let pages = pages.min(io.page_count().saturating_sub(1));
        if io.request().kind != IoKind::Write || pages == 0 {
            return io.fail(failure);
        }
        let (first, rest) = io.split(pages);
        // The whole fails once the first part is written, for the reason that came first.
        rest.fail(failure);
        self.inner.submit(first);
    }
}
