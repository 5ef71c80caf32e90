//! A world of strict stores: their writers are held at the store's own share of the limit, which is
//! none if the store is new or was idle for long. Whatever they dirty is then due at once, because
//! nothing else lets them go on (docs/decisions/0093).
//!
//! Each writer makes one long call, all rest, and so on. Each turn is judged by itself, so that a
//! share that was built up in one turn excuses nothing in the next. The oracle is that of `work`,
//! with what is due of a strict store: all of it, however little is dirty of all stores.

use super::super::client::PAGE;
use super::super::machine::{machine_of, open_cache};
use super::super::null_store::NullStore;
use super::super::verdict::{Oracle, Violation};
use super::work::{Dirty, Work};
use forebay::settings::{BackingSettings, PageMemory};
use forebay::{Cache, File, Settings};
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_rt::{Rt, Task};
use forebay_store::{Ending, Geometry, Intercept, Io, IoKind, ObjectId, Rate, RateStore, Store};
use std::sync::Arc;

/// The time between two looks at what is dirty, while a turn lasts.
const LOOK: Span = Span::from_millis(10);
/// All writers of a strict store together write what it takes in this time, in one turn.
const TURN_MS: u64 = 750;
const TURNS: u64 = 6;

/// All that a seed decides.
#[derive(Clone, Debug)]
struct Load {
    memory_bytes: u64,
    pages_per_s: u64,
    max_ratio_percent: u64,
    writers: u64,
    /// How long all rest after each turn.
    rests: Vec<Span>,
    /// The rate of another store, whose writer never rests.
    other_pages_per_s: Option<u64>,
}

impl Load {
    fn draw(chance: &mut Prng) -> Load {
        let pages_per_s = 500 << chance.below(4);
        let rest = |chance: &mut Prng| {
            let seconds = [1, 3, 20, 60, 600][chance.below(5) as usize];
            Span::from_secs(seconds)
        };
        Load {
            memory_bytes: (64 << chance.below(3)) << 20,
            pages_per_s,
            max_ratio_percent: [5, 40, 100][chance.below(3) as usize],
            writers: 1 + chance.below(3),
            rests: (0..TURNS).map(|_| rest(chance)).collect(),
            other_pages_per_s: chance.chance(1, 4).then_some(500),
        }
    }

    /// Pages that each writer writes in a turn.
    fn call_pages(&self) -> u64 {
        self.pages_per_s * TURN_MS / 1_000 / self.writers
    }
}

/// What the oracle of work finds of a strict store.
pub(in super::super) fn judge_strict(seed: u64) -> Option<Violation> {
    let load = Load::draw(&mut Prng::from_seed(seed).child("strict"));
    let machine = machine_of(seed);
    let what = machine.run(play(machine.rt(), &load))?;
    Some(Violation {
        oracle: Oracle::Work,
        what: format!("{what} ({load:?})"),
    })
}

/// The strict store, as the oracle sees it.
struct Watched {
    rt: Rt,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    work: Work,
    found: Option<String>,
}

impl Watched {
    fn note(&self, change: impl FnOnce(&mut Work)) {
        let mut state = lock(&self.state);
        let what = state.work.note(self.rt.now(), change);
        state.found = state.found.take().or(what);
    }

    /// A turn begins, and is judged by itself.
    fn turn_begins(&self) {
        lock(&self.state).work.judge_anew(self.rt.now());
    }

    /// All that is dirty of the strict store, the first one, is due.
    fn look(&self, cache: &Cache) {
        let seen = &cache.statistics().backings[0];
        let dirty = Dirty {
            reclaimable: seen.reclaimable,
            writeback: seen.writeback,
            of_all: seen.reclaimable,
            background: 0,
        };
        self.note(|work| work.sees(dirty));
    }
}

/// Stands before the medium and reports its writes.
struct Probe {
    watched: Arc<Watched>,
    medium: RateStore,
}

impl Store for Probe {
    fn geometry(&self) -> Geometry {
        self.medium.geometry()
    }

    fn submit(&self, mut io: Io) {
        if io.request().kind == IoKind::Write {
            let pages = io.request().length_bytes / PAGE;
            self.watched.note(|work| work.begins(pages));
            let watched = self.watched.clone();
            io.intercept(Arc::new(Passing { watched }));
        }
        self.medium.submit(io);
    }
}

