//! Every order of the steps of callers that share syncs: every caller returns, and what it changed
//! is durable.

use crate::state::loom_explorer::explore;
use crate::state::sync_line::{Shared, SyncLine};
use forebay_rt::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const PREEMPTIONS: usize = 2;

#[derive(Default)]
struct Object {
    line: SyncLine,
    changes: AtomicU64,
    durable: AtomicU64,
}

impl Object {
    /// Makes a change and syncs, as in `flow/sync.rs`.
    fn change_and_sync(&self) {
        let changes = self.changes.fetch_add(1, Ordering::AcqRel) + 1;
        let number = self.line.next_number();
        loop {
            match self.line.join(number) {
                Shared::Begun(turn) => {
                    let covered = self.changes.load(Ordering::Acquire);
                    thread::yield_now();
                    turn.written();
                    self.durable.fetch_max(covered, Ordering::AcqRel);
                    turn.ends_well();
                    break;
                }
                Shared::Ended { went_well } => {
                    assert!(went_well);
                    break;
                }
                Shared::UnderWay(listener) => block_on(listener),
            }
        }
        assert!(self.durable.load(Ordering::Acquire) >= changes);
    }

    /// Asks for a sync and gives up, whatever it is to do.
    fn give_up(&self) {
        drop(self.line.join(self.line.next_number()));
    }
}

#[test]
fn invariants_sy1_sy2_and_sy3_hold_in_every_order() {
    explore(PREEMPTIONS, || {
        let object = Arc::new(Object::default());
        let others = [(), ()].map(|()| {
            let object = object.clone();
            thread::spawn(move || object.change_and_sync())
        });
        object.change_and_sync();
        for other in others {
            other.join().unwrap();
        }
    });
}

/// A sync that is given up may fail others, which then sync by themselves, but it keeps nobody
/// waiting.
#[test]
fn invariant_sy3_a_caller_that_gives_up_leaves_nobody_asleep() {
    explore(PREEMPTIONS, || {
        let object = Arc::new(Object::default());
        let gives_up = object.clone();
        let gives_up = thread::spawn(move || gives_up.give_up());
        let number = object.line.next_number();
        loop {
            match object.line.join(number) {
                Shared::Begun(turn) => turn.ends_well(),
                Shared::Ended { .. } => break,
                Shared::UnderWay(listener) => block_on(listener),
            }
        }
        gives_up.join().unwrap();
    });
}
