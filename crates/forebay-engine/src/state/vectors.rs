//! Lists of page pointers for requests, made at start and used again and again, so that writing
//! a page out never needs memory.

use forebay_base::sync::{Mutex, lock};
use forebay_store::PagePointer;

/// Pages of a short vector: enough for a write to one place, and cheap enough to have one for each
/// write that may be under way.
const SHORT_PAGES: usize = 8;

#[derive(Debug)]
pub(crate) struct IoVectors {
    idle: Mutex<Vec<Vec<PagePointer>>>,
    count: usize,
    pages: usize,
}

impl IoVectors {
    pub(crate) fn new(count: usize, pages: usize) -> IoVectors {
        let idle = (0..count).map(|_| Vec::with_capacity(pages)).collect();
        IoVectors {
            idle: Mutex::new(idle),
            count,
            pages,
        }
    }

    /// Pages that one vector holds without growing.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// Pages of the vectors that a store has to itself. They are shorter than these, so that the
    /// two kinds can be told apart.
    pub(crate) fn short_pages(&self) -> usize {
        (self.pages / 4).clamp(1, SHORT_PAGES)
    }

    /// Half the length of these vectors: the longest that can still be told apart from them.
    pub(crate) fn half_pages(&self) -> usize {
        (self.pages / 2).max(1)
    }

    /// The number of vectors, idle or not.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// An empty vector, if one is idle.
    pub(crate) fn take_idle(&self) -> Option<Vec<PagePointer>> {
        lock(&self.idle).pop()
    }

    /// An empty vector: an idle one, or, when more requests are in flight than were planned for
    /// (reads by many callers), a new one that is dropped when it comes back.
    pub(crate) fn take(&self) -> Vec<PagePointer> {
        self.take_idle()
            .unwrap_or_else(|| Vec::with_capacity(self.pages))
    }

    /// Whether `vector` is too short to be one of these.
    pub(crate) fn is_too_short(&self, vector: &Vec<PagePointer>) -> bool {
        vector.capacity() < self.pages
    }

    /// Takes a vector back.
    pub(crate) fn give_back(&self, mut vector: Vec<PagePointer>) {
        vector.clear();
        let mut idle = lock(&self.idle);
        if idle.len() < self.count && vector.capacity() >= self.pages {
            idle.push(vector);
        }
    }
}
