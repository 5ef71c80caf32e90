//! How far ahead of its reader a stream reads.
//!
//! # Question
//!
//! How long may the windows of [`readahead`](crate::readahead) become, so that a store is busy for
//! as long as its reader waits, and memory holds no more than that takes?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `took_us` | us | 0 and up | one read request, from its submission to its end |
//! | `ended_pages` | pages | 1 and up | all reads of the store that ended meanwhile |
//! | `own_pages` | pages | 1 and up | its own |
//! | `was_alone` | | | whether the store had no other read when it was submitted |
//! | `latency_us`, `latency_pages` | us, pages | 0: not known | [`ReadPace`]: output |
//! | `pages_per_s` | pages/s | 0: not known | the same |
//! | `reach_pages` | pages | `least_pages` and up | output, and memory of the stream |
//! | `has_waited` | | | whether the reader waited for a page of the window before |
//! | `has_lost` | | | whether a page of that window was gone, or had never come |
//! | `request_pages` | pages | 1 and up | the longest request that the store takes |
//! | `least_pages` | pages | 0 and up; 32 if not set | setting or advice |
//! | `room_pages` | pages | 0 and up | memory that read-ahead may use, less what is on its way |
//!
//! # Formula
//!
//! ```text
//! latency   := took, of own pages              if it is the first, or took < latency
//!              latency + (took - latency) / 4  if it was alone, of no more pages, and took longer
//!              latency                         otherwise
//! rate      := ended / took                    if that is more
//!              rate - (rate - ended / took) / 16 otherwise
//!
//! need      := rate * latency
//! target    := need * 5 / 4 + min(2 * request, rate / 20)
//! reach     := reach / 2                       if pages were lost, or reach > 2 * target
//!              min(2 * reach, target)          if the reader waited and reach < target
//!              reach                           otherwise
//!              at most room, but at least least
//! ```
//!
//! # Conditions
//!
//! 1. The reach is at least `least_pages`, and otherwise at most `room_pages`.
//! 2. It grows only for a reader that waited, at most twofold, and never past the target.
//! 3. Lost pages halve it.
//! 4. A store of any rate and latency that a waiting reader keeps asking ends with a reach of at
//!    least what its rate and latency need, and at most 5/4 of it and two requests.
//! 5. The latency never rises because the store is loaded, or because requests become longer: only
//!    a request that was alone, and no longer than that which was measured before, raises it.
//! 6. The reach settles: with the same inputs it changes at most 64 times.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/reach.svg")]
//!
//! The reach, window after window, of a reader that waits for a store of 25 600 pages a second at
//! latencies of 1, 20 and 100 ms, with requests of 256 pages.
//!
//! # Example
//!
//! A store that is 20 ms away delivers 25 600 pages a second (100 MiB). 512 pages are on their way
//! at any time if it never idles; a stream reaches 640 pages, and two requests of 256 beside them.
//!
//! ```
//! use forebay_law::reach::{Probe, ReachInputs, ReadPace, reach};
//!
//! let probe = Probe { took_us: 20_000, ended_pages: 512, own_pages: 32, was_alone: true };
//! let pace = ReadPace::default().observed(probe);
//! assert_eq!(pace.need_pages(), 512);
//! let inputs = ReachInputs {
//!     has_waited: true,
//!     pace,
//!     request_pages: 256,
//!     least_pages: 32,
//!     room_pages: 8_192,
//!     ..ReachInputs::default()
//! };
//! assert_eq!(reach(32, &inputs), 64);
//! assert_eq!(reach(1_000, &inputs), 1_152);
//! assert_eq!(reach(1_152, &inputs), 1_152);
//! ```
//!
//! # Why not the simpler one
//!
//! A fixed window is right for one store: 128 KiB keep a disk at two thirds of its rate and a store
//! that is 20 ms away at a sixteenth. A window that doubles whenever the reader waits grows without
//! end, for every reader of a slow store waits. What was delivered while one request was under way
//! is what was under way itself, so the product of the highest rate and the lowest latency tells a
//! store that asks for more from one that is full. A latency that is measured under load contains
//! the queue that the window made, and that of a long request the time of its transfer: a reach
//! that follows them feeds on itself.
//!
//! # Edges
//!
//! Nothing is known before the first request has ended: the reach stays what it is. The two
//! requests are at most what the store delivers in 50 ms: of a slow store a guess that proves
//! wrong must not cost the next read a second. A request that took no time counts as 1 us. A store
//! whose latency rises for good while it is read without a pause is known to be slower once it had
//! nothing to read for a moment. A `least_pages` of 0 switches reading ahead off, and the reach
//! with it. Where memory has no room the least is read ahead all the same, as a fixed window would
//! be.
//!
//! # Lineage
//!
//! BBR congestion control (2016): the highest rate and the lowest latency bound what is in flight.
//! The fixed window is that of Linux.

