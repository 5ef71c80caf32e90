//! Writers of paced stores, for tests of who waits for what.

use super::void::Void;
use super::{Bench, PAGE};
use forebay_base::Span;
use forebay_engine::why::WhyLine;
use forebay_engine::{AttachedStore, Caller, File};
use forebay_rt::{Rt, Task};
use forebay_store::{ObjectId, Rate, RateStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A store that takes this many pages a second.
pub(crate) fn medium(rt: Rt, pages_per_s: u64) -> Arc<RateStore> {
    let rate = Rate::bytes(pages_per_s * PAGE as u64);
    Arc::new(RateStore::new(rt, Arc::new(Void), rate))
}

pub(crate) fn paced(rt: Rt, mib: u64, pages_per_s: u64) -> Bench {
    Bench::new(rt, mib, |rt, _| medium(rt, pages_per_s))
}

pub(crate) fn open_for(bench: &Bench, store: &AttachedStore, number: u64, name: &str) -> File {
    let caller = Caller::named(name);
    bench
        .cache
        .open_for(store, ObjectId(number), 0, &caller)
        .expect("the object opens")
}

/// A task that writes `pages` pages at a time to new places of `file`, with `rest` in between,
/// until it is told to stop.
pub(crate) struct Writer {
    task: Task,
    stop: Arc<AtomicBool>,
}

impl Writer {
    pub(crate) fn start(rt: &Rt, file: File, pages: u64, rest: Span) -> Writer {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, clock) = (stop.clone(), rt.clone());
        let task = rt.spawn("writer", async move {
            let bytes = vec![1; pages as usize * PAGE];
            let mut at = 0;
            while !stopped.load(Ordering::Relaxed) {
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

    pub(crate) async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.join().await;
    }
}

pub(crate) fn first_line(bench: &Bench) -> WhyLine {
    let why = bench.cache.why(None);
    why.lines.into_iter().next().expect("somebody waited")
}
