//! A world of `at_risk`: a byte is durable before it is older than the limit, as long as its store
//! answers and keeps its rate (docs/decisions/writeback-and-throttling.md).
//!
//! The writers note when a call begins, and a store in front of the medium notes when a write, or
//! the commit that it needs, has ended.

use super::super::scene::{Crew, Moment, Observer, Request, Scene, SceneIo, Site, judge};
use super::super::verdict::{Oracle, Violation};
use super::drain::FLOOR_PAGES;
use forebay_base::{Instant, Prng, Span};
use forebay_engine::Settings;
use forebay_store::{Durability, IoKind};
use std::collections::BTreeMap;

const LOOK: Span = Span::from_millis(20);
const LENGTH: Span = Span::from_secs(36);
/// Pages that become dirty before this are not judged: a new store may have four floors dirty, and
/// the limit needs 9 s to fall to what can be kept.
const SETTLED: Span = Span::from_secs(14);
/// A page counts as dirty from the beginning of its call, which may be held up for this time.
const GRACE: Span = Span::from_millis(500);

fn draw(chance: &mut Prng) -> Scene {
    let pages_per_s = 1_600 << chance.below(3);
    // A floor can be written in a quarter of the limit.
    let least_ms = 4 * FLOOR_PAGES * 1_000 / pages_per_s;
    let at_risk = Span::from_millis(least_ms * (3 + chance.below(4)) / 2);
    let crew = Crew::of("writer", 1 + chance.below(4), 1 << (2 * chance.below(3)));
    let rest = Span::from_millis([0, 0, 10, 300][chance.below(4) as usize]);
    let mut site = Site::of(pages_per_s, vec![Crew { rest, ..crew }]);
    if chance.chance(1, 2) {
        site.durability = Durability::OnCommit;
    }
    let scene = Scene::of(1 << 30, vec![site], LENGTH);
    Scene {
        settings: Settings {
            at_risk: Some(at_risk),
            ..scene.settings
        },
        look: LOOK,
        ..scene
    }
}

/// What the oracle of ages finds.
pub(in super::super) fn judge_ages(seed: u64) -> Option<Violation> {
    let scene = draw(&mut Prng::from_seed(seed).child("ages"));
    let ages = Ages {
        at_risk: scene.settings.at_risk.expect("it was drawn"),
        needs_commits: scene.sites[0].durability == Durability::OnCommit,
        since: BTreeMap::new(),
        written: BTreeMap::new(),
        covered: BTreeMap::new(),
    };
    judge(seed, &scene, ages)
}

/// The oracle of one store.
struct Ages {
    at_risk: Span,
    needs_commits: bool,
    /// Since when pages have been dirty and not durable, by object and page.
    since: BTreeMap<(u64, u64), Instant>,
    /// Pages that were written and wait for a commit, by object.
    written: BTreeMap<u64, Vec<u64>>,
    /// What commits under way cover: what was written when they began.
    covered: BTreeMap<u64, Vec<u64>>,
}

impl Ages {
    fn request_ends(&mut self, request: Request) {
        let object = request.is.object.0;
        let mut durable = self.covered.remove(&request.number).unwrap_or_default();
        if request.is.kind == IoKind::Write {
            let written = request.written();
            if self.needs_commits {
                self.written.entry(object).or_default().extend(written);
            } else {
                durable.extend(written);
            }
        }
        for page in durable {
            self.since.remove(&(object, page));
        }
    }
}

impl Observer for Ages {
    fn io(&mut self, moment: &Moment<'_>, io: SceneIo<'_>) -> Option<Violation> {
        match io {
            SceneIo::CallBegins(call) => {
                for page in call.pages.clone() {
                    let place = (call.object.0, page);
                    self.since.entry(place).or_insert(moment.now);
                }
            }
            SceneIo::RequestBegins(request) if request.is.kind == IoKind::Commit => {
                let covered = self.written.remove(&request.is.object.0);
                self.covered
                    .insert(request.number, covered.unwrap_or_default());
            }
            SceneIo::RequestEnds(request, _) => self.request_ends(request),
            _ => {}
        }
        None
    }

    fn look(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        let from = Instant::ZERO + SETTLED;
        let judged = self.since.iter().filter(|(_, since)| **since >= from);
        let ((object, page), since) = judged.min_by_key(|(_, since)| **since)?;
        let most = self.at_risk + GRACE;
        (moment.now.since(*since) > most).then(|| {
            Oracle::Age.finds(format!(
                "page {page} of object {object} has been dirty since {} ms and is not durable \
                 at {} ms; {most} may be, {} and {GRACE}",
                since.as_millis(),
                moment.now.as_millis(),
                self.at_risk
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::judge_ages;

    #[test]
    fn no_byte_is_too_old() {
        for seed in 0..4 {
            assert_eq!(judge_ages(seed), None);
        }
    }
}
