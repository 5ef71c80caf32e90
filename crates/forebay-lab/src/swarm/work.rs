//! Work: a store does not idle while one of its writers is held up and there is something to write
//! (promise 6). Whenever a writer waits, a store is busy.
//!
//! A world of its own, as for shares. It is judged from outside: by the requests that the stores
//! got, by the calls that have returned, and by how much is dirty. The engine's own sums of idle
//! time are not used.

use super::client::PAGE;
use super::machine::{machine_of, open_cache};
use super::null_store::NullStore;
use super::verdict::{Oracle, Violation};
use forebay::settings::PageMemory;
use forebay::{AttachedStore, Cache, File, Settings, Statistics};
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::{Prng, Span};
use forebay_rt::{Rt, Task};
use forebay_store::{CountStore, IoKind, ObjectId, Rate, RateStore};
use std::sync::Arc;

/// The time between two looks.
const LOOK: Span = Span::from_millis(10);
/// Looks before the first that counts, because the shares of the stores are unknown at first.
const WARM_UP_LOOKS: u64 = 300;
/// Looks at a world. Halfway the rates of its stores change.
const LOOKS: u64 = 2_300;
/// Most looks in a row that may find a store idle: longer than the longest pause of its writers.
const MOST_IN_A_ROW: u64 = 22;
/// Most looks that may find it idle, in percent of those that find one of its writers held up.
const MOST_PERCENT: u64 = 1;
/// This many looks prove nothing, because rates change halfway.
const FEW: u64 = 20;

/// A store and its writers.
#[derive(Clone, Copy, Debug)]
struct Side {
    pages_per_s: u64,
    /// Its rate in the second half.
    later_pages_per_s: u64,
    writers: u64,
    /// What each of them writes in a call.
    call_pages: u64,
}

impl Side {
    fn draw(chance: &mut Prng) -> Side {
        let pages_per_s = 300 << chance.below(7);
        Side {
            pages_per_s,
            later_pages_per_s: (pages_per_s << chance.below(3)) / 2,
            writers: 1 + chance.below(6),
            call_pages: 1 << (2 * chance.below(5)),
        }
    }
}

/// One writer: the number of its call, odd while it is in one.
struct Writer {
    task: Task,
    call: Arc<AtomicU64>,
    seen: u64,
}

impl Writer {
    /// Whether it is still in the call in which it was at the last look.
    fn is_held_up(&mut self) -> bool {
        let before = std::mem::replace(&mut self.seen, self.call.load(Ordering::Relaxed));
        before == self.seen && before % 2 == 1
    }
}

/// A store that is watched.
struct Watched {
    side: Side,
    medium: Arc<RateStore>,
    counted: Arc<CountStore>,
    writers: Vec<Writer>,
    requests: u64,
    held_up: u64,
    idle: u64,
    in_a_row: u64,
    longest: u64,
}

/// Judges whether stores idle while their writers wait.
pub(super) fn judge_work(seed: u64) -> Option<Violation> {
    let mut chance = Prng::from_seed(seed).child("work");
    let memory_bytes = (32 << chance.below(4)) << 20;
    let sides: Vec<Side> = (0..=chance.below(3))
        .map(|_| Side::draw(&mut chance))
        .collect();
    let machine = machine_of(seed);
    let what = machine.run(watch(machine.rt(), memory_bytes, sides))?;
    Some(Violation {
        oracle: Oracle::Work,
        what,
    })
}

