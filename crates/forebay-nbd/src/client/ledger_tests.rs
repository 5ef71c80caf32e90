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
    /// The server has them, and its answers are on their way.
    under_way: Vec<(Write, Era)>,
    /// Finished in the ledger, and not heard of yet.
    unheard: Vec<Write>,
    heard: u64,
    unstable: BTreeSet<Write>,
    commit: Option<(BTreeSet<Write>, u64, Option<Covered>)>,
}

impl Model {
    fn step(&mut self, what: u8) {
        match what {
            0 | 1 => {
                self.send_write();
                self.answer_write();
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
                // What was not answered is sent again.
                for (write, sent) in &mut self.under_way {
                    self.in_memory.insert(*write);
                    *sent = self.ledger.era();
                }
                self.end_if_forgotten();
            }
            6 => self.answer_flush(),
            7 => self.send_write(),
            8 if !self.under_way.is_empty() => self.answer_write(),
            // A flush fails. The server goes on, so nothing is sent again.
            9 => {
                self.in_memory.clear();
                self.ledger.started_anew();
                self.fail_flush();
            }
            _ => {}
        }
    }

    fn send_write(&mut self) {
        let write = Write(self.next);
        self.next += 1;
        self.in_memory.insert(write);
        self.under_way.push((write, self.ledger.era()));
    }

    fn answer_write(&mut self) {
        let (write, sent) = self.under_way.remove(0);
        self.ledger.write_finished(sent);
        self.unheard.push(write);
    }

    /// The flush that failed may be the one of the commit, or one of somebody else.
    fn fail_flush(&mut self) {
        if !self.next.is_multiple_of(2) {
            return;
        }
        if let Some((covered, _, Some(commit))) = self.commit.take_if(|commit| commit.2.is_some()) {
            self.ledger.reported(&commit);
            self.unstable.retain(|write| !covered.contains(write));
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
        let ends_well = self.ledger.flushed(&commit);
        assert!(heard <= self.heard);
        for write in covered {
            assert!(
                !ends_well || self.durable.contains(&write),
                "{write:?} is covered by a commit that ended well (invariant V1)"
            );
            self.unstable.remove(&write);
        }
    }

    /// Everything that the submitter still keeps is made durable or reported in the end
    /// (invariant V2): a write that was forgotten must not be covered in silence.
    fn settle(&mut self) {
        while !self.under_way.is_empty() {
            self.step(8);
        }
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
        steps in prop::collection::vec(0_u8..10, 0..200)
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
    ledger.write_finished(ledger.era());
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
    ledger.write_finished(ledger.era());
    let commit = ledger.covers(1);
    assert!(ledger.flushed(&commit));
    ledger.started_anew();
    assert!(!ledger.is_forgotten(&ledger.covers(1)));
    ledger.write_finished(ledger.era());
    assert!(
        !ledger.is_forgotten(&ledger.covers(2)),
        "it came afterwards"
    );
}

#[test]
fn a_write_that_is_answered_after_a_failed_flush_is_forgotten_if_it_was_sent_before() {
    let mut ledger = Ledger::default();
    let before = ledger.era();
    let failed = ledger.covers(0);
    ledger.started_anew();
    ledger.reported(&failed);
    ledger.write_finished(before);
    let next = ledger.covers(1);
    assert!(ledger.is_forgotten(&next), "the server may have dropped it");
    ledger.reported(&next);
    ledger.write_finished(ledger.era());
    assert!(!ledger.is_forgotten(&ledger.covers(2)), "it is a new one");
}

#[test]
fn a_flush_that_succeeds_beside_one_that_fails_does_not_cover_what_was_dropped() {
    let mut ledger = Ledger::default();
    ledger.write_finished(ledger.era());
    let (first, second) = (ledger.covers(0), ledger.covers(1));
    ledger.started_anew();
    ledger.reported(&first);
    assert!(!ledger.flushed(&second), "the write may be gone");
    assert!(ledger.flushed(&ledger.covers(1)), "it was reported");
}
