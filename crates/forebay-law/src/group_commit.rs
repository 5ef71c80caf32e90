//! When syncs of one object share writes and commits, and when a flusher commits while it writes.
//!
//! # Question
//!
//! A commit covers all writes that have ended, whoever made them. Does a sync wait for the writes
//! and the commit of another one, and for how long? And when does a commit begin while the flusher
//! still writes, so that the pages of a store that may forget become free?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `others` | callers | 0 and up | those in a sync of the object |
//! | `dirty_pages` | pages | 0 and up | the dirty index of the object |
//! | `is_first_in_flight` | | yes or no | the first page that the sync has to write |
//! | `is_commit_under_way` | | yes or no | the object's line of commits |
//! | `makes_durable` | | yes or no | a write of the store was durable when it ended |
//! | `waits` | | 0 to 8 | how often this sync has waited already |
//! | [`SyncWait`] | | | output |
//! | `uncommitted_pages` | pages | 0 and up | pages of the store that wait for a commit |
//! | `to_free_pages` | pages | 0 and up | its pages that are dirty or under writeback |
//! | `step_pages` | pages | 1 and up | what is worth a commit, of the flusher |
//! | `took_ns` | ns | 0 and up | the last commit of the store |
//! | rest | ns | 0 and up | output |
//!
//! # Formula
//!
//! ```text
//! shares a sync        = others >= 4
//! waits for the commit = under way, waits = 0, dirty <= 2, and the store makes writes durable
//! waits for the page   = first page in flight, waits < 8, and dirty <= 32
//! relies on another    : 20 ms at most, which are two looks
//! flusher commits      = uncommitted >= step, and to free >= 3 * step
//! rest after a commit  = 8 * took
//! short turn           = turn <= 300 ms of the store's rate
//! ```
//!
//! # Conditions
//!
//! 1. Of callers that come one after the other, at most four sync by themselves.
//! 2. A sync waits eight times at most before it writes. For a commit it waits once at most, and
//!    before all other waits.
//! 3. A sync waits only for what is under way, and not at all if more than 32 pages are dirty.
//! 4. Fewer dirty pages never make a sync stop waiting.
//! 5. The commits of a flusher that writes take at most a ninth of its store's time.
//! 6. More pages to commit or to free never keep a commit back.
//! 7. A turn that is short is so at every higher rate.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/group_commit.svg")]
//!
//! How many commits a second begin while the flusher writes, at most, over the time that one
//! takes; and how many there would be if one followed the other.
//!
//! # Example
//!
//! A thread appends a record and syncs while the record before is being written to the same page.
//! Its sync waits for that write, and then the page is one request, which the store makes durable.
//! On a disk that takes 20 ms for a commit, the flusher's next one begins 160 ms later.
//!
//! ```
//! use forebay_law::group_commit::{SyncInputs, SyncWait, rest_ns, wait_before_writing};
//!
//! let mut inputs = SyncInputs {
//!     dirty_pages: 1,
//!     is_first_in_flight: true,
//!     is_commit_under_way: false,
//!     makes_durable: true,
//!     waits: 0,
//! };
//! assert_eq!(wait_before_writing(&inputs), SyncWait::FirstPage);
//! (inputs.is_first_in_flight, inputs.waits) = (false, 1);
//! assert_eq!(wait_before_writing(&inputs), SyncWait::Nothing);
//! assert_eq!(rest_ns(20_000_000), 160_000_000);
//! ```
//!
//! # Why not the simpler one
//!
//! If all syncs are shared, four threads on one file lose a third of their rate: their writes and
//! flushes no longer overlap. If none is, 16 threads each look at the pages of all, and are woken
//! for the writes and again for the commit. A sync that takes what it can get, instead of waiting
//! for its first page, has to put that page back, and writes the rest in a request that needs a
//! commit. A sync of any size that waits for a commit costs threads that overwrite pages here and
//! there a quarter of their rate. Commits without a rest take a slow disk away from its writes.
//!
//! # Edges
//!
//! A page of a store that may forget never counts as in flight: its tag stays until a commit, and
//! it can be taken before that. A program may leave a caller alone in the middle of a sync, so the
//! others rely on it for a bounded time. A commit under way is no such caller: it has the time that
//! a store may take. No turn of a store of unknown rate is short.
//!
//! # Lineage
//!
//! Group commit (DeWitt and others, 1984). The numbers are Forebay's own, measured;
//! docs/decisions/sync-and-commits.md has the reasons.