/// A write that has begun.
struct Passing {
    watched: Arc<Watched>,
}

impl Intercept for Passing {
    fn ended(&self, ending: Ending) {
        let pages = ending.request().length_bytes / PAGE;
        self.watched.note(|work| work.ends(pages));
        ending.pass();
    }
}

fn medium(rt: &Rt, pages_per_s: u64) -> RateStore {
    let rate = Rate::bytes(pages_per_s * PAGE);
    RateStore::new(rt.clone(), Arc::new(NullStore::default()), rate)
}

async fn play(rt: Rt, load: &Load) -> Option<String> {
    let settings = Settings {
        memory_bytes: load.memory_bytes,
        page_memory: PageMemory::Phantom,
        ..Settings::default()
    };
    let cache = open_cache(&rt, settings, None);
    let watched = Arc::new(Watched {
        rt: rt.clone(),
        state: Mutex::default(),
    });
    let files = open_strict(&rt, (&cache, &watched), load);
    let stop = Arc::new(AtomicBool::new(false));
    let other = load.other_pages_per_s.map(|pages_per_s| {
        let store = cache.attach(Arc::new(medium(&rt, pages_per_s)));
        let file = cache.open(&store.expect("a cache takes two stores"), ObjectId(1), 0);
        let file = file.expect("a new object opens");
        rt.spawn("other", write_on(rt.clone(), file, stop.clone()))
    });
    let mut found = None;
    for (turn, rest) in (0..).zip(&load.rests) {
        play_turn(&rt, (&cache, &watched), &files, (turn, load.call_pages())).await;
        found = lock(&watched.state).found.take();
        if let Some(what) = &mut found {
            what.insert_str(0, &format!("strict store, turn {turn}: "));
            break;
        }
        rt.sleep(*rest).await;
    }
    stop.store(true, Ordering::Relaxed);
    if let Some(other) = other {
        other.join().await;
    }
    found
}

/// A file for each writer.
fn open_strict(rt: &Rt, (cache, watched): (&Cache, &Arc<Watched>), load: &Load) -> Vec<File> {
    let probe = Probe {
        watched: watched.clone(),
        medium: medium(rt, load.pages_per_s),
    };
    let strict = BackingSettings {
        strict_limit: true,
        max_ratio_percent: load.max_ratio_percent,
        ..BackingSettings::default()
    };
    let store = cache.attach_with(Arc::new(probe), strict);
    let store = store.expect("a new cache takes a store");
    let open = |object| cache.open(&store, ObjectId(object), 0);
    let files = (0..load.writers).map(|object| open(object).expect("a new object opens"));
    files.collect()
}

/// One call of each writer. Ends with the last of them.
async fn play_turn(
    rt: &Rt,
    (cache, watched): (&Cache, &Arc<Watched>),
    files: &[File],
    (turn, call_pages): (u64, u64),
) {
    watched.turn_begins();
    watched.look(cache);
    let in_calls = Arc::new(AtomicU64::new(files.len() as u64));
    let start = |file: &File| -> Task {
        let (watched, file, in_calls) = (watched.clone(), file.clone(), in_calls.clone());
        rt.spawn("writer", async move {
            let bytes = vec![0; (call_pages * PAGE) as usize];
            watched.note(Work::call_begins);
            let written = file.write_at(&bytes, turn * call_pages * PAGE).await;
            written.expect("the store takes every write");
            watched.note(Work::call_ends);
            in_calls.fetch_sub(1, Ordering::Relaxed);
        })
    };
    let writers: Vec<Task> = files.iter().map(start).collect();
    while in_calls.load(Ordering::Relaxed) > 0 {
        rt.sleep(LOOK).await;
        watched.look(cache);
    }
    for writer in writers {
        writer.join().await;
    }
}

async fn write_on(rt: Rt, file: File, stop: Arc<AtomicBool>) {
    const CALL_PAGES: u64 = 64;
    let bytes = vec![0; (CALL_PAGES * PAGE) as usize];
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        let written = file.write_at(&bytes, at).await;
        written.expect("the store takes every write");
        at += bytes.len() as u64;
        rt.yield_now().await;
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
