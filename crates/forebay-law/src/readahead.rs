//! Which pages to read before they are asked for.
//!
//! # Question
//!
//! One read has missed, or has touched the marker of the last window: where does the next window
//! start, how long is it, and which of its pages carries the marker that asks for the one after?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `window` | pages | `async_size <= size <= max_pages` | the stream's state |
//! | `page_index` | page | 0 and up | the read |
//! | `request_pages` | pages | 1 and up | the read |
//! | `max_pages` | pages | 0 (off) and up; 32 by default | setting, advice, or a longer request |
//! | `previous_page` | page | none at first | the stream |
//! | `first_missing_after`, `cached_before` | page, pages | within `max_pages` | the file's index |
//! | [`ReadaheadDecision`] | | | output |
//!
//! # Formula
//!
//! ```text
//! initial(req) = P2(req) * 4  if P2(req) <= max / 32   (P2: next power of two)
//!                P2(req) * 2  if P2(req) <= max / 4
//!                max          otherwise
//! next(size)   = 4 * size if size < max / 16;  2 * size if size <= max / 2;  max otherwise
//!
//! the first that holds:
//!  1  page 0               start := 0; size := initial(req); marker after the request
//!  2  the marker, or end   start := end; size := next(size); marker on the first page
//!  3  foreign marker       start := first missing page; size := next(distance + req)
//!  4  request above max    as 1, at the page
//!  5  page follows last    as 1, at the page
//!  6  more than req cached before it
//!                          start := page; size := cached before + req; marker on the last page
//!  7  otherwise            exactly the request, state untouched
//! a marker on the page that is being read: the window takes the next one in
//! ```
//!
//! # Conditions
//!
//! 1. A window is no longer than `max_pages`, and its marker is inside it.
//! 2. A read that is not part of a stream reads exactly what was asked for.
//! 3. The windows of a sequential reader adjoin: no page twice, none left out.
//! 4. The windows before the longest one hold together no more than twice its pages.
//! 5. A first window holds the request or is the longest; a next one is no shorter than the last.
//! 6. Switched off, it reads one page for a miss and nothing for a marker.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/readahead.svg")]
//!
//! The size of the next window over that of the last, for longest windows of 32 and 128 pages.
//!
//! # Example
//!
//! With the usual 128 KiB (32 pages), a reader of single pages starts with 4 pages of which one
//! was asked for, and the marker on the second asks for 8 more while the reader still has three to
//! go.
//!
//! ```
//! use forebay_law::readahead::{ReadaheadDecision, ReadaheadInputs, Window, decide};
//!
//! let mut inputs = ReadaheadInputs { request_pages: 1, max_pages: 32, ..Default::default() };
//! let first = Window { start: 0, size: 4, async_size: 3 };
//! assert_eq!(
//!     decide(Window::default(), &inputs),
//!     ReadaheadDecision::Window { window: first, marker: Some(1) }
//! );
//! inputs.page_index = 1;
//! inputs.hit_marker = true;
//! let second = Window { start: 4, size: 8, async_size: 8 };
//! assert_eq!(
//!     decide(first, &inputs),
//!     ReadaheadDecision::Window { window: second, marker: Some(4) }
//! );
//! ```
//!
//! # Why not the simpler one
//!
//! Always reading the longest window makes a random reader read 32 pages for each one it wants and
//! throws useful pages out of the cache. Reading the next window only on a miss stops the reader
//! once for each window; the marker asks for it while there is still something to read. A detector
//! with one position per handle sees two interleaved streams as random; the cached pages before a
//! miss are a memory of streams that needs no state.
//!
//! # Edges
//!
//! At the end of the file the caller clips the window. Pages already cached are skipped; if the
//! marker's page is among them there is no marker and the next window waits for a miss. A window
//! that was evicted before it was used shows as a miss inside it: the stream starts small again.
//! `next` is not monotone just below `max / 16` (15 gives 60 and 16 gives 32 of 256); this is kept,
//! since traces of other systems show it. A request of 0 pages counts as one.
//!
//! # Lineage
//!
//! Linux: on-demand read-ahead (2.6.23), context read-ahead (2.6.31).

/// What a stream has read ahead. Pages `start .. start + size`; the page `start + size -
/// async_size` carries the marker that asks for the next window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First page of the window.
    pub start: u64,
    /// Pages in the window.
    pub size: u64,
    /// Pages of the window from the marker on.
    pub async_size: u64,
}

/// One access that missed, or that touched a marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadaheadInputs {
    /// The page that is wanted.
    pub page_index: u64,
    /// Pages wanted from there on, at least 1.
    pub request_pages: u64,
    /// The longest window, in pages; 0 switches read-ahead off.
    pub max_pages: u64,
    /// The last page this stream read; none if it has read nothing.
    pub previous_page: Option<u64>,
    /// Whether the page is cached and carries the marker; otherwise it is missing.
    pub hit_marker: bool,
    /// The first page after `page_index` that is not cached, if one was found within `max_pages`.
    pub first_missing_after: Option<u64>,
    /// How many pages just before `page_index` are cached without a gap, at most `max_pages`.
    pub cached_before: u64,
}

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadaheadDecision {
    /// Nothing.
    Nothing,
    /// This window, which also becomes the state of the stream.
    Window {
        /// The window to read.
        window: Window,
        /// The page that gets the marker.
        marker: Option<u64>,
    },
    /// These pages and no more; the state of the stream stays as it is.
    Exactly {
        /// First page.
        start: u64,
        /// Number of pages.
        pages: u64,
    },
}

