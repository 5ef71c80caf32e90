//! The meter: a store that measures its requests, and knows which version of each page is durable.
//!
//! A writer puts the number of its call into the first bytes of each page, and the meter reads it
//! when the page is written. So whether a sync kept its promise does not depend on any clock.

use super::super::super::client::PAGE;
use super::super::age::{Age, Place};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_rt::Rt;
use forebay_store::{Ending, Geometry, Intercept, Io, IoKind, ObjectId, Request, Store};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a page that hold the number of a call.
pub(super) const VERSION_BYTES: usize = 8;

/// What a store has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) pages: u64,
    /// Time in which it had no request although one of its writers was in a call.
    pub(super) idle: Span,
}

#[derive(Debug)]
struct State {
    requests: u64,
    in_calls: u64,
    done: Done,
    /// The sums are complete up to this instant.
    until: Instant,
    /// When it last ended a request, or began the first of those under way.
    answered: Instant,
    /// The longest time without an answer that ended since the last look.
    silence: Span,
    /// Versions that were written and wait for a commit, and those that are durable.
    written: BTreeMap<Place, u64>,
    durable: BTreeMap<Place, u64>,
    age: Option<Age>,
}

/// The measurements of one store.
pub(super) struct Meter {
    rt: Rt,
    inner: Arc<dyn Store>,
    is_unstable: bool,
    state: Mutex<State>,
}

impl State {
    fn pass(&mut self, now: Instant) {
        if self.requests == 0 && self.in_calls > 0 {
            self.done.idle += now.since(self.until);
        }
        self.until = self.until.max(now);
    }

    /// How long it has had requests and has ended none.
    fn silent(&self, now: Instant) -> Span {
        match self.requests {
            0 => Span::ZERO,
            _ => now.since(self.answered),
        }
    }

    /// Notes that the writes which a commit covered are durable.
    fn commit(&mut self, covered: &[(Place, u64)]) {
        for &(place, version) in covered {
            keep_newer(&mut self.durable, place, version);
            if self.written.get(&place) == Some(&version) {
                self.written.remove(&place);
            }
        }
    }
}

fn keep_newer(versions: &mut BTreeMap<Place, u64>, place: Place, version: u64) {
    let kept = versions.entry(place).or_insert(version);
    *kept = version.max(*kept);
}

impl Meter {
    pub(super) fn new(
        rt: Rt,
        inner: Arc<dyn Store>,
        is_unstable: bool,
        age: Option<Age>,
    ) -> Arc<Meter> {
        let state = State {
            requests: 0,
            in_calls: 0,
            done: Done::default(),
            until: rt.now(),
            answered: rt.now(),
            silence: Span::ZERO,
            written: BTreeMap::new(),
            durable: BTreeMap::new(),
            age,
        };
        Arc::new(Meter {
            rt,
            inner,
            is_unstable,
            state: Mutex::new(state),
        })
    }

    /// The sums up to now.
    pub(super) fn done(&self) -> Done {
        let mut state = lock(&self.state);
        state.pass(self.rt.now());
        state.done
    }

    /// The longest time since the last look in which it had requests and ended none.
    pub(super) fn longest_silence(&self) -> Span {
        let mut state = lock(&self.state);
        let silent = state.silent(self.rt.now());
        std::mem::take(&mut state.silence).max(silent)
    }

    /// Notes that a call begins which dirties `pages`, or a sync, which dirties none.
    pub(super) fn call_begins(&self, object: ObjectId, pages: Range<u64>) {
        let mut state = lock(&self.state);
        let now = self.rt.now();
        state.pass(now);
        state.in_calls += 1;
        if let Some(age) = &mut state.age {
            age.dirtied(now, object.0, pages);
        }
    }

    pub(super) fn call_ends(&self) {
        let mut state = lock(&self.state);
        state.pass(self.rt.now());
        state.in_calls -= 1;
    }

    /// What is wrong if a page is not durable in its version of `promised`.
    pub(super) fn judge_sync(
        &self,
        object: ObjectId,
        promised: &BTreeMap<u64, u64>,
    ) -> Option<String> {
        let state = lock(&self.state);
        let durable = |page: u64| state.durable.get(&(object.0, page)).copied().unwrap_or(0);
        let (&page, &version) = promised
            .iter()
            .find(|&(&page, &version)| durable(page) < version)?;
        Some(format!(
            "a sync of object {} returned, and page {page} is durable as call {} left it, not \
             call {version} (spec/writeback.md 13.1, I13)",
            object.0,
            durable(page)
        ))
    }

    /// What is wrong if a page has been dirty for too long.
    pub(super) fn judge_age(&self) -> Option<String> {
        let state = lock(&self.state);
        state.age.as_ref()?.judge(self.rt.now())
    }

    fn begins(self: &Arc<Meter>, io: &mut Io) {
        let request = io.request();
        let versions = match request.kind {
            IoKind::Write => versions_of(io),
            _ => Vec::new(),
        };
        let mut state = lock(&self.state);
        let now = self.rt.now();
        state.pass(now);
        if state.requests == 0 {
            state.answered = now;
        }
        state.requests += 1;
        let object = request.object.0;
        // A commit covers the writes that ended before it began.
        let versions = if request.kind == IoKind::Commit {
            let of_object = state.written.range((object, 0)..=(object, u64::MAX));
            of_object
                .map(|(&place, &version)| (place, version))
                .collect()
        } else {
            versions
        };
        drop(state);
        let meter = self.clone();
        io.intercept(Arc::new(Passing { meter, versions }));
    }

