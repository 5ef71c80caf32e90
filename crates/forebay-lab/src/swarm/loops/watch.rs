//! The watch: it passes what happens in a scene to the oracles of the loops.

use super::super::scene::{Call, Moment, Observer, Request, Scene, SceneIo, Site};
use super::super::verdict::{Oracle, Violation};
use super::age::Age;
use super::backoff::BackOff;
use super::estimate::Estimate;
use super::limit::{Level, Limit};
use super::work::{Dirty, Work};
use forebay_base::{Instant, Span};
use forebay_engine::Statistics;
use forebay_engine::statistics::BackingStatistics;
use forebay_store::IoKind;

/// The oracles of one store.
#[derive(Debug)]
struct OfStore {
    work: Work,
    estimate: Estimate,
    /// None unless each page is followed.
    age: Option<Age>,
    back_off: BackOff,
    /// When it last ended a request, or began the first of those under way.
    answered: Instant,
    spared: Spared,
}

/// Pages that were dirtied while their store had hardly any dirty pages. Its writers go on at the
/// hard limit, because the store needs something to write (spec/writeback.md 5.1).
#[derive(Debug, Default)]
struct Spared {
    pages: u64,
    /// The store had hardly any dirty pages at the last look, when this many had been dirtied.
    is_low: bool,
    dirtied: u64,
}

impl Spared {
    fn look(&mut self, of_store: &BackingStatistics) {
        let is_low = of_store.reclaimable + of_store.writeback <= 1;
        if is_low || self.is_low {
            self.pages += of_store.dirtied - self.dirtied;
        }
        (self.is_low, self.dirtied) = (is_low, of_store.dirtied);
    }
}

impl OfStore {
    fn new(scene: &Scene, site: &Site) -> OfStore {
        let settings = &scene.settings;
        let (expire, interval) = (settings.dirty_expire, settings.writeback_interval);
        let age = || Age::new(expire, interval, site.pages_per_s());
        OfStore {
            work: Work::default(),
            estimate: Estimate::new(site.pages_per_s()),
            age: scene.is_light.then(age),
            back_off: BackOff::new(expire, interval),
            answered: Instant::ZERO,
            spared: Spared::default(),
        }
    }

    /// How long it has had requests and has ended none.
    fn silent(&self, now: Instant) -> Span {
        if self.work.has_requests() {
            now.since(self.answered)
        } else {
            Span::ZERO
        }
    }
}

/// See above.
#[derive(Debug)]
pub(super) struct Watch {
    stores: Vec<OfStore>,
    limit: Limit,
    /// What was found since the last observation began.
    found: Option<Violation>,
}

impl Watch {
    pub(super) fn new(scene: &Scene) -> Watch {
        let sites = scene.sites.iter();
        Watch {
            stores: sites.map(|site| OfStore::new(scene, site)).collect(),
            limit: Limit::new(scene),
            found: None,
        }
    }

