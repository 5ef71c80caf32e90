//! A truncate or a discard that its caller drops has already taken its place in line: what is
//! written after it stays (invariant O2), whatever became of the cut.

mod support;

use forebay_base::Span;
use forebay_engine::lab::LabCache;
use forebay_engine::{AccessError, AttachedStore, Cache, File, Settings};
use forebay_rt::{Rt, block_on, thread};
use forebay_store::{
    Durability, Failure, Fault, FaultAction, FaultStore, FaultWhen, Geometry, IoKind, MemoryStore,
    ObjectId, Rate, RateStore, Store,
};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use support::{Bench, FILE, OfSize, PAGE, page_of, pages, simulate, write_pages};

const PAGES: u64 = 12;
const WHOLE: usize = PAGES as usize * PAGE;

/// Polls a call at most `polls` times and then drops it. True if it ended before that.
async fn give_up_after<F: Future>(polls: u32, call: F) -> bool {
    let mut call = pin!(call);
    let mut left = polls;
    let ended = poll_fn(|context| {
        left = left.saturating_sub(1);
        match call.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    ended.await.is_some()
}

/// Page `number` as the write of round `round` makes it.
fn version(number: u64, round: u64) -> Vec<u8> {
    page_of(number + 1_000 * (round + 1))
}

fn versions(numbers: std::ops::Range<u64>, round: u64) -> Vec<u8> {
    let page = |number| version(number, round);
    numbers.flat_map(page).collect()
}

/// One of several cuts that touch the pages 2 to 8, given up after `polls` polls.
async fn dropped_cut(file: &File, kind: u64, polls: u32) {
    const AT: u64 = PAGE as u64;
    let cut: Pin<Box<dyn Future<Output = _> + '_>> = match kind % 6 {
        0 => Box::pin(file.truncate(0)),
        1 => Box::pin(file.truncate(2 * AT + 17)),
        2 => Box::pin(file.truncate(2 * AT)),
        // Longer when it is called, and shorter once more is written.
        3 => Box::pin(file.truncate(PAGES * AT + 9)),
        4 => Box::pin(file.discard(0..PAGES * AT)),
        _ => Box::pin(file.discard(AT + 5..9 * AT - 7)),
    };
    give_up_after(polls, cut).await;
}

/// What is under way when the cut is called.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    Dirty,
    Writeback,
    Filling,
    Held,
}

const BESIDE: [Beside; 5] = [
    Beside::Nothing,
    Beside::Dirty,
    Beside::Writeback,
    Beside::Filling,
    Beside::Held,
];

/// A cache in front of a store whose requests all take some time.
fn slow(rt: &Rt, round: u64) -> Bench {
    let durability = [
        Durability::OnFinish,
        Durability::OnCommit,
        Durability::Unstable,
    ][round as usize % 3];
    let geometry = MemoryStore::new().geometry();
    let memory = Arc::new(MemoryStore::with(Geometry {
        durability,
        queue_depth: 4,
        ..geometry
    }));
    let paced = RateStore::new(rt.clone(), memory.clone(), Rate::bytes(50 << 20));
    let faults = FaultStore::new(rt.clone(), Arc::new(paced));
    faults.inject(Fault {
        kind: None,
        object: None,
        range_bytes: None,
        when: FaultWhen::Chance {
            numerator: 1,
            denominator: 3,
        },
        action: FaultAction::Delay(Span::from_millis(3)),
    });
    if round.is_multiple_of(4) {
        let cannot = FaultAction::Fail(Failure::Unsupported);
        faults.inject(Fault::each(IoKind::Discard, cannot));
    }
    Bench::around(rt.clone(), Settings::of_mib(2), memory, Arc::new(faults))
}

