//! Which stores say that they are congested, for the policies that ask (spec/reclaim.md 5.1).

use forebay_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use forebay_rt::wait::WaitQueue;

/// How many stores are congested.
#[derive(Debug, Default)]
pub struct Congestion {
    stores: AtomicUsize,
    /// Notified whenever a store ceases to be congested.
    pub over: WaitQueue,
}

impl Congestion {
    /// Whether any store is congested.
    pub fn is_anywhere(&self) -> bool {
        self.stores.load(Ordering::Relaxed) > 0
    }

    /// Notes that the store whose last state is in `known` is congested now, or is not.
    pub fn note(&self, known: &AtomicBool, is_congested: bool) {
        match (known.swap(is_congested, Ordering::AcqRel), is_congested) {
            (false, true) => {
                self.stores.fetch_add(1, Ordering::AcqRel);
            }
            (true, false) => {
                self.stores.fetch_sub(1, Ordering::AcqRel);
                self.over.wake_all();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_each_stores_congestion_wakes_the_waiters() {
        let congestion = Congestion::default();
        let stores = [AtomicBool::new(false), AtomicBool::new(false)];
        for store in &stores {
            congestion.note(store, true);
            congestion.note(store, true);
        }
        let _waits = congestion.over.listen();
        congestion.note(&stores[0], false);
        assert_eq!(congestion.over.waiters(), 0);
        assert!(congestion.is_anywhere(), "the other one is");
        congestion.note(&stores[1], false);
        congestion.note(&stores[1], false);
        assert!(!congestion.is_anywhere());
    }
}
