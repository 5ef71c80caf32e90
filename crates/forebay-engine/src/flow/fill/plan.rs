//! What a read should bring in: the page it wants, and the pages that the laws of readahead add.

use crate::parts::Files;
use crate::state::index::key;
use crate::state::object::ObjectState;
use crate::state::stream::{Stream, StreamState};
use forebay_base::units::pages_for;
use forebay_law::reach::{ReachInputs, reach};
use forebay_law::readahead::{ReadaheadDecision, ReadaheadInputs, Window, decide};
use std::ops::Range;

/// The part of the room for new pages that may be on its way from a store. As much again may wait
/// for its readers.
const AHEAD_PART: u64 = 4;

/// What made a handle ask for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) page: u64,
    /// Pages that the caller wants from there on.
    pub(crate) request_pages: u64,
    /// The page is there and carries the readahead mark.
    pub(crate) hit_marker: bool,
}

impl Touch {
    /// A page that is not there.
    pub(crate) fn miss(page: u64, request_pages: u64) -> Touch {
        Touch {
            page,
            request_pages,
            hit_marker: false,
        }
    }

    /// A page that is there and marked.
    pub(crate) fn marked(page: u64, request_pages: u64) -> Touch {
        Touch {
            page,
            request_pages,
            hit_marker: true,
        }
    }
}

/// Pages to read and where the readahead mark goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FillPlan {
    pub(crate) pages: Range<u64>,
    pub(crate) marker: Option<u64>,
    /// Memory is reclaimed for all of its pages, and not only for the needed ones: otherwise the
    /// store would idle while the reader waits.
    pub(crate) is_due: bool,
}

impl FillPlan {
    /// Pages that carry no mark.
    pub(crate) fn unmarked(pages: Range<u64>) -> FillPlan {
        FillPlan {
            pages,
            marker: None,
            is_due: false,
        }
    }
}

impl Files {
    /// What a miss of a page, or a touch of a marked one, should bring in.
    pub(crate) fn plan_fill(
        &self,
        object: &ObjectState,
        stream: &Stream,
        touch: Touch,
    ) -> Option<FillPlan> {
        let (page, hit_marker) = (touch.page, touch.hit_marker);
        let end = pages_for(object.length_bytes());
        let state = stream.state();
        if object.is_anonymous() && touch.request_pages <= 1 {
            return (!hit_marker).then(|| FillPlan::unmarked(self.pages_with(object, page)));
        }
        if object.is_anonymous() || state.is_random {
            let pages = page..(page + touch.request_pages.max(1)).min(end);
            return (!hit_marker).then(|| FillPlan::unmarked(pages));
        }
        let usual = self.settle_reach(object, stream, &state, touch);
        let max_pages = self.longest_window(object, usual, touch.request_pages);
        let inputs = self.readahead_inputs(object, stream, touch, max_pages);
        match decide(state.window, &inputs) {
            ReadaheadDecision::Nothing => None,
            ReadaheadDecision::Exactly { start, pages } => {
                Some(FillPlan::unmarked(start..(start + pages).min(end)))
            }
            ReadaheadDecision::Window { window, marker } => {
                stream.change(|state| state.window = window);
                let Window { start, size, .. } = window;
                Some(FillPlan {
                    pages: start..(start + size).min(end),
                    marker,
                    is_due: usual > state.max_pages,
                })
            }
        }
    }

    fn readahead_inputs(
        &self,
        object: &ObjectState,
        stream: &Stream,
        touch: Touch,
        max_pages: u64,
    ) -> ReadaheadInputs {
        let page = touch.page;
        let end = pages_for(object.length_bytes());
        let is_cached = |page| self.memory.find(key(object.number, page)).is_some();
        ReadaheadInputs {
            page_index: page,
            request_pages: touch.request_pages,
            max_pages,
            previous_page: stream.previous_page(),
            hit_marker: touch.hit_marker,
            first_missing_after: if touch.hit_marker {
                (page + 1..(page + 1 + max_pages).min(end)).find(|&next| !is_cached(next))
            } else {
                None
            },
            cached_before: if touch.hit_marker {
                0
            } else {
                // No further than a stream looks at first: a miss in a file that is mostly resident
                // must not look at all of the file.
                let looked = max_pages.min(self.pages.readahead_pages());
                let before = page.saturating_sub(looked)..page;
                before
                    .rev()
                    .take_while(|&earlier| is_cached(earlier))
                    .count() as u64
            },
        }
    }

    /// How far ahead the stream reads from now on, if this touch continues its last window.
    fn settle_reach(
        &self,
        object: &ObjectState,
        stream: &Stream,
        state: &StreamState,
        touch: Touch,
    ) -> u64 {
        if self.pages.kernel.values.readahead_is_fixed || state.max_pages == 0 {
            return state.max_pages;
        }
        stream.change(|state| state.asked_end = touch.page + touch.request_pages.max(1));
        let Some(has_lost) = goes_on(state, touch) else {
            return state.reach_pages.max(state.max_pages);
        };
        let backing = self.dirty.backing_of(object);
        // The requests of one call are as long as the store takes. What comes after the call is
        // known only when another call continues from there. A miss at the end of the window means
        // that the reader is faster than its marks.
        let is_another_call = touch.page >= state.asked_end;
        let has_waited = is_another_call && (stream.take_waited() || !touch.hit_marker);
        let room = self.memory.room_for_new_pages() / AHEAD_PART;
        let inputs = ReachInputs {
            has_waited,
            has_lost,
            pace: backing.answers.reads.pace(),
            request_pages: self.most_pages_of_a_read(object),
            least_pages: state.max_pages,
            room_pages: room.saturating_sub(backing.answers.reads.in_flight_pages()),
        };
        let next = reach(state.reach_pages.max(state.max_pages), &inputs);
        stream.change(|state| state.reach_pages = next);
        next
    }

    /// The longest window for a read of this many pages. A read that asks for more than a stream
    /// may have in advance gets it in requests as long as the store takes (spec/writeback.md 9).
    fn longest_window(&self, object: &ObjectState, usual: u64, request_pages: u64) -> u64 {
        if usual == 0 || request_pages <= usual {
            return usual;
        }
        usual.max(request_pages.min(self.most_pages_of_a_read(object)))
    }
}

/// Whether a touch continues the last window of a stream, and if so, whether a page of that window
/// is missing: it was evicted before it was read, or memory was too short to read it.
fn goes_on(state: &StreamState, touch: Touch) -> Option<bool> {
    let Window { start, size, .. } = state.window;
    let end = start + size;
    if size == 0 {
        return None;
    }
    if touch.hit_marker || touch.page == end {
        return Some(false);
    }
    (start..end).contains(&touch.page).then_some(true)
}