    fn ends(&self, request: Request, is_done: bool, versions: &[(Place, u64)]) {
        let mut state = lock(&self.state);
        let now = self.rt.now();
        state.pass(now);
        state.silence = state.silence.max(state.silent(now));
        state.requests -= 1;
        state.answered = now;
        if !is_done {
            return;
        }
        if request.kind == IoKind::Commit {
            state.commit(versions);
            return;
        }
        state.done.pages += versions.len() as u64;
        for &(place, version) in versions {
            let State {
                written, durable, ..
            } = &mut *state;
            let kept = if self.is_unstable { written } else { durable };
            keep_newer(kept, place, version);
        }
        let first = request.offset_bytes / PAGE;
        if let Some(age) = &mut state.age {
            age.written(request.object.0, first..first + versions.len() as u64);
        }
    }
}

/// The pages of a write, each with the number of the call that wrote it.
fn versions_of(io: &Io) -> Vec<(Place, u64)> {
    let request = io.request();
    let first = request.offset_bytes / PAGE;
    let slots = 0..request.length_bytes.div_ceil(PAGE);
    let versions = slots.map(|slot| {
        let mut bytes = [0; VERSION_BYTES];
        if io.has_bytes() {
            io.copy_page(slot as usize, 0, &mut bytes);
        }
        let place = (request.object.0, first + slot);
        (place, u64::from_le_bytes(bytes))
    });
    versions.collect()
}

/// A wrapper of a store that tells its meter of each request.
pub(super) struct Metered(pub(super) Arc<Meter>);

impl Store for Metered {
    fn geometry(&self) -> Geometry {
        self.0.inner.geometry()
    }

    fn submit(&self, mut io: Io) {
        if matches!(io.request().kind, IoKind::Write | IoKind::Commit) {
            self.0.begins(&mut io);
        }
        self.0.inner.submit(io);
    }
}

/// A request that has begun.
struct Passing {
    meter: Arc<Meter>,
    /// The pages that it writes; for a commit, those that were written and not committed before it.
    versions: Vec<(Place, u64)>,
}

impl Intercept for Passing {
    fn ended(&self, ending: Ending) {
        let is_done = ending.result().is_ok();
        self.meter.ends(ending.request(), is_done, &self.versions);
        ending.pass();
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::machine::open_cache;
    use super::super::super::super::null_store::NullStore;
    use super::*;
    use forebay_engine::{Cache, Settings};
    use forebay_kernels::Policy;
    use forebay_rt::{Virtual, VirtualSettings, block_on};
    use forebay_store::{Durability, MemoryStore, Rate, RateStore};

    #[test]
    fn a_silence_that_ends_between_two_looks_is_seen_once() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let world = Virtual::new(VirtualSettings::default());
        let rt = world.rt();
        world.run(async move {
            let medium =
                RateStore::new(rt.clone(), Arc::new(MemoryStore::new()), Rate::bytes(PAGE));
            let meter = Meter::new(rt.clone(), Arc::new(medium), false, None);
            let cache = open_cache(&rt, Settings::default(), Policy::default(), None);
            let store = cache.attach(Arc::new(Metered(meter.clone()))).unwrap();
            let file = cache.open(&store, ObjectId(3), 0).unwrap();
            file.write_at(&[1; PAGE as usize], 0).await.unwrap();
            file.sync().await.unwrap();
            assert_eq!(rt.now(), at(1_000));
            assert_eq!(meter.longest_silence(), Span::from_secs(1));
            assert_eq!(meter.longest_silence(), Span::ZERO);
        });
    }

    #[test]
    fn a_page_is_durable_when_what_its_store_needs_has_ended() {
        for durability in [Durability::OnFinish, Durability::Unstable] {
            let is_unstable = durability == Durability::Unstable;
            let rt = Rt::real();
            let inner = Arc::new(NullStore { durability });
            let meter = Meter::new(rt, inner, is_unstable, None);
            let settings = Settings {
                memory_bytes: 8 << 20,
                ..Settings::default()
            };
            let cache = Cache::new(settings).unwrap();
            let store = cache.attach(Arc::new(Metered(meter.clone()))).unwrap();
            let file = cache.open(&store, ObjectId(3), 0).unwrap();
            let mut bytes = [0; 2 * PAGE as usize];
            for at in [0, PAGE as usize] {
                bytes[at..at + VERSION_BYTES].copy_from_slice(&5_u64.to_le_bytes());
            }
            block_on(file.write_at(&bytes, PAGE)).unwrap();
            let promised = BTreeMap::from([(1, 5), (2, 5)]);
            let wrong = meter.judge_sync(ObjectId(3), &promised);
            assert!(wrong.is_some_and(|what| what.contains("page 1")));
            block_on(file.sync()).unwrap();
            assert_eq!(meter.judge_sync(ObjectId(3), &promised), None);
            assert_eq!(meter.done().pages, 2);
            let later = BTreeMap::from([(1, 5), (2, 6)]);
            let wrong = meter.judge_sync(ObjectId(3), &later);
            assert!(wrong.is_some_and(|what| what.contains("page 2")));
        }
    }
}
