//! What a process wrote, what its syncs promised, and what its store tried to commit.

use std::collections::BTreeMap;

/// The stamp of each page that was ever written; a page without one is zeros.
pub(super) type State = BTreeMap<u64, u64>;

/// Of one process that had the volume.
#[derive(Debug, Default)]
pub(super) struct History {
    /// What it found, and what it tried to commit, in order.
    tried: Vec<State>,
    /// The newest of these whose record is known to be there.
    recorded: usize,
    /// The stamps that were written to each page, in order.
    written: BTreeMap<u64, Vec<u64>>,
    /// Those of them that a returned sync promised, by their number.
    promised: BTreeMap<u64, usize>,
}

/// A sync that has begun: how many stamps of each page had been written then.
pub(super) type Begun = BTreeMap<u64, usize>;

impl History {
    pub(super) fn new(found: State) -> History {
        History {
            written: found
                .iter()
                .map(|(&page, &stamp)| (page, vec![stamp]))
                .collect(),
            tried: vec![found],
            ..History::default()
        }
    }

    /// A call writes `stamp` to `page`.
    pub(super) fn writes(&mut self, page: u64, stamp: u64) {
        self.written.entry(page).or_default().push(stamp);
    }

    pub(super) fn tries(&mut self, state: State) {
        self.tried.push(state);
    }

    /// The record that was tried last is there.
    pub(super) fn records(&mut self) {
        self.recorded = self.tried.len() - 1;
    }

    /// What a sync of `pages` promises that begins now, while none of them is being written.
    pub(super) fn sync_begins(&self, pages: impl Fn(u64) -> bool) -> Begun {
        let own = self.written.iter().filter(|(page, _)| pages(**page));
        own.map(|(&page, stamps)| (page, stamps.len())).collect()
    }

    pub(super) fn sync_returned(&mut self, begun: Begun) {
        for (page, count) in begun {
            let promised = self.promised.entry(page).or_default();
            *promised = count.max(*promised);
        }
    }

    /// What is wrong with `found`, what the next process found in the volume: it is what this one's
    /// store tried to commit, no older than what is known to be recorded, and has what the syncs
    /// promised.
    pub(super) fn judge(&self, found: &State) -> Option<String> {
        for (page, &count) in self.promised.iter().filter(|(_, count)| **count > 0) {
            let stamps = &self.written[page];
            let stamp = found.get(page).copied().unwrap_or(0);
            if !stamps[count - 1..].contains(&stamp) {
                let what = match stamps.iter().position(|&known| known == stamp) {
                    Some(at) => format!("write {}", at + 1),
                    None => format!("stamp {stamp:#x}, which nobody wrote"),
                };
                return Some(format!(
                    "page {page} has {what} of {}; a returned sync promised write {count} or a \
                     newer one",
                    stamps.len()
                ));
            }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pages: &[(u64, u64)]) -> State {
        pages.iter().copied().collect()
    }

    /// Two writes of page 1 and one of page 2; the first write of page 1 is synced.
    fn history() -> History {
        let mut history = History::new(State::new());
        history.writes(1, 10);
        history.tries(state(&[(1, 10)]));
        history.records();
        let begun = history.sync_begins(|page| page == 1);
        history.writes(1, 11);
        history.writes(2, 20);
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
}