/// Writes after one or more dropped cuts, beside something else, and checks that what was written
/// is there.
async fn round(bench: &Bench, number: u64) {
    let file = bench.open_object(ObjectId(number), 0);
    write_pages(&file, 0..PAGES).await.expect("memory takes it");
    let beside = BESIDE[number as usize % BESIDE.len()];
    if !matches!(beside, Beside::Dirty | Beside::Writeback) {
        assert_eq!(file.sync().await, Ok(()));
    }
    if matches!(beside, Beside::Filling) {
        let advice = forebay_engine::Advice::DontNeed;
        let advised = file.advise(advice, 0..WHOLE as u64).await;
        assert_eq!(advised, Ok(()));
    }
    let holder = file.clone();
    let guard = match beside {
        Beside::Held => Some(holder.page(5).await.expect("it is there")),
        _ => None,
    };
    let other = file.clone();
    let task = bench.rt.spawn("beside", async move {
        let mut bytes = vec![0; WHOLE];
        match beside {
            Beside::Writeback => assert_eq!(other.sync().await, Ok(())),
            Beside::Filling => drop(other.read_at(&mut bytes, 0).await),
            _ => {}
        }
    });
    bench.rt.sleep(Span::from_micros(number % 7 * 300)).await;
    for cut in 0..=number % 3 {
        let polls = 1 + (number / 6 % 4) as u32;
        dropped_cut(&file, number + cut * 5, polls).await;
    }
    drop(guard);
    let (at, bytes) = (2 * PAGE as u64, versions(2..PAGES + 3, number));
    assert_eq!(file.write_at(&bytes, at).await, Ok(()));
    assert_eq!(file.sync().await, Ok(()), "round {number}");
    task.join().await;
    bench.rt.sleep(Span::from_secs(3)).await;
    let mut read = vec![0; bytes.len()];
    assert_eq!(file.read_at(&mut read, at).await, Ok(bytes.len()));
    let is_lost = |found: &[u8]| found.chunks(PAGE).ne(bytes.chunks(PAGE));
    assert!(!is_lost(&read), "lost in round {number}, {beside:?}");
    assert_eq!(file.sync().await, Ok(()));
    let stored = bench.memory.snapshot(ObjectId(number));
    let stored = &stored[at as usize..];
    assert!(!is_lost(stored), "not stored in round {number}, {beside:?}");
}

#[test]
fn invariant_o2_what_is_written_after_a_dropped_cut_stays() {
    for seed in 0..24 {
        simulate(seed, |rt| async move {
            let bench = slow(&rt, seed);
            for number in 0..250 {
                round(&bench, number + 250 * seed).await;
            }
            bench.assert_consistent();
        });
    }
}

/// The line of an object's cuts is bounded: a cut that finds no place in it does not take one
/// later.
#[test]
fn very_many_dropped_cuts_leave_what_is_written_after_them() {
    simulate(1, |rt| async move {
        let bench = slow(&rt, 1);
        let file = bench.open(0);
        for written in 0..20 {
            for number in 0..200 {
                dropped_cut(&file, number, 1).await;
            }
            let bytes = versions(0..PAGES, written);
            assert_eq!(file.write_at(&bytes, 0).await, Ok(()));
            assert_eq!(file.sync().await, Ok(()));
            rt.sleep(Span::from_secs(3)).await;
            let stored = bench.memory.snapshot(FILE);
            assert!(stored.starts_with(&bytes), "lost in {written}");
        }
        bench.assert_consistent();
    });
}

#[test]
fn what_is_written_to_memory_after_a_dropped_cut_stays() {
    for seed in 0..40 {
        simulate(seed, |rt| async move {
            let bench = slow(&rt, 3 * seed);
            let swap = (&bench.store, ObjectId(9), 32 << 20);
            bench.cache.set_swap(swap.0, swap.1, swap.2).expect("new");
            // More than the cache has room for, so that some of it is in swap when it is cut.
            let filler = bench.cache.anonymous(3 << 20).expect("swap has room");
            let memory = bench.cache.anonymous(WHOLE as u64).expect("room");
            for number in 0..50 {
                let before = pages(0..PAGES);
                assert_eq!(memory.write_at(&before, 0).await, Ok(()));
                if number % 2 == 0 {
                    let large = vec![1; 3 << 20];
                    assert_eq!(filler.write_at(&large, 0).await, Ok(()));
                }
                // Kinds of cuts that leave the length as it was, or that cut and then restore it.
                let cut = memory.truncate(2 * PAGE as u64 + number);
                if number % 3 == 0 {
                    give_up_after(1 + number as u32 % 4, cut).await;
                    let whole = memory.truncate(WHOLE as u64);
                    assert_eq!(whole.await, Ok(()));
                } else {
                    drop(cut);
                    let bytes = PAGE as u64..7 * PAGE as u64 + number;
                    give_up_after(1, memory.discard(bytes)).await;
                }
                let bytes = versions(1..PAGES, number);
                assert_eq!(memory.write_at(&bytes, PAGE as u64).await, Ok(()));
                rt.sleep(Span::from_secs(3)).await;
                let mut read = vec![0; bytes.len()];
                let count = memory.read_at(&mut read, PAGE as u64).await;
                assert_eq!(count, Ok(bytes.len()));
                assert!(read == bytes, "lost in {number} of {seed}");
            }
        });
    }
}

