//! The scenes of the soak: those that are compared, and those that seeds draw.

use super::super::super::client::PAGE;
use super::super::super::scene::{Crew, Scene, Site, Syncing};
use super::super::load;
use forebay_base::{Prng, Span};
use forebay_engine::Settings;
use forebay_store::Rate;

/// Memory of the scenes that are compared.
const MEMORY_BYTES: u64 = 32 << 20;
/// The most memory of a drawn scene: on real threads its pages have bytes.
const MOST_MEMORY_BYTES: u64 = 64 << 20;

impl Scene {
    /// The scenes that are compared, each measured for `window` after `warm_up`.
    ///
    /// Their stores take at most 16 MB/s, so the processor has little to do in any of them.
    pub fn compared(warm_up: Span, window: Span) -> Vec<Scene> {
        let scene = |name: &str, sites: Vec<Site>| Scene {
            warm_up,
            ..with_bytes(name.to_owned(), Scene::of(MEMORY_BYTES, sites, window))
        };
        let site = |name, pages_per_s, crews| Site {
            name,
            ..Site::of(pages_per_s, crews)
        };
        let heavy = Crew::of("heavy", 1, 64);
        let light = Crew {
            rest: Span::from_millis(20),
            ..Crew::of("light", 1, 1)
        };
        let syncing = Crew {
            syncing: Syncing::AfterCalls,
            ..Crew::of("syncing", 4, 4)
        };
        vec![
            scene(
                "fast and slow",
                vec![
                    site("slow", 500, vec![heavy.clone()]),
                    site("fast", 4_000, vec![heavy]),
                ],
            ),
            scene(
                "four streams",
                vec![Site::of(2_000, vec![Crew::of("streams", 4, 64)])],
            ),
            scene(
                "100 writers",
                vec![Site::of(4_000, vec![Crew::of("writers", 100, 1)])],
            ),
            scene(
                "light beside heavy",
                vec![Site::of(2_000, vec![Crew::of("heavy", 4, 64), light])],
            ),
            scene("commits", vec![committing(2_000, vec![syncing])]),
        ]
    }

    /// The scene that a seed draws for the oracles of the loops, without pages that a store
    /// refuses. How long such pages stay dirty depends on back-offs, which have no bound that holds
    /// in any timing.
    pub(super) fn drawn(seed: u64) -> Scene {
        let mut scene = load::draw(&mut Prng::from_seed(seed).child("loops"));
        for site in &mut scene.sites {
            site.faults.clear();
            site.crews.retain(|crew| crew.tasks > 0);
        }
        scene.settings.memory_bytes = scene.settings.memory_bytes.min(MOST_MEMORY_BYTES);
        with_bytes(format!("seed {seed}"), scene)
    }
}

/// The scene called `name`, whose pages have bytes.
fn with_bytes(name: String, scene: Scene) -> Scene {
    Scene {
        name,
        settings: Settings {
            page_memory: Settings::default().page_memory,
            ..scene.settings
        },
        ..scene
    }
}

/// A store that forgets what is not committed, and takes 5 ms for each request.
fn committing(pages_per_s: u64, crews: Vec<Crew>) -> Site {
    let rate = Rate {
        operations_per_s: 200,
        ..Rate::bytes(pages_per_s * PAGE)
    };
    let site = Site {
        rate,
        later_rate: rate,
        ..Site::of(pages_per_s, crews)
    };
    site.unstable(true)
}
