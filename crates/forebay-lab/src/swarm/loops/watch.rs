//! Who is told all that happens on a stage, and keeps what the oracles found.

use super::super::client::PAGE;
use super::super::verdict::{Oracle, Violation};
use super::estimate::Estimate;
use super::limit::{Level, Limit};
use super::load::Load;
use super::work::{Dirty, Work};
use forebay::event::{Event, EventSink};
use forebay::{Cache, Statistics};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::Rt;
use forebay_store::{IoKind, Request};

/// The oracles of one store.
#[derive(Debug)]
struct OfStore {
    work: Work,
    estimate: Estimate,
    /// When it ended a request last, or began the first of those under way.
    answered: Instant,
}

impl OfStore {
    fn new(pages_per_s: u64) -> OfStore {
        OfStore {
            work: Work::default(),
            estimate: Estimate::new(pages_per_s),
            answered: Instant::ZERO,
        }
    }

    /// For how long it has had requests and ended none.
    fn silent(&self, now: Instant) -> Span {
        if self.work.has_requests() {
            now.since(self.answered)
        } else {
            Span::ZERO
        }
    }
}

#[derive(Debug, Default)]
struct State {
    stores: Vec<OfStore>,
    limit: Limit,
    found: Option<Violation>,
}

impl State {
    /// Keeps the first thing that is found.
    fn keep(&mut self, oracle: Oracle, store: usize, what: Option<String>) {
        if let Some(what) = what
            && self.found.is_none()
        {
            let what = format!("store {store}: {what}");
            self.found = Some(Violation { oracle, what });
        }
    }

    fn work(&mut self, store: usize, now: Instant, change: impl FnOnce(&mut Work)) {
        let what = self.stores[store].work.note(now, change);
        self.keep(Oracle::Work, store, what);
    }

    fn estimate(&mut self, store: usize, now: Instant, estimate: u64) {
        let of_store = &mut self.stores[store];
        let is_loaded = of_store.work.is_wanted();
        let what = of_store.estimate.note(now, estimate, is_loaded);
        self.keep(Oracle::Estimate, store, what);
    }

    fn limit(&mut self, now: Instant, seen: &Statistics) {
        let silent = self.stores.iter().map(|of_store| of_store.silent(now));
        let level = Level {
            dirty: seen.dirty(),
            limit: seen.dirty_limit,
            dirtied: seen.backings.iter().map(|of_store| of_store.dirtied).sum(),
            silent: silent.max().unwrap_or(Span::ZERO),
        };
        let what = self.limit.note(now, level);
        self.keep(Oracle::Limit, 0, what);
    }
}

/// See above.
pub(super) struct Watch {
    rt: Rt,
    /// Taken away at the end: it holds the stores, whose probes hold this.
    cache: Mutex<Option<Cache>>,
    state: Mutex<State>,
}

impl Watch {
    pub(super) fn new(rt: Rt, load: &Load) -> Watch {
        let sides = load.sides.iter();
        let state = State {
            stores: sides.map(|side| OfStore::new(side.pages_per_s)).collect(),
            limit: Limit::new(load),
            found: None,
        };
        Watch {
            rt,
            cache: Mutex::new(None),
            state: Mutex::new(state),
        }
    }

    /// Looks at `cache` from now on.
    pub(super) fn look_at(&self, cache: &Cache) {
        *lock(&self.cache) = Some(cache.clone());
    }

    /// What was found; nothing is looked at any more.
    pub(super) fn take(&self) -> Option<Violation> {
        *lock(&self.cache) = None;
        lock(&self.state).found.take()
    }

    pub(super) fn has_found(&self) -> bool {
        lock(&self.state).found.is_some()
    }

    pub(super) fn begins(&self, store: usize, request: Request) {
        let now = self.rt.now();
        {
            let mut state = lock(&self.state);
            let of_store = &mut state.stores[store];
            if !of_store.work.has_requests() {
                of_store.answered = now;
            }
            state.work(store, now, |work| work.begins(pages_of(request)));
        }
        self.look();
    }

    pub(super) fn ends(&self, store: usize, request: Request, _is_done: bool) {
        self.look();
        let now = self.rt.now();
        let mut state = lock(&self.state);
        state.stores[store].answered = now;
        state.work(store, now, |work| work.ends(pages_of(request)));
    }

    /// The store takes `pages_per_s` from now on.
    pub(super) fn rate_changes(&self, store: usize, pages_per_s: u64) {
        lock(&self.state).stores[store].estimate.change(pages_per_s);
    }

    pub(super) fn call_begins(&self, store: usize) {
        let now = self.rt.now();
        lock(&self.state).work(store, now, Work::call_begins);
    }

    pub(super) fn call_ends(&self, store: usize) {
        let now = self.rt.now();
        lock(&self.state).work(store, now, Work::call_ends);
    }

    /// Looks at the gauges.
    pub(super) fn look(&self) {
        let cache = lock(&self.cache).clone();
        if let Some(cache) = cache {
            self.judge(&cache.statistics());
        }
    }

    fn judge(&self, seen: &Statistics) {
        let now = self.rt.now();
        let mut state = lock(&self.state);
        for (number, of_store) in seen.backings.iter().enumerate() {
            let dirty = Dirty {
                reclaimable: of_store.reclaimable,
                writeback: of_store.writeback,
                of_all: seen.nr_dirty,
                background: seen.nr_dirty_background_threshold,
            };
            state.work(number, now, |work| work.sees(dirty));
            state.estimate(number, now, of_store.write_bandwidth);
        }
        state.limit(now, seen);
    }
}

/// Pages that a request writes.
fn pages_of(request: Request) -> u64 {
    match request.kind {
        IoKind::Write => request.length_bytes.div_ceil(PAGE),
        _ => 0,
    }
}

impl EventSink for Watch {
    fn record(&self, _at: Instant, _event: &Event) {}
}
