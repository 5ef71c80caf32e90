use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A file without end, its cached pages and markers, and one stream that reads it.
#[derive(Default)]
struct Reader {
    max_pages: u64,
    window: Window,
    previous: Option<u64>,
    cached: BTreeSet<u64>,
    marked: BTreeSet<u64>,
    decisions: Vec<ReadaheadDecision>,
}

impl Reader {
    fn with_longest(max_pages: u64) -> Reader {
        Reader {
            max_pages,
            ..Reader::default()
        }
    }

    /// Reads `pages` pages from `start`, as a read call does.
    fn read(&mut self, start: u64, pages: u64) {
        for page in start..start + pages {
            let hit_marker = self.marked.remove(&page);
            if hit_marker || !self.cached.contains(&page) {
                let inputs = self.inputs(page, start + pages - page, hit_marker);
                let decision = decide(self.window, &inputs);
                self.carry_out(decision);
            }
            // A window cut short by its longest size serves a long request piece by piece.
            self.cached.insert(page);
            self.previous = Some(page);
        }
    }

    fn inputs(&self, page: u64, request_pages: u64, hit_marker: bool) -> ReadaheadInputs {
        let max = self.max_pages;
        let is_cached = |page: &u64| self.cached.contains(page);
        ReadaheadInputs {
            page_index: page,
            request_pages,
            max_pages: max,
            previous_page: self.previous,
            hit_marker,
            first_missing_after: (page + 1..=page + max).find(|next| !is_cached(next)),
            cached_before: (page.saturating_sub(max)..page)
                .rev()
                .take_while(is_cached)
                .count() as u64,
        }
    }

    fn carry_out(&mut self, decision: ReadaheadDecision) {
        match decision {
            ReadaheadDecision::Nothing => {}
            ReadaheadDecision::Exactly { start, pages } => self.cached.extend(start..start + pages),
            ReadaheadDecision::Window { window, marker } => {
                self.marked
                    .extend(marker.filter(|page| !self.cached.contains(page)));
                self.cached.extend(window.start..window.start + window.size);
                self.window = window;
            }
        }
        self.decisions.push(decision);
    }

    /// The windows so far as start, size, async size.
    fn windows(&self) -> Vec<(u64, u64, u64)> {
        self.decisions
            .iter()
            .filter_map(|decision| match decision {
                ReadaheadDecision::Window { window, .. } => {
                    Some((window.start, window.size, window.async_size))
                }
                _ => None,
            })
            .collect()
    }
}

#[test]
fn vectors_of_the_first_window() {
    let of_32 = [
        (1, 4),
        (2, 4),
        (3, 8),
        (4, 8),
        (5, 16),
        (8, 16),
        (9, 32),
        (32, 32),
    ];
    let of_256 = [
        (1, 4),
        (2, 8),
        (4, 16),
        (8, 32),
        (9, 32),
        (16, 32),
        (32, 64),
        (64, 128),
        (65, 256),
    ];
    for (request, size) in of_32 {
        assert_eq!(initial_size(request, 32), size, "{request} of 32");
    }
    for (request, size) in of_256 {
        assert_eq!(initial_size(request, 256), size, "{request} of 256");
    }
}

#[test]
fn vectors_of_the_next_window() {
    let of_32 = [
        (1, 4),
        (2, 4),
        (4, 8),
        (8, 16),
        (15, 30),
        (16, 32),
        (17, 32),
    ];
    let of_256 = [(4, 16), (8, 32), (15, 60), (16, 32), (128, 256), (129, 256)];
    for (current, size) in of_32 {
        assert_eq!(next_size(current, 32), size, "{current} of 32");
    }
    for (current, size) in of_256 {
        assert_eq!(next_size(current, 256), size, "{current} of 256");
    }
}

#[test]
fn trace_of_single_pages() {
    let mut reader = Reader::with_longest(32);
    (0..=28).for_each(|page| reader.read(page, 1));
    let expected = [
        (0, 4, 3),
        (4, 8, 8),
        (12, 16, 16),
        (28, 32, 32),
        (60, 32, 32),
    ];
    assert_eq!(reader.windows(), expected);
}

#[test]
fn trace_of_longer_reads() {
    let mut fours = Reader::with_longest(32);
    (0..7).for_each(|read| fours.read(read * 4, 4));
    let expected = [(0, 8, 4), (8, 16, 16), (24, 32, 32), (56, 32, 32)];
    assert_eq!(fours.windows(), expected);
    let mut whole = Reader::with_longest(32);
    whole.read(0, 32);
    assert_eq!(whole.windows(), [(0, 32, 16), (32, 32, 32)]);
}

#[test]
fn trace_of_random_then_sequential() {
    let mut reader = Reader::with_longest(32);
    for page in [1_000, 5_000, 5_001, 5_002] {
        reader.read(page, 1);
    }
    let exactly = |start| ReadaheadDecision::Exactly { start, pages: 1 };
    assert_eq!(reader.decisions[..2], [exactly(1_000), exactly(5_000)]);
    assert_eq!(reader.windows(), [(5_001, 4, 3), (5_005, 8, 8)]);
}

#[test]
fn trace_of_two_interleaved_streams() {
    let mut reader = Reader::with_longest(32);
    for page in [1, 1_001, 2, 1_002, 3, 1_003] {
        reader.read(page, 1);
    }
    assert_eq!(reader.windows(), [(3, 3, 1), (1_003, 3, 1)]);
    assert_eq!(reader.decisions.len(), 6);
}

#[test]
fn trace_of_thrashing() {
    let mut reader = Reader::with_longest(32);
    (0..20).for_each(|page| reader.read(page, 1));
    assert_eq!(reader.windows().last(), Some(&(28, 32, 32)));
    reader.cached.split_off(&20);
    reader.marked.clear();
    reader.decisions.clear();
    (20..=32).for_each(|page| reader.read(page, 1));
    assert_eq!(
        reader.windows(),
        [(20, 4, 3), (24, 8, 8), (32, 16, 16), (48, 32, 32)]
    );
}

