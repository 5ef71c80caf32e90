//! The choices of a seed for a world of short memory.

use forebay::policy::Eviction;
use forebay::settings::{DirtyKnobs, NodeSettings, ZoneSettings};
use forebay_base::{Prng, Span};

/// A world of short memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) memory_bytes: u64,
    pub(super) nodes: Vec<NodeSettings>,
    pub(super) dirty: DirtyKnobs,
    /// The distance of the marks: reclaim frees 32 pages at a time, and may pass near ones at once.
    pub(super) watermark_scale_factor: u64,
    pub(super) eviction: Eviction,
    pub(super) pages_per_s: u64,
    /// Its writes are durable once they are committed.
    pub(super) is_unstable: bool,
    pub(super) writers: u64,
    pub(super) scanners: u64,
    pub(super) rereaders: u64,
    /// The number of pages that a rereader chooses from.
    pub(super) hot_pages: u64,
    pub(super) call_pages: u64,
    pub(super) rest: Span,
    /// Readers rest together for a part of each second, so that kswapd can go to sleep.
    pub(super) is_calm_at_times: bool,
    /// Anonymous pages, slots of swap, and the pages that swap takes in a second.
    pub(super) anonymous: Option<(u64, u64, u64)>,
    /// Now and then most of memory is held for a while. Meanwhile callers that need a frame look
    /// through all of it, so memory is small in these worlds.
    pub(super) is_held: bool,
    pub(super) span: Span,
}

impl Load {
    pub(super) fn draw(chance: &mut Prng) -> Load {
        let memory_bytes = (4 << chance.below(3)) << 20;
        let frames = memory_bytes / 4096;
        let (dirty, background) = [(20, 10), (40, 5), (80, 60)][chance.below(3) as usize];
        let pages_per_s = 400 << chance.below(5);
        let is_s3 = chance.chance(1, 4);
        let is_held = memory_bytes == 4 << 20 && !is_s3 && chance.chance(1, 2);
        Load {
            memory_bytes,
            nodes: draw_nodes(chance),
            dirty: DirtyKnobs {
                dirty_ratio_percent: dirty,
                background_ratio_percent: background,
                ..DirtyKnobs::default()
            },
            eviction: if is_s3 {
                Eviction::S3Fifo
            } else {
                Eviction::TwoLists
            },
            watermark_scale_factor: [10, 100, 500][chance.below(3) as usize],
            pages_per_s,
            is_unstable: chance.chance(1, 4),
            writers: chance.below(4),
            scanners: 1 + chance.below(3),
            rereaders: chance.below(3),
            hot_pages: frames / 8 + chance.below(frames),
            call_pages: 1 << (2 * chance.below(3)),
            rest: Span::from_micros(500 << chance.below(5)),
            is_calm_at_times: chance.chance(1, 2),
            anonymous: chance.chance(1, 2).then(|| {
                let pages = frames / 2 + chance.below(frames / 2);
                (
                    pages,
                    pages + 64 + chance.below(frames),
                    200 << chance.below(5),
                )
            }),
            is_held,
            span: Span::from_millis(3_000 + chance.below(5_000)),
        }
    }
}

fn draw_nodes(chance: &mut Prng) -> Vec<NodeSettings> {
    let zone = |name: &str, weight, lowmem_reserve_ratio| ZoneSettings {
        name: name.into(),
        weight,
        lowmem_reserve_ratio,
        ..ZoneSettings::default()
    };
    match chance.below(5) {
        0 => vec![NodeSettings {
            zones: vec![zone("DMA32", 1, 32), zone("Normal", 2, 0)],
        }],
        1 => vec![NodeSettings::default(), NodeSettings::default()],
        _ => vec![NodeSettings::default()],
    }
}
