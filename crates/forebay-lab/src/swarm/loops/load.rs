//! What a seed decides of a stage: its stores, their writers, and what changes.

use forebay_base::{Prng, Span};

/// A store and its writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) pages_per_s: u64,
    /// Its rate after a third of the time.
    pub(super) later_pages_per_s: u64,
    pub(super) writers: u64,
    /// What each of them writes in a call.
    pub(super) call_pages: u64,
    /// What it writes is durable once it is committed.
    pub(super) is_unstable: bool,
    /// Files of its writers that somebody syncs on and on.
    pub(super) synced: u64,
}

/// All that runs on a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) memory_bytes: u64,
    pub(super) sides: Vec<Side>,
    pub(super) span: Span,
}

/// Pages that a whole load may write: what a run may cost.
const MOST_PAGES: u64 = 40_000;

impl Load {
    pub(super) fn draw(chance: &mut Prng) -> Load {
        let memory_bytes = (32 << chance.below(4)) << 20;
        let sides: Vec<Side> = if chance.chance(1, 6) {
            vec![Side::draw_slow(chance), Side::draw_fast(chance)]
        } else {
            (0..=chance.below(3)).map(|_| Side::draw(chance)).collect()
        };
        let mean = |side: &Side| (side.pages_per_s + 2 * side.later_pages_per_s) / 3;
        let pages_per_s: u64 = sides.iter().map(mean).sum();
        // Fast stores show in a short time what slow ones need long for.
        let span_s = (MOST_PAGES / pages_per_s.max(1)).clamp(2, 36);
        Load {
            memory_bytes,
            sides,
            span: Span::from_secs(span_s),
        }
    }
}

impl Side {
    /// One whose writers keep the limit full.
    fn draw_slow(chance: &mut Prng) -> Side {
        let pages_per_s = 300 << chance.below(3);
        Side {
            pages_per_s,
            later_pages_per_s: pages_per_s,
            writers: 4,
            call_pages: 64,
            is_unstable: false,
            synced: 0,
        }
    }

    /// One that has answered before its flusher looks again.
    fn draw_fast(chance: &mut Prng) -> Side {
        let pages_per_s = 25_000 << chance.below(3);
        Side {
            pages_per_s,
            later_pages_per_s: pages_per_s,
            writers: 1 + chance.below(2),
            call_pages: 16 << (2 * chance.below(3)),
            is_unstable: false,
            synced: 0,
        }
    }

    fn draw(chance: &mut Prng) -> Side {
        let pages_per_s = 300 << chance.below(5);
        let writers = 1 + chance.below(6);
        Side {
            pages_per_s,
            later_pages_per_s: (pages_per_s << chance.below(7)) / 8,
            writers,
            call_pages: 1 << (2 * chance.below(5)),
            is_unstable: chance.chance(1, 3),
            synced: [0, 0, 1, writers][chance.below(4) as usize],
        }
    }
}