#[test]
fn a_foreign_marker_goes_on_behind_what_is_cached() {
    let inputs = ReadaheadInputs {
        page_index: 100,
        request_pages: 1,
        max_pages: 32,
        hit_marker: true,
        first_missing_after: Some(104),
        ..ReadaheadInputs::default()
    };
    let window = Window {
        start: 104,
        size: 10,
        async_size: 10,
    };
    assert_eq!(
        decide(Window::default(), &inputs),
        ReadaheadDecision::Window {
            window,
            marker: Some(104)
        }
    );
    for first_missing_after in [None, Some(133)] {
        let full = ReadaheadInputs {
            first_missing_after,
            ..inputs
        };
        assert_eq!(decide(Window::default(), &full), ReadaheadDecision::Nothing);
    }
}

prop_compose! {
    fn any_inputs()(
        page_index in 0_u64..2_000, request_pages in 0_u64..300, max_pages in 0_u64..300,
        previous_page in prop::option::of(0_u64..2_000), hit_marker in any::<bool>(),
        missing in prop::option::of(1_u64..300), cached in 0_u64..300,
    ) -> ReadaheadInputs {
        ReadaheadInputs {
            page_index,
            request_pages,
            max_pages,
            previous_page,
            hit_marker,
            first_missing_after: missing.map(|distance| page_index + distance),
            cached_before: cached.min(max_pages).min(page_index),
        }
    }
}

prop_compose! {
    fn any_window()(start in 0_u64..2_000, size in 0_u64..300, part in 0_u64..300) -> Window {
        Window { start, size, async_size: part.min(size) }
    }
}

proptest! {
    #[test]
    fn condition_1_a_window_keeps_its_bounds(window in any_window(), inputs in any_inputs()) {
        if let ReadaheadDecision::Window { window, marker } = decide(window, &inputs) {
            prop_assert!(window.size <= inputs.max_pages);
            prop_assert!(window.async_size <= window.size);
            prop_assert_eq!(marker.is_some(), window.async_size > 0);
            if let Some(page) = marker {
                prop_assert!((window.start..window.start + window.size).contains(&page));
            }
        }
    }

    #[test]
    fn condition_2_random_reads_read_what_was_asked(
        window in any_window(), inputs in any_inputs(),
    ) {
        prop_assume!(inputs.max_pages > 0);
        if let ReadaheadDecision::Exactly { start, pages } = decide(window, &inputs) {
            prop_assert_eq!(start, inputs.page_index);
            prop_assert_eq!(pages, inputs.request_pages.max(1));
        }
    }

    #[test]
    fn condition_3_the_windows_of_a_stream_adjoin(max in 1_u64..300, request in 1_u64..40) {
        let mut reader = Reader::with_longest(max);
        (0..60).for_each(|read| reader.read(read * request, request));
        for pair in reader.windows().windows(2) {
            prop_assert_eq!(pair[0].0 + pair[0].1, pair[1].0);
        }
    }

    #[test]
    fn condition_4_the_longest_window_is_soon_reached(max in 1_u64..300, request in 1_u64..40) {
        let mut reader = Reader::with_longest(max);
        (0..1_000).for_each(|read| reader.read(read * request, request));
        let before: u64 = reader
            .windows()
            .iter()
            .map(|&(_, size, _)| size)
            .take_while(|&size| size < max)
            .sum();
        prop_assert!(before <= 2 * max);
    }

    #[test]
    fn condition_5_sizes_do_not_shrink(max in 1_u64..2_000, pages in 1_u64..4_000) {
        prop_assert!(initial_size(pages, max) >= pages.min(max));
        prop_assert!(next_size(pages, max) >= pages.min(max));
        prop_assert!(initial_size(pages, max) <= max && next_size(pages, max) <= max);
    }

    #[test]
    fn condition_6_switched_off(window in any_window(), inputs in any_inputs()) {
        let off = ReadaheadInputs { max_pages: 0, ..inputs };
        let expected = if off.hit_marker {
            ReadaheadDecision::Nothing
        } else {
            ReadaheadDecision::Exactly { start: off.page_index, pages: 1 }
        };
        prop_assert_eq!(decide(window, &off), expected);
    }
}

#[test]
fn a_window_that_is_all_ahead_takes_in_the_next_one() {
    let window = |size, async_size| Window {
        start: 5,
        size,
        async_size,
    };
    let of = |index, size, async_size| settled(index, 64, window(size, async_size));
    let grown = ReadaheadDecision::Window {
        window: window(12, 8),
        marker: Some(9),
    };
    assert_eq!(of(5, 4, 4), grown);
    let unmarked = ReadaheadDecision::Window {
        window: window(4, 0),
        marker: None,
    };
    assert_eq!(of(5, 4, 0), unmarked);
}

#[test]
fn a_request_longer_than_a_window_begins_one_and_an_empty_one_counts_as_a_page() {
    let asks = |page_index, request_pages| ReadaheadInputs {
        page_index,
        request_pages,
        max_pages: 32,
        ..ReadaheadInputs::default()
    };
    let decided = |inputs| decide(Window::default(), &inputs);
    assert_eq!(decided(asks(1_000, 33)), begun_window(&asks(1_000, 33)));
    assert_eq!(decided(asks(1_000, 32)), by_context(&asks(1_000, 32)));
    assert_ne!(begun_window(&asks(1_000, 32)), by_context(&asks(1_000, 32)));
    assert_eq!(decided(asks(0, 0)), decided(asks(0, 1)));
}
