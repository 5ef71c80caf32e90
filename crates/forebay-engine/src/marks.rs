//! Marks: which error branches this cache has taken, for tests that have to reach them all.
//!
//! A mark costs an addition where something went wrong, and nothing anywhere else.

use forebay_base::sync::atomic::{AtomicU32, Ordering};

macro_rules! marks {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)*) => {
        /// A branch of the engine that is taken when something goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mark {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Mark {
            /// Every mark.
            pub const ALL: &'static [Mark] = &[$(Mark::$variant,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mark::$variant => $name,)*
                }
            }
        }
    };
}

marks! {
    /// No frame came free in time.
    AllocNoFrames => "alloc_no_frames",
    /// A frame was asked for while the cache closed.
    AllocClosed => "alloc_closed",
    /// A caller for which nothing could be reclaimed waited for a frame to come free.
    AllocWaited => "alloc_waited",
    /// The previous commit took too long.
    CommitTurnOverdue => "commit_turn_overdue",
    /// The commit itself took too long.
    CommitOverdue => "commit_overdue",
    /// The store did not take the length before a commit.
    CommitLengthFailed => "commit_length_failed",
    /// The store refused a commit.
    CommitFailed => "commit_failed",
    /// A commit ended because the store had started anew.
    CommitForgotten => "commit_forgotten",
    /// Unstable pages are dirty again.
    CommitRedirtied => "commit_redirtied",
    /// A commit waited for a page that was held.
    CommitPageBusy => "commit_page_busy",
    /// A fill met a resize.
    FillMetResize => "fill_met_resize",
    /// A fill found its pages cut off.
    FillCut => "fill_cut",
    /// A fill left out pages that nobody waits for, because memory was short.
    FillShort => "fill_short",
    /// The store panicked when a request was submitted.
    StorePanicked => "store_panicked",
    /// The store, or a wrapper of it, dropped a request or panicked with it.
    StoreDropped => "store_dropped",
    /// A cache of the program panicked when reclaim asked it.
    ShrinkerPanicked => "shrinker_panicked",
    /// The store failed a read.
    ReadFailed => "read_failed",
    /// The store failed a read of swap.
    SwapReadFailed => "swap_read_failed",
    /// A page was read again, alone.
    ReadRetried => "read_retried",
    /// The second try failed as well.
    ReadGivenUp => "read_given_up",
    /// A page was cut off while a caller was about to hold it.
    HoldCut => "hold_cut",
    /// The store failed a write.
    WriteFailed => "write_failed",
    /// The store failed a write of a page that was dirtied again meanwhile.
    WriteFailedDirtyAgain => "write_failed_dirty_again",
    /// The store failed a write of swap.
    SwapWriteFailed => "swap_write_failed",
    /// Reclaim left a page that swap refused until swap is asked again.
    SwapPutOff => "swap_put_off",
    /// No swap slot was left.
    SwapFull => "swap_full",
    /// A write, cut or discard ended past what can be addressed.
    TooFar => "too_far",
    /// A caller tried to change an object that was opened for reading.
    ReadOnly => "read_only",
    /// A caller tried to change something in a closed cache.
    Closed => "closed",
    /// A writer was refused because too many writes have failed.
    TooManyFailed => "too_many_failed",
    /// A writer's pause took longer than a store may stay silent.
    PauseUnanswered => "pause_unanswered",
    /// A writer left its pause because nothing can be written.
    PauseUseless => "pause_useless",
    /// A writer found its page held for too long.
    WriteHeld => "write_held",
    /// A writer met a resize.
    WriteMetResize => "write_met_resize",
    /// A writer was overtaken by another that inserted its page.
    WriteOvertaken => "write_overtaken",
    /// A writer found no room to note another dirty page.
    NoDirtyBlock => "no_dirty_block",
    /// A writer found no such room, and none came in time.
    NoDirtyBlockInTime => "no_dirty_block_in_time",
    /// A flusher found a page that was held.
    WriteoutBusy => "writeout_busy",
    /// A flusher found a page clean or gone.
    WriteoutClean => "writeout_clean",
    /// A flusher found a page past the end.
    WriteoutCut => "writeout_cut",
    /// A flusher left an object whose failed writes are not due yet.
    FlushPutOff => "flush_put_off",
    /// The writes of a sync were not answered in time.
    SyncWritesUnanswered => "sync_writes_unanswered",
    /// The commit of a sync was not answered in time.
    SyncCommitUnanswered => "sync_commit_unanswered",
    /// The store started anew so often that a sync gave up.
    SyncForgottenTooOften => "sync_forgotten_too_often",
    /// A page of a sync was not let go in time.
    SyncPageUnanswered => "sync_page_unanswered",
    /// A sync waited for a page that is being cut off.
    SyncMetCut => "sync_met_cut",
    /// A sync reported a failure to its handle.
    SyncTold => "sync_told",
    /// A cut met a guard that was held for too long.
    CutHeld => "cut_held",
    /// The store refused a cut.
    CutFailed => "cut_failed",
    /// A cut tried a busy page again.
    CutTriedAgain => "cut_tried_again",
    /// A resize was not finished in time and goes on.
    ResizeOverdue => "resize_overdue",
    /// The store refused a discard.
    DiscardFailed => "discard_failed",
    /// The store cannot discard: zeros were written.
    DiscardUnsupported => "discard_unsupported",
    /// A caller waited too long for a page.
    PageOverdue => "page_overdue",
    /// A caller waited too long for a resize.
    ResizeWaitOverdue => "resize_wait_overdue",
    /// Anonymous memory could not be dropped at once.
    AnonymousDropRetried => "anonymous_drop_retried",
}

const COUNT: usize = Mark::ALL.len();

/// Bytes of all marks of one cache.
pub(crate) const BYTES: usize = size_of::<Marks>();

/// How often each branch was taken.
#[derive(Debug)]
pub(crate) struct Marks([AtomicU32; COUNT]);

impl Marks {
    pub(crate) fn new() -> Marks {
        Marks(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    #[cold]
    pub(crate) fn reach(&self, mark: Mark) {
        self.0[mark as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reached(&self, mark: Mark) -> u32 {
        self.0[mark as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_its_own_arm() {
        let marks = Marks::new();
        marks.reach(Mark::CutHeld);
        marks.reach(Mark::CutHeld);
        assert_eq!(marks.reached(Mark::CutHeld), 2);
        assert_eq!(marks.reached(Mark::CutFailed), 0);
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = Mark::ALL.iter().map(|m| m.name()).collect();
        assert_eq!(names.len(), COUNT);
    }
}
