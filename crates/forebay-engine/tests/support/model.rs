//! Random operations of several tasks on several objects, each mirrored in an array of bytes.
//!
//! Each task has an object of its own, on which it does everything, and a region of a shared
//! object. The borders of the regions lie inside pages. After a failure that the plan allows the
//! task does the same again, as a program would.

use super::{Bench, OfSize, PAGE, simulated};
use forebay_base::{Prng, Span};
use forebay_engine::{AccessError, Advice, Counter, File, ReadRequest, Settings};
use forebay_kernels::Policy;
use forebay_kernels::policy::Eviction;
use forebay_rt::Rt;
use forebay_store::{
    DelayStore, Delays, Durability, Failure, Fault, FaultAction, FaultStore, FaultWhen, Geometry,
    IoKind, MemoryStore, ObjectId, Rate, RateStore, Store,
};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// What one run is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) tasks: u64,
    /// Operations of all tasks together.
    pub(crate) operations: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) eviction: Eviction,
    pub(crate) durability: Durability,
    /// Requests fail now and then.
    pub(crate) faulty: bool,
    /// Requests are served one after the other at this rate; 0: in parallel.
    pub(crate) bytes_per_s: u64,
}

impl Plan {
    /// A plan in which the seed chooses everything.
    pub(crate) fn of(seed: u64) -> Plan {
        let mut chance = Prng::from_seed(seed).child("plan");
        Plan {
            seed,
            tasks: 1 + chance.below(4),
            operations: 300,
            memory_bytes: (2 << chance.below(3)) << 20,
            eviction: Eviction::default(),
            durability: match chance.below(4) {
                0 => Durability::OnCommit,
                1 => Durability::Unstable,
                _ => Durability::OnFinish,
            },
            faulty: chance.chance(1, 3),
            bytes_per_s: chance.below(2) * (16 << 20),
        }
    }
}

/// Longest private object and region of a task, in bytes.
const LONGEST: u64 = 260 * PAGE as u64;
const REGION: u64 = 90 * PAGE as u64 + 1_234;
const SHARED: ObjectId = ObjectId(1_000);

/// One range of one object and what it should hold.
struct Mirror {
    file: File,
    base: u64,
    bytes: Vec<u8>,
    /// Whether the range is the whole object, so that its length is known.
    is_whole: bool,
    faulty: bool,
}

