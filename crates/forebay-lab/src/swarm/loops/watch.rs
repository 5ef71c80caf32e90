//! The watch: it receives all that happens on a stage, and keeps what the oracles found.

use super::super::client::PAGE;
use super::super::verdict::{Oracle, Violation};
use super::age::Age;
use super::backoff::BackOff;
use super::estimate::Estimate;
use super::limit::{Level, Limit};
use super::load::{Load, Side};
use super::work::{Dirty, Work};
use forebay::event::{Event, EventSink};
use forebay::{Cache, Statistics};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::Rt;
use forebay_store::{IoKind, ObjectId, Request};
use std::ops::Range;

/// The oracles of one store.
#[derive(Debug)]
struct OfStore {
    work: Work,
    estimate: Estimate,
    /// Present where each page is followed.
    age: Option<Age>,
    back_off: BackOff,
    /// When it last ended a request, or began the first of those under way.
    answered: Instant,
}

impl OfStore {
    fn new(load: &Load, side: &Side) -> OfStore {
        let age = || Age::new(load.expire, load.interval, side.pages_per_s);
        OfStore {
            work: Work::default(),
            estimate: Estimate::new(side.pages_per_s),
            age: load.is_light.then(age),
            back_off: BackOff::new(load.expire, load.interval),
            answered: Instant::ZERO,
        }
    }

    /// For how long it has had requests and has ended none.
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

    fn back_off(&mut self, store: usize, judge: impl FnOnce(&mut BackOff) -> Option<String>) {
        let what = judge(&mut self.stores[store].back_off);
        self.keep(Oracle::BackOff, store, what);
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
            stores: sides.map(|side| OfStore::new(load, side)).collect(),
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

    /// What was found. After this nothing is looked at any more.
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
            if request.kind == IoKind::Write {
                state.back_off(store, |back_off| {
                    back_off.begins(now, request.object.0, range_of(request))
                });
            }
        }
        self.look();
    }

    pub(super) fn ends(&self, store: usize, request: Request, is_done: bool) {
        self.look();
        let now = self.rt.now();
        let mut state = lock(&self.state);
        state.stores[store].answered = now;
        state.work(store, now, |work| match request.kind {
            IoKind::Commit => work.commit_ends(),
            _ => work.ends(pages_of(request)),
        });
        if request.kind == IoKind::Write {
            let of_store = &mut state.stores[store];
            let (object, pages) = (request.object.0, range_of(request));
            if let Some(age) = &mut of_store.age {
                age.written(object, pages.clone());
            }
            of_store.back_off.ends(now, object, pages, is_done);
        }
    }

    /// The store takes `pages_per_s` from now on.
    pub(super) fn rate_changes(&self, store: usize, pages_per_s: u64) {
        lock(&self.state).stores[store].estimate.change(pages_per_s);
    }

    /// A writer begins to write `pages` of `object`.
    pub(super) fn call_begins(&self, store: usize, object: ObjectId, pages: Range<u64>) {
        let now = self.rt.now();
        let mut state = lock(&self.state);
        state.work(store, now, Work::call_begins);
        let OfStore { age, back_off, .. } = &mut state.stores[store];
        if let Some(age) = age {
            // Pages that were refused before have times of their own.
            let untried = pages
                .clone()
                .filter(|&page| !back_off.has_failed(object.0, page));
            age.dirtied(now, object.0, untried);
        }
        back_off.dirtied(object.0, pages);
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
            let OfStore { age, back_off, .. } = &mut state.stores[number];
            let what = age.as_ref().and_then(|age| {
                back_off.look(age);
                age.judge(now)
            });
            state.keep(Oracle::Age, number, what);
            state.back_off(number, |back_off| back_off.judge(now));
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

/// The pages that a write covers.
fn range_of(request: Request) -> Range<u64> {
    let first = request.offset_bytes / PAGE;
    first..first + pages_of(request)
}

impl EventSink for Watch {
    fn record(&self, _at: Instant, _event: &Event) {}
}
