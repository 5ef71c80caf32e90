//! The ledger against a server that is a set of pages.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A write from the submitter's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Write(u64);

/// A server with memory, and a submitter that keeps what is unstable.
#[derive(Default)]
struct Model {
    ledger: Ledger,
    next: u64,
    in_memory: BTreeSet<Write>,
    durable: BTreeSet<Write>,
    /// Writes that are finished in the ledger, and whose end the submitter does not know yet.
    unheard: Vec<Write>,
    heard: u64,
    unstable: BTreeSet<Write>,
    commit: Option<(BTreeSet<Write>, u64, Option<Covered>)>,
}

impl Model {
    fn step(&mut self, what: u8) {
        match what {
            0 | 1 => {
                let write = Write(self.next);
                self.next += 1;
                self.in_memory.insert(write);
                self.ledger.write_finished();
                self.unheard.push(write);
            }
            2 => {
                for write in self.unheard.drain(..) {
                    self.unstable.insert(write);
                    self.heard += 1;
                }
            }
            3 if self.commit.is_none() => {
                self.commit = Some((self.unstable.clone(), self.heard, None));
            }
            4 => {
                if let Some((_, heard, sent @ None)) = &mut self.commit {
                    *sent = Some(self.ledger.covers(*heard));
                }
                self.end_if_forgotten();
            }
            5 => {
                self.in_memory.clear();
                self.ledger.started_anew();
                self.end_if_forgotten();
            }
            _ => self.answer_flush(),
        }
    }

    fn end_if_forgotten(&mut self) {
        let Some((covered, _, Some(commit))) = &self.commit else {
            return;
        };
        if self.ledger.is_forgotten(commit) {
            self.ledger.reported(commit);
            // The submitter writes them again: they are new writes.
            let lost: Vec<Write> = covered.iter().copied().collect();
            self.commit = None;
            for write in lost {
                self.unstable.remove(&write);
            }
        }
    }

    fn answer_flush(&mut self) {
        let Some((covered, heard, Some(commit))) = self.commit.take() else {
            return;
        };
        self.durable.append(&mut self.in_memory);
        self.ledger.flushed(&commit);
        assert!(heard <= self.heard);
        for write in covered {
            assert!(
                self.durable.contains(&write),
                "{write:?} is covered by a commit that ended well (invariant V1)"
            );
            self.unstable.remove(&write);
        }
    }

    /// Everything that the submitter still keeps is made durable or reported in the end
    /// (invariant V2): a write that was forgotten must not be covered in silence.
    fn settle(&mut self) {
        for what in [2, 3, 4, 6, 3, 4, 6, 3, 4, 6] {
            self.step(what);
        }
        assert!(self.unstable.is_empty(), "{:?}", self.unstable);
        assert_eq!(self.ledger.unsettled(), 0);
    }
}

proptest! {
    #[test]
    fn invariants_v1_and_v2_no_forgotten_write_is_covered(
        steps in prop::collection::vec(0_u8..7, 0..200)
    ) {
        let mut model = Model::default();
        for step in steps {
            // A flush that was sent is in flight over a restart only if it covers nothing that was
            // forgotten; then it is sent again.
            model.step(step);
        }
        model.settle();
    }
}

#[test]
fn a_write_that_was_heard_of_after_the_commit_came_is_reported_by_the_next_one() {
    let mut ledger = Ledger::default();
    ledger.write_finished();
    ledger.started_anew();
    let first = ledger.covers(0);
    assert!(ledger.is_forgotten(&first));
    ledger.reported(&first);
    let second = ledger.covers(1);
    assert!(ledger.is_forgotten(&second), "it was not settled");
    ledger.reported(&second);
    assert!(!ledger.is_forgotten(&ledger.covers(1)));
}

#[test]
fn a_restart_with_nothing_to_forget_is_no_reason_to_fail() {
    let mut ledger = Ledger::default();
    ledger.write_finished();
    let commit = ledger.covers(1);
    ledger.flushed(&commit);
    ledger.started_anew();
    assert!(!ledger.is_forgotten(&ledger.covers(1)));
    ledger.write_finished();
    assert!(
        !ledger.is_forgotten(&ledger.covers(2)),
        "it came afterwards"
    );
}
