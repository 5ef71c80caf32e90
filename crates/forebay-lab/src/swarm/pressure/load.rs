//! The choices of a seed for a world of short memory.

use super::super::client::PAGE;
use super::super::plan::zone;
use super::super::scene::{Crew, Scene, Site};
use forebay_base::{Prng, Span};
use forebay_engine::Settings;
use forebay_engine::settings::{DirtyKnobs, NodeSettings};
use forebay_kernels::Policy;
use forebay_kernels::policy::Eviction;

/// How long readers rest together in each second of a scene that has calms: longer than the nap of
/// kswapd before it sleeps.
const CALM: Span = Span::from_millis(350);

/// A world of short memory.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Its stores are one for writers, perhaps one for swap, and one for readers.
    pub(super) scene: Scene,
    /// Anonymous pages and slots of swap.
    pub(super) anonymous: Option<(u64, u64)>,
    pub(super) rereaders: u64,
    /// The number of pages that a rereader chooses from.
    pub(super) hot_pages: u64,
    pub(super) rest: Span,
    /// Now and then most of memory is held for a while. Meanwhile callers that need a frame look
    /// through all of it, so memory is small in these worlds.
    pub(super) is_held: bool,
}

impl Load {
    pub(super) fn draw(chance: &mut Prng) -> Load {
        let memory_bytes = (4 << chance.below(3)) << 20;
        let frames = memory_bytes / PAGE;
        let dirty = draw_dirty(chance);
        let pages_per_s = 400 << chance.below(5);
        let is_s3 = chance.chance(1, 4);
        let is_held = memory_bytes == 4 << 20 && !is_s3 && chance.chance(1, 2);
        let scene = Scene::of(memory_bytes, Vec::new(), Span::ZERO);
        let settings = Settings {
            nodes: draw_nodes(chance),
            dirty,
            // The distance of the marks: reclaim frees 32 pages at a time, and may pass near ones
            // at once.
            watermark_scale_factor: [10, 100, 500][chance.below(3) as usize],
            ..scene.settings
        };
        let mut policy = Policy::default();
        if is_s3 {
            policy.eviction = Eviction::S3Fifo;
        }
        let is_unstable = chance.chance(1, 4);
        let (writers, scanners, rereaders) =
            (chance.below(4), 1 + chance.below(3), chance.below(3));
        let hot_pages = frames / 8 + chance.below(frames);
        let call_pages = 1 << (2 * chance.below(3));
        let rest = Span::from_micros(500 << chance.below(5));
        let is_calm_at_times = chance.chance(1, 2);
        // While pages are held there may be no frame.
        let crew = |crew| Crew {
            may_fail: true,
            ..crew
        };
        let written = Site::of(
            pages_per_s,
            vec![crew(Crew::of("writer", writers, call_pages))],
        );
        let scanner = Crew {
            rest,
            ..Crew::readers(scanners, call_pages, 4 * frames)
        };
        let mut sites = vec![written.unstable(is_unstable)];
        let anonymous = chance.chance(1, 2).then(|| {
            let pages = frames / 2 + chance.below(frames / 2);
            let slots = pages + 64 + chance.below(frames);
            sites.push(Site::of(200 << chance.below(5), Vec::new()));
            (pages, slots)
        });
        sites.push(Site::unlimited(vec![crew(scanner)]));
        let window = Span::from_millis(3_000 + chance.below(5_000));
        Load {
            scene: Scene {
                settings,
                policy,
                sites,
                window,
                change_after: window,
                calm: if is_calm_at_times { CALM } else { Span::ZERO },
                ..scene
            },
            anonymous,
            rereaders,
            hot_pages,
            rest,
            is_held,
        }
    }

    /// The store of the readers, which is the last.
    pub(super) fn read_store(&self) -> usize {
        self.scene.sites.len() - 1
    }
}

fn draw_dirty(chance: &mut Prng) -> DirtyKnobs {
    let (dirty_ratio_percent, background_ratio_percent) =
        [(20, 10), (40, 5), (80, 60)][chance.below(3) as usize];
    DirtyKnobs {
        dirty_ratio_percent,
        background_ratio_percent,
        ..DirtyKnobs::default()
    }
}

fn draw_nodes(chance: &mut Prng) -> Vec<NodeSettings> {
    match chance.below(5) {
        0 => vec![NodeSettings {
            zones: vec![zone("DMA32", 1, 32), zone("Normal", 2, 0)],
        }],
        1 => vec![NodeSettings::default(), NodeSettings::default()],
        _ => vec![NodeSettings::default()],
    }
}
