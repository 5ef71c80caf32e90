//! Shares: writers of one store that ask for the same get the same, and one that asks for less gets
//! what it asks for. The number of writers and the size of a call do not matter (spec/writeback.md
//! 5.2: a writer is checked when its quota is used up).
//!
//! This is a world of its own, after the run of a seed: shares are judged over minutes, and in that
//! time nothing else may go wrong.

use super::client::PAGE;
use super::machine::{machine_of, open_cache};
use super::nowhere::Nowhere;
use super::verdict::{Oracle, Violation};
use forebay::settings::PageMemory;
use forebay::{AttachedStore, Cache, File, Settings};
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::{Prng, Span};
use forebay_rt::{Rt, Task};
use forebay_store::{ObjectId, Rate, RateStore};
use std::sync::Arc;

/// One seed in this many is judged, because it takes longer than the rest of a run.
const EVERY: u64 = 32;
/// By then the rates have settled.
const WARM_UP: Span = Span::from_secs(20);
/// Shares are compared over windows of this length.
const WINDOW_S: u64 = 60;
const WINDOWS: u64 = 2;
/// The least value of Jain's index that passes, in thousandths. For equal shares it is 1.
const LEAST_JAIN: u64 = 990;
/// The least share that a light writer gets of what it asks for, in percent.
const LEAST_LIGHT_PERCENT: u64 = 90;

/// What is judged.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    writers: u64,
    /// What each of them writes in a call.
    call_pages: u64,
    /// What the store takes from each of them.
    share_pages_per_s: u64,
}

impl Crowd {
    fn draw(chance: &mut Prng) -> Crowd {
        Crowd {
            writers: 40 + chance.below(60),
            call_pages: 1 << (2 * chance.below(5)),
            share_pages_per_s: 40 + chance.below(60),
        }
    }
}

/// One writer, and what it has written.
struct Writer {
    task: Task,
    pages: Arc<AtomicU64>,
}

/// Judges the shares of a crowd, if it is the turn of this seed.
pub(super) fn judge_shares(seed: u64) -> Option<Violation> {
    if !seed.is_multiple_of(EVERY) {
        return None;
    }
    let crowd = Crowd::draw(&mut Prng::from_seed(seed).child("shares"));
    let machine = machine_of(seed);
    let what = machine.run(watch(machine.rt(), crowd))?;
    Some(Violation {
        oracle: Oracle::Shares,
        what: format!("{what} ({crowd:?}; spec/writeback.md 5.2)"),
    })
}

async fn watch(rt: Rt, crowd: Crowd) -> Option<String> {
    let settings = Settings {
        memory_bytes: 128 << 20,
        page_memory: PageMemory::Phantom,
        ..Settings::default()
    };
    let cache = open_cache(&rt, settings, None);
    let rate = Rate::bytes((crowd.writers + 1) * crowd.share_pages_per_s * PAGE);
    let medium = Arc::new(RateStore::new(
        rt.clone(),
        Arc::new(Nowhere::default()),
        rate,
    ));
    let store = cache.attach(medium).expect("a new cache takes a store");
    let stop = Arc::new(AtomicBool::new(false));
    let heavy: Vec<Writer> = (0..crowd.writers)
        .map(|number| {
            let file = open(&cache, &store, number);
            start(&rt, file, crowd.call_pages, None, &stop)
        })
        .collect();
    // It asks for a quarter of an equal share.
    let nap = Span::from_micros(4_000_000 / crowd.share_pages_per_s);
    let light = start(
        &rt,
        open(&cache, &store, crowd.writers),
        1,
        Some(nap),
        &stop,
    );
    rt.sleep(WARM_UP).await;
    let mut found = None;
    for _ in 0..WINDOWS {
        let before: Vec<u64> = heavy.iter().map(Writer::pages).collect();
        let light_before = light.pages();
        rt.sleep(Span::from_secs(WINDOW_S)).await;
        let shares: Vec<u64> = heavy
            .iter()
            .zip(before)
            .map(|(writer, before)| writer.pages() - before)
            .collect();
        let asked = WINDOW_S * crowd.share_pages_per_s / 4;
        found = found
            .or_else(|| unequal(&shares))
            .or_else(|| held_back(light.pages() - light_before, asked));
    }
    stop.store(true, Ordering::Relaxed);
    for writer in heavy.into_iter().chain([light]) {
        writer.task.join().await;
    }
    found
}

fn open(cache: &Cache, store: &AttachedStore, number: u64) -> File {
    let opened = cache.open(store, ObjectId(number), 0);
    opened.expect("a new object opens")
}

/// Writes `call_pages` at a time, with a rest before each call if there is one.
fn start(
    rt: &Rt,
    file: File,
    call_pages: u64,
    nap: Option<Span>,
    stop: &Arc<AtomicBool>,
) -> Writer {
    let pages = Arc::new(AtomicU64::new(0));
    let (written, stop, own_rt) = (pages.clone(), stop.clone(), rt.clone());
    let task = rt.spawn("sharer", async move {
        let bytes = vec![0; (call_pages * PAGE) as usize];
        let mut at = 0;
        while !stop.load(Ordering::Relaxed) {
            if let Some(nap) = nap {
                own_rt.sleep(nap).await;
            }
            file.write_at(&bytes, at).await.expect("the store is well");
            at += bytes.len() as u64;
            written.fetch_add(call_pages, Ordering::Relaxed);
        }
    });
    Writer { task, pages }
}

impl Writer {
    fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }
}

/// What is wrong with the shares of equal writers.
fn unequal(shares: &[u64]) -> Option<String> {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|share| share * share).sum();
    let jain = 1_000 * sum * sum / (shares.len() as u64 * squares).max(1);
    let (least, most) = (shares.iter().min()?, shares.iter().max()?);
    (jain < LEAST_JAIN).then(|| {
        format!("equal writers got {least} to {most} pages, Jain's index is {jain} thousandths")
    })
}

/// What is wrong with the share of a light writer.
fn held_back(got: u64, asked: u64) -> Option<String> {
    (got * 100 < asked * LEAST_LIGHT_PERCENT)
        .then(|| format!("a light writer got {got} of {asked} pages"))
}

#[cfg(test)]
mod tests {
    use super::{EVERY, held_back, judge_shares, unequal};

    #[test]
    fn shares_that_differ_are_found_and_equal_ones_are_not() {
        assert_eq!(unequal(&[100, 101, 99, 100]), None);
        let found = unequal(&[100, 10, 100, 100]).expect("one got a tenth");
        assert!(found.contains("10 to 100"), "{found}");
        assert!(unequal(&[0, 0]).is_some(), "nobody got anything");
        assert_eq!(held_back(95, 100), None);
        assert!(held_back(2, 100).is_some());
    }

    #[test]
    fn crowds_share_alike() {
        for seed in (0..6).map(|number| number * EVERY) {
            assert_eq!(judge_shares(seed), None);
        }
    }
}