use crate::arithmetic::MS_PER_S;

const US_PER_S: u64 = 1_000 * MS_PER_S;

/// More than any store reads, 64 GiB a second: products stay in their range.
const HIGHEST_PAGES_PER_S: u64 = 1 << 24;

/// What is read ahead beside the need takes the store at most one part in so many of a second.
const GUESSES_PER_S: u64 = 20;

/// Longer than any request may take, 1024 s.
const LONGEST_US: u64 = 1 << 30;

/// One read request of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// From its submission to its end, microseconds.
    pub took_us: u64,
    /// Pages of all reads of the store that ended meanwhile, its own among them.
    pub ended_pages: u64,
    /// Its own.
    pub own_pages: u64,
    /// Whether the store had no other read when it was submitted.
    pub was_alone: bool,
}

/// What is known of how a store reads. The default knows nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadPace {
    /// What a request takes that does not wait for others, microseconds; 0 if not known.
    pub latency_us: u64,
    /// The pages of such a request.
    pub latency_pages: u64,
    /// The most that it delivered lately, in pages a second.
    pub pages_per_s: u64,
}

impl ReadPace {
    /// What is known after `probe`.
    #[must_use]
    pub fn observed(self, probe: Probe) -> ReadPace {
        let took_us = probe.took_us.clamp(1, LONGEST_US);
        let known = self.latency_us;
        let (latency_us, latency_pages) = if known == 0 || took_us < known {
            // A first request that had company waited for it too, but nothing better is known.
            (took_us, probe.own_pages)
        } else if probe.was_alone && probe.own_pages <= self.latency_pages {
            (known + (took_us - known) / 4, self.latency_pages)
        } else {
            (known, self.latency_pages)
        };
        let ended = u128::from(probe.ended_pages) * u128::from(US_PER_S);
        let seen = u64::try_from(ended / u128::from(took_us)).unwrap_or(u64::MAX);
        let seen = seen.min(HIGHEST_PAGES_PER_S);
        let pages_per_s = if seen >= self.pages_per_s {
            seen
        } else {
            self.pages_per_s - (self.pages_per_s - seen) / 16
        };
        ReadPace {
            latency_us,
            latency_pages,
            pages_per_s,
        }
    }

    /// Pages that are on their way if the store never idles: its rate times its latency.
    pub fn need_pages(self) -> u64 {
        self.pages_per_s * self.latency_us / US_PER_S
    }
}

/// What a stream is judged by when its next window is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReachInputs {
    /// The reader waited for a page of its last window.
    pub has_waited: bool,
    /// A page of that window was gone, or had never come, when the reader came to it.
    pub has_lost: bool,
    /// What is known of the store.
    pub pace: ReadPace,
    /// Pages of the longest request that the store takes.
    pub request_pages: u64,
    /// The shortest reach, pages.
    pub least_pages: u64,
    /// The longest reach that memory allows, pages.
    pub room_pages: u64,
}

/// The next reach of a stream whose last one was `reach_pages`.
pub fn reach(reach_pages: u64, inputs: &ReachInputs) -> u64 {
    let need = inputs.pace.need_pages();
    let beside = inputs.request_pages.saturating_mul(2);
    let target = need + need / 4 + beside.min(inputs.pace.pages_per_s / GUESSES_PER_S);
    let next = if inputs.has_lost || reach_pages > target.saturating_mul(2) {
        reach_pages / 2
    } else if inputs.has_waited && reach_pages < target {
        reach_pages.saturating_mul(2).min(target)
    } else {
        reach_pages
    };
    next.min(inputs.room_pages).max(inputs.least_pages)
}

#[cfg(test)]
#[path = "reach_tests.rs"]
mod tests;
