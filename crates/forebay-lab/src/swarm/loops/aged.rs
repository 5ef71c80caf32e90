//! A world of `at_risk`: no byte is older than the limit and not durable, as long as its store
//! answers and keeps its rate (docs/decisions/0066).
//!
//! The writers note when a call begins, and a store in front of the medium notes when a write, or
//! the commit that it needs, has ended.

use super::super::client::PAGE;
use super::super::machine::{machine_of, open_cache};
use super::super::null_store::NullStore;
use super::super::verdict::{Oracle, Violation};
use forebay::settings::PageMemory;
use forebay::{Cache, File, Settings};
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Prng, Span};
use forebay_rt::{Rt, Task};
use forebay_store::{Durability, Ending, Geometry, Intercept, Io, IoKind, ObjectId};
use forebay_store::{Rate, RateStore, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

const LOOK: Span = Span::from_millis(20);
const LENGTH: Span = Span::from_secs(36);
/// What becomes dirty before this is not judged: a new store may have four floors dirty, and the
/// limit needs 9 s to fall to what can be kept.
const SETTLED: Span = Span::from_secs(14);
/// A page counts as dirty from the beginning of its call, which may be held up for this time.
const GRACE: Span = Span::from_millis(500);
/// Requests that keep a store busy, and their most pages: those of the law of drain, by its page.
const FLOOR_PAGES: u64 = 4 * 256;

/// All that a seed decides.
#[derive(Clone, Debug)]
struct Load {
    pages_per_s: u64,
    at_risk: Span,
    /// Each writer writes `call_pages` and rests for so long.
    writers: u64,
    call_pages: u64,
    rest: Span,
    needs_commits: bool,
}

impl Load {
    fn draw(chance: &mut Prng) -> Load {
        let pages_per_s = 1_600 << chance.below(3);
        // A drain of a quarter of the limit lets a floor be written.
        let least_ms = 4 * FLOOR_PAGES * 1_000 / pages_per_s;
        Load {
            pages_per_s,
            at_risk: Span::from_millis(least_ms * (3 + chance.below(4)) / 2),
            writers: 1 + chance.below(4),
            call_pages: 1 << (2 * chance.below(3)),
            rest: Span::from_millis([0, 0, 10, 300][chance.below(4) as usize]),
            needs_commits: chance.chance(1, 2),
        }
    }
}

/// What the oracle of ages finds.
pub(in super::super) fn judge_ages(seed: u64) -> Option<Violation> {
    let load = Load::draw(&mut Prng::from_seed(seed).child("ages"));
    let machine = machine_of(seed);
    let what = machine.run(play(machine.rt(), &load))?;
    Some(Violation {
        oracle: Oracle::Age,
        what: format!("{what} ({load:?})"),
    })
}

/// Since when pages are dirty and not durable, by object and page.
#[derive(Default)]
struct Pages {
    since: BTreeMap<(u64, u64), Instant>,
    /// Pages that were written and wait for a commit, by object.
    written: BTreeMap<u64, Vec<u64>>,
}

/// Stands before the medium and notes what became durable.
struct Noting {
    rt: Rt,
    medium: RateStore,
    needs_commits: bool,
    pages: Mutex<Pages>,
}

impl Noting {
    fn dirtied(&self, object: u64, first: u64, count: u64) {
        let now = self.rt.now();
        let mut pages = lock(&self.pages);
        for page in first..first + count {
            pages.since.entry((object, page)).or_insert(now);
        }
    }

    fn oldest(&self, from: Instant) -> Option<((u64, u64), Instant)> {
        let pages = lock(&self.pages);
        let judged = pages.since.iter().filter(|(_, since)| **since >= from);
        let oldest = judged.min_by_key(|(_, since)| **since);
        oldest.map(|(place, since)| (*place, *since))
    }
}

/// The store as the cache sees it.
struct Front(Arc<Noting>);

impl Store for Front {
    fn geometry(&self) -> Geometry {
        let geometry = self.0.medium.geometry();
        if self.0.needs_commits {
            Geometry {
                durability: Durability::OnCommit,
                ..geometry
            }
        } else {
            geometry
        }
    }

    fn submit(&self, mut io: Io) {
        let object = io.request().object.0;
        // A commit covers what was written when it began.
        let covered = match io.request().kind {
            IoKind::Commit => lock(&self.0.pages).written.remove(&object),
            _ => None,
        };
        io.intercept(Arc::new(Passing {
            store: self.0.clone(),
            covered: Mutex::new(covered.unwrap_or_default()),
        }));
        self.0.medium.submit(io);
    }
}

/// A request that has begun.
struct Passing {
    store: Arc<Noting>,
    covered: Mutex<Vec<u64>>,
}

impl Intercept for Passing {
    fn ended(&self, ending: Ending) {
        let request = ending.request();
        let object = request.object.0;
        let mut pages = lock(&self.store.pages);
        let mut durable = std::mem::take(&mut *lock(&self.covered));
        if request.kind == IoKind::Write {
            let first = request.offset_bytes / PAGE;
            let written = first..first + request.length_bytes.div_ceil(PAGE);
            if self.store.needs_commits {
                pages.written.entry(object).or_default().extend(written);
            } else {
                durable.extend(written);
            }
        }
        for page in durable {
            pages.since.remove(&(object, page));
        }
        drop(pages);
        ending.pass();
    }
}

async fn play(rt: Rt, load: &Load) -> Option<String> {
    let settings = Settings {
        memory_bytes: 1 << 30,
        page_memory: PageMemory::Phantom,
        at_risk: Some(load.at_risk),
        ..Settings::default()
    };
    let cache = open_cache(&rt, settings, None);
    let rate = Rate::bytes(load.pages_per_s * PAGE);
    let noting = Arc::new(Noting {
        rt: rt.clone(),
        medium: RateStore::new(rt.clone(), Arc::new(NullStore::default()), rate),
        needs_commits: load.needs_commits,
        pages: Mutex::default(),
    });
    let stop = Arc::new(AtomicBool::new(false));
    let writers = start(&rt, (&cache, &noting), load, &stop);
    let found = watch(&rt, &noting, load).await;
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.join().await;
    }
    found
}