/// The size of a stream's first window, for a request of `request` pages.
pub fn initial_size(request: u64, max: u64) -> u64 {
    if request >= max {
        return max;
    }
    let rounded = request.next_power_of_two();
    if rounded <= max / 32 {
        rounded * 4
    } else if rounded <= max / 4 {
        rounded * 2
    } else {
        max
    }
}

/// The size of the window that follows one of `current` pages.
pub fn next_size(current: u64, max: u64) -> u64 {
    if current < max / 16 {
        current * 4
    } else if current <= max / 2 {
        current * 2
    } else {
        max
    }
}

/// What one access reads; `window` is what the stream read ahead last.
pub fn decide(window: Window, inputs: &ReadaheadInputs) -> ReadaheadDecision {
    let inputs = &ReadaheadInputs {
        request_pages: inputs.request_pages.max(1),
        ..*inputs
    };
    let index = inputs.page_index;
    let max = inputs.max_pages;
    if max == 0 {
        return if inputs.hit_marker {
            ReadaheadDecision::Nothing
        } else {
            ReadaheadDecision::Exactly {
                start: index,
                pages: 1,
            }
        };
    }
    if index == 0 {
        return begun_window(inputs);
    }
    let end = window.start.saturating_add(window.size);
    if index == end || index == end.saturating_sub(window.async_size) {
        let size = next_size(window.size, max);
        return grown(index, max, end, size);
    }
    if inputs.hit_marker {
        return foreign_marker(inputs);
    }
    if inputs.request_pages > max || follows_previous(inputs) {
        return begun_window(inputs);
    }
    by_context(inputs)
}

/// A new stream at the wanted page.
fn begun_window(inputs: &ReadaheadInputs) -> ReadaheadDecision {
    let size = initial_size(inputs.request_pages, inputs.max_pages);
    let async_size = match size.checked_sub(inputs.request_pages) {
        None | Some(0) => size,
        Some(beyond) => beyond,
    };
    let window = Window {
        start: inputs.page_index,
        size,
        async_size,
    };
    settled(inputs.page_index, inputs.max_pages, window)
}

/// A window whose every page is ahead of the reader.
fn grown(index: u64, max: u64, start: u64, size: u64) -> ReadaheadDecision {
    let window = Window {
        start,
        size,
        async_size: size,
    };
    settled(index, max, window)
}

/// A marker that the state does not explain: another stream shares the handle. Go on after what is
/// cached.
fn foreign_marker(inputs: &ReadaheadInputs) -> ReadaheadDecision {
    let ahead = inputs
        .first_missing_after
        .and_then(|missing| Some((missing, missing.checked_sub(inputs.page_index)?)));
    match ahead {
        Some((missing, distance)) if distance <= inputs.max_pages => {
            let read = distance.saturating_add(inputs.request_pages);
            let size = next_size(read, inputs.max_pages);
            grown(inputs.page_index, inputs.max_pages, missing, size)
        }
        _ => ReadaheadDecision::Nothing,
    }
}

/// Whether the miss is at the last page read or just after it.
fn follows_previous(inputs: &ReadaheadInputs) -> bool {
    inputs.previous_page.is_some_and(|previous| {
        inputs
            .page_index
            .checked_sub(previous)
            .is_some_and(|step| step <= 1)
    })
}

/// A miss that only the cached pages before it can explain.
fn by_context(inputs: &ReadaheadInputs) -> ReadaheadDecision {
    let request = inputs.request_pages;
    if inputs.cached_before <= request {
        return ReadaheadDecision::Exactly {
            start: inputs.page_index,
            pages: request,
        };
    }
    let history = if inputs.cached_before >= inputs.page_index {
        inputs.cached_before.saturating_mul(2)
    } else {
        inputs.cached_before
    };
    let window = Window {
        start: inputs.page_index,
        size: history.saturating_add(request).min(inputs.max_pages),
        async_size: 1,
    };
    settled(inputs.page_index, inputs.max_pages, window)
}

/// If the reader is on the marker of the new window, that marker would be used up at once, so the
/// window includes the next one.
fn settled(index: u64, max: u64, mut window: Window) -> ReadaheadDecision {
    if index == window.start && window.size == window.async_size {
        let next = next_size(window.size, max);
        if window.size.saturating_add(next) <= max {
            window.async_size = next;
            window.size += next;
        } else {
            window.size = max;
            window.async_size = max / 2;
        }
    }
    let marker = (window.async_size > 0)
        .then(|| window.start.saturating_add(window.size - window.async_size));
    ReadaheadDecision::Window { window, marker }
}

#[cfg(test)]
#[path = "readahead_tests.rs"]
mod tests;
