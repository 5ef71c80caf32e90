//! The world: what all tasks of one run share.

use super::abandon::abandon_after;
use super::crash::{CrashSwitch, Image};
use super::explained::{ReportedWaits, judge_reported};
use super::observer::Observer;
use super::plan::Plan;
use super::store::{Behaviour, CrashStore, Failures};
use super::verdict::{Oracle, Verdict};
use forebay_base::hash::TraceHash;
use forebay_base::sync::atomic::{AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Prng, Span};
use forebay_engine::kernel::PastFileSystem;
use forebay_engine::lab::LabCache;
use forebay_engine::{AttachedStore, Cache, File, Parts};
use forebay_rt::Rt;
use forebay_rt::wait::{WaitQueue, waits_at};
use forebay_store::ObjectId;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;

/// A call that has not returned after this long, in virtual time, never will. It is far more than
/// the sum of all time-outs that it can meet.
const STUCK_AFTER: Span = Span::from_secs(3_600);

/// What a run has done, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deeds {
    pub(super) calls: u64,
    pub(super) abandoned: u64,
    pub(super) refused: u64,
    pub(super) syncs: u64,
    /// Jumps of the clock.
    pub(super) jumps: u64,
    /// Changes of the memory budget.
    pub(super) budgets: u64,
    /// Knobs that were turned.
    pub(super) turns: u64,
    /// Guards that were held for longer than a cut waits for one.
    pub(super) held: u64,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Call {
    what: &'static str,
    since: Instant,
    /// The line in which it waits.
    waits_at: Option<&'static Location<'static>>,
}

struct State {
    /// Calls that have not returned.
    calls: BTreeMap<u64, Call>,
    next_call: u64,
    trace: TraceHash,
    deeds: Deeds,
}

/// See above.
pub(super) struct World {
    pub(super) rt: Rt,
    pub(super) plan: Plan,
    pub(super) cache: Cache,
    pub(super) stores: Vec<(Arc<CrashStore>, AttachedStore)>,
    pub(super) verdict: Arc<Verdict>,
    reported: Arc<ReportedWaits>,
    pub(super) switch: Arc<CrashSwitch>,
    /// Woken whenever the run may have come to an end.
    news: Arc<WaitQueue>,
    /// Tasks that have not ended.
    live: AtomicU64,
    /// Writers that have not ended. The other tasks go on as long as there is one.
    writers: AtomicU64,
    /// Objects that keep their places in the table until the end.
    kept: Mutex<Vec<File>>,
    /// The highest dirty limit so far.
    highest_limit: AtomicU64,
    state: Mutex<State>,
}

impl World {
    /// A cache over the stores of `plan`, which hold `images`.
    pub(super) fn furnish(plan: &Plan, rt: Rt, mut images: Vec<Image>) -> Arc<World> {
        let news = Arc::new(WaitQueue::new());
        let verdict = Arc::new(Verdict::new(news.clone()));
        let reported = Arc::new(ReportedWaits::default());
        let root = Prng::from_seed(plan.seed).child("world");
        let switch = CrashSwitch::new(plan.crash_after, root.child("crash"), news.clone());
        let parts = Parts {
            rt: rt.clone(),
            sink: Some(Arc::new(Observer::new(
                verdict.clone(),
                reported.clone(),
                plan,
            ))),
        };
        let cache = Cache::of_kernel(plan.settings.clone(), parts, plan.policy.kernel())
            .expect("a plan's settings make a cache");
        images.resize_with(plan.stores.len(), Image::new);
        let stores = plan
            .stores
            .iter()
            .zip(images)
            .enumerate()
            .map(|(at, (store, image))| {
                let chance = root.child("store").child(&at.to_string());
                let behaviour = Behaviour {
                    geometry: store.geometry,
                    pace: store.pace,
                    faults: store.faults.clone(),
                };
                let made = CrashStore::new(&rt, chance, behaviour, &switch, image);
                let past = PastFileSystem {
                    reclaim_writes: store.reclaim_writes,
                    ..PastFileSystem::default()
                };
                let attached = cache.attach_past(made.clone(), store.backing, past);
                if !store.can_discard {
                    made.refuse_discards();
                }
                if plan.is_loud {
                    made.be_loud();
                }
                (made, attached.expect("a plan's stores can be attached"))
            });
        Arc::new(World {
            stores: stores.collect(),
            rt,
            plan: plan.clone(),
            cache,
            verdict,
            reported,
            switch,
            news,
            live: AtomicU64::new(0),
            writers: AtomicU64::new(0),
            kept: Mutex::default(),
            highest_limit: AtomicU64::new(0),
            state: Mutex::new(State {
                calls: BTreeMap::new(),
                next_call: 0,
                trace: TraceHash::default(),
                deeds: Deeds::default(),
            }),
        })
    }

