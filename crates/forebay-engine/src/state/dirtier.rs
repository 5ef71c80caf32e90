//! A writer as the throttle sees it: what it dirtied, what is left of its quota, what it owes.

use crate::state::pause_turn::PauseTurn;
use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use forebay_law::decision::DirtierState;
use forebay_law::pause::DirtierClock;
use forebay_law::share::StoreCompletions;

/// A writer as the throttle sees it.
#[derive(Debug)]
pub struct Dirtier {
    pub state: Mutex<DirtierState>,
    /// What was left of its quota when its state last changed: a write reads it before each stretch
    /// without taking a lock.
    left_pages: AtomicU64,
    pub(crate) is_counted: AtomicBool,
    /// What it dirtied lately, for the policies that use it.
    pub dirtied_lately: Mutex<StoreCompletions>,
    /// Which of its calls pauses for all of them.
    pub(crate) turn: PauseTurn,
    /// Whether one of its pauses was given up and none has been completed since.
    owes: AtomicBool,
    /// Pages that it made dirty and that are not noted for its caller yet.
    unnoted_pages: AtomicU64,
}

impl Default for Dirtier {
    fn default() -> Dirtier {
        let state = DirtierState::default();
        Dirtier {
            left_pages: AtomicU64::new(state.clock.quota_pages(false)),
            state: Mutex::new(state),
            is_counted: AtomicBool::default(),
            dirtied_lately: Mutex::default(),
            turn: PauseTurn::default(),
            owes: AtomicBool::default(),
            unnoted_pages: AtomicU64::default(),
        }
    }
}

impl Dirtier {
    /// Begins a new quota.
    pub(crate) fn renew(&self, state: DirtierState, is_exceeded: bool) {
        let mut own = lock(&self.state);
        *own = state;
        self.note_left(&own.clock, is_exceeded);
    }

    /// Notes what its clock leaves of its quota, and returns it.
    pub(crate) fn note_left(&self, clock: &DirtierClock, is_exceeded: bool) -> u64 {
        let quota = clock.quota_pages(is_exceeded);
        let left = quota.saturating_sub(clock.nr_dirtied);
        self.left_pages.store(left, Ordering::Relaxed);
        left
    }

    /// What was left of its quota when its state last changed.
    pub fn left_pages(&self) -> u64 {
        self.left_pages.load(Ordering::Relaxed)
    }

    /// Counts pages that it made dirty.
    pub(crate) fn count_dirtied(&self, pages: u64) {
        self.unnoted_pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// The pages that it made dirty since the last call of this.
    pub(crate) fn take_dirtied(&self) -> u64 {
        self.unnoted_pages.swap(0, Ordering::Relaxed)
    }

    /// Whether it has to pause before it dirties anything. Otherwise a caller that is refused or
    /// drops its call, and then comes back, would gain another stretch each time.
    pub(crate) fn owes_a_pause(&self) -> bool {
        self.owes.load(Ordering::Relaxed)
    }
}

/// A pause that has to be completed. If it is dropped before its end, it is still owed.
#[derive(Debug)]
pub(crate) struct OwedPause<'a> {
    dirtier: &'a Dirtier,
    is_over: bool,
}

impl OwedPause<'_> {
    pub(crate) fn of(dirtier: &Dirtier) -> OwedPause<'_> {
        OwedPause {
            dirtier,
            is_over: false,
        }
    }

    pub(crate) fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for OwedPause<'_> {
    fn drop(&mut self) {
        self.dirtier.owes.store(!self.is_over, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_is_dropped_is_owed_until_one_is_completed() {
        let dirtier = Dirtier::default();
        assert!(!dirtier.owes_a_pause());
        drop(OwedPause::of(&dirtier));
        assert!(dirtier.owes_a_pause());
        drop(OwedPause::of(&dirtier));
        assert!(dirtier.owes_a_pause(), "it was given up again");
        OwedPause::of(&dirtier).end();
        assert!(!dirtier.owes_a_pause());
    }
}
