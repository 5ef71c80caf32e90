use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

use super::*;

/// Looks at a page that nobody touches until it is evicted. Returns how many it took.
fn looks(mut queue: Queue, mut frequency: u64) -> u64 {
    for looks in 1.. {
        match fate(queue, frequency) {
            Fate::Evicted => return looks,
            Fate::ToMain => (queue, frequency) = (Queue::Main, 0),
            Fate::Round => frequency -= 1,
        }
    }
    unreachable!("a page that is not touched is evicted")
}

/// The three queues with pages in them, by the law.
#[derive(Default)]
struct Cache {
    pages: u64,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    frequency: BTreeMap<u64, u64>,
    /// Evictions from the small queue, and at which of them a page went.
    evictions: u64,
    evicted_at: BTreeMap<u64, u64>,
}

impl Cache {
    fn of(pages: u64) -> Cache {
        Cache {
            pages,
            ..Cache::default()
        }
    }

    fn sizes(&self) -> QueueSizes {
        QueueSizes {
            small: self.small.len() as u64,
            main: self.main.len() as u64,
        }
    }

    fn evict(&mut self) {
        while self.frequency.len() as u64 >= self.pages {
            let turn = turn(self.sizes());
            let queue = match turn {
                Queue::Small => &mut self.small,
                Queue::Main => &mut self.main,
            };
            let page = queue.pop_back().expect("condition 1: it has a page");
            let frequency = self.frequency[&page];
            match fate(turn, frequency) {
                Fate::Evicted => {
                    self.frequency.remove(&page);
                    if turn == Queue::Small {
                        self.evicted_at.insert(page, self.evictions);
                        self.evictions += 1;
                    }
                }
                Fate::ToMain => {
                    self.frequency.insert(page, 0);
                    self.main.push_front(page);
                }
                Fate::Round => {
                    self.frequency.insert(page, frequency - 1);
                    self.main.push_front(page);
                }
            }
        }
    }

    /// Says whether the page was there.
    fn touch(&mut self, page: u64) -> bool {
        if let Some(frequency) = self.frequency.get_mut(&page) {
            *frequency = (*frequency + 1).min(MOST_FREQUENT);
            return true;
        }
        self.evict();
        let evicted_at = self.evicted_at.remove(&page);
        let comes_back = |at| returns_to_main(self.evictions - at, self.sizes());
        if evicted_at.is_some_and(comes_back) {
            self.main.push_front(page);
        } else {
            self.small.push_front(page);
        }
        self.frequency.insert(page, 0);
        false
    }
}

#[test]
fn a_page_that_came_back_stays_while_pages_pass_that_are_read_once() {
    let mut cache = Cache::of(100);
    (0..100).for_each(|page| assert!(!cache.touch(page)));
    // Page 0 is evicted, wanted again, and then for long not.
    assert!(!cache.touch(100));
    assert!(!cache.touch(0));
    (1_000..1_500).for_each(|page| assert!(!cache.touch(page)));
    assert!(cache.touch(0));
}

#[test]
fn a_scan_leaves_what_was_used_three_times() {
    let mut cache = Cache::of(100);
    for _ in 0..3 {
        (0..80).for_each(|page| {
            cache.touch(page);
        });
    }
    (1_000..2_000).for_each(|page| {
        cache.touch(page);
    });
    assert_eq!((0..80).filter(|&page| cache.touch(page)).count(), 80);
}

#[test]
fn what_was_read_once_is_evicted_in_the_order_in_which_it_came() {
    let mut cache = Cache::of(10);
    (0..25).for_each(|page| assert!(!cache.touch(page)));
    assert_eq!(cache.small, (15..25).rev().collect::<VecDeque<_>>());
}

prop_compose! {
    fn any_sizes()(small in any::<u32>(), main in any::<u32>()) -> QueueSizes {
        QueueSizes { small: u64::from(small), main: u64::from(main) }
    }
}

fn any_queue() -> impl Strategy<Value = Queue> {
    prop_oneof![Just(Queue::Small), Just(Queue::Main)]
}

proptest! {
    #[test]
    fn condition_1_the_queue_looked_at_has_a_page(sizes in any_sizes()) {
        let looked_at = |sizes: QueueSizes| match turn(sizes) {
            Queue::Small => sizes.small,
            Queue::Main => sizes.main,
        };
        for sizes in [
            sizes,
            QueueSizes { small: 0, ..sizes },
            QueueSizes { main: 0, ..sizes },
        ] {
            prop_assert!(looked_at(sizes) > 0 || sizes == QueueSizes::default());
        }
    }

    #[test]
    fn condition_2_a_scan_costs_main_nothing(main in 1_u64..2_000, scan in 1_u64..2_000) {
        let mut cache = Cache::of(main + main / 9 + 1);
        for page in 0..main {
            cache.frequency.insert(page, 0);
            cache.main.push_front(page);
        }
        for page in 0..scan {
            cache.touch(1_000_000 + page);
        }
        prop_assert_eq!(cache.main.len() as u64, main);
        prop_assert_eq!(cache.main.back(), Some(&0));
    }

    #[test]
    fn condition_3_a_page_leaves_the_small_queue_at_the_first_look(
        frequency in 0..=MOST_FREQUENT,
    ) {
        let expected = if frequency > 1 { Fate::ToMain } else { Fate::Evicted };
        prop_assert_eq!(fate(Queue::Small, frequency), expected);
    }

    #[test]
    fn condition_4_what_is_not_touched_goes_after_four_looks(
        queue in any_queue(), frequency in 0..=MOST_FREQUENT,
    ) {
        let most = match queue {
            Queue::Small => 2,
            Queue::Main => 4,
        };
        prop_assert!(looks(queue, frequency) <= most);
    }

    #[test]
    fn condition_5_a_touch_never_makes_a_page_go_sooner(
        queue in any_queue(), frequency in 0..MOST_FREQUENT,
    ) {
        prop_assert!(looks(queue, frequency + 1) >= looks(queue, frequency));
    }

    #[test]
    fn condition_6_sooner_is_never_worse(
        distance in any::<u32>(), less in any::<u32>(), sizes in any_sizes(),
    ) {
        let distance = u64::from(distance);
        if returns_to_main(distance, sizes) {
            prop_assert!(returns_to_main(distance.saturating_sub(u64::from(less)), sizes));
        }
    }
}

#[test]
fn one_touch_keeps_a_page_in_main_for_a_round() {
    assert_eq!(fate(Queue::Main, 0), Fate::Evicted);
    assert_eq!(fate(Queue::Main, 1), Fate::Round);
}

#[test]
fn a_page_returns_to_main_within_nine_tenths_of_the_pages() {
    let sizes = QueueSizes {
        small: 15,
        main: 90,
    };
    // 105 less their tenth.
    assert!(returns_to_main(95, sizes));
    assert!(!returns_to_main(96, sizes));
}
