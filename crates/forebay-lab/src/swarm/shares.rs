//! Shares: writers of one store that ask for the same get the same, and one that asks for less gets
//! what it asks for. The number of writers and the size of a call do not matter (spec/writeback.md
//! 5.2: a writer is checked when its quota is used up).
//!
//! This is a world of its own, after the run of a seed: shares are judged over minutes, and in that
//! time nothing else goes wrong. In half of the worlds something does: writes of the store fail now
//! and then, or another store never answers its writer. The shares have to be the same.

use super::client::PAGE;
use super::machine::{machine_of, open_cache};
use super::null_store::NullStore;
use super::verdict::{Oracle, Violation};
use forebay::settings::PageMemory;
use forebay::{AttachedStore, Cache, File, Settings};
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::{Prng, Span};
use forebay_rt::{Rt, Task};
use forebay_store::{Failure, Fault, FaultAction, FaultStore, FaultWhen, IoKind};
use forebay_store::{ObjectId, Rate, RateStore, Store};
use std::sync::Arc;

/// By then the rates have settled.
const WARM_UP: Span = Span::from_secs(20);
/// Shares are compared over windows of this length.
const WINDOW_S: u64 = 60;
const WINDOWS: u64 = 1;
/// The least value of Jain's index that passes, in thousandths. For equal shares it is 1.
const LEAST_JAIN: u64 = 990;
/// The least share that a light writer gets of what it asks for, in percent.
const LEAST_LIGHT_PERCENT: u64 = 90;
/// Where writes of the store fail, one in this many does.
const FAILS_ONE_IN: u64 = 50;

/// What is judged.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    writers: u64,
    /// What each of them writes in a call.
    call_pages: u64,
    /// What the store takes from each of them.
    share_pages_per_s: u64,
    trouble: Trouble,
}

/// What goes wrong meanwhile.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// Some writes of the store fail.
    Failures,
    /// Another store answers no write.
    SilentStore,
    /// Another store refuses every write. No seed draws it.
    #[cfg(test)]
    RefusingStore,
}

impl Crowd {
    fn draw(seed: u64) -> Crowd {
        let root = Prng::from_seed(seed);
        let mut chance = root.child("shares");
        Crowd {
            writers: 40 + chance.below(60),
            call_pages: 1 << (2 * chance.below(5)),
            share_pages_per_s: 40 + chance.below(60),
            trouble: Trouble::draw(&mut root.child("trouble of shares")),
        }
    }
}

impl Trouble {
    fn draw(chance: &mut Prng) -> Trouble {
        match chance.below(4) {
            0 => Trouble::Failures,
            1 => Trouble::SilentStore,
            _ => Trouble::None,
        }
    }

    /// What happens to writes of the store with the crowd.
    fn here(self) -> Option<Fault> {
        let fails = Fault::each(IoKind::Write, FaultAction::Fail(Failure::Device(5)));
        let when = FaultWhen::Chance {
            numerator: 1,
            denominator: FAILS_ONE_IN,
        };
        matches!(self, Trouble::Failures).then_some(Fault { when, ..fails })
    }

    /// What happens to all writes of another store.
    fn elsewhere(self) -> Option<FaultAction> {
        match self {
            Trouble::None | Trouble::Failures => None,
            Trouble::SilentStore => Some(FaultAction::NeverAnswer),
            #[cfg(test)]
            Trouble::RefusingStore => Some(FaultAction::Fail(Failure::Device(5))),
        }
    }
}

/// One writer, and what it has written.
struct Writer {
    task: Task,
    pages: Arc<AtomicU64>,
}

/// Judges the shares of a crowd.
pub(super) fn judge_shares(seed: u64) -> Option<Violation> {
    judge(seed, Crowd::draw(seed))
}

fn judge(seed: u64, crowd: Crowd) -> Option<Violation> {
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
    let medium = RateStore::new(rt.clone(), Arc::new(NullStore::default()), rate);
    let store = attach(&rt, &cache, Arc::new(medium), crowd.trouble.here()).1;
    let stop = Arc::new(AtomicBool::new(false));
    let elsewhere = crowd.trouble.elsewhere().map(|action| {
        let fault = Fault::each(IoKind::Write, action);
        let (medium, store) = attach(&rt, &cache, Arc::new(NullStore::default()), Some(fault));
        let file = open(&cache, &store, 0);
        (medium, start(&rt, file, 16, None, &stop))
    });
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
    let found = compare(&rt, crowd, &heavy, &light).await;
    stop.store(true, Ordering::Relaxed);
    if let Some((medium, writer)) = elsewhere {
        medium.clear();
        medium.release();
        writer.task.join().await;
    }
    for writer in heavy.into_iter().chain([light]) {
        writer.task.join().await;
    }
    found
}

/// Attaches `medium`, in which `fault` strikes.
fn attach(
    rt: &Rt,
    cache: &Cache,
    medium: Arc<dyn Store>,
    fault: Option<Fault>,
) -> (Arc<FaultStore>, AttachedStore) {
    let medium = Arc::new(FaultStore::new(rt.clone(), medium));
    if let Some(fault) = fault {
        medium.inject(fault);
    }
    let store = cache.attach(medium.clone());
    (medium, store.expect("a new cache takes two stores"))
}

/// Compares what the writers get in each window.
async fn compare(rt: &Rt, crowd: Crowd, heavy: &[Writer], light: &Writer) -> Option<String> {
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
            // A store that refuses or does not answer may end it with an error.
            if file.write_at(&bytes, at).await.is_ok() {
                at += bytes.len() as u64;
                written.fetch_add(call_pages, Ordering::Relaxed);
            } else {
                own_rt.sleep(Span::from_millis(100)).await;
            }
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
    use super::{Crowd, Trouble, held_back, judge, judge_shares, unequal};
    use std::collections::BTreeSet;

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
        for seed in 0..6 {
            assert_eq!(judge_shares(seed), None);
        }
    }

    #[test]
    fn crowds_share_alike_while_something_goes_wrong() {
        // One for each trouble.
        let mut tried = BTreeSet::new();
        for seed in 0..40 {
            let trouble = format!("{:?}", Crowd::draw(seed).trouble);
            if trouble != "None" && tried.insert(trouble) {
                assert_eq!(judge_shares(seed), None);
            }
        }
        assert_eq!(tried.len(), 2);
    }

    /// Its refusals came back as writes that ended, so that it had 86 % of the limit, and writers
    /// of the other store got 2,304 to 5,120 pages.
    #[test]
    fn crowds_share_alike_beside_a_store_that_refuses_every_write() {
        let crowd = Crowd {
            writers: 51,
            call_pages: 256,
            share_pages_per_s: 55,
            trouble: Trouble::RefusingStore,
        };
        assert_eq!(judge(0, crowd), None);
    }
}
