//! Lists of page pointers for requests, made at start and used again and again, so that writing
//! a page out never needs memory.

use forebay_base::sync::{Mutex, lock};
use forebay_store::PagePointer;

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

    /// An empty vector: a spare one, or, when more requests are in flight than were planned for
    /// (reads by many callers), a new one that is dropped when it comes back.
    pub(crate) fn take(&self) -> Vec<PagePointer> {
        lock(&self.idle)
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(self.pages))
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
