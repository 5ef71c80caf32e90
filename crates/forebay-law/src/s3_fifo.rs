//! Which page is evicted by three queues in the order of arrival.
//!
//! # Question
//!
//! Most pages that come are never wanted again. How are they evicted soon, and the others kept, if
//! a touch may set a bit and may not move a page?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `sizes` | pages | 0 and up | the two queues, when a page has to go |
//! | `frequency` | touches | 0 to 3 | the page: touches after the first that are not used up |
//! | `distance` | evictions | 1 and up | the shadow: from the small queue since, with its own |
//! | [`Queue`] | - | small or main | output: whose oldest page is looked at |
//! | [`Fate`] | - | evicted, to main, or round | output: what becomes of that page |
//! | main at once | yes or no | | output: where a page begins that comes back |
//!
//! # Formula
//!
//! ```text
//! new page       : small
//! looked at      : small if 10 * small >= small + main, else main
//! oldest of small: frequency > 1: to main, frequency = 0; else evicted, and remembered
//! oldest of main : frequency > 0: a round, frequency - 1; else evicted, and forgotten
//! ghosts         = pages - pages / 10
//! page comes back: main if distance <= ghosts, else small
//! ```
//!
//! # Conditions
//!
//! 1. The queue that is looked at is empty only if both are.
//! 2. While the small queue has a tenth of the pages or more, no page of main is looked at: a scan
//!    costs main nothing.
//! 3. A page leaves the small queue when it is first looked at: for main if it was touched again
//!    more than once, otherwise for good.
//! 4. A page that is no longer touched is evicted after at most four looks, so that the work for a
//!    victim is bounded.
//! 5. A touch never makes a page go sooner.
//! 6. If a page comes back to main, every page that comes back sooner does.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/s3_fifo.svg")]
//!
//! How often a page is looked at before it is evicted, over the touches after its first, if it is
//! not touched again.
//!
//! # Example
//!
//! A cache of 16 GiB has 4 194 304 pages of files. A backup reads a terabyte once: its pages pass
//! through the small queue, of which 419 431 are there at a time, and the others stay. A page of it
//! that a program wants while it is remembered, which is for the next 3 774 874 evictions, goes to
//! main.
//!
//! ```
//! use forebay_law::s3_fifo::{Fate, Queue, QueueSizes, fate, returns_to_main, turn};
//!
//! let sizes = QueueSizes { small: 419_431, main: 3_774_873 };
//! assert_eq!(turn(sizes), Queue::Small);
//! assert_eq!(fate(Queue::Small, 1), Fate::Evicted);
//! assert_eq!(fate(Queue::Small, 2), Fate::ToMain);
//! assert_eq!(fate(Queue::Main, 2), Fate::Round);
//! assert!(returns_to_main(3_774_874, sizes) && !returns_to_main(3_774_875, sizes));
//! ```
//!
//! # Why not the simpler one
//!
//! One queue keeps a page that is never wanted as long as any other. One queue with a second chance
//! keeps it for a whole round of the cache all the same. Without the memory of evicted pages a page
//! whose second touch comes a little late is never kept. A list in the order of use needs a lock at
//! each hit.
//!
//! # Edges
//!
//! Of fewer than ten pages one is a tenth already, and the small queue has every turn until it is
//! empty. A page whose write has not ended cannot be evicted and waits in main; where all pages are
//! like that, neither queue gives one up. The number of ghosts follows the number of pages: a
//! smaller cache forgets at once what a larger one remembered.
//!
//! # Lineage
//!
//! S3-FIFO (Yang, Zhang, Qiu, Yue and Vinayak, SOSP 2023).

/// The small queue is kept at one page of so many.
const SMALL_PART: u64 = 10;

/// Touches after the first that are counted.
pub const MOST_FREQUENT: u64 = 3;

/// A page of the small queue that was touched again more often than this goes to main.
const OFTEN_ENOUGH: u64 = 1;

/// One of the queues that have pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Where pages arrive.
    Small,
    /// Where pages stay that were touched again.
    Main,
}

/// Lengths of the queues, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSizes {
    /// Pages of the small queue.
    pub small: u64,
    /// Pages of the main queue.
    pub main: u64,
}

/// What becomes of the oldest page of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes.
    Evicted,
    /// It becomes the newest page of main, and its touches are forgotten.
    ToMain,
    /// It becomes the newest page of its queue again, and has one touch less.
    Round,
}

/// Whose oldest page is looked at next.
///
/// ```
/// use forebay_law::s3_fifo::{Queue, QueueSizes, turn};
/// assert_eq!(turn(QueueSizes { small: 99, main: 900 }), Queue::Main);
/// assert_eq!(turn(QueueSizes { small: 100, main: 900 }), Queue::Small);
/// ```
pub fn turn(sizes: QueueSizes) -> Queue {
    let QueueSizes { small, main } = sizes;
    if small.saturating_mul(SMALL_PART) >= small.saturating_add(main) {
        Queue::Small
    } else {
        Queue::Main
    }
}

/// What becomes of the oldest page of `queue`, which was touched `frequency` times after its first.
///
/// ```
/// use forebay_law::s3_fifo::{Fate, Queue, fate};
/// assert_eq!(fate(Queue::Main, 0), Fate::Evicted);
/// ```
pub fn fate(queue: Queue, frequency: u64) -> Fate {
    match queue {
        Queue::Small if frequency > OFTEN_ENOUGH => Fate::ToMain,
        Queue::Main if frequency > 0 => Fate::Round,
        Queue::Small | Queue::Main => Fate::Evicted,
    }
}

/// Whether a page goes to main that comes back `distance` evictions from the small queue after its
/// own, which counts.
///
/// ```
/// use forebay_law::s3_fifo::{QueueSizes, returns_to_main};
/// let sizes = QueueSizes { small: 10, main: 90 };
/// assert!(returns_to_main(90, sizes) && !returns_to_main(91, sizes));
/// ```
pub fn returns_to_main(distance: u64, sizes: QueueSizes) -> bool {
    let pages = sizes.small.saturating_add(sizes.main);
    distance <= pages - pages / SMALL_PART
}

#[cfg(test)]
#[path = "s3_fifo_tests.rs"]
mod tests;