    /// Keeps the first finding.
    fn keep(&mut self, oracle: Oracle, store: usize, what: Option<String>) {
        if let Some(what) = what
            && self.found.is_none()
        {
            self.found = Some(oracle.finds(format!("store {store}: {what}")));
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
        for (of_store, seen) in self.stores.iter_mut().zip(&seen.backings) {
            of_store.spared.look(seen);
        }
        let silent = self.stores.iter().map(|of_store| of_store.silent(now));
        let spared = self.stores.iter().map(|of_store| of_store.spared.pages);
        let dirtied = seen.backings.iter().map(|of_store| of_store.dirtied);
        let level = Level {
            dirty: seen.dirty(),
            limit: seen.dirty_limit,
            dirtied: dirtied.sum::<u64>() - spared.sum::<u64>(),
            silent: silent.max().unwrap_or(Span::ZERO),
        };
        let what = self.limit.note(now, level);
        self.keep(Oracle::Limit, 0, what);
    }

    fn request_begins(&mut self, now: Instant, request: Request) {
        let Request { store, is, .. } = request;
        let of_store = &mut self.stores[store];
        if !of_store.work.has_requests() {
            of_store.answered = now;
        }
        self.work(store, now, |work| work.begins(request.written_pages()));
        if is.kind == IoKind::Write {
            self.back_off(store, |back_off| {
                back_off.begins(now, is.object.0, request.written())
            });
        }
    }

    fn request_ends(&mut self, now: Instant, request: Request, is_done: bool) {
        let Request { store, is, .. } = request;
        self.stores[store].answered = now;
        self.work(store, now, |work| match is.kind {
            IoKind::Commit => work.commit_ends(),
            _ => work.ends(request.written_pages()),
        });
        if is.kind == IoKind::Write {
            let of_store = &mut self.stores[store];
            let (object, pages) = (is.object.0, request.written());
            if let Some(age) = &mut of_store.age {
                age.written(object, pages.clone());
            }
            of_store.back_off.ends(now, object, pages, is_done);
        }
    }

    fn call_begins(&mut self, now: Instant, call: &Call) {
        self.work(call.store, now, Work::call_begins);
        let OfStore { age, back_off, .. } = &mut self.stores[call.store];
        let object = call.object.0;
        if let Some(age) = age {
            // The back-off judges pages that were refused before.
            let pages = call.pages.clone();
            let untried = pages.filter(|&page| !back_off.has_failed(object, page));
            age.dirtied(now, object, untried);
        }
        back_off.dirtied(object, call.pages.clone());
    }

    fn gauges(&mut self, now: Instant, seen: &Statistics) {
        for (number, of_store) in seen.backings.iter().enumerate() {
            let dirty = Dirty {
                reclaimable: of_store.reclaimable,
                writeback: of_store.writeback,
                of_all: seen.nr_dirty,
                background: seen.nr_dirty_background_threshold,
            };
            self.work(number, now, |work| work.sees(dirty));
            self.estimate(number, now, of_store.write_bandwidth);
            let OfStore { age, back_off, .. } = &mut self.stores[number];
            let what = age.as_ref().and_then(|age| {
                back_off.look(age);
                age.judge(now)
            });
            self.keep(Oracle::Age, number, what);
            self.back_off(number, |back_off| back_off.judge(now));
        }
        self.limit(now, seen);
    }
}

impl Observer for Watch {
    fn io(&mut self, moment: &Moment<'_>, io: SceneIo<'_>) -> Option<Violation> {
        let now = moment.now;
        match io {
            SceneIo::CallBegins(call) => self.call_begins(now, call),
            SceneIo::CallEnds(call, _) => self.work(call.store, now, Work::call_ends),
            SceneIo::RequestBegins(request) => {
                if is_write(request) {
                    self.request_begins(now, request);
                    self.gauges(now, moment.statistics());
                }
            }
            SceneIo::RequestEnds(request, is_done) => {
                if is_write(request) {
                    self.gauges(now, moment.statistics());
                    self.request_ends(now, request, is_done);
                }
            }
            SceneIo::RateChanges(store, pages_per_s) => {
                self.stores[store].estimate.change(pages_per_s);
            }
        }
        self.found.take()
    }

    fn look(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        self.gauges(moment.now, moment.statistics());
        self.found.take()
    }
}

/// Whether it makes something durable.
fn is_write(request: Request) -> bool {
    matches!(request.is.kind, IoKind::Write | IoKind::Commit)
}

#[cfg(test)]
mod tests {
    use super::super::{judge_loops, judge_work};

    #[test]
    fn loops_do_what_they_promise() {
        for seed in 0..12 {
            assert_eq!(judge_loops(seed), None);
        }
    }

    #[test]
    fn stores_work_while_their_writers_wait() {
        for seed in 0..12 {
            assert_eq!(judge_work(seed), None);
        }
    }
}
