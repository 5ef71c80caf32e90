//! The calls that wait now. A wait counts from its first moment on, and not only once it has
//! ended: a storage that hangs is what an operator asks about.
//!
//! The places are made at start. While all are taken, calls that begin to wait are counted at
//! their end alone; the oldest ones, which matter most, have their places by then.
//!
//! invariant OC1: what a call that has a place has waited for each cause up to now is what its end
//! records, as far as its waits follow each other.

use crate::caller::CallerKey;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use forebay_law::blame::{CAUSES, Cause};
// Not the atomics of the schedule explorer: any shard will do.
use std::sync::atomic::{AtomicU32, Ordering};

/// Calls are spread over these, so that threads that wait seldom meet.
const SHARDS: usize = 8;

/// Shards in which a call looks for a place.
const TRIES: usize = 2;

/// A wait that goes on for longer is overdue, and is counted and reported once.
pub(crate) const OVERDUE: Span = Span::from_secs(5);

/// A wait that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) cause: Cause,
    pub(crate) began: Instant,
    /// It is overdue, and counted as such.
    is_counted: bool,
}

impl Wait {
    /// A wait for `cause` that began at `began`.
    pub(crate) fn of(cause: Cause, began: Instant) -> Wait {
        Wait {
            cause,
            began,
            is_counted: false,
        }
    }
}

/// A caller, and the store that it used, if it was a store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallerAtStore {
    pub(crate) caller: CallerKey,
    pub(crate) bdi: Option<usize>,
}

/// A call that has waited and has not ended.
#[derive(Clone, Copy, Debug)]
struct OpenCall {
    caller: CallerKey,
    bdi: Option<u32>,
    /// The innermost wait, if it waits now.
    wait: Option<Wait>,
    /// What is in `us` is up to here.
    until: Instant,
    /// Up to an hour of each cause.
    us: [u32; CAUSES],
}

impl OpenCall {
    fn advance(&mut self, now: Instant) {
        if let Some(wait) = self.wait {
            let us = self.us_of(wait.cause, now);
            self.us[wait.cause as usize] = u32::try_from(us).unwrap_or(u32::MAX);
        }
        self.until = self.until.max(now);
    }

    /// What it has waited for `cause` up to `now`.
    fn us_of(&self, cause: Cause, now: Instant) -> u64 {
        let waits = self.wait.is_some_and(|wait| wait.cause == cause);
        let since = if waits {
            now.since(self.until)
        } else {
            Span::ZERO
        };
        u64::from(self.us[cause as usize]) + since.as_micros()
    }
}

/// What a call that has not ended has waited for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenRow {
    pub(crate) caller: CallerKey,
    pub(crate) bdi: Option<usize>,
    pub(crate) cause: Cause,
    pub(crate) us: u64,
    /// For how long it has waited now without a pause, if it does.
    pub(crate) now_for: Option<Span>,
}

#[derive(Debug)]
struct Shard {
    calls: Vec<Option<OpenCall>>,
    free: Vec<u32>,
}

/// The calls that wait.
#[derive(Debug)]
pub(crate) struct OpenCalls {
    shards: [Mutex<Shard>; SHARDS],
    next: AtomicU32,
}

/// The place of a call, from 1 on; 0 is none.
#[derive(Debug, Default)]
pub(crate) struct OpenPlace(AtomicU32);

impl OpenPlace {
    fn get(&self) -> Option<(usize, usize)> {
        let number = self.0.load(Ordering::Relaxed).checked_sub(1)? as usize;
        Some((number % SHARDS, number / SHARDS))
    }
}

/// Bytes of a place.
pub(crate) const PLACE_BYTES: usize = size_of::<Option<OpenCall>>() + size_of::<u32>();

/// Places that every cache has. They lie in the engine itself, as the knobs do, so their bytes are
/// not part of the budget.
pub(crate) const LEAST_PLACES: usize = 32;

