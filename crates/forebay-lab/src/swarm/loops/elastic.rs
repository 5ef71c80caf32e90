//! A world of elastic memory: a cache shares a group with another program, which takes memory and
//! gives it back, once or repeatedly (docs/decisions/reclaim-and-memory.md).

use super::super::client::PAGE;
use super::super::scene::{Crew, Scene, Site, Stage, judge_play};
use super::super::verdict::{Oracle, Violation};
use forebay_base::{Instant, Prng, Span};
use forebay_engine::Settings;
use forebay_engine::elastic::{MemorySeen, Scarce};
use forebay_engine::settings::Elastic;

const MIB: u64 = 1 << 20;
const CEILING_BYTES: u64 = 256 * MIB;
const FLOOR_BYTES: u64 = 32 * MIB;
/// What is left to others (the law of elastic memory).
const MARGIN_BYTES: u64 = 64 * MIB;
/// How long the program comes and goes, and how long it stays away at the end: the longest hold of
/// the law, the time to rise, and one visit.
const VISITS: Span = Span::from_secs(600);
const LENGTH: Span = Span::from_secs(1_300);
/// Memory has to be free after this time and the time that it takes to write dirty pages.
const SOON: Span = Span::from_secs(1);
/// Changes of direction while the program comes and goes.
const MOST_TURNS: usize = 3;
const PAGES_PER_S: u64 = 50_000;

/// The other program, and their group.
#[derive(Clone, Debug)]
struct Hog {
    group_bytes: u64,
    /// The program takes this much in `takes`, stays, and comes again after `every`.
    most_bytes: u64,
    takes: Span,
    stays: Span,
    every: Span,
}

impl Hog {
    fn draw(chance: &mut Prng) -> Hog {
        let stays_s = 5 + chance.below(60);
        Hog {
            group_bytes: CEILING_BYTES + (2 + chance.below(2)) * MARGIN_BYTES,
            most_bytes: (128 + chance.below(128)) * MIB,
            takes: Span::from_millis(500 + chance.below(5_000)),
            stays: Span::from_secs(stays_s),
            every: Span::from_secs(stays_s + [40, 60, 100, 300][chance.below(4) as usize]),
        }
    }

    /// The memory of the program.
    fn bytes_at(&self, passed: Span) -> u64 {
        let into_ms = passed.as_millis() % self.every.as_millis();
        if passed >= VISITS || into_ms >= self.stays.as_millis() {
            return 0;
        }
        let takes_ms = self.takes.as_millis();
        self.most_bytes * into_ms.min(takes_ms) / takes_ms
    }
}

/// A reader that fills the cache, and perhaps a writer of some MiB a second.
fn scene(chance: &mut Prng) -> Scene {
    let reader = Crew {
        rest: Span::from_secs(1),
        ..Crew::readers(1, 4 * MIB / PAGE, CEILING_BYTES / PAGE)
    };
    let writer = Crew {
        rest: Span::from_millis(500),
        file_pages: CEILING_BYTES / PAGE / 4,
        ..Crew::of("writer", chance.below(2), 5 * MIB / PAGE)
    };
    let site = Site::of(PAGES_PER_S, vec![reader, writer]);
    let scene = Scene::of(CEILING_BYTES, vec![site], LENGTH);
    Scene {
        settings: Settings {
            elastic: Some(Elastic {
                floor_bytes: FLOOR_BYTES,
            }),
            ..scene.settings
        },
        ..scene
    }
}

/// What the oracle of elastic memory finds.
pub(in super::super) fn judge_elastic(seed: u64) -> Option<Violation> {
    let mut chance = Prng::from_seed(seed).child("elastic");
    let hog = Hog::draw(&mut chance);
    judge_play(seed, &scene(&mut chance), (), async |stage| {
        stage.start_crews();
        let what = watch(stage, &hog).await?;
        Some(Oracle::Elastic.finds(format!("{what} ({hog:?})")))
    })
}

/// What is known from look to look.
#[derive(Default)]
struct Judge {
    /// Since when less than half of a margin is left.
    short_since: Option<Instant>,
    /// The last direction of the budget, and how often it changed.
    fell: Option<bool>,
    turns: usize,
}

async fn watch(stage: &Stage, hog: &Hog) -> Option<String> {
    let (rt, cache) = (&stage.rt, &stage.cache);
    let began = rt.now();
    let mut judge = Judge::default();
    let mut target_bytes = CEILING_BYTES;
    while rt.now().since(began) < LENGTH {
        let passed = rt.now().since(began);
        let seen = cache.statistics();
        let used = (seen.frames - seen.free()) * PAGE;
        let left_bytes = hog.group_bytes.saturating_sub(hog.bytes_at(passed) + used);
        let look = cache.memory_seen(&MemorySeen {
            headroom_bytes: left_bytes,
            free_bytes: left_bytes,
            is_pressed: false,
            scarce: Scarce::Group,
        });
        let look = look.expect("the budget is elastic");
        let budget = cache.statistics().elastic;
        let now_bytes = budget.expect("the budget is elastic").target_bytes;
        let dirty = Span::from_micros(seen.dirty() * 1_000_000 / PAGES_PER_S);
        let found = judge
            .budget(passed, target_bytes, now_bytes)
            .or_else(|| judge.room(rt.now(), left_bytes, now_bytes, dirty));
        if let Some(what) = found {
            return Some(format!("at {} ms {what}", passed.as_millis()));
        }
        target_bytes = now_bytes;
        rt.sleep(look.next_look).await;
    }
    let least = CEILING_BYTES / 100 * 95;
    (target_bytes < least).then(|| {
        format!("the cache has {target_bytes} bytes and not {least} long after the last visit")
    })
}

impl Judge {
    /// The budget: its bounds, and how often it turns.
    fn budget(&mut self, passed: Span, from: u64, to: u64) -> Option<String> {
        if to > CEILING_BYTES + MIB || to + MIB < FLOOR_BYTES {
            return Some(format!(
                "the budget is {to} bytes; {FLOOR_BYTES} to {CEILING_BYTES} may be"
            ));
        }
        // Objects make small changes too.
        if from.abs_diff(to) < MIB {
            return None;
        }
        let falls = to < from;
        if self.fell.is_some_and(|fell| fell != falls) {
            self.turns += 1;
        }
        self.fell = Some(falls);
        let is_swinging = passed < VISITS && self.turns > MOST_TURNS;
        is_swinging.then(|| format!("the budget has turned {} times", self.turns))
    }

    /// What is left to others.
    fn room(&mut self, now: Instant, left: u64, budget: u64, dirty: Span) -> Option<String> {
        if left >= MARGIN_BYTES / 2 || budget <= FLOOR_BYTES + MIB {
            self.short_since = None;
            return None;
        }
        let since = *self.short_since.get_or_insert(now);
        let short = now.since(since);
        (short > SOON + dirty).then(|| {
            format!("{left} bytes are left for {short} and the budget is {budget}; {SOON} may be")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::judge_elastic;

    #[test]
    fn memory_is_given_back_and_comes_back() {
        for seed in 0..2 {
            assert_eq!(judge_elastic(seed), None);
        }
    }
}
