//! What an oracle sees of a scene.

use super::super::client::PAGE;
use super::super::verdict::Violation;
use forebay_base::Instant;
use forebay_base::sync::{Mutex, lock};
use forebay_engine::event::{Event, EventSink};
use forebay_engine::{Cache, Statistics};
use forebay_rt::Rt;
use forebay_store::{IoKind, ObjectId};
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A call of a task above the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Call {
    pub(in super::super) store: usize,
    pub(in super::super) object: ObjectId,
    pub(in super::super) pages: Range<u64>,
}

/// A request to a store below the cache.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Request {
    pub(in super::super) store: usize,
    /// Unique within the scene.
    pub(in super::super) number: u64,
    pub(in super::super) is: forebay_store::Request,
}

impl Request {
    /// The pages that it writes; none if it is not a write.
    pub(in super::super) fn written(&self) -> Range<u64> {
        let first = self.is.offset_bytes / PAGE;
        let count = match self.is.kind {
            IoKind::Write => self.is.length_bytes.div_ceil(PAGE),
            _ => 0,
        };
        first..first + count
    }

    /// The number of these pages.
    pub(in super::super) fn written_pages(&self) -> u64 {
        let pages = self.written();
        pages.end - pages.start
    }
}

/// What happens above or below the cache.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum SceneIo<'a> {
    CallBegins(&'a Call),
    /// The flag: it ended without error.
    CallEnds(&'a Call, bool),
    RequestBegins(Request),
    /// The flag: it ended without error.
    RequestEnds(Request, bool),
    /// A store takes this many pages a second from now on.
    RateChanges(usize, u64),
}

impl SceneIo<'_> {
    /// The store in which it happens.
    pub(in super::super) fn store(&self) -> usize {
        match *self {
            SceneIo::CallBegins(call) | SceneIo::CallEnds(call, _) => call.store,
            SceneIo::RequestBegins(request) | SceneIo::RequestEnds(request, _) => request.store,
            SceneIo::RateChanges(store, _) => store,
        }
    }
}

/// The instant of an observation.
pub(in super::super) struct Moment<'a> {
    pub(in super::super) now: Instant,
    pub(in super::super) cache: &'a Cache,
    /// Computed once for all oracles, when the first of them asks.
    statistics: OnceCell<Statistics>,
}

impl<'a> Moment<'a> {
    fn new(now: Instant, cache: &'a Cache) -> Moment<'a> {
        Moment {
            now,
            cache,
            statistics: OnceCell::new(),
        }
    }

    pub(in super::super) fn statistics(&self) -> &Statistics {
        self.statistics.get_or_init(|| self.cache.statistics())
    }
}

/// An oracle. Each call returns what is wrong, if anything is.
pub(in super::super) trait Observer: Send + 'static {
    /// The engine reports an event.
    fn event(&mut self, _moment: &Moment<'_>, _event: &Event) -> Option<Violation> {
        None
    }

    /// A call or a request begins or ends.
    fn io(&mut self, _moment: &Moment<'_>, _io: SceneIo<'_>) -> Option<Violation> {
        None
    }

    /// A look between them.
    fn look(&mut self, _moment: &Moment<'_>) -> Option<Violation> {
        None
    }
}

/// Observes nothing.
impl Observer for () {}

/// What the parts of a stage report to.
pub(super) struct Watch {
    rt: Rt,
    /// None at the end. Otherwise nothing would be freed: the cache holds the stores, and they hold
    /// this.
    cache: Mutex<Option<Cache>>,
    state: Mutex<State>,
}

struct State {
    /// Absent while they observe.
    observers: Option<Vec<Box<dyn Observer>>>,
    /// Events that came meanwhile: computing statistics may make the cache report some.
    events: VecDeque<(Instant, Event)>,
    /// The first finding.
    found: Option<Violation>,
    requests: u64,
}

impl Watch {
    pub(super) fn new(rt: Rt, observers: Vec<Box<dyn Observer>>) -> Watch {
        Watch {
            rt,
            cache: Mutex::new(None),
            state: Mutex::new(State {
                observers: Some(observers),
                events: VecDeque::new(),
                found: None,
                requests: 0,
            }),
        }
    }

    /// Observes `cache` from now on.
    pub(super) fn begin(&self, cache: &Cache) {
        *lock(&self.cache) = Some(cache.clone());
    }

    /// Ends the observation, and returns what was found.
    pub(super) fn end(&self) -> Option<Violation> {
        *lock(&self.cache) = None;
        lock(&self.state).found.take()
    }

    pub(super) fn has_found(&self) -> bool {
        lock(&self.state).found.is_some()
    }

    pub(super) fn io(&self, io: SceneIo<'_>) {
        self.observe(self.rt.now(), |observer, moment| observer.io(moment, io));
    }

    pub(super) fn look(&self) {
        self.observe(self.rt.now(), Observer::look);
    }

    /// A number for a request.
    pub(super) fn next_request(&self) -> u64 {
        let mut state = lock(&self.state);
        state.requests += 1;
        state.requests
    }

    /// Lets the observers see something, and then the events that came meanwhile.
    fn observe(
        &self,
        now: Instant,
        see: impl Fn(&mut dyn Observer, &Moment<'_>) -> Option<Violation>,
    ) {
        let Some(cache) = lock(&self.cache).clone() else {
            return;
        };
        let observers = lock(&self.state).observers.take();
        let mut observers = observers.expect("calls and looks do not come while they observe");
        let moment = Moment::new(now, &cache);
        let mut found = first_found(&mut observers, |observer| see(observer, &moment));
        loop {
            let mut state = lock(&self.state);
            state.found = state.found.take().or(found);
            let Some((now, event)) = state.events.pop_front() else {
                state.observers = Some(observers);
                return;
            };
            drop(state);
            let moment = Moment::new(now, &cache);
            found = first_found(&mut observers, |observer| observer.event(&moment, &event));
        }
    }
}

/// Lets all observers `see` something.
fn first_found(
    observers: &mut [Box<dyn Observer>],
    see: impl Fn(&mut dyn Observer) -> Option<Violation>,
) -> Option<Violation> {
    let mut found = None;
    for observer in observers {
        let of_one = see(&mut **observer);
        found = found.or(of_one);
    }
    found
}

/// The events of the engine.
pub(super) struct Events(pub(super) Arc<Watch>);

impl EventSink for Events {
    fn record(&self, at: Instant, event: &Event) {
        {
            let mut state = lock(&self.0.state);
            if state.observers.is_none() {
                state.events.push_back((at, *event));
                return;
            }
        }
        self.0
            .observe(at, |observer, moment| observer.event(moment, event));
    }
}