const _: () = assert!(LEAST_PLACES * PLACE_BYTES <= 5 << 10);

impl OpenCalls {
    /// Places for about `most` calls.
    pub(crate) fn with_places(most: usize) -> OpenCalls {
        let each = (most / SHARDS).max(1);
        let shard = |_| {
            Mutex::new(Shard {
                calls: vec![None; each],
                free: (0..each as u32).rev().collect(),
            })
        };
        OpenCalls {
            shards: std::array::from_fn(shard),
            next: AtomicU32::new(0),
        }
    }

    /// The call of `place` waits for `cause` from `now` on. Returns the wait that this one is a
    /// part of, for [`OpenCalls::ends`].
    pub(crate) fn begins(
        &self,
        place: &OpenPlace,
        of: CallerAtStore,
        cause: Cause,
        now: Instant,
    ) -> Option<Wait> {
        let wait = Some(Wait::of(cause, now));
        if let Some((shard, at)) = place.get() {
            let mut inner = lock(&self.shards[shard]);
            let call = inner.calls[at].as_mut();
            let call = call.expect("a call keeps its place until it ends");
            call.advance(now);
            return std::mem::replace(&mut call.wait, wait);
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        for shard in (first..first + TRIES).map(|shard| shard % SHARDS) {
            let mut inner = lock(&self.shards[shard]);
            let Some(at) = inner.free.pop() else { continue };
            inner.calls[at as usize] = Some(OpenCall {
                caller: of.caller,
                bdi: of.bdi.map(|bdi| bdi as u32),
                wait,
                until: now,
                us: [0; CAUSES],
            });
            let number = at * SHARDS as u32 + shard as u32 + 1;
            place.0.store(number, Ordering::Relaxed);
            break;
        }
        None
    }

    /// The wait `ended` is over, and the call waits for `outer` again. True if it was
    /// overdue and nobody had counted that.
    pub(crate) fn ends(
        &self,
        place: &OpenPlace,
        ended: Wait,
        outer: Option<Wait>,
        now: Instant,
    ) -> bool {
        let is_overdue = now.since(ended.began) > OVERDUE;
        let Some((shard, at)) = place.get() else {
            return is_overdue;
        };
        let mut inner = lock(&self.shards[shard]);
        let call = inner.calls[at].as_mut();
        let call = call.expect("a call keeps its place until it ends");
        call.advance(now);
        // If the call waits for two things at a time, the one that began last is shown.
        match call.wait {
            Some(wait) if (wait.cause, wait.began) == (ended.cause, ended.began) => {
                call.wait = outer;
                is_overdue && !wait.is_counted
            }
            _ => is_overdue,
        }
    }

    /// The call has ended.
    pub(crate) fn leaves(&self, place: &OpenPlace) {
        if let Some((shard, at)) = place.get() {
            let mut inner = lock(&self.shards[shard]);
            inner.calls[at] = None;
            inner.free.push(at as u32);
            place.0.store(0, Ordering::Relaxed);
        }
    }

    /// What the calls have waited for each cause up to `now`.
    pub(crate) fn rows(&self, now: Instant) -> Vec<OpenRow> {
        let mut rows = Vec::new();
        self.for_each(|call| {
            for cause in Cause::ALL {
                let wait = call.wait.filter(|wait| wait.cause == cause);
                let us = call.us_of(cause, now);
                if us > 0 || wait.is_some() {
                    rows.push(OpenRow {
                        caller: call.caller,
                        bdi: call.bdi.map(|bdi| bdi as usize),
                        cause,
                        us,
                        now_for: wait.map(|wait| now.since(wait.began)),
                    });
                }
            }
        });
        rows
    }

    /// The causes and ages of waits that are overdue and were not counted as such: from now on they
    /// are.
    pub(crate) fn take_overdue(&self, now: Instant) -> Vec<(Cause, Span)> {
        let mut overdue = Vec::new();
        self.for_each(|call| {
            let Some(wait) = &mut call.wait else { return };
            let age = now.since(wait.began);
            if age > OVERDUE && !wait.is_counted {
                wait.is_counted = true;
                overdue.push((wait.cause, age));
            }
        });
        overdue
    }

    fn for_each(&self, mut look: impl FnMut(&mut OpenCall)) {
        for shard in &self.shards {
            lock(shard).calls.iter_mut().flatten().for_each(&mut look);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    fn of(number: u32) -> CallerAtStore {
        CallerAtStore {
            caller: CallerKey::handle(number),
            bdi: Some(0),
        }
    }

    fn waited(calls: &OpenCalls, ms: u64) -> Vec<(Cause, u64, Option<u64>)> {
        let rows = calls.rows(at(ms)).into_iter();
        rows.map(|row| (row.cause, row.us / 1_000, row.now_for.map(Span::as_millis)))
            .collect()
    }

    #[test]
    fn invariant_oc1_each_moment_counts_for_the_innermost_wait() {
        let (calls, place) = (OpenCalls::with_places(8), OpenPlace::default());
        assert_eq!(calls.begins(&place, of(1), Cause::Memory, at(10)), None);
        assert_eq!(waited(&calls, 11), [(Cause::Memory, 1, Some(1))]);
        let outer = calls.begins(&place, of(1), Cause::Commit, at(20));
        assert!(outer.is_some_and(|outer| outer.cause == Cause::Memory));
        let both = [(Cause::Commit, 80, Some(80)), (Cause::Memory, 10, None)];
        let mut found = waited(&calls, 100);
        found.sort_by_key(|(_, ms, _)| std::cmp::Reverse(*ms));
        assert_eq!(found, both);
        calls.ends(&place, Wait::of(Cause::Commit, at(20)), outer, at(100));
        let memory = waited(&calls, 150).into_iter();
        let memory: Vec<_> = memory
            .filter(|(cause, ..)| *cause == Cause::Memory)
            .collect();
        assert_eq!(memory, [(Cause::Memory, 60, Some(140))]);
        calls.ends(&place, Wait::of(Cause::Memory, at(10)), None, at(150));
        assert!(
            waited(&calls, 500)
                .iter()
                .all(|(_, ms, now)| *ms <= 80 && now.is_none())
        );
        calls.leaves(&place);
        assert_eq!(waited(&calls, 600), []);
    }

    #[test]
    fn a_wait_is_overdue_once_whether_it_is_looked_at_or_ends() {
        let (calls, looked_at) = (OpenCalls::with_places(8), OpenPlace::default());
        let (began, cause) = (at(0), Cause::StoreRead);
        calls.begins(&looked_at, of(1), cause, began);
        assert_eq!(calls.take_overdue(at(5_000)), []);
        let overdue = [(cause, Span::from_millis(5_001))];
        assert_eq!(calls.take_overdue(at(5_001)), overdue);
        assert_eq!(calls.take_overdue(at(9_000)), [], "it was counted");
        assert!(!calls.ends(&looked_at, Wait::of(cause, began), None, at(25_000)));
        let not = OpenPlace::default();
        calls.begins(&not, of(2), cause, at(30_000));
        assert!(calls.ends(&not, Wait::of(cause, at(30_000)), None, at(35_001)));
    }

    #[test]
    fn without_a_place_a_call_counts_at_its_end() {
        let calls = OpenCalls::with_places(1);
        let places: Vec<OpenPlace> = (0..2 * SHARDS).map(|_| OpenPlace::default()).collect();
        for (number, place) in places.iter().enumerate() {
            calls.begins(place, of(number as u32), Cause::Commit, at(0));
        }
        assert_eq!(calls.rows(at(7)).len(), SHARDS);
        for place in &places {
            assert!(calls.ends(place, Wait::of(Cause::Commit, at(0)), None, at(6_000)));
            calls.leaves(place);
        }
        assert!(calls.rows(at(6_000)).is_empty());
    }
}