    /// The stream of chance called `name`, for the `number`-th of its kind.
    pub(super) fn chance(&self, name: &str, number: u64) -> Prng {
        Prng::from_seed(self.plan.seed)
            .child(name)
            .child(&number.to_string())
    }

    pub(super) fn broken(&self, oracle: Oracle, what: impl Into<String>) {
        self.verdict.broken(oracle, what);
    }

    /// Keeps a file open until the end.
    pub(super) fn keep_open(&self, file: File) {
        lock(&self.kept).push(file);
    }

    /// Adds a value to the trace that two runs of one seed must have in common.
    pub(super) fn note(&self, value: u64) {
        lock(&self.state).trace.note(value);
    }

    pub(super) fn trace(&self) -> u64 {
        lock(&self.state).trace.value()
    }

    pub(super) fn deeds(&self) -> Deeds {
        lock(&self.state).deeds
    }

    pub(super) fn change_deeds(&self, change: impl FnOnce(&mut Deeds)) {
        change(&mut lock(&self.state).deeds);
    }

    /// Failures of an object so far that its handles have to report.
    pub(super) fn failures(&self, store: usize, object: ObjectId) -> Failures {
        self.stores[store].0.failures(object)
    }

    /// Pages that stores have written so far.
    pub(super) fn pages_written(&self) -> u64 {
        let written = |(store, _): &(Arc<CrashStore>, _)| store.tally().pages_written;
        self.stores.iter().map(written).sum()
    }

    /// Prints what happens, if the run is loud.
    pub(super) fn print(&self, what: impl FnOnce() -> String) {
        if self.plan.is_loud {
            let now = Span::from_nanos(self.rt.now().as_nanos());
            eprintln!("{now} {}", what());
        }
    }

    /// Makes a call, with the watchdog looking on. None if it was dropped after `waits` waits.
    pub(super) async fn call<F: Future>(
        &self,
        what: &'static str,
        waits: Option<u32>,
        future: F,
    ) -> Option<F::Output> {
        let number = {
            let mut state = lock(&self.state);
            state.next_call += 1;
            let number = state.next_call;
            let call = Call {
                what,
                since: self.rt.now(),
                waits_at: None,
            };
            state.calls.insert(number, call);
            state.deeds.calls += 1;
            number
        };
        let began = self.rt.now();
        let mut reported_us = 0;
        let mut call = pin!(abandon_after(future, waits));
        let output = poll_fn(|context| {
            // Forgets what earlier calls left there.
            let _ = waits_at();
            let _ = self.reported.take_us();
            let polled = call.as_mut().poll(context);
            reported_us += self.reported.take_us();
            if polled.is_pending() {
                let calls = &mut lock(&self.state).calls;
                calls
                    .get_mut(&number)
                    .expect("it has not returned")
                    .waits_at = waits_at();
            }
            polled
        })
        .await;
        if output.is_some() {
            judge_reported(&self.verdict, what, self.rt.now().since(began), reported_us);
        }
        let mut state = lock(&self.state);
        state.calls.remove(&number);
        state.deeds.abandoned += u64::from(output.is_none());
        let now = self.rt.now().as_nanos();
        state.trace.note(now ^ u64::from(output.is_some()));
        output
    }

