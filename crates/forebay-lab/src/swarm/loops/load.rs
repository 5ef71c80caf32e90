//! The load: what a seed decides about a stage. That is its stores, their writers, and what
//! changes.

use super::refusal::Refused;
use forebay_base::{Instant, Prng, Span};
use forebay_store::ObjectId;

/// A store and its writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) pages_per_s: u64,
    /// Its rate after a third of the time.
    pub(super) later_pages_per_s: u64,
    pub(super) writers: u64,
    /// What each of them writes in a call.
    pub(super) call_pages: u64,
    /// How long a writer rests after a call.
    pub(super) rest: Span,
    /// Pages that a writer goes round and round in.
    pub(super) file_pages: u64,
    /// Calls after which the first writer ends.
    pub(super) first_calls: u64,
    /// What it writes is durable once it is committed.
    pub(super) is_unstable: bool,
    /// Files of its writers that a task syncs repeatedly.
    pub(super) synced: u64,
    /// Pages of the first file that the store refuses at first.
    pub(super) refused: Option<Refused>,
}

/// All that runs on a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) memory_bytes: u64,
    pub(super) interval: Span,
    pub(super) expire: Span,
    pub(super) sides: Vec<Side>,
    pub(super) span: Span,
    /// Its writers ask for less than the stores take, and each page is followed.
    pub(super) is_light: bool,
}

/// Most pages that a whole load may write: this bounds the cost of a run.
const MOST_PAGES: u64 = 40_000;
/// Files that grow without end.
const ENDLESS: u64 = u64::MAX >> 16;

impl Load {
    pub(super) fn draw(chance: &mut Prng) -> Load {
        if chance.chance(1, 4) {
            return Load::draw_light(chance);
        }
        let memory_bytes = (32 << chance.below(4)) << 20;
        let sides: Vec<Side> = if chance.chance(1, 6) {
            vec![Side::draw_slow(chance), Side::draw_fast(chance)]
        } else {
            (0..=chance.below(3)).map(|_| Side::draw(chance)).collect()
        };
        let mean = |side: &Side| (side.pages_per_s + 2 * side.later_pages_per_s) / 3;
        let pages_per_s: u64 = sides.iter().map(mean).sum();
        // Fast stores show in a short time what takes slow ones a long time.
        let span_s = (MOST_PAGES / pages_per_s.max(1)).clamp(2, 36);
        Load {
            memory_bytes,
            interval: Span::from_secs(5),
            expire: Span::from_secs(30),
            sides,
            span: Span::from_secs(span_s),
            is_light: false,
        }
    }

    fn draw_light(chance: &mut Prng) -> Load {
        let sides = (0..=chance.below(2)).map(|_| Side::draw_light(chance));
        Load {
            memory_bytes: 64 << 20,
            sides: sides.collect(),
            interval: Span::from_millis([200, 1_000, 5_000][chance.below(3) as usize]),
            expire: Span::from_millis([100, 2_000, 10_000][chance.below(3) as usize]),
            span: Span::from_secs(40),
            is_light: true,
        }
    }
}

impl Side {
    /// A slow store: its writers keep the limit full.
    fn draw_slow(chance: &mut Prng) -> Side {
        let pages_per_s = 300 << chance.below(3);
        Side {
            writers: 4,
            call_pages: 64,
            ..Side::of(pages_per_s)
        }
    }

    /// A fast store: it has answered before its flusher looks again.
    fn draw_fast(chance: &mut Prng) -> Side {
        let pages_per_s = 25_000 << chance.below(3);
        Side {
            writers: 1 + chance.below(2),
            call_pages: 16 << (2 * chance.below(3)),
            ..Side::of(pages_per_s)
        }
    }

    fn draw(chance: &mut Prng) -> Side {
        let pages_per_s = 300 << chance.below(5);
        let writers = 1 + chance.below(6);
        Side {
            later_pages_per_s: ((pages_per_s << chance.below(7)) / 8).max(150),
            writers,
            call_pages: 1 << (2 * chance.below(5)),
            is_unstable: chance.chance(1, 3),
            synced: [0, 0, 1, writers][chance.below(4) as usize],
            ..Side::of(pages_per_s)
        }
    }

    fn draw_light(chance: &mut Prng) -> Side {
        let file_pages = 1 << chance.below(9);
        let refused = chance.chance(1, 2).then(|| draw_refused(chance));
        Side {
            writers: 1 + chance.below(3),
            call_pages: 1 + chance.below(4),
            rest: Span::from_millis(10 + chance.below(200)),
            // Refused pages get no new bytes, because new bytes would be written in their own turn.
            file_pages: if refused.is_some() {
                ENDLESS
            } else {
                file_pages
            },
            first_calls: [u64::MAX, 1 + chance.below(50)][chance.below(2) as usize],
            refused,
            ..Side::of(1_000 << chance.below(4))
        }
    }

    fn of(pages_per_s: u64) -> Side {
        Side {
            pages_per_s,
            later_pages_per_s: pages_per_s,
            writers: 1,
            call_pages: 1,
            rest: Span::ZERO,
            file_pages: ENDLESS,
            first_calls: u64::MAX,
            is_unstable: false,
            synced: 0,
            refused: None,
        }
    }
}

fn draw_refused(chance: &mut Prng) -> Refused {
    let first = chance.below(32);
    let pages = first..first + 1 + chance.below(8);
    Refused {
        object: ObjectId(0),
        pages,
        until: Instant::ZERO + Span::from_millis(1_000 + chance.below(30_000)),
    }
}
