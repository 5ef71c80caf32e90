//! The watch: events and looks of a world of short memory, and the findings of the oracle of
//! reclaim.

use super::super::client::PAGE;
use super::super::verdict::{Oracle, Violation};
use super::callers::Callers;
use super::keeper::Keeper;
use super::writeback::Written;
use forebay::event::{Event, EventSink};
use forebay::statistics::ZoneStatistics;
use forebay::{Cache, Statistics};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_law::throttle::ThrottleReason;
use forebay_rt::Rt;
use forebay_store::{Ending, Geometry, Intercept, Io, IoKind, Store};
use std::sync::Arc;

#[derive(Debug)]
struct State {
    keepers: Vec<Keeper>,
    written: Written,
    callers: Callers,
    found: Option<Violation>,
}

impl State {
    fn keep(&mut self, what: Option<String>) {
        if let Some(what) = what
            && self.found.is_none()
        {
            let oracle = Oracle::Reclaim;
            self.found = Some(Violation { oracle, what });
        }
    }
}

/// See above.
pub(super) struct Watch {
    rt: Rt,
    /// It is taken away at the end, because it holds the stores, whose probes hold this watch.
    cache: Mutex<Option<Cache>>,
    state: Mutex<State>,
}

impl Watch {
    pub(super) fn new(rt: Rt, nodes: usize) -> Watch {
        let state = State {
            keepers: vec![Keeper::default(); nodes],
            written: Written::default(),
            callers: Callers::default(),
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

    /// The finding, if any. After this the watch looks at nothing any more.
    pub(super) fn take(&self) -> Option<Violation> {
        *lock(&self.cache) = None;
        lock(&self.state).found.take()
    }

    pub(super) fn has_found(&self) -> bool {
        lock(&self.state).found.is_some()
    }

    pub(super) fn call_begins(&self, reader: u64) {
        lock(&self.state).callers.call_begins(reader);
    }

    pub(super) fn call_ends(&self, reader: u64) {
        lock(&self.state).callers.call_ends(reader);
    }

    /// Looks at zones and callers. `swap` is the store that holds the swap.
    pub(super) fn look(&self, swap: Option<usize>) {
        let Some(cache) = lock(&self.cache).clone() else {
            return;
        };
        let (now, seen) = (self.rt.now(), cache.statistics());
        let flags = cache.check_flags();
        let mut state = lock(&self.state);
        for node in 0..state.keepers.len() {
            let what = state.keepers[node].look(now, &zones_of(&seen, node));
            state.keep(what);
            let is_its = |said: &&String| said.starts_with(&format!("node {node} "));
            if state.keepers[node].is_at_rest()
                && let Some(said) = flags.iter().find(is_its)
            {
                let now_ms = now.as_millis();
                state.keep(Some(format!("at {now_ms} ms {said} (spec/reclaim.md 4.6)")));
            }
        }
        let is_swapping = swap.is_some_and(|swap| seen.backings[swap].writes_in_flight > 0);
        let what = state.callers.look(now, &seen.zones, is_swapping);
        state.keep(what);
    }

    /// Looks at the marks of all pages.
    pub(super) fn look_at_marks(&self) {
        let Some(cache) = lock(&self.cache).clone() else {
            return;
        };
        let now_ms = self.rt.now().as_millis();
        let what = cache.check_marks().into_iter().next();
        lock(&self.state).keep(what.map(|what| format!("at {now_ms} ms {what} (spec/reclaim.md)")));
    }

    fn kswapd_sleeps(&self, node: usize) {
        // The engine holds no lock while it reports this event.
        let Some(cache) = lock(&self.cache).clone() else {
            return;
        };
        let seen = cache.statistics();
        let mut state = lock(&self.state);
        let what = state.keepers[node].sleeps(&zones_of(&seen, node));
        state.keep(what.map(|what| format!("node {node}: {what}")));
    }
}

fn zones_of(seen: &Statistics, node: usize) -> Vec<&ZoneStatistics> {
    let zones = seen.zones.iter();
    zones
        .filter(|zone| zone.node == node && zone.managed > 0)
        .collect()
}

impl EventSink for Watch {
    fn record(&self, at: Instant, event: &Event) {
        let mut state = lock(&self.state);
        match *event {
            Event::MmVmscanKswapdWake { nid, .. } => state.keepers[nid].wakes(),
            Event::MmVmscanKswapdSleep { nid } => {
                drop(state);
                self.kswapd_sleeps(nid);
            }
            Event::MmVmscanLruShrinkInactive {
                nid, nr_reclaimed, ..
            } if nr_reclaimed > 0 => state.keepers[nid].frees_pages(),
            Event::MmVmscanThrottled {
                usec_timeout,
                usec_delayed,
                reason: ThrottleReason::Writeback,
                is_kswapd: true,
                ..
            } if state.keepers.len() == 1 => {
                let span = Span::from_micros;
                let what = state
                    .written
                    .waited(at, span(usec_timeout), span(usec_delayed));
                state.keep(what);
            }
            Event::MmVmscanThrottled {
                is_kswapd: false, ..
            } => state.callers.throttled(),
            Event::MmVmscanWriteFolio { is_file: true, .. } => {
                let what = "reclaim wrote a file page (spec/reclaim.md 3.3 h, I-12)";
                state.keep(Some(what.to_owned()));
            }
            _ => {}
        }
    }
}

/// A store that reports its writes to the watch when they end.
pub(super) struct Watched {
    pub(super) watch: Arc<Watch>,
    pub(super) inner: Arc<dyn Store>,
}

impl Store for Watched {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, mut io: Io) {
        if io.request().kind == IoKind::Write {
            io.intercept(Arc::new(Noted {
                watch: self.watch.clone(),
            }));
        }
        self.inner.submit(io);
    }
}

struct Noted {
    watch: Arc<Watch>,
}

impl Intercept for Noted {
    fn ended(&self, ending: Ending) {
        let pages = ending.request().length_bytes.div_ceil(PAGE);
        let now = self.watch.rt.now();
        lock(&self.watch.state).written.ends(now, pages);
        ending.pass();
    }
}
