//! What a process wrote, what its syncs promised, and what its store tried to commit.

use std::collections::BTreeMap;

/// The stamp of each page that has one. The others are zeros: they were never written, or
/// discarded after that.
pub(super) type State = BTreeMap<u64, u64>;

/// The history of one process that had the volume.
#[derive(Debug, Default)]
pub(super) struct History {
    /// What it found, and what it tried to commit, in order.
    tried: Vec<State>,
    /// The newest of these whose record is known to be there.
    recorded: usize,
    /// The writes of each page, in order.
    written: BTreeMap<u64, Vec<Write>>,
    /// Those of them that a returned sync promised, by their number.
    promised: BTreeMap<u64, usize>,
}

/// A write of a page, or a discard, whose stamp is 0.
#[derive(Clone, Copy, Debug)]
struct Write {
    stamp: u64,
    /// Its call has returned without error. Otherwise the page may have what it had before.
    is_made: bool,
}

/// A sync that has begun: for each page the number of its last write at that time.
pub(super) type Begun = BTreeMap<u64, usize>;

impl History {
    pub(super) fn new(found: State) -> History {
        History {
            written: found
                .iter()
                .map(|(&page, &stamp)| {
                    let is_made = true;
                    (page, vec![Write { stamp, is_made }])
                })
                .collect(),
            tried: vec![found],
            ..History::default()
        }
    }

    /// A call begins to write `stamp` to `page`.
    pub(super) fn write_begins(&mut self, page: u64, stamp: u64) {
        let is_made = false;
        let writes = self.written.entry(page).or_default();
        writes.push(Write { stamp, is_made });
    }

    /// The last write of `page` has returned without error. A refused write may have been made or
    /// not: no sync promises it, but it may be found.
    pub(super) fn write_returned(&mut self, page: u64) {
        let writes = self.written.get_mut(&page);
        let last = writes.and_then(|writes| writes.last_mut());
        last.expect("the write has begun").is_made = true;
    }

    pub(super) fn tries(&mut self, state: State) {
        self.tried.push(state);
    }

    /// The record that was tried last is there.
    pub(super) fn records(&mut self) {
        self.recorded = self.tried.len() - 1;
    }

    /// What a sync of `pages` promises if it begins now, while none of them is being written.
    pub(super) fn sync_begins(&self, pages: impl Fn(u64) -> bool) -> Begun {
        let own = self.written.iter().filter(|(page, _)| pages(**page));
        let last_made = own.filter_map(|(&page, writes)| {
            let at = writes.iter().rposition(|write| write.is_made)?;
            Some((page, at + 1))
        });
        last_made.collect()
    }

    pub(super) fn sync_returned(&mut self, begun: Begun) {
        for (page, count) in begun {
            let promised = self.promised.entry(page).or_default();
            *promised = count.max(*promised);
        }
    }

    /// What is wrong with `found`, which the next process found in the volume. It has to be
    /// something that the store of this process tried to commit, no older than what is known to be
    /// recorded, and have everything that the syncs promised.
    pub(super) fn judge(&self, found: &State) -> Option<String> {
        let lost = self.promised.iter().find_map(|(&page, &count)| {
            let stamp = found.get(&page).copied().unwrap_or(0);
            self.judge_page(page, count, stamp)
        });
        if lost.is_some() {
            return lost;
        }
        let Some(at) = self.tried.iter().rposition(|tried| tried == found) else {
            return Some(format!(
                "the volume is none of the {} states that were to be committed",
                self.tried.len()
            ));
        };
        (at < self.recorded).then(|| {
            let recorded = self.recorded;
            format!("the volume is commit {at}, and commit {recorded} was recorded")
        })
    }

    /// What is wrong with `page` if it has this `stamp` and its write `count` was promised.
    fn judge_page(&self, page: u64, count: usize, stamp: u64) -> Option<String> {
        let writes = &self.written[&page];
        let at = writes.iter().rposition(|write| write.stamp == stamp);
        if at.is_some_and(|at| at + 1 >= count) {
            return None;
        }
        let what = match at {
            Some(at) => format!("write {}", at + 1),
            None => format!("stamp {stamp:#x}, which nobody wrote"),
        };
        Some(format!(
            "page {page} has {what} of {}; a returned sync promised write {count} or a newer one",
            writes.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pages: &[(u64, u64)]) -> State {
        pages.iter().copied().collect()
    }

    fn write(history: &mut History, page: u64, stamp: u64) {
        history.write_begins(page, stamp);
        history.write_returned(page);
    }

    /// Two writes of page 1 and one of page 2; the first write of page 1 is synced.
    fn history() -> History {
        let mut history = History::new(State::new());
        write(&mut history, 1, 10);
        history.tries(state(&[(1, 10)]));
        history.records();
        let begun = history.sync_begins(|page| page == 1);
        write(&mut history, 1, 11);
        write(&mut history, 2, 20);
        history.tries(state(&[(1, 11), (2, 20)]));
        history.sync_returned(begun);
        history
    }

    #[test]
    fn what_was_synced_or_came_later_is_found_as_it_was_tried() {
        let history = history();
        for found in [state(&[(1, 10)]), state(&[(1, 11), (2, 20)])] {
            assert_eq!(history.judge(&found), None);
        }
    }

    #[test]
    fn what_is_lost_or_mixed_or_old_is_noticed() {
        let mut history = history();
        let lost = history.judge(&State::new()).expect("a promise is broken");
        assert!(lost.contains("promised write 1"), "{lost}");
        let mixed = history
            .judge(&state(&[(1, 11)]))
            .expect("it was never tried");
        assert!(mixed.contains("none of the 3 states"), "{mixed}");
        history.records();
        let old = history
            .judge(&state(&[(1, 10)]))
            .expect("a newer one is known");
        assert!(old.contains("commit 1, and commit 2"), "{old}");
    }

    #[test]
    fn a_discard_is_a_write_of_zeros() {
        let mut history = History::new(state(&[(1, 9)]));
        write(&mut history, 1, 0);
        write(&mut history, 1, 10);
        let begun = history.sync_begins(|_| true);
        history.sync_returned(begun);
        history.tries(State::new());
        let lost = history.judge(&State::new()).expect("a promise is broken");
        assert!(lost.contains("has write 2 of 3"), "{lost}");
        write(&mut history, 1, 0);
        assert_eq!(history.judge(&State::new()), None);
    }

    /// Seed 1795739401182: a sync was wrongly taken to promise a write that the engine had refused.
    #[test]
    fn a_page_has_what_was_written_last_or_a_refused_write_after_it() {
        let mut history = History::new(state(&[(1, 9)]));
        history.write_begins(2, 20);
        write(&mut history, 1, 10);
        history.write_begins(1, 11);
        let begun = history.sync_begins(|_| true);
        history.sync_returned(begun);
        let refused = state(&[(1, 11), (2, 20)]);
        for found in [state(&[(1, 10)]), state(&[(1, 11)]), refused] {
            history.tries(found.clone());
            assert_eq!(history.judge(&found), None);
        }
        for lost in [state(&[(1, 9)]), State::new()] {
            history.tries(lost.clone());
            let lost = history.judge(&lost).expect("a promise is broken");
            assert!(lost.contains("promised write 2"), "{lost}");
        }
        write(&mut history, 1, 12);
        let begun = history.sync_begins(|_| true);
        history.sync_returned(begun);
        let refused = state(&[(1, 11)]);
        history.tries(refused.clone());
        let lost = history.judge(&refused).expect("a newer one was promised");
        assert!(lost.contains("has write 3 of 4"), "{lost}");
    }
}
