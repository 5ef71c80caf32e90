//! Marks of pages and flags of nodes that are only where the specification allows them.
//!
//! They may be walked while callers and daemons are under way, as long as no thread is between two
//! waits. `Cache::check` does not walk them: on real threads a write may end between the look at a
//! page and its mark, and the mark stays until the next write of the page. That costs the page its
//! place in the list once, and nothing else.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::state::frame::flag;
use forebay_base::sync::atomic::Ordering;
use forebay_law::throttle::MAX_RECLAIM_RETRIES;

/// Flags that allow a page the mark of reclaim: a write will come or is under way.
const TO_BE_WRITTEN: u64 = flag::DIRTY | flag::WRITEBACK | flag::UNSTABLE;

impl Engine {
    /// Reports marks of pages that the specification does not allow, a sentence for each page.
    pub(crate) fn check_marks(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let (mut active, mut workingset) = (0, 0);
        for frame in 0..self.memory.frames.len() {
            let word = self.memory.frames.word(frame);
            active += u64::from(word & flag::ACTIVE != 0);
            workingset += u64::from(word & flag::WORKINGSET != 0);
            if let Some(what) = wrong_mark(word) {
                wrong.push(format!("frame {frame} {what}: {word:#x}"));
            }
        }
        if self.kernel.flows.is_none() && self.memory.lists.counts_activations() {
            self.check_histories(active, workingset, &mut wrong);
        }
        wrong
    }

    /// There are no more active pages than were activated, and no more pages of the working set
    /// than were deactivated or restored (spec/reclaim.md 2.6 and 2.8).
    fn check_histories(&self, active: u64, workingset: u64, wrong: &mut Vec<String>) {
        let sum = |counters: &[Counter]| -> u64 {
            let counters = counters.iter();
            counters
                .map(|&of| self.accounts.records.counters.get(of))
                .sum()
        };
        let activated = sum(&[
            Counter::Pgactivate,
            Counter::WorkingsetActivateFile,
            Counter::WorkingsetActivateAnon,
        ]);
        let deactivated = sum(&[
            Counter::Pgdeactivate,
            Counter::WorkingsetRestoreFile,
            Counter::WorkingsetRestoreAnon,
        ]);
        compare_most(wrong, "active pages (2.3, 2.8)", active, activated);
        compare_most(
            wrong,
            "pages of the working set (2.6)",
            workingset,
            deactivated,
        );
    }

    /// Reports nodes that have flags although their kswapd sleeps, a sentence for each node
    /// (spec/reclaim.md 4.6). A node that was given up keeps its flags until its kswapd has run
    /// again.
    pub(crate) fn check_flags(&self) -> Vec<String> {
        let nodes = self.memory.nodes.iter();
        let asleep = nodes.filter(|node| {
            node.kswapd_sleeps.load(Ordering::Relaxed)
                && node.failures.load(Ordering::Relaxed) < MAX_RECLAIM_RETRIES
        });
        let flags = |node: &crate::state::node::Node| {
            let flags = &node.flags;
            let all = [
                ("writeback", &flags.writeback),
                ("dirty", &flags.dirty),
                ("congested", &flags.congested),
            ];
            let set = all.iter().filter(|(_, flag)| flag.load(Ordering::Relaxed));
            set.map(|&(name, _)| name).collect::<Vec<_>>()
        };
        asleep
            .filter(|node| !flags(node).is_empty())
            .map(|node| {
                format!(
                    "node {} sleeps with the flags {:?}",
                    node.number,
                    flags(node)
                )
            })
            .collect()
    }
}

fn compare_most(wrong: &mut Vec<String>, what: &str, found: u64, most: u64) {
    if found > most {
        wrong.push(format!("{what}: there are {found}, and {most} are allowed"));
    }
}

/// What is wrong with the marks of `word`.
fn wrong_mark(word: u64) -> Option<&'static str> {
    let is_of_nobody = word & (flag::MAPPED | flag::EXCLUSIVE) == 0;
    let is_isolated = word & flag::LISTED == 0;
    if is_of_nobody && is_isolated && word & flag::OF_PAGE != 0 {
        return Some("has no page, and marks of one (F4, I-15)");
    }
    if word & flag::RECLAIM != 0 && word & (TO_BE_WRITTEN | flag::EXCLUSIVE) == 0 && !is_isolated {
        return Some("is to be reclaimed after a write, and no write will come (I-15, 3.6)");
    }
    let touches = [flag::PROMOTE, flag::FREQUENT, flag::CONSTANT];
    let is_out_of_order = touches
        .windows(2)
        .any(|pair| word & pair[0] == 0 && word & pair[1] != 0);
    is_out_of_order.then_some("has a later touch without the one before")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn marks_that_are_not_allowed_are_found() {
        let resident = flag::MAPPED | flag::LISTED | flag::UPTODATE;
        for good in [
            0,
            resident,
            resident | flag::REFERENCED | flag::PROMOTE | flag::FREQUENT,
            resident | flag::RECLAIM | flag::DIRTY,
            resident | flag::RECLAIM | flag::UNSTABLE,
            flag::MAPPED | flag::RECLAIM,
            flag::EXCLUSIVE | flag::UPTODATE,
        ] {
            assert_eq!(wrong_mark(good), None, "{good:#x}");
        }
        for (bad, said) in [
            (flag::ACTIVE, "no page"),
            (flag::RECLAIM, "no page"),
            (resident | flag::RECLAIM, "no write"),
            (resident | flag::FREQUENT, "later touch"),
            (resident | flag::PROMOTE | flag::CONSTANT, "later touch"),
        ] {
            assert!(
                wrong_mark(bad).is_some_and(|what| what.contains(said)),
                "{bad:#x}"
            );
        }
    }
}