use crate::arithmetic::MS_PER_S;

/// How long a caller relies on another one that syncs or commits for both, microseconds.
pub const RELIANCE_US: u64 = 20_000;

/// A caller that waits for another one to begin a commit looks this often. It goes on itself when
/// two looks in a row have found that no commit is under way.
pub const LOOK_US: u64 = RELIANCE_US / 2;

/// This many callers sync an object by themselves.
const OWN_SYNCS: u32 = 4;

/// With more dirty pages than this, a sync writes some of them now rather than all of them later.
const LITTLE_PAGES: u64 = 32;

/// The records at the end of a file lie in this many pages.
const TAIL_PAGES: u64 = 2;

/// Other callers may write a page again and again, and a sync has to end all the same.
const MOST_WAITS: u32 = 8;

/// Times as long as the last commit took.
const REST: u64 = 8;

/// What a commit during the writes does not cover needs a later one, which waits for it. That is
/// worth while with this many steps to free.
const STEPS_TO_FREE: u64 = 3;

/// Of a turn that takes longer, the time that its store stands still is a small part. Two such
/// turns under way would leave no room to the writers of the store.
const SHORT_TURN_MS: u64 = 300;

/// What a sync knows before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncInputs {
    /// Dirty pages of the object.
    pub dirty_pages: u64,
    /// A write of the first page that the sync has to write is under way.
    pub is_first_in_flight: bool,
    /// A commit of the object is under way.
    pub is_commit_under_way: bool,
    /// The store has made a write durable by itself before.
    pub makes_durable: bool,
    /// How often this sync has waited already.
    pub waits: u32,
}

/// What a sync waits for before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncWait {
    /// It writes now.
    Nothing,
    /// The commit under way. What is written meanwhile would need the next one.
    Commit,
    /// The write of the first page. Then all pages are one request, which may be durable by itself.
    FirstPage,
}

/// Whether a caller that finds `others` in a sync of the same object shares a sync with them.
pub fn shares_sync(others: u32) -> bool {
    others >= OWN_SYNCS
}

/// What a sync waits for before it takes its pages. See the head of this file.
pub fn wait_before_writing(inputs: &SyncInputs) -> SyncWait {
    let is_tail = inputs.dirty_pages <= TAIL_PAGES;
    let is_little = inputs.dirty_pages <= LITTLE_PAGES;
    if inputs.is_commit_under_way && inputs.makes_durable && is_tail && inputs.waits == 0 {
        SyncWait::Commit
    } else if inputs.is_first_in_flight && is_little && inputs.waits < MOST_WAITS {
        SyncWait::FirstPage
    } else {
        SyncWait::Nothing
    }
}

/// Whether a commit is worth while although the flusher still writes.
pub fn is_worth_a_commit(uncommitted_pages: u64, to_free_pages: u64, step_pages: u64) -> bool {
    uncommitted_pages >= step_pages && to_free_pages >= step_pages.saturating_mul(STEPS_TO_FREE)
}

/// How long a flusher that writes begins no commit after one that took `took_ns`, in nanoseconds. A
/// device that writes nothing during a commit loses a ninth of its rate at most.
pub fn rest_ns(took_ns: u64) -> u64 {
    took_ns.saturating_mul(REST)
}

/// Whether a store of `pages_per_s` writes `turn_pages` in so short a time that the commit of a
/// turn whose writes have already ended begins before the next turn.
pub fn is_short_turn(turn_pages: u64, pages_per_s: u64) -> bool {
    turn_pages.saturating_mul(MS_PER_S) <= pages_per_s.saturating_mul(SHORT_TURN_MS)
}

#[cfg(test)]
#[path = "group_commit_tests.rs"]
mod tests;
