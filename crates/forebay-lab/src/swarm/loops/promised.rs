//! A world of promises in seconds: stores of a bare rate whose writers want more than the stores
//! take. There may also be a store that never answers, which must not hold up anybody else
//! (docs/decisions/testing.md).

use super::super::scene::{Crew, Moment, Observer, Scene, SceneIo, Site, judge};
use super::super::verdict::{Oracle, Violation};
use super::drain::{Drain, FLOOR_PAGES, Seen};
use forebay_base::{Instant, Prng, Span};
use forebay_engine::Settings;
use forebay_engine::settings::{BackingSettings, DirtyKnobs};
use forebay_store::{Fault, FaultAction, IoKind, ObjectId};
use std::collections::BTreeMap;

const LOOK: Span = Span::from_millis(20);
/// How long a world lasts, and when rates change in it.
const LENGTH: Span = Span::from_secs(48);
const CHANGE: Span = Span::from_secs(16);
/// A writer may be held up for this time and [`FAIR_TIMES`] times the time in which its store takes
/// one call of each of its writers.
const LONGEST: Span = Span::from_secs(2);
/// A call may take this much longer if it began before the limit of its store had time to follow.
const SETTLING: Span = Span::from_secs(1);
const FAIR_TIMES: u64 = 4;
/// On a store that needs commits no page becomes clean before a turn of the flusher is over: half a
/// second of its rate, and these pages.
const TURN_PAGES: u64 = 1_024;

/// A store with a promise, which its crew keeps busy.
fn promising(site: Site, drain: Span) -> Site {
    let backing = BackingSettings {
        drain: Some(drain),
        ..site.backing
    };
    Site { backing, ..site }
}

fn draw_site(chance: &mut Prng) -> Site {
    let pages_per_s = 400 << chance.below(4);
    let later = [pages_per_s / 2, pages_per_s, pages_per_s * 2][chance.below(3) as usize];
    let drain = draw_drain(chance);
    let crew = Crew::of("writer", 1 + chance.below(6), 1 << (2 * chance.below(4)));
    let site = Site::of(pages_per_s, vec![crew]).later(later);
    promising(site.unstable(chance.chance(1, 4)), drain)
}

fn draw_drain(chance: &mut Prng) -> Span {
    Span::from_millis(500 << chance.below(4))
}

/// A store that answers no write.
fn mute(drain: Span) -> Site {
    let crew = Crew {
        may_fail: true,
        ..Crew::of("mute writer", 1, 16)
    };
    let site = promising(Site::unlimited(vec![crew]), drain);
    Site {
        faults: vec![Fault::each(IoKind::Write, FaultAction::NeverAnswer)],
        ..site
    }
}

fn draw(chance: &mut Prng) -> Scene {
    let mut sites: Vec<Site> = (0..=chance.below(2)).map(|_| draw_site(chance)).collect();
    if chance.chance(1, 3) {
        sites.push(mute(draw_drain(chance)));
    }
    let scene = Scene::of(1 << 30, sites, LENGTH);
    Scene {
        // The dirty limit of all stores must not hold any of them. While the law looks a quarter
        // upwards, two of the fastest have 64 000 dirty pages, and writers are free up to 78 000.
        settings: Settings {
            dirty: DirtyKnobs {
                dirty_ratio_percent: 50,
                ..DirtyKnobs::default()
            },
            ..scene.settings
        },
        change_after: CHANGE,
        look: LOOK,
        ..scene
    }
}

/// What the oracle of promises finds.
pub(in super::super) fn judge_promises(seed: u64) -> Option<Violation> {
    let scene = draw(&mut Prng::from_seed(seed).child("promises"));
    let answering = scene.sites.iter().filter(|site| site.faults.is_empty());
    let promises = Promises {
        stores: answering.map(OfStore::new).collect(),
    };
    judge(seed, &scene, promises)
}

/// The oracle, of the stores that answer; they come first.
struct Promises {
    stores: Vec<OfStore>,
}

struct OfStore {
    drain: Drain,
    writers: u64,
    call_pages: u64,
    /// How long one call of its writers may take.
    longest_call: Span,
    /// Since when each writer has been in its call.
    in_calls: BTreeMap<ObjectId, Instant>,
}

impl OfStore {
    fn new(site: &Site) -> OfStore {
        let writers = site.writers();
        let call_pages = site.crews[0].call_pages;
        let slowest = site.least_pages_per_s();
        let fair_us = writers * call_pages * 1_000_000 / slowest;
        let turn_us = if site.is_unstable() {
            500_000 + TURN_PAGES * 1_000_000 / slowest
        } else {
            0
        };
        let drain = site.backing.drain.expect("each store has a promise");
        OfStore {
            drain: Drain::new(drain, site.pages_per_s(), FLOOR_PAGES, writers),
            writers,
            call_pages,
            longest_call: LONGEST + Span::from_micros(FAIR_TIMES * fair_us + turn_us),
            in_calls: BTreeMap::new(),
        }
    }

    /// What is wrong if a writer is held up for too long.
    fn held_up(&self, now: Instant) -> Option<String> {
        let began = *self.in_calls.values().min()?;
        let mut longest = self.longest_call;
        if !self.drain.is_settled(began) {
            longest += SETTLING;
        }
        let held_up = Some(now.since(began)).filter(|&held_up| held_up > longest)?;
        Some(format!(
            "at {} ms a writer has been held up for {held_up}; {longest} may be: {LONGEST}, \
             {SETTLING} more while a limit settles, {FAIR_TIMES} times a call of {} pages of {} \
             writers, and a turn if it needs commits",
            now.as_millis(),
            self.call_pages,
            self.writers
        ))
    }
}

impl Observer for Promises {
    fn io(&mut self, moment: &Moment<'_>, io: SceneIo<'_>) -> Option<Violation> {
        // The mute store is not among them.
        let of_store = self.stores.get_mut(io.store())?;
        match io {
            SceneIo::CallBegins(call) => {
                of_store.in_calls.insert(call.object, moment.now);
            }
            SceneIo::CallEnds(call, _) => {
                of_store.in_calls.remove(&call.object);
            }
            SceneIo::RateChanges(_, pages_per_s) => of_store.drain.change(moment.now, pages_per_s),
            SceneIo::RequestBegins(_) | SceneIo::RequestEnds(..) => {}
        }
        None
    }

    fn look(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        let seen = moment.statistics();
        for (number, of_store) in self.stores.iter_mut().enumerate() {
            let backing = &seen.backings[number];
            let levels = Seen {
                dirty: backing.reclaimable + backing.writeback,
                written: backing.written,
            };
            let found = of_store.drain.note(moment.now, levels);
            if let Some(what) = found.or_else(|| of_store.held_up(moment.now)) {
                return Some(Oracle::Drain.finds(format!("store {number}: {what}")));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::judge_promises;

    #[test]
    fn promises_in_seconds_are_kept() {
        for seed in 0..8 {
            assert_eq!(judge_promises(seed), None);
        }
    }
}
