//! Clean pages that are taken out of the cache before reclaim reaches them.

use crate::parts::{Capacity, Dirty, Pages};
use crate::state::frame::{Refused, flag};
use crate::state::index::key;
use crate::state::object::ObjectState;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::pages_for;
use std::ops::Range;

/// What became of the pages of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// They are free now.
    pub freed: u64,
    /// They are still there: dirty, on their way to the store, or held.
    pub kept: u64,
}

/// What keeps a page from being dropped.
const KEPT: u64 = flag::DIRTY | flag::WRITEBACK | flag::UNSTABLE;

impl Pages {
    /// Drops the clean pages of a range and marks the others, which are dropped as soon as they are
    /// written.
    pub(crate) fn drop_clean(&self, object: &ObjectState, pages: Range<u64>) -> Dropped {
        let mut dropped = Dropped::default();
        for page in self.memory.pages_to_visit(object, pages) {
            let key = key(object.number, page);
            // A caller that forgets a file relies on there being no page, because the number goes
            // to another file.
            let Some(frame) = self.memory.find_surely(key) else {
                continue;
            };
            match self.memory.frames.exclude(frame, key, KEPT) {
                Ok(hold) => {
                    self.memory.release_clean(hold);
                    dropped.freed += 1;
                }
                Err(Refused::Busy) => {
                    // The hold makes sure that the mark is not set on a frame that was freed
                    // meanwhile. A page that is only held gets none: no write of it is to end, and
                    // nothing else takes the mark away.
                    if let Ok(hold) = self.memory.frames.hold(frame, key)
                        && hold.word() & KEPT != 0
                    {
                        self.memory.frames.set(hold.frame(), flag::RECLAIM);
                    }
                    dropped.kept += 1;
                }
                Err(Refused::Gone) => {}
            }
        }
        dropped
    }

    /// Drops the clean pages of a file.
    pub fn drop_file(&self, file: &ObjectState) -> Dropped {
        self.drop_clean(file, 0..pages_for(file.length_bytes()))
    }
}

impl Capacity {
    /// Drops the pages of a closed file if none is dirty, in flight or held. True if no page is
    /// left.
    pub fn forget_object(&self, file: &ObjectState) -> bool {
        // Read what is owed only when nothing is under way: a request records what it leaves to be
        // committed before it counts as ended.
        is_idle(file) && !self.dirty.is_owed(file) && self.pages.drop_file(file).kept == 0
    }
}

impl Dirty {
    /// Whether a `Cache::sync` still has to commit what was written, or to give the store a length.
    pub(crate) fn is_owed(&self, file: &ObjectState) -> bool {
        file.length.unsynced.load(Ordering::Acquire)
            || self.backing_of(file).changes_to_commit(file).is_some()
    }
}

/// Whether a file has nothing to write and no request under way.
pub fn is_idle(file: &ObjectState) -> bool {
    lock(&file.dirty).is_clean() && !file.has_requests()
}