    /// Starts a task whose end the run waits for.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.live.fetch_add(1, Ordering::Relaxed);
        let world = self.clone();
        self.rt.spawn(name, async move {
            task.await;
            world.live.fetch_sub(1, Ordering::Relaxed);
            world.news.wake_all();
        });
    }

    pub(super) fn writer_begins(&self) {
        self.writers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn writer_ends(&self) {
        self.writers.fetch_sub(1, Ordering::Relaxed);
        self.news.wake_all();
    }

    pub(super) fn writers_have_ended(&self) -> bool {
        self.writers.load(Ordering::Relaxed) == 0
    }

    /// Whether tasks other than the writers have anything left to do.
    pub(super) fn goes_on(&self) -> bool {
        !self.is_over() && !self.writers_have_ended()
    }

    /// Sleeps for a drawn span below `most_us`.
    pub(super) async fn sleep_below(&self, chance: &mut Prng, most_us: u64) {
        let span = Span::from_micros(chance.below(most_us));
        self.rt.sleep(span).await;
    }

    /// The highest dirty limit up to now. `limit` is the latest.
    pub(super) fn highest_limit(&self, limit: u64) -> u64 {
        self.highest_limit
            .fetch_max(limit, Ordering::Relaxed)
            .max(limit)
    }

    /// Whether nothing more is to be done: a promise was broken, or the power is gone.
    pub(super) fn is_over(&self) -> bool {
        self.verdict.is_broken() || self.switch.has_crashed()
    }

    /// Waits until `is_reached` returns true, for at most `longest`. Meanwhile it looks for calls
    /// that do not return. False if the time has passed or the run is over.
    pub(super) async fn wait_until(
        &self,
        longest: Span,
        is_reached: impl Fn(&World) -> bool,
    ) -> bool {
        const LOOK: Span = Span::from_secs(5);
        let deadline = self.rt.now() + longest;
        loop {
            let listener = self.news.listen();
            self.look_for_stuck();
            if self.is_over() {
                return false;
            }
            if is_reached(self) {
                return true;
            }
            let now = self.rt.now();
            if now >= deadline {
                return false;
            }
            let span = LOOK.min(deadline.since(now));
            // Either end is a reason to look again.
            let _ = self.rt.timeout(span, listener).await;
        }
    }

    /// Waits until every task that was spawned has ended.
    pub(super) async fn tasks_end(&self, longest: Span) -> bool {
        self.wait_until(longest, |world| world.live.load(Ordering::Relaxed) == 0)
            .await
    }

    fn look_for_stuck(&self) {
        let now = self.rt.now();
        let stuck = {
            let state = lock(&self.state);
            let is_stuck = |call: &&Call| now.since(call.since) > STUCK_AFTER;
            state.calls.values().find(is_stuck).copied()
        };
        if let Some(call) = stuck {
            let waited = now.since(call.since);
            let site = match call.waits_at {
                Some(site) => site.to_string(),
                None => "a place of which nothing is known".into(),
            };
            let what = format!(
                "'{}' has not returned after {waited}; it waits at {site}",
                call.what
            );
            self.broken(Oracle::Stuck, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Reduction;
    use super::*;
    use forebay_rt::{Virtual, VirtualSettings};

    #[test]
    fn a_call_that_does_not_return_is_reported_with_the_line_in_which_it_waits() {
        let machine = Virtual::new(VirtualSettings::default());
        let plan = Plan::draw(1, &Reduction::default());
        let world = World::furnish(&plan, machine.rt(), Vec::new());
        let (of, never) = (world.clone(), WaitQueue::new());
        let longest = STUCK_AFTER.saturating_mul(3);
        let line = line!() + 3;
        machine.rt().spawn("caller", async move {
            let late = async {
                let bounded = of.rt.timeout(longest, never.listen());
                bounded.await.is_ok()
            };
            of.call("a call", None, late).await;
        });
        machine.run_for(STUCK_AFTER + Span::from_secs(1));
        world.look_for_stuck();
        let found = world.verdict.take().expect("it has waited for long enough");
        assert_eq!(found.oracle, Oracle::Stuck);
        let site = format!("it waits at {}:{line}:", file!());
        assert!(found.what.contains(&site), "{} and not {site}", found.what);
        assert!(found.what.contains("'a call'"), "{}", found.what);
        world.stores.iter().for_each(|(store, _)| store.end());
    }
}
