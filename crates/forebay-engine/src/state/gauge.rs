//! Counts that are changed under a lock, and read without it.

use forebay_base::sync::atomic::{AtomicU64, Ordering};
use std::marker::PhantomData;

/// Subtracts `pages` from a gauge, which is never less than that.
pub(crate) fn less(gauge: &AtomicU64, pages: u64) {
    let before = gauge.fetch_sub(pages, Ordering::Relaxed);
    debug_assert!(
        before >= pages,
        "a gauge of {before} pages cannot lose {pages}"
    );
}

/// Pages counted under the lock of `L`. A caller that changes the count proves that it has the
/// lock, so nobody else changes it meanwhile. A load and a store are enough then; a locked
/// instruction would cost more than the change of the list that is counted.
#[derive(Debug)]
pub(crate) struct Gauge<L> {
    pages: AtomicU64,
    lock: PhantomData<fn(&mut L)>,
}

impl<L> Gauge<L> {
    pub(crate) fn new(pages: u64) -> Gauge<L> {
        Gauge {
            pages: AtomicU64::new(pages),
            lock: PhantomData,
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    pub(crate) fn more(&self, _locked: &mut L, pages: u64) {
        self.pages.store(self.get() + pages, Ordering::Relaxed);
    }

    pub(crate) fn less(&self, _locked: &mut L, pages: u64) {
        let left = self.get().checked_sub(pages);
        let left = left.expect("no more pages leave than came");
        self.pages.store(left, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_base::sync::{Arc, Mutex, lock};
    use forebay_rt::thread::spawn;

    #[test]
    fn no_change_of_several_threads_is_lost() {
        let shared = Arc::new((Mutex::new(Vec::new()), Gauge::<Vec<u64>>::new(0)));
        let work = |thread: u64| {
            let shared = shared.clone();
            spawn("gauge", move || {
                let (list, gauge) = &*shared;
                for turn in 0..10_000_u64 {
                    let mut list = lock(list);
                    if turn % 4 != thread {
                        list.push(turn);
                        gauge.more(&mut list, 1);
                    } else if list.pop().is_some() {
                        gauge.less(&mut list, 1);
                    }
                }
            })
        };
        for joiner in [0, 1, 2, 3].map(work) {
            joiner.unwrap().join();
        }
        let (list, gauge) = &*shared;
        assert_eq!(gauge.get(), lock(list).len() as u64);
    }
}
