//! Every order of the steps of callers that commit one object: every caller returns, and with a
//! commit that began after its writes.

use crate::state::commit_line::{CommitLine, Committed, Joined};
use crate::state::loom_explorer::explore;
use forebay_rt::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const PREEMPTIONS: usize = 2;

/// An object with the changes that its store has made, and those that are durable.
#[derive(Default)]
struct Object {
    line: CommitLine,
    changes: AtomicU64,
    durable: AtomicU64,
}

impl Object {
    /// Makes a change and commits it, as in `flow/commit.rs`.
    fn change_and_commit(&self) {
        let changes = self.changes.fetch_add(1, Ordering::AcqRel) + 1;
        let number = self.line.number_for(changes);
        loop {
            match self.line.join(number) {
                Joined::Ended(result) => {
                    assert_eq!(result, Committed::Durable);
                    break;
                }
                Joined::Begun => self.carry_out(),
                Joined::UnderWay { listener, .. } => block_on(listener),
            }
        }
        assert!(self.durable.load(Ordering::Acquire) >= changes);
    }

    /// Carries out the commit that was begun.
    fn carry_out(&self) {
        self.line.covers(self.changes.load(Ordering::Acquire));
        thread::yield_now();
        self.durable
            .fetch_max(self.line.covered(), Ordering::AcqRel);
        self.line.end(Committed::Durable);
    }

    /// Asks for a commit and gives up instead of waiting for it. A commit that it begins goes on.
    fn give_up(&self) {
        let number = self.line.number_for(1);
        match self.line.join(number) {
            Joined::Begun => self.carry_out(),
            Joined::UnderWay { listener, .. } => drop(listener),
            Joined::Ended(_) => {}
        }
    }
}

#[test]
fn invariants_g1_g2_and_g3_hold_in_every_order() {
    explore(PREEMPTIONS, || {
        let object = Arc::new(Object::default());
        let others = [(), ()].map(|()| {
            let object = object.clone();
            thread::spawn(move || object.change_and_commit())
        });
        object.change_and_commit();
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn invariant_g3_a_caller_that_gives_up_leaves_nobody_asleep() {
    explore(PREEMPTIONS, || {
        let object = Arc::new(Object::default());
        let (gives_up, commits) = (object.clone(), object.clone());
        let gives_up = thread::spawn(move || gives_up.give_up());
        let commits = thread::spawn(move || commits.change_and_commit());
        object.change_and_commit();
        gives_up.join().unwrap();
        commits.join().unwrap();
    });
}
