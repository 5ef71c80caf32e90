//! Every order of the steps of a flusher and of writers at the limit, in a world without time: a
//! rest that only a time-out would end lasts for ever, and the explorer reports it.

use crate::state::flusher_requests::{AfterRound, FlusherRequests, FlusherWork};
use crate::state::loom_explorer::explore;
use forebay_rt::block_on;
use forebay_rt::wait::WaitQueue;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const PREEMPTIONS: usize = 3;

/// One store: what is dirty, what its flusher has written, and the queue of those that wait for it.
struct Store {
    requests: FlusherRequests,
    dirty: AtomicU64,
    written: AtomicU64,
    write_ended: WaitQueue,
}

fn store() -> Arc<Store> {
    Arc::new(Store {
        requests: FlusherRequests::new(),
        dirty: AtomicU64::new(0),
        written: AtomicU64::new(0),
        write_ended: WaitQueue::new(),
    })
}

impl Store {
    /// The flusher's life as in `flow/flusher.rs`, until it has written `pages`.
    fn flush(&self, pages: u64) {
        while self.written.load(Ordering::Relaxed) < pages {
            self.requests.take();
            let taken = self.dirty.swap(0, Ordering::AcqRel);
            if taken > 0 {
                self.written.fetch_add(taken, Ordering::AcqRel);
                self.write_ended.wake_all();
                continue;
            }
            let asked = self.requests.listen();
            match self.requests.after_round(true) {
                AfterRound::Again => {}
                AfterRound::RestInVain | AfterRound::Rest => block_on(asked),
            }
        }
    }

    /// A writer at the limit dirties a page, asks, and waits until `until` pages are written.
    fn write(&self, until: u64) {
        self.dirty.fetch_add(1, Ordering::AcqRel);
        self.requests.ask_for_background();
        loop {
            let listener = self.write_ended.listen();
            if self.written.load(Ordering::Acquire) >= until {
                return;
            }
            block_on(listener);
        }
    }
}

#[test]
fn invariant_r1_a_flusher_rests_while_no_writer_waits_for_it() {
    explore(PREEMPTIONS, || {
        let store = store();
        let writer = store.clone();
        let writing = thread::spawn(move || {
            writer.write(1);
            writer.write(2);
        });
        store.flush(2);
        writing.join().unwrap();
    });
}

#[test]
fn invariant_r1_what_reclaim_asks_for_keeps_no_writer_waiting() {
    explore(PREEMPTIONS, || {
        let store = store();
        let (writer, reclaimer) = (store.clone(), store.clone());
        let writing = thread::spawn(move || writer.write(1));
        let reclaiming = thread::spawn(move || {
            reclaimer.requests.ask(FlusherWork {
                all: true,
                ..FlusherWork::default()
            });
        });
        store.flush(1);
        writing.join().unwrap();
        reclaiming.join().unwrap();
    });
}
