//! The scenes: what runs before a cache, in either world.

use super::super::super::client::PAGE;
use super::super::load::{Load, Side};
use forebay_base::Span;
use forebay_store::Rate;

/// When the files of a crew are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syncing {
    /// Never.
    Never,
    /// By their writer, after each of its calls.
    AfterCalls,
    /// By another task, repeatedly, while their writer goes on.
    Beside,
}

/// Writers that do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Crew {
    pub(super) name: &'static str,
    pub(super) writers: u64,
    /// Pages that each of them writes in a call.
    pub(super) call_pages: u64,
    /// How long a writer rests after a call.
    pub(super) rest: Span,
    /// Pages of the file that a writer writes again and again.
    pub(super) file_pages: u64,
    /// A writer ends after this many calls.
    pub(super) calls: u64,
    pub(super) syncing: Syncing,
}

/// A store and its writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) name: &'static str,
    pub(super) rate: Rate,
    /// Its rate after a third of the time.
    pub(super) later_rate: Rate,
    /// Its writes are durable once they are committed.
    pub(super) is_unstable: bool,
    pub(super) crews: Vec<Crew>,
}

/// Everything that runs before one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    pub(super) name: String,
    pub(super) memory_bytes: u64,
    pub(super) interval: Span,
    pub(super) expire: Span,
    /// Nothing is measured before this has passed.
    pub(super) warm_up: Span,
    /// For how long it is measured.
    pub(super) window: Span,
    /// Its writers write less than the stores take, so the age of each page is judged.
    pub(super) is_light: bool,
    pub(super) sites: Vec<Site>,
}

/// Pages of files that grow without end.
const ENDLESS: u64 = u64::MAX >> 16;
/// Memory of the scenes that are compared.
const MEMORY_BYTES: u64 = 32 << 20;
/// The most memory of a drawn load: on real threads its pages have bytes.
const MOST_MEMORY_BYTES: u64 = 64 << 20;

impl Scene {
    /// The scenes that are compared, each measured for `window` after `warm_up`.
    ///
    /// Their stores take at most 16 MB/s, so the processor has little to do in any of them.
    pub fn compared(warm_up: Span, window: Span) -> Vec<Scene> {
        let scene = |name: &str, sites: Vec<Site>| Scene {
            name: name.to_owned(),
            memory_bytes: MEMORY_BYTES,
            interval: Span::from_secs(5),
            expire: Span::from_secs(30),
            warm_up,
            window,
            is_light: false,
            sites,
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
                    Site::of("slow", 500, vec![heavy.clone()]),
                    Site::of("fast", 4_000, vec![heavy]),
                ],
            ),
            scene(
                "four streams",
                vec![Site::of("store", 2_000, vec![Crew::of("streams", 4, 64)])],
            ),
            scene(
                "100 writers",
                vec![Site::of("store", 4_000, vec![Crew::of("writers", 100, 1)])],
            ),
            scene(
                "light beside heavy",
                vec![Site::of(
                    "store",
                    2_000,
                    vec![Crew::of("heavy", 4, 64), light],
                )],
            ),
            scene("commits", vec![Site::committing(2_000, vec![syncing])]),
        ]
    }

    /// The load that a seed of the loops draws, without pages that a store refuses. How long such
    /// pages stay dirty depends on back-offs, which have no bound that holds in any timing.
    pub(super) fn drawn(seed: u64, load: &Load) -> Scene {
        let sites = load.sides.iter().map(Site::drawn);
        Scene {
            name: format!("seed {seed}"),
            memory_bytes: load.memory_bytes.min(MOST_MEMORY_BYTES),
            interval: load.interval,
            expire: load.expire,
            warm_up: Span::ZERO,
            window: load.span,
            is_light: load.is_light,
            sites: sites.collect(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Site {
    fn of(name: &'static str, pages_per_s: u64, crews: Vec<Crew>) -> Site {
        let rate = Rate::bytes(pages_per_s * PAGE);
        Site {
            name,
            rate,
            later_rate: rate,
            is_unstable: false,
            crews,
        }
    }

    /// A store that forgets what is not committed, and takes 5 ms for each request.
    fn committing(pages_per_s: u64, crews: Vec<Crew>) -> Site {
        let rate = Rate {
            operations_per_s: 200,
            ..Rate::bytes(pages_per_s * PAGE)
        };
        Site {
            rate,
            later_rate: rate,
            is_unstable: true,
            ..Site::of("store", pages_per_s, crews)
        }
    }

    fn drawn(side: &Side) -> Site {
        let crew = |writers: u64, syncing: Syncing| Crew {
            rest: side.rest,
            file_pages: side.file_pages,
            syncing,
            ..Crew::of("writers", writers, side.call_pages)
        };
        let mut crews = vec![
            crew(side.synced, Syncing::Beside),
            crew(side.writers - side.synced, Syncing::Never),
        ];
        crews.retain(|crew| crew.writers > 0);
        crews[0].calls = side.first_calls;
        Site {
            later_rate: Rate::bytes(side.later_pages_per_s * PAGE),
            is_unstable: side.is_unstable,
            ..Site::of("store", side.pages_per_s, crews)
        }
    }

    pub(super) fn writers(&self) -> u64 {
        self.crews.iter().map(|crew| crew.writers).sum()
    }

    /// The least number of pages that it takes in a second, in the course of a run.
    pub(super) fn least_pages_per_s(&self) -> u64 {
        self.rate.bytes_per_s.min(self.later_rate.bytes_per_s) / PAGE
    }
}

impl Crew {
    fn of(name: &'static str, writers: u64, call_pages: u64) -> Crew {
        Crew {
            name,
            writers,
            call_pages,
            rest: Span::ZERO,
            file_pages: ENDLESS,
            calls: u64::MAX,
            syncing: Syncing::Never,
        }
    }
}
