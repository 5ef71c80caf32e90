//! The scenes that seeds draw for the oracles of the loops.

use super::super::client::PAGE;
use super::super::scene::{Crew, ENDLESS, Scene, Site, Syncing};
use forebay_base::{Prng, Span};
use forebay_engine::Settings;
use forebay_store::{Failure, Fault, FaultAction, IoKind, ObjectId};

/// Most pages that a whole scene may write: this bounds the cost of a run.
const MOST_PAGES: u64 = 40_000;
/// How long the scenes for the oracle of work last.
const LONG: Span = Span::from_secs(23);

/// A scene for all oracles of the loops.
pub(super) fn draw(chance: &mut Prng) -> Scene {
    if chance.chance(1, 4) {
        return draw_light(chance);
    }
    let memory_bytes = (32 << chance.below(4)) << 20;
    let sites: Vec<Site> = if chance.chance(1, 6) {
        vec![draw_slow(chance), draw_fast(chance)]
    } else {
        (0..=chance.below(3)).map(|_| draw_site(chance)).collect()
    };
    let mean = |site: &Site| (site.rate.bytes_per_s + 2 * site.later_rate.bytes_per_s) / 3 / PAGE;
    let pages_per_s: u64 = sites.iter().map(mean).sum();
    // Fast stores need less time to show the same.
    let span_s = (MOST_PAGES / pages_per_s.max(1)).clamp(2, 36);
    scene(memory_bytes, sites, Span::from_secs(span_s))
}

/// A scene for the oracle of work: it lasts longer, and its stores are faster.
pub(super) fn draw_long(chance: &mut Prng) -> Scene {
    let memory_bytes = (32 << chance.below(4)) << 20;
    let site = |chance: &mut Prng| {
        let pages_per_s = 300 << chance.below(7);
        let later_pages_per_s = (pages_per_s << chance.below(3)) / 2;
        let crew = Crew::of("writer", 1 + chance.below(6), 1 << (2 * chance.below(5)));
        Site::of(pages_per_s, vec![crew]).later(later_pages_per_s)
    };
    let sites = (0..=chance.below(3)).map(|_| site(chance)).collect();
    Scene {
        change_after: Span::from_millis(LONG.as_millis() / 2),
        ..scene(memory_bytes, sites, LONG)
    }
}

fn scene(memory_bytes: u64, sites: Vec<Site>, window: Span) -> Scene {
    Scene {
        change_after: Span::from_nanos(window.as_nanos() / 3),
        ..Scene::of(memory_bytes, sites, window)
    }
}

/// Light writers, whose pages are followed, and perhaps pages that the store refuses.
fn draw_light(chance: &mut Prng) -> Scene {
    let sites = (0..=chance.below(2)).map(|_| draw_light_site(chance));
    let scene = scene(64 << 20, sites.collect(), Span::from_secs(40));
    Scene {
        settings: Settings {
            writeback_interval: Span::from_millis([200, 1_000, 5_000][chance.below(3) as usize]),
            dirty_expire: Span::from_millis([100, 2_000, 10_000][chance.below(3) as usize]),
            ..scene.settings
        },
        is_light: true,
        ..scene
    }
}

/// A slow store: its writers keep the limit full.
fn draw_slow(chance: &mut Prng) -> Site {
    Site::of(300 << chance.below(3), vec![Crew::of("writer", 4, 64)])
}

/// A fast store: it answers before its flusher looks again.
fn draw_fast(chance: &mut Prng) -> Site {
    let pages_per_s = 25_000 << chance.below(3);
    let crew = Crew::of("writer", 1 + chance.below(2), 16 << (2 * chance.below(3)));
    Site::of(pages_per_s, vec![crew])
}

fn draw_site(chance: &mut Prng) -> Site {
    let pages_per_s = 300 << chance.below(5);
    let writers = 1 + chance.below(6);
    let later_pages_per_s = ((pages_per_s << chance.below(7)) / 8).max(150);
    let call_pages = 1 << (2 * chance.below(5));
    let is_unstable = chance.chance(1, 3);
    let synced = [0, 0, 1, writers][chance.below(4) as usize];
    let crews = vec![
        Crew {
            syncing: Syncing::Concurrently,
            ..Crew::of("writer", synced, call_pages)
        },
        Crew::of("writer", writers - synced, call_pages),
    ];
    let site = Site::of(pages_per_s, crews).later(later_pages_per_s);
    site.unstable(is_unstable)
}

fn draw_light_site(chance: &mut Prng) -> Site {
    let file_pages = 1 << chance.below(9);
    let refused = chance.chance(1, 2).then(|| draw_refused(chance));
    let writers = 1 + chance.below(3);
    let call_pages = 1 + chance.below(4);
    let rest = Span::from_millis(10 + chance.below(200));
    let first_calls = [u64::MAX, 1 + chance.below(50)][chance.below(2) as usize];
    let crew = |tasks, calls| Crew {
        rest,
        // Refused pages get no new bytes, because new bytes would be written in their own turn.
        file_pages: if refused.is_some() {
            ENDLESS
        } else {
            file_pages
        },
        calls,
        ..Crew::of("writer", tasks, call_pages)
    };
    let crews = vec![crew(1, first_calls), crew(writers - 1, u64::MAX)];
    let site = Site::of(1_000 << chance.below(4), crews);
    Site {
        faults_end: refused.as_ref().map(|(_, until)| *until),
        faults: refused.into_iter().map(|(fault, _)| fault).collect(),
        ..site
    }
}

/// The refusal of some pages of the first file, and when it ends.
fn draw_refused(chance: &mut Prng) -> (Fault, Span) {
    let first = chance.below(32);
    let end = first + 1 + chance.below(8);
    let refused = Fault {
        object: Some(ObjectId(0)),
        range_bytes: Some(first * PAGE..end * PAGE),
        ..Fault::each(IoKind::Write, FaultAction::Fail(Failure::Device(5)))
    };
    (refused, Span::from_millis(1_000 + chance.below(30_000)))
}
