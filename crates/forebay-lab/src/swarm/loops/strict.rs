//! A world of strict stores: their writers are held at the store's own share of the limit. A store
//! that is new or was idle for a long time has no share. All its dirty pages are then due at once,
//! because nothing else lets its writers go on (docs/decisions/testing.md).
//!
//! In a turn each writer makes one long call, and then all rest. Each turn is judged by itself: a
//! share that was built up in one turn excuses nothing in the next. The oracle is that of `work`,
//! except that all dirty pages of the strict store are due, however few pages are dirty in all.

use super::super::client::PAGE;
use super::super::scene::{Call, Crew, Moment, Observer, Scene, SceneIo, Site, Stage, judge_play};
use super::super::verdict::{Oracle, Violation};
use super::work::{Dirty, Work};
use forebay_base::{Prng, Span};
use forebay_engine::settings::BackingSettings;
use forebay_rt::Task;
use forebay_store::{IoKind, ObjectId};

/// The time between two looks at the dirty pages during a turn.
const LOOK: Span = Span::from_millis(10);
/// In one turn all writers of a strict store together write what it takes in this time.
const TURN_MS: u64 = 750;
const TURNS: u64 = 6;

/// The turns of the writers of the strict store.
#[derive(Clone, Debug)]
struct Turns {
    writers: u64,
    /// Pages that each writer writes in a turn.
    call_pages: u64,
    /// How long all rest after each turn.
    rests: Vec<Span>,
}

/// Draws the turns, a strict store, and perhaps another store with a writer that never rests.
fn draw(chance: &mut Prng) -> (Turns, Scene) {
    let pages_per_s = 500 << chance.below(4);
    let memory_bytes = (64 << chance.below(3)) << 20;
    let mut strict = Site::of(pages_per_s, Vec::new());
    strict.backing = BackingSettings {
        strict_limit: true,
        max_ratio_percent: [5, 40, 100][chance.below(3) as usize],
        ..strict.backing
    };
    let writers = 1 + chance.below(3);
    let rest = |_| Span::from_secs([1, 3, 20, 60, 600][chance.below(5) as usize]);
    let turns = Turns {
        writers,
        call_pages: pages_per_s * TURN_MS / 1_000 / writers,
        rests: (0..TURNS).map(rest).collect(),
    };
    let mut sites = vec![strict];
    if chance.chance(1, 4) {
        sites.push(Site::of(500, vec![Crew::of("other", 1, 64)]));
    }
    (turns, Scene::of(memory_bytes, sites, Span::ZERO))
}

/// What the oracle of work finds of a strict store.
pub(in super::super) fn judge_strict(seed: u64) -> Option<Violation> {
    let (turns, scene) = draw(&mut Prng::from_seed(seed).child("strict"));
    judge_play(seed, &scene, Strict::default(), async |stage| {
        stage.start_crews();
        play(stage, &turns).await;
        None
    })
}

/// The oracle of work, of the strict store, which is the first.
#[derive(Default)]
struct Strict {
    work: Work,
    turn: u64,
}

impl Strict {
    fn note(&mut self, moment: &Moment<'_>, change: impl FnOnce(&mut Work)) -> Option<Violation> {
        let what = self.work.note(moment.now, change)?;
        let turn = self.turn;
        Some(Oracle::Work.finds(format!("strict store, turn {turn}: {what}")))
    }

    /// All dirty pages of the strict store are due.
    fn sees(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        let seen = &moment.statistics().backings[0];
        let dirty = Dirty {
            reclaimable: seen.reclaimable,
            writeback: seen.writeback,
            of_all: seen.reclaimable,
            background: 0,
        };
        self.note(moment, |work| work.sees(dirty))
    }
}

impl Observer for Strict {
    fn io(&mut self, moment: &Moment<'_>, io: SceneIo<'_>) -> Option<Violation> {
        if io.store() != 0 {
            return None;
        }
        match io {
            SceneIo::CallBegins(call) => {
                if !self.work.is_wanted() {
                    // A turn begins, and is judged by itself.
                    self.turn = call.pages.start / (call.pages.end - call.pages.start);
                    self.work.restart(moment.now);
                    self.sees(moment);
                }
                self.note(moment, Work::call_begins)
            }
            SceneIo::CallEnds(..) => self.note(moment, Work::call_ends),
            SceneIo::RequestBegins(request) if request.is.kind == IoKind::Write => {
                self.note(moment, |work| work.begins(request.written_pages()))
            }
            SceneIo::RequestEnds(request, _) if request.is.kind == IoKind::Write => {
                self.note(moment, |work| work.ends(request.written_pages()))
            }
            _ => None,
        }
    }

    fn look(&mut self, moment: &Moment<'_>) -> Option<Violation> {
        self.sees(moment)
    }
}

/// Plays the turns. A turn ends with the last call.
async fn play(stage: &Stage, turns: &Turns) {
    let pages = turns.call_pages;
    let files = (0..turns.writers).map(|number| {
        let object = ObjectId(number);
        (object, stage.open_file(0, object, 0))
    });
    let files: Vec<_> = files.collect();
    for (turn, rest) in (0..).zip(&turns.rests) {
        let calls = files.iter().map(|(object, file)| {
            let (actor, file) = (stage.actor.clone(), file.clone());
            let call = Call {
                store: 0,
                object: *object,
                pages: turn * pages..(turn + 1) * pages,
            };
            stage.rt.spawn("writer", async move {
                let bytes = vec![0; (pages * PAGE) as usize];
                let write = file.write_at(&bytes, call.pages.start * PAGE);
                let written = actor.make(&call, write).await;
                written.expect("the store takes every write");
            })
        });
        let calls: Vec<Task> = calls.collect();
        while !calls.iter().all(Task::is_finished) {
            stage.rt.sleep(LOOK).await;
            stage.look();
        }
        if stage.has_found() {
            return;
        }
        stage.rt.sleep(*rest).await;
    }
}

#[cfg(test)]
mod tests {
    use super::judge_strict;

    #[test]
    fn a_strict_store_without_a_share_works_while_its_writers_wait() {
        for seed in 0..3 {
            assert_eq!(judge_strict(seed), None);
        }
    }
}