/// A cut that waits for a silent store does not outlive its cache.
#[test]
fn a_cache_is_not_closed_before_the_cuts_that_were_asked_of_it() {
    simulate(2, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..PAGES).await.expect("memory takes it");
        assert_eq!(file.sync().await, Ok(()));
        let late = FaultAction::Delay(Span::from_secs(5));
        faults.inject(Fault::each(IoKind::SetLength, late));
        give_up_after(1, file.truncate(PAGE as u64)).await;
        assert!(!file.is_written(), "the store does not know the cut yet");
        assert_eq!(bench.cache.close().await, Ok(()));
        assert_eq!(bench.memory.length_bytes(FILE), PAGE as u64);
    });
}

/// A write meanwhile waits for the cuts that touch its range, and for nothing else.
#[test]
fn a_write_beside_a_discard_that_takes_long_goes_on() {
    simulate(3, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..PAGES).await.expect("memory takes it");
        let late = FaultAction::Delay(Span::from_secs(5));
        faults.inject(Fault::each(IoKind::Discard, late));
        give_up_after(1, file.discard(0..4 * PAGE as u64)).await;
        let began = rt.now();
        assert_eq!(file.write_at(b"beside", 6 * PAGE as u64).await, Ok(()));
        assert!(rt.now().since(began) < Span::from_secs(1));
        assert_eq!(file.write_at(b"within", 0).await, Ok(()));
        assert!(rt.now().since(began) > Span::from_secs(4));
        let mut read = [0; 8];
        assert_eq!(file.read_at(&mut read, 0).await, Ok(8));
        assert_eq!(&read, b"within\0\0");
    });
}

#[test]
fn a_call_that_waits_for_a_cut_of_a_silent_store_fails() {
    simulate(4, |rt| async move {
        let (bench, faults) = Bench::faulty(rt.clone(), 8);
        let file = bench.open(0);
        write_pages(&file, 0..PAGES).await.expect("memory takes it");
        faults.inject(Fault::each(IoKind::SetLength, FaultAction::NeverAnswer));
        give_up_after(1, file.truncate(0)).await;
        let began = rt.now();
        let refused = file.write_at(&[1; 9], u64::MAX - 5).await;
        let is_wrong = matches!(refused, Err(AccessError::TooFar { .. }));
        assert!(is_wrong && rt.now() == began, "it waits for nothing");
        let refused = file.write_at(b"after", 0).await;
        let is_reported = matches!(refused, Err(AccessError::NotAnswering { .. }));
        assert!(is_reported, "{refused:?}");
        faults.clear();
        faults.release();
        assert_eq!(file.write_at(b"after", 0).await, Ok(()));
        assert_eq!(file.sync().await, Ok(()));
        assert_eq!(bench.memory.snapshot(FILE), b"after");
    });
}

/// Rounds of one thread on a file of its own, with the cache's own threads beside it.
fn rounds_of_a_thread(cache: &Cache, store: &AttachedStore, object: ObjectId) -> u64 {
    let file = cache.open(store, object, 0).expect("the object opens");
    let blocking = file.blocking();
    let mut lost = 0;
    for number in 0..2_500 {
        assert_eq!(blocking.write_at(&pages(0..PAGES), 0), Ok(()));
        for cut in 0..=number % 2 {
            block_on(dropped_cut(&file, number + cut, 1));
        }
        let at = 2 * PAGE as u64;
        let bytes = versions(2..PAGES + 3, number);
        assert_eq!(blocking.write_at(&bytes, at), Ok(()));
        assert_eq!(blocking.sync(), Ok(()));
        // All cuts before this one have ended once it has.
        let end = PAGES + 4 + number % 2;
        assert_eq!(blocking.truncate(end * PAGE as u64), Ok(()));
        let mut read = vec![0; bytes.len()];
        assert_eq!(blocking.read_at(&mut read, at), Ok(bytes.len()));
        lost += u64::from(read != bytes);
    }
    lost
}

#[test]
fn invariant_o2_holds_where_threads_drop_cuts() {
    let memory = Arc::new(MemoryStore::new());
    let cache = Cache::new(Settings::of_mib(8)).expect("the settings are good");
    let store = cache.attach(memory).expect("a store is attached");
    let threads: Vec<_> = (1..=4)
        .map(|object| {
            let (cache, store) = (cache.clone(), store.clone());
            let rounds = move || {
                let lost = rounds_of_a_thread(&cache, &store, ObjectId(object));
                assert_eq!(lost, 0, "writes after 2,500 dropped cuts");
            };
            thread::spawn("writer", rounds).expect("a thread starts")
        })
        .collect();
    for thread in threads {
        thread.join();
    }
    assert_eq!(cache.check(), Vec::<String>::new());
}
