//! A world of promises in seconds: stores of a bare rate whose writers want more than they take.
//! Beside them there may be a store that never answers, which must not hold up anybody else
//! (docs/decisions/0064).

use super::super::client::PAGE;
use super::super::machine::{machine_of, open_cache};
use super::super::null_store::NullStore;
use super::super::verdict::{Oracle, Violation};
use super::drain::{Drain, Seen};
use forebay::settings::{BackingSettings, DirtyKnobs, PageMemory};
use forebay::{Cache, File, Settings};
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::{Instant, Prng, Span};
use forebay_rt::{Rt, Task};
use forebay_store::{Fault, FaultAction, FaultStore, IoKind, ObjectId, Rate, RateStore, Store};
use std::sync::Arc;

const LOOK: Span = Span::from_millis(20);
/// How long a world lasts, and when rates change in it.
const LENGTH: Span = Span::from_secs(48);
const CHANGE: Span = Span::from_secs(16);
/// Requests that keep a store busy, and their most pages: those of the law, by its page.
const FLOOR_PAGES: u64 = 4 * 256;
/// A writer may be held up for this time, and for so many times that in which its store takes what
/// all its writers write in one call.
const LONGEST: Span = Span::from_secs(2);
/// A call may take so much longer if it began before the limit of its store had time to follow.
const SETTLING: Span = Span::from_secs(1);
const FAIR_TIMES: u64 = 4;
/// A store that needs commits frees nothing before a turn of the flusher is over: half a second of
/// its rate, and these pages.
const TURN_PAGES: u64 = 1_024;

/// A store and its writers.
#[derive(Clone, Debug)]
struct Side {
    pages_per_s: u64,
    later_pages_per_s: u64,
    drain: Span,
    writers: u64,
    call_pages: u64,
    is_unstable: bool,
}

/// All that a seed decides.
#[derive(Clone, Debug)]
struct Load {
    sides: Vec<Side>,
    /// A store with this promise answers no write.
    mute: Option<Span>,
}

impl Load {
    fn draw(chance: &mut Prng) -> Load {
        Load {
            sides: (0..=chance.below(2)).map(|_| Side::draw(chance)).collect(),
            mute: chance.chance(1, 3).then(|| draw_drain(chance)),
        }
    }
}

impl Side {
    fn draw(chance: &mut Prng) -> Side {
        let pages_per_s = 400 << chance.below(4);
        Side {
            pages_per_s,
            later_pages_per_s: [pages_per_s / 2, pages_per_s, pages_per_s * 2]
                [chance.below(3) as usize],
            drain: draw_drain(chance),
            writers: 1 + chance.below(6),
            call_pages: 1 << (2 * chance.below(4)),
            is_unstable: chance.chance(1, 4),
        }
    }

    /// How long one call of its writers may take.
    fn longest_call(&self) -> Span {
        let slowest = self.pages_per_s.min(self.later_pages_per_s);
        let fair_us = self.writers * self.call_pages * 1_000_000 / slowest;
        let turn_us = if self.is_unstable {
            500_000 + TURN_PAGES * 1_000_000 / slowest
        } else {
            0
        };
        LONGEST + Span::from_micros(FAIR_TIMES * fair_us + turn_us)
    }
}

fn draw_drain(chance: &mut Prng) -> Span {
    Span::from_millis(500 << chance.below(4))
}

/// What the oracle of promises finds.
pub(in super::super) fn judge_promises(seed: u64) -> Option<Violation> {
    let load = Load::draw(&mut Prng::from_seed(seed).child("promises"));
    let machine = machine_of(seed);
    let what = machine.run(play(machine.rt(), &load))?;
    Some(Violation {
        oracle: Oracle::Drain,
        what: format!("{what} ({load:?})"),
    })
}

/// Where a writer is: since when it is in a call, microseconds and one; 0 outside of calls.
type InCall = Arc<AtomicU64>;

/// A store, the medium that gives it its rate, and its writers.
struct Site {
    side: Side,
    medium: Arc<RateStore>,
    drain: Drain,
    bdi: usize,
    calls: Vec<InCall>,
}

async fn play(rt: Rt, load: &Load) -> Option<String> {
    // No store may be held by the dirty limit of all: with looks a quarter upwards two of the
    // fastest have 64 000 dirty pages, and writers are free up to 78 000.
    let settings = Settings {
        memory_bytes: 1 << 30,
        dirty: DirtyKnobs {
            dirty_ratio_percent: 50,
            ..DirtyKnobs::default()
        },
        page_memory: PageMemory::Phantom,
        ..Settings::default()
    };
    let cache = open_cache(&rt, settings, None);
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    let first = cache.statistics().backings.len();
    let mut sites = Vec::new();
    for (number, side) in load.sides.iter().enumerate() {
        let (site, writers) = Site::start((&rt, &cache), first + number, side, &stop);
        sites.push(site);
        tasks.extend(writers);
    }
    let mute = load.mute.map(|drain| {
        let (store, writer) = start_mute((&rt, &cache), drain, &stop);
        tasks.push(writer);
        store
    });
    let found = watch(&rt, &cache, &mut sites).await;
    stop.store(true, Ordering::Relaxed);
    if let Some(mute) = mute {
        mute.clear();
        mute.release();
    }
    for task in tasks {
        task.join().await;
    }
    found
}

