//! What a pass asks of caches beside the pages (spec/reclaim.md 2.11): the program's own caches,
//! and the cache's own records of closed files.

use crate::flow::reclaim::asking::Asked;
use crate::parts::Reclaim;
use forebay_law::shrink::{ShrinkInputs, demand};

impl Reclaim {
    /// Asks every non-page cache for its part, after a pass of this priority.
    pub fn shrink_caches(&self, priority: u32) {
        let by_priority = |asked: &Asked| {
            demand(&ShrinkInputs {
                freeable: asked.freeable,
                deferred: asked.deferred,
                seeks: asked.seeks,
                priority,
            })
        };
        self.ask_shrinkers(by_priority);
        if self.pages.are_objects_charged() {
            self.ask_closed_files(by_priority);
        }
    }
}