/// Repeats it while a fault that the plan allows makes it fail.
macro_rules! surely {
    ($mirror:expr, $attempt:expr) => {{
        let mut tries = 0;
        loop {
            match $attempt {
                Ok(value) => break value,
                Err(AccessError::Store(_) | AccessError::TooManyFailed { .. })
                    if $mirror.faulty && tries < 200 =>
                {
                    tries += 1;
                    // This may fail as well; then the next round tries again.
                    let _ = $mirror.file.sync().await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }};
}

impl Mirror {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// A range, mostly of a few pages, that begins below `limit` and does not end past it.
    fn range(chance: &mut Prng, limit: u64) -> (u64, u64) {
        let start = chance.below(limit);
        let longest = match chance.below(10) {
            0..=3 => 200,
            4..=8 => 5 * PAGE as u64,
            _ => 80 * PAGE as u64,
        };
        let start = if chance.chance(1, 2) {
            start / PAGE as u64 * PAGE as u64
        } else {
            start
        };
        (start, (1 + chance.below(longest)).min(limit - start))
    }

    fn write_limit(&self) -> u64 {
        if self.is_whole { LONGEST } else { REGION }
    }

    fn note(&mut self, start: u64, bytes: &[u8]) {
        let end = start as usize + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start as usize..end].copy_from_slice(bytes);
    }

    async fn write(&mut self, chance: &mut Prng) {
        let (start, length) = Self::range(chance, self.write_limit());
        let mut bytes = vec![chance.next_u64() as u8; length as usize];
        bytes[0] ^= 0x5a;
        let at = self.base + start;
        if chance.chance(1, 4) {
            let (front, back) = bytes.split_at(length as usize / 2);
            let parts = [IoSlice::new(front), IoSlice::new(back)];
            surely!(self, self.file.write_vectored_at(&parts, at).await);
        } else {
            surely!(self, self.file.write_at(&bytes, at).await);
        }
        self.note(start, &bytes);
    }

    /// Checks that `read` of the range from `start` on is what it should be.
    fn compare(&self, start: u64, wanted: u64, read: &[u8]) {
        let left = self.len().saturating_sub(start);
        if self.is_whole {
            assert_eq!(read.len() as u64, wanted.min(left), "bytes read at {start}");
        }
        let expected = &self.bytes[start as usize..][..read.len()];
        let differs = (0..read.len()).find(|&at| read[at] != expected[at]);
        if let Some(at) = differs {
            panic!(
                "byte {} of {start}+{wanted} (base {}) is {} and should be {}",
                start + at as u64,
                self.base,
                read[at],
                expected[at]
            );
        }
    }

    async fn read(&mut self, chance: &mut Prng) {
        let limit = self.len().max(1);
        let (start, length) = Self::range(chance, limit);
        if start >= self.len() {
            return;
        }
        let mut bytes = vec![0xee; length as usize];
        let at = self.base + start;
        let done = if chance.chance(1, 4) {
            let (front, back) = bytes.split_at_mut(length as usize / 2);
            let mut parts = [IoSliceMut::new(front), IoSliceMut::new(back)];
            surely!(self, self.file.read_vectored_at(&mut parts, at).await)
        } else {
            surely!(self, self.file.read_at(&mut bytes, at).await)
        };
        self.compare(start, length, &bytes[..done]);
    }

    async fn read_many(&mut self, chance: &mut Prng) {
        if self.len() < 100 {
            return;
        }
        let limit = self.len() - 99;
        let places: Vec<u64> = (0..8).map(|_| chance.below(limit)).collect();
        let mut buffers = [[0_u8; 99]; 8];
        loop {
            let mut requests: Vec<_> = places
                .iter()
                .zip(&mut buffers)
                .map(|(&place, buffer)| ReadRequest {
                    offset_bytes: self.base + place,
                    buffer,
                    done_bytes: 0,
                })
                .collect();
            match self.file.read_many(&mut requests).await {
                Ok(()) => break,
                Err(AccessError::Store(_)) if self.faulty => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        for (&place, buffer) in places.iter().zip(&buffers) {
            let known = self.file.len().saturating_sub(self.base + place).min(99);
            self.compare(place, 99, &buffer[..known as usize]);
        }
    }

    /// Holds a page that only this task uses for a while.
    async fn guard(&mut self, chance: &mut Prng, rt: &Rt) {
        let first = self.base.div_ceil(PAGE as u64);
        let end = (self.base + self.len()) / PAGE as u64;
        if first >= end || (end * PAGE as u64) > self.file.len() {
            return;
        }
        let page = first + chance.below(end - first);
        let guard = surely!(self, self.file.page(page).await);
        if chance.chance(1, 2) {
            rt.sleep(Span::from_micros(chance.below(20_000))).await;
        }
        let start = page * PAGE as u64 - self.base;
        self.compare(start, PAGE as u64, &guard);
    }

    async fn truncate(&mut self, chance: &mut Prng) {
        let length = chance.below(LONGEST);
        if !self.is_whole || (length < self.len() && chance.chance(2, 3)) {
            return;
        }
        surely!(self, self.file.truncate(length).await);
        self.bytes.resize(length as usize, 0);
        assert_eq!(self.file.len(), length);
    }

    async fn discard(&mut self, chance: &mut Prng) {
        if self.len() == 0 {
            return;
        }
        let (start, length) = Self::range(chance, self.len());
        let at = self.base + start;
        surely!(self, self.file.discard(at..at + length).await);
        self.bytes[start as usize..(start + length) as usize].fill(0);
    }

    async fn advise(&mut self, chance: &mut Prng) {
        let advice = [
            Advice::Normal,
            Advice::Sequential,
            Advice::Random,
            Advice::WillNeed,
            Advice::DontNeed,
        ][chance.below(5) as usize];
        let (start, length) = Self::range(chance, self.write_limit());
        let at = self.base + start;
        surely!(self, self.file.advise(advice, at..at + length).await);
    }

    async fn step(&mut self, chance: &mut Prng, rt: &Rt) {
        match chance.below(20) {
            0..=5 => self.write(chance).await,
            // Boxed: the futures of all steps are too large for one.
            6..=10 => Box::pin(self.read(chance)).await,
            11 => self.read_many(chance).await,
            12 | 13 => self.guard(chance, rt).await,
            14 => self.truncate(chance).await,
            15 => self.discard(chance).await,
            16 => {
                let synced = self.file.sync().await;
                assert!(self.faulty || synced.is_ok(), "{synced:?}");
            }
            17 => self.advise(chance).await,
            18 => self.file = self.file.clone(),
            _ => rt.sleep(Span::from_micros(chance.below(50_000))).await,
        }
    }
}

/// Runs the plan and returns the hash of all that happened.
pub(crate) fn run(plan: Plan) -> u64 {
    simulated(plan.seed, |rt| async move { play(plan, rt).await })
}

async fn play(plan: Plan, rt: Rt) {
    let (bench, faults) = furnish(plan, rt.clone());
    let mut tasks = Vec::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    for number in 0..plan.tasks {
        let mirror = |object, base, length, is_whole| Mirror {
            file: bench
                .cache
                .open(&bench.store, object, 0)
                .expect("the object opens"),
            base,
            bytes: vec![0; length],
            is_whole,
            faulty: plan.faulty,
        };
        let mut own = mirror(ObjectId(number), 0, 0, true);
        let mut shared = mirror(SHARED, number * REGION, REGION as usize, false);
        let mut chance = Prng::from_seed(plan.seed).child("task");
        (0..number).for_each(|_| chance = chance.child("next"));
        let (rt, sender) = (rt.clone(), sender.clone());
        tasks.push(bench.rt.spawn("model", async move {
            for _ in 0..plan.operations / plan.tasks {
                let mirror = if chance.chance(7, 10) {
                    &mut own
                } else {
                    &mut shared
                };
                mirror.step(&mut chance, &rt).await;
            }
            let sent = sender.send((number, own, shared));
            assert!(sent.is_ok(), "the receiver outlives the tasks");
        }));
    }
    for task in tasks {
        task.join().await;
    }
    drop(sender);
    faults.clear();
    settle(plan, &bench, receiver.into_iter().collect()).await;
}

/// Checks that everything is synced, consistent, and equal in the cache and in the store.
async fn settle(plan: Plan, bench: &Bench, mirrors: Vec<(u64, Mirror, Mirror)>) {
    for _ in 0..8 {
        // With faults, each failure is reported to each handle once; then a sync succeeds.
        if bench.cache.sync().await.is_ok() {
            break;
        }
        assert!(plan.faulty, "a store without faults syncs at once");
    }
    assert_eq!(bench.cache.sync().await, Ok(()));
    bench.rt.sleep(Span::from_secs(1)).await;
    bench.assert_consistent();
    assert_eq!(bench.cache.statistics().dirty(), 0);
    let written = bench.cache.statistics().get(Counter::NrVmscanWriteFile);
    assert_eq!(written, 0, "promise 4");
    let shared_bytes = bench.memory.snapshot(SHARED);
    for (number, own, shared) in &mirrors {
        let stored = bench.memory.snapshot(ObjectId(*number));
        assert_eq!(stored.len() as u64, own.len(), "object {number}");
        own.compare(0, own.len(), &stored);
        let mut all = vec![0; own.bytes.len()];
        let read = own.file.read_at(&mut all, 0).await;
        assert_eq!(read, Ok(all.len()));
        own.compare(0, own.len(), &all);
        let start = shared_bytes.len().min(shared.base as usize);
        let end = shared_bytes.len().min((shared.base + REGION) as usize);
        shared.compare(0, REGION, &shared_bytes[start..end]);
        assert_eq!(shared.file.len(), shared_bytes.len() as u64);
    }
    bench.assert_consistent();
}

fn furnish(plan: Plan, rt: Rt) -> (Bench, Arc<FaultStore>) {
    let settings = Settings {
        ..Settings::of_mib(plan.memory_bytes >> 20)
    }
    .under(Policy {
        eviction: plan.eviction,
        ..Policy::default()
    });
    let memory = Arc::new(MemoryStore::with(Geometry {
        durability: plan.durability,
        max_io_pages: 64,
        queue_depth: 8,
        ..MemoryStore::new().geometry()
    }));
    let paced: Arc<dyn Store> = if plan.bytes_per_s > 0 {
        Arc::new(RateStore::new(
            rt.clone(),
            memory.clone(),
            Rate::bytes(plan.bytes_per_s),
        ))
    } else {
        let delays = Delays {
            read: Span::from_micros(300),
            write: Span::from_micros(900),
            commit: Span::from_millis(3),
        };
        Arc::new(DelayStore::new(rt.clone(), memory.clone(), delays))
    };
    let faults = Arc::new(FaultStore::new(rt.clone(), paced));
    let one_in = |denominator| FaultWhen::Chance {
        numerator: 1,
        denominator,
    };
    if plan.faulty {
        for (kind, failure) in [
            (IoKind::Write, Failure::NoSpace),
            (IoKind::Read, Failure::Device(5)),
            (IoKind::Commit, Failure::Device(5)),
        ] {
            faults.inject(Fault {
                when: one_in(20),
                ..Fault::each(kind, FaultAction::Fail(failure))
            });
        }
        faults.inject(Fault {
            when: one_in(20),
            ..Fault::each(
                IoKind::Write,
                FaultAction::Torn {
                    pages: 1,
                    failure: Failure::Device(5),
                },
            )
        });
    }
    // Requests that overtake each other.
    faults.inject(Fault {
        kind: None,
        object: None,
        range_bytes: None,
        when: one_in(5),
        action: FaultAction::Delay(Span::from_millis(4)),
    });
    let bench = Bench::around(rt, settings, memory, faults.clone());
    (bench, faults)
}