fn start(
    rt: &Rt,
    (cache, noting): (&Cache, &Arc<Noting>),
    load: &Load,
    stop: &Arc<AtomicBool>,
) -> Vec<Task> {
    let store = cache.attach(Arc::new(Front(noting.clone())));
    let store = store.expect("a new cache takes a store");
    let writers = (0..load.writers).map(|object| {
        let file = cache.open(&store, ObjectId(object), 0);
        let file = file.expect("a new object opens");
        let place = (noting.clone(), file, object);
        rt.spawn("writer", write(place, load.clone(), stop.clone()))
    });
    writers.collect()
}

async fn write(
    (noting, file, object): (Arc<Noting>, File, u64),
    load: Load,
    stop: Arc<AtomicBool>,
) {
    let bytes = vec![0; (load.call_pages * PAGE) as usize];
    let mut page = 0;
    while !stop.load(Ordering::Relaxed) {
        noting.dirtied(object, page, load.call_pages);
        let written = file.write_at(&bytes, page * PAGE).await;
        written.expect("the store takes every write");
        page += load.call_pages;
        noting.rt.sleep(load.rest).await;
    }
}

/// Looks at the oldest page until the time is over.
async fn watch(rt: &Rt, noting: &Noting, load: &Load) -> Option<String> {
    let began = rt.now();
    let most = load.at_risk + GRACE;
    while rt.now().since(began) < LENGTH {
        rt.sleep(LOOK).await;
        if let Some(((object, page), since)) = noting.oldest(began + SETTLED)
            && rt.now().since(since) > most
        {
            return Some(format!(
                "page {page} of object {object} is dirty since {} ms and not durable at {} ms; \
                 {most} may be, {} and {GRACE}",
                since.as_millis(),
                rt.now().as_millis(),
                load.at_risk
            ));
        }
    }
    None
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