/// Looks at all stores until something is found or the time is over.
async fn watch(rt: &Rt, cache: &Cache, sites: &mut [Site]) -> Option<String> {
    let began = rt.now();
    let mut has_changed = false;
    while rt.now().since(began) < LENGTH {
        rt.sleep(LOOK).await;
        let now = rt.now();
        if !has_changed && now.since(began) >= CHANGE {
            has_changed = true;
            for site in &mut *sites {
                let later = site.side.later_pages_per_s;
                site.medium.set_rate(Rate::bytes(later * PAGE));
                site.drain.change(now, later);
            }
        }
        let seen = cache.statistics();
        for site in &mut *sites {
            let of_store = &seen.backings[site.bdi];
            let levels = Seen {
                dirty: of_store.reclaimable + of_store.writeback,
                written: of_store.written,
            };
            let found = site.drain.note(now, levels);
            if let Some(what) = found.or_else(|| site.held_up(now)) {
                return Some(format!("store {}: {what}", site.bdi));
            }
        }
    }
    None
}

impl Site {
    fn start(
        (rt, cache): (&Rt, &Cache),
        bdi: usize,
        side: &Side,
        stop: &Arc<AtomicBool>,
    ) -> (Site, Vec<Task>) {
        let null_store = NullStore {
            is_unstable: side.is_unstable,
        };
        let rate = Rate::bytes(side.pages_per_s * PAGE);
        let medium = Arc::new(RateStore::new(rt.clone(), Arc::new(null_store), rate));
        let files = files_of(cache, medium.clone(), side.drain, side.writers);
        let calls: Vec<InCall> = files.iter().map(|_| InCall::default()).collect();
        let writers = files.into_iter().zip(&calls).map(|(file, call)| {
            let place = (file, side.call_pages, call.clone());
            rt.spawn("writer", write(rt.clone(), place, stop.clone()))
        });
        let tasks = writers.collect();
        let site = Site {
            side: side.clone(),
            medium,
            drain: Drain::new(side.drain, side.pages_per_s, FLOOR_PAGES, side.writers),
            bdi,
            calls,
        };
        (site, tasks)
    }

    /// Whether a writer is held up for too long.
    fn held_up(&self, now: Instant) -> Option<String> {
        let first = self.calls.iter().filter_map(|call| {
            let since = call.load(Ordering::Relaxed).checked_sub(1)?;
            Some(Instant::ZERO + Span::from_micros(since))
        });
        let began = first.min()?;
        let mut longest = self.side.longest_call();
        if !self.drain.is_settled(began) {
            longest += SETTLING;
        }
        let held_up = Some(now.since(began)).filter(|&held_up| held_up > longest)?;
        Some(format!(
            "at {} ms a writer has been held up for {held_up}; {longest} may be: {LONGEST}, \
             {SETTLING} more while a limit settles, {FAIR_TIMES} times a call of {} pages of {} \
             writers, and a turn if it needs commits",
            now.as_millis(),
            self.side.call_pages,
            self.side.writers
        ))
    }
}

/// Attaches `store` with a promise and opens a file for each of its writers.
fn files_of(cache: &Cache, store: Arc<dyn Store>, drain: Span, writers: u64) -> Vec<File> {
    let settings = BackingSettings {
        drain: Some(drain),
        ..BackingSettings::default()
    };
    let attached = cache.attach_with(store, settings);
    let store = attached.expect("a new cache takes a store");
    let open = |object| cache.open(&store, ObjectId(object), 0);
    let files = (0..writers).map(|object| open(object).expect("a new object opens"));
    files.collect()
}

/// Attaches a store that answers no write, and starts its writer.
fn start_mute(
    (rt, cache): (&Rt, &Cache),
    drain: Span,
    stop: &Arc<AtomicBool>,
) -> (Arc<FaultStore>, Task) {
    let mute = Arc::new(FaultStore::new(rt.clone(), Arc::new(NullStore::default())));
    mute.inject(Fault::each(IoKind::Write, FaultAction::NeverAnswer));
    let mut files = files_of(cache, mute.clone(), drain, 1);
    let file = files.pop().expect("it has one writer");
    let place = (file, 16, InCall::default());
    let writer = rt.spawn("mute writer", write(rt.clone(), place, stop.clone()));
    (mute, writer)
}

/// Writes repeatedly, on and on.
async fn write(rt: Rt, (file, call_pages, call): (File, u64, InCall), stop: Arc<AtomicBool>) {
    let bytes = vec![0; (call_pages * PAGE) as usize];
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        let since = rt.now().as_micros();
        call.store(since + 1, Ordering::Relaxed);
        // A store that does not answer may end it with an error.
        let _ = file.write_at(&bytes, at).await;
        call.store(0, Ordering::Relaxed);
        at += bytes.len() as u64;
        rt.yield_now().await;
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