async fn watch(rt: Rt, memory_bytes: u64, sides: Vec<Side>) -> Option<String> {
    let settings = Settings {
        memory_bytes,
        page_memory: PageMemory::Phantom,
        ..Settings::default()
    };
    let cache = open_cache(&rt, settings, None);
    let stop = Arc::new(AtomicBool::new(false));
    let mut stores: Vec<Watched> = sides
        .into_iter()
        .map(|side| Watched::start(&rt, &cache, side, &stop))
        .collect();
    for look in 0..LOOKS {
        if look == LOOKS / 2 {
            stores.iter().for_each(Watched::change_rate);
        }
        rt.sleep(LOOK).await;
        let statistics = cache.statistics();
        for (number, store) in stores.iter_mut().enumerate() {
            store.look(&statistics, number);
            if look < WARM_UP_LOOKS {
                store.forget();
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let found = stores.iter().find_map(Watched::verdict);
    for writer in stores.into_iter().flat_map(|store| store.writers) {
        writer.task.join().await;
    }
    found
}

impl Watched {
    fn start(rt: &Rt, cache: &Cache, side: Side, stop: &Arc<AtomicBool>) -> Watched {
        let rate = Rate::bytes(side.pages_per_s * PAGE);
        let medium = Arc::new(RateStore::new(
            rt.clone(),
            Arc::new(NullStore::default()),
            rate,
        ));
        let counted = Arc::new(CountStore::new(rt.clone(), medium.clone()));
        let store = cache
            .attach(counted.clone())
            .expect("a new cache takes a store");
        let writers = (0..side.writers)
            .map(|number| start(rt, open(cache, &store, number), side.call_pages, stop))
            .collect();
        Watched {
            side,
            medium,
            counted,
            writers,
            requests: 0,
            held_up: 0,
            idle: 0,
            in_a_row: 0,
            longest: 0,
        }
    }

    fn change_rate(&self) {
        let rate = Rate::bytes(self.side.later_pages_per_s * PAGE);
        self.medium.set_rate(rate);
    }

    /// `number` is the store's number in the cache.
    fn look(&mut self, statistics: &Statistics, number: usize) {
        let counts = self.counted.counts(IoKind::Write);
        let was_asked = counts.requests != std::mem::replace(&mut self.requests, counts.requests);
        let works = was_asked || counts.in_flight > 0;
        // All are checked, because each notes in which call it is now.
        let held_up = self.writers.iter_mut().map(Writer::is_held_up);
        let is_held_up = held_up.fold(false, |any, this| any | this);
        let has_work = statistics.backings[number].reclaimable > 0
            && statistics.nr_dirty > statistics.nr_dirty_background_threshold;
        self.held_up += u64::from(is_held_up);
        if is_held_up && has_work && !works {
            self.idle += 1;
            self.in_a_row += 1;
            self.longest = self.longest.max(self.in_a_row);
        } else {
            self.in_a_row = 0;
        }
    }

    /// What was seen so far proves nothing.
    fn forget(&mut self) {
        (self.held_up, self.idle, self.in_a_row, self.longest) = (0, 0, 0, 0);
    }

    fn verdict(&self) -> Option<String> {
        let is_long = self.longest > MOST_IN_A_ROW;
        let is_often = self.idle * 100 > self.held_up * MOST_PERCENT + FEW * 100;
        (is_long || is_often).then(|| {
            format!(
                "a store idled while its writers waited: {} of {} looks, {} in a row ({:?})",
                self.idle, self.held_up, self.longest, self.side
            )
        })
    }
}

fn open(cache: &Cache, store: &AttachedStore, number: u64) -> File {
    let opened = cache.open(store, ObjectId(number), 0);
    opened.expect("a new object opens")
}

fn start(rt: &Rt, file: File, call_pages: u64, stop: &Arc<AtomicBool>) -> Writer {
    let call = Arc::new(AtomicU64::new(0));
    let (number, stop, own_rt) = (call.clone(), stop.clone(), rt.clone());
    let task = rt.spawn("worker", async move {
        let bytes = vec![0; (call_pages * PAGE) as usize];
        let mut at = 0;
        while !stop.load(Ordering::Relaxed) {
            number.fetch_add(1, Ordering::Relaxed);
            file.write_at(&bytes, at).await.expect("the store is well");
            number.fetch_add(1, Ordering::Relaxed);
            at += bytes.len() as u64;
            own_rt.yield_now().await;
        }
    });
    Writer {
        task,
        call,
        seen: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::judge_work;

    #[test]
    fn stores_work_while_their_writers_wait() {
        for seed in 0..12 {
            assert_eq!(judge_work(seed), None);
        }
    }
}
