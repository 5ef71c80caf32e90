//! S3-FIFO: pages arrive in a small queue, and pages that are touched again go to a main queue, in
//! which a touch is worth another round. Law: `s3_fifo`.
//!
//! The inactive list of a kind is its small queue, and the active list its main queue. Shadows are
//! the ghosts: each page that is evicted from a small queue adds to the age of its zone, and pages
//! that leave main are forgotten. A page of main carries `WORKINGSET`. A page in main without it is
//! there because it could not be freed, and is remembered.

use forebay_engine::lists::{
    Change, List, Rule, Source, Verdict, ZoneLists, last_touch, touches_again,
};
use forebay_engine::state::frame::flag;
use forebay_law::refault::WorkingsetSizes;
use forebay_law::s3_fifo::{Fate, Queue, QueueSizes, fate, returns_to_main, turn};
use forebay_law::scan::{ListSizes, ScanInputs, ScanTargets, scan_targets};

/// The rule.
#[derive(Debug)]
pub(crate) struct S3Fifo;

/// The flags of a page in main.
const OF_MAIN: u64 = flag::ACTIVE | flag::WORKINGSET;

fn queues(is_file: bool, sizes: &ListSizes) -> QueueSizes {
    if is_file {
        QueueSizes {
            small: sizes.inactive_file,
            main: sizes.active_file,
        }
    } else {
        QueueSizes {
            small: sizes.inactive_anon,
            main: sizes.active_anon,
        }
    }
}

impl Rule for S3Fifo {
    fn returning(&self, distance: u64, is_file: bool, sizes: &WorkingsetSizes) -> Option<Change> {
        let sizes = ListSizes {
            inactive_anon: sizes.inactive_anon,
            active_anon: sizes.active_anon,
            inactive_file: sizes.inactive_file,
            active_file: sizes.active_file,
        };
        let change = Change {
            set: OF_MAIN,
            ..Change::default()
        };
        returns_to_main(distance, queues(is_file, &sizes)).then_some(change)
    }

    fn leaves_shadow(&self, word: u64) -> bool {
        word & flag::WORKINGSET == 0
    }

    fn verdict(&self, word: u64) -> Verdict {
        let queue = if word & flag::ACTIVE != 0 {
            Queue::Main
        } else {
            Queue::Small
        };
        match (fate(queue, touches_again(word)), last_touch(word)) {
            (Fate::Round, Some(touch)) => Verdict::Round(touch),
            (Fate::ToMain, _) => Verdict::Activate,
            (Fate::Evicted | Fate::Round, _) => Verdict::Free,
        }
    }

    fn activation(&self) -> Change {
        Change {
            set: OF_MAIN,
            clear: flag::TOUCHED_AGAIN,
            ages_zone: false,
        }
    }

    fn out_of_the_way(&self) -> Change {
        Change {
            set: flag::ACTIVE,
            ..Change::default()
        }
    }

    /// The pages of a kind are due together; each batch decides which queue has its turn.
    fn targets(&self, inputs: &ScanInputs, _lists: &ZoneLists, _is_kswapd: bool) -> ScanTargets {
        let sizes = &inputs.sizes;
        scan_targets(&ScanInputs {
            sizes: ListSizes {
                inactive_anon: sizes.inactive_anon + sizes.active_anon,
                active_anon: 0,
                inactive_file: sizes.inactive_file + sizes.active_file,
                active_file: 0,
            },
            ..*inputs
        })
    }

    fn source(&self, list: List, lists: &ZoneLists) -> Source {
        let is_file = list.is_file();
        let list = match (turn(queues(is_file, &lists.sizes())), is_file) {
            (Queue::Small, true) => List::InactiveFile,
            (Queue::Main, true) => List::ActiveFile,
            (Queue::Small, false) => List::InactiveAnon,
            (Queue::Main, false) => List::ActiveAnon,
        };
        Source {
            list,
            is_judged: true,
        }
    }

    /// While it is the small queue's turn, the pages that pass through it are enough.
    fn gives_up(&self, is_file: bool, sizes: &ListSizes, _refaulted: bool) -> bool {
        turn(queues(is_file, sizes)) == Queue::Main
    }

    fn ages_anon(&self, _sizes: &ListSizes) -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn touches_in_the_small_queue_are_worth_a_place_in_main() {
        let touched = flag::REFERENCED | flag::PROMOTE;
        assert_eq!(S3Fifo.verdict(0), Verdict::Free);
        assert_eq!(S3Fifo.verdict(touched), Verdict::Free);
        assert_eq!(S3Fifo.verdict(touched | flag::FREQUENT), Verdict::Activate);
    }

    #[test]
    fn a_page_returns_to_main_if_it_was_evicted_lately() {
        let sizes = WorkingsetSizes {
            inactive_file: 100,
            active_file: 900,
            ..WorkingsetSizes::default()
        };
        let returns = |distance, is_file| S3Fifo.returning(distance, is_file, &sizes);
        let to_main = Change {
            set: OF_MAIN,
            ..Change::default()
        };
        assert_eq!(returns(900, true), Some(to_main));
        assert_eq!(returns(901, true), None);
        assert_eq!(returns(900, false), None, "there are no anonymous pages");
    }

    #[test]
    fn each_touch_in_main_is_worth_a_round() {
        let mut word = OF_MAIN | flag::REFERENCED | flag::TOUCHED_AGAIN;
        for touch in [flag::CONSTANT, flag::FREQUENT, flag::PROMOTE] {
            assert_eq!(S3Fifo.verdict(word), Verdict::Round(touch));
            word &= !touch;
        }
        assert_eq!(S3Fifo.verdict(word), Verdict::Free);
        assert!(!S3Fifo.leaves_shadow(word));
    }

    #[test]
    fn both_queues_of_a_kind_are_due_together_and_one_has_its_turn() {
        let inputs = ScanInputs {
            sizes: ListSizes {
                inactive_file: 4_096,
                active_file: 40_960,
                ..ListSizes::default()
            },
            priority: 12,
            ..ScanInputs::default()
        };
        let targets = S3Fifo.targets(&inputs, &ZoneLists::default(), false);
        assert_eq!((targets.inactive_file, targets.active_file), (11, 0));
        assert!(S3Fifo.gives_up(true, &inputs.sizes, false));
        let empty = S3Fifo.source(List::InactiveFile, &ZoneLists::default());
        assert_eq!((empty.list, empty.is_judged), (List::InactiveFile, true));
    }
}
