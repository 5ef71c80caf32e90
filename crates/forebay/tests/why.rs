//! Who waited, for what, and who is to blame: the sums are exact, nobody waits without a cause, and
//! a planted culprit is named in the first line.

mod support;

use forebay::why::{Cause, Suspect, WhyLine};
use forebay::{AttachedStore, Caller, Counter, File};
use forebay_base::Span;
use forebay_rt::{Rt, Task};
use forebay_store::{ObjectId, Rate, RateStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::void::Void;
use support::{Bench, PAGE, simulate};

/// A store that takes so many pages a second.
fn medium(rt: Rt, pages_per_s: u64) -> Arc<RateStore> {
    let rate = Rate::bytes(pages_per_s * PAGE as u64);
    Arc::new(RateStore::new(rt, Arc::new(Void), rate))
}

fn paced(rt: Rt, mib: u64, pages_per_s: u64) -> Bench {
    Bench::new(rt, mib, |rt, _| medium(rt, pages_per_s))
}

fn open_for(bench: &Bench, store: &AttachedStore, number: u64, name: &str) -> File {
    let caller = Caller::named(name);
    bench
        .cache
        .open_for(store, ObjectId(number), 0, &caller)
        .expect("the object opens")
}

/// A task that writes `pages` pages at a time to new places of `file`, with `rest` in between,
/// until it is told to stop.
struct Writer {
    task: Task,
    stop: Arc<AtomicBool>,
}

impl Writer {
    fn start(rt: &Rt, file: File, pages: u64, rest: Span) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, clock) = (stop.clone(), rt.clone());
        let task = rt.spawn("writer", async move {
            let bytes = vec![1; pages as usize * PAGE];
            let mut at = 0;
            while !told.load(Ordering::Relaxed) {
                // A disk that fails refuses it after a while, which is an answer too.
                let _ = file.write_at(&bytes, at).await;
                at += bytes.len() as u64;
                if rest > Span::ZERO {
                    clock.sleep(rest).await;
                }
            }
        });
        Writer { task, stop }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.join().await;
    }
}

/// The microseconds of the ledger for some causes.
fn ledger_us(bench: &Bench, causes: &[Cause]) -> u64 {
    let rows = bench.cache.wait_rows(None);
    rows.iter()
        .filter(|row| causes.contains(&row.cause))
        .map(|row| row.waited.as_micros())
        .sum()
}

const PAUSES: [Cause; 4] = [
    Cause::OwnRate,
    Cause::OthersDirty,
    Cause::Unmeasured,
    Cause::FailedPages,
];

const FRAMES: [Cause; 6] = [
    Cause::NoFrames,
    Cause::ReclaimWriteback,
    Cause::ReclaimIsolated,
    Cause::ReclaimNoProgress,
    Cause::ReclaimCongested,
    Cause::DirectReclaim,
];

/// The ledger says what the counters say.
fn assert_sums(bench: &Bench) {
    let pairs = [
        (&PAUSES[..], Counter::BalancePausedUs),
        (&FRAMES[..], Counter::AllocstallUs),
        (
            &[Cause::SyncWrites, Cause::Commit][..],
            Counter::SyncWaitedUs,
        ),
    ];
    for (causes, counter) in pairs {
        let name = counter.name();
        assert_eq!(ledger_us(bench, causes), bench.count(counter), "{name}");
    }
}

fn first_line(bench: &Bench) -> WhyLine {
    let why = bench.cache.why(None);
    why.lines.into_iter().next().expect("somebody waited")
}

#[test]
fn a_pause_is_in_the_ledger_with_its_caller_and_cause() {
    simulate(1, async |rt| {
        let bench = paced(rt.clone(), 32, 2_000);
        let writer = Writer::start(&rt, open_for(&bench, &bench.store, 1, "log"), 4, Span::ZERO);
        rt.sleep(Span::from_secs(30)).await;
        writer.end().await;
        assert_sums(&bench);
        let line = first_line(&bench);
        assert_eq!(line.caller.name(), "log");
        assert_eq!(line.verdict.first, Suspect::OwnRate);
        assert!(line.verdict.is_clear());
        assert!(line.savings.store_helps() && !line.savings.memory_helps());
        // Most of 30 s: the store takes far less than a writer without rest offers.
        assert!(line.waited > Span::from_secs(15), "{:?}", line.waited);
        let text = bench.cache.why(None).to_string();
        assert!(text.contains("1  log"), "{text}");
    });
}
