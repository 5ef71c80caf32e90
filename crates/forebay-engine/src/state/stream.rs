//! What one handle has read lately: its readahead window and where its last read ended.

use forebay_base::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
    lock,
};
use forebay_law::readahead::Window;

/// No read yet.
const NOWHERE: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Stream {
    state: Mutex<StreamState>,
    previous_page: AtomicU64,
    /// A marked page that a read has touched and that readahead has not followed yet, plus one;
    /// else 0.
    marker: AtomicU64,
    /// A read has waited for a page that was already on its way.
    has_waited: AtomicBool,
}

/// What the readahead law remembers of a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamState {
    pub(crate) window: Window,
    /// Largest window of this handle before anything was measured, pages.
    pub(crate) max_pages: u64,
    /// Largest window that follows from the measurements, pages.
    pub(crate) reach_pages: u64,
    /// The end of the last call for which reads were planned, pages.
    pub(crate) asked_end: u64,
    /// No readahead: each miss reads what was asked for.
    pub(crate) is_random: bool,
}

impl Stream {
    pub(crate) fn new(max_pages: u64) -> Stream {
        let state = StreamState {
            window: Window::default(),
            max_pages,
            reach_pages: 0,
            asked_end: 0,
            is_random: false,
        };
        Stream {
            state: Mutex::new(state),
            previous_page: AtomicU64::new(NOWHERE),
            marker: AtomicU64::new(0),
            has_waited: AtomicBool::new(false),
        }
    }

    /// The page where the last read ended.
    pub(crate) fn previous_page(&self) -> Option<u64> {
        let page = self.previous_page.load(Ordering::Relaxed);
        (page != NOWHERE).then_some(page)
    }

    #[inline]
    pub(crate) fn set_previous_page(&self, page: u64) {
        self.previous_page.store(page, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> StreamState {
        *lock(&self.state)
    }

    pub(crate) fn change(&self, act: impl FnOnce(&mut StreamState)) {
        act(&mut lock(&self.state));
    }

    pub(crate) fn marker_touched(&self, page: u64) {
        self.marker.store(page + 1, Ordering::Relaxed);
    }

    pub(crate) fn take_marker(&self) -> Option<u64> {
        if self.marker.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.marker.swap(0, Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn has_marker(&self) -> bool {
        self.marker.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn note_waited(&self) {
        self.has_waited.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_waited(&self) -> bool {
        self.has_waited.swap(false, Ordering::Relaxed)
    }
}
