//! The stage: plays a world of short memory.

use super::super::client::PAGE;
use super::super::machine::{machine_of, open_cache};
use super::super::null_store::NullStore;
use super::super::verdict::Violation;
use super::load::Load;
use super::watch::{Watch, Watched};
use forebay::settings::PageMemory;
use forebay::{AttachedStore, Cache, File, Policy, Settings};
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::{Prng, Span};
use forebay_rt::{Rt, Task};
use forebay_store::{ObjectId, Rate, RateStore};
use std::sync::Arc;

/// The time between two looks, and the number of looks for each look at the marks of all pages.
const LOOK: Span = Span::from_millis(10);
const LOOKS_AT_MARKS: u64 = 8;
/// Pages are held for at most this long.
const HELD_MOST_US: u64 = 60_000;
/// Pages to hold are taken for at most this long. Towards the end each needs a search of all
/// memory, for the few that are not yet held, and callers that need a frame search beside it.
const TAKING: Span = Span::from_millis(30);
/// If a load has calms, there is one in each period. It is longer than the nap of kswapd before it
/// sleeps.
const PERIOD: Span = Span::from_millis(1_000);
const CALM: Span = Span::from_millis(350);
/// Objects of scanners and of rereaders, the held one, and swap. Those of writers come first.
const SCANNED: u64 = 100;
const REREAD: u64 = 200;
const HELD: ObjectId = ObjectId(300);
const SWAP: ObjectId = ObjectId(400);

/// The finding of the oracle of reclaim.
pub(in super::super) fn judge_pressure(seed: u64) -> Option<Violation> {
    let chance = Prng::from_seed(seed).child("pressure");
    let load = Load::draw(&mut chance.child("load"));
    let machine = machine_of(seed);
    let found = machine.run(play(machine.rt(), &load, &chance))?;
    let what = format!("{} ({load:?})", found.what);
    Some(Violation { what, ..found })
}

/// What all tasks of a stage share.
#[derive(Clone)]
struct Stage {
    rt: Rt,
    watch: Arc<Watch>,
    stop: Arc<AtomicBool>,
    load: Load,
}

async fn play(rt: Rt, load: &Load, chance: &Prng) -> Option<Violation> {
    let watch = Arc::new(Watch::new(rt.clone(), load.nodes.len()));
    let cache = cache_of(&rt, load, &watch);
    watch.look_at(&cache);
    let stage = Stage {
        rt: rt.clone(),
        watch: watch.clone(),
        stop: Arc::new(AtomicBool::new(false)),
        load: load.clone(),
    };
    let tasks = stage.start(&cache, chance);
    let began = rt.now();
    let mut looks = 0;
    while rt.now().since(began) < load.span && !watch.has_found() {
        rt.sleep(LOOK).await;
        watch.look(load.anonymous.is_some().then_some(1));
        looks += 1;
        if looks % LOOKS_AT_MARKS == 0 {
            watch.look_at_marks();
        }
    }
    stage.stop.store(true, Ordering::Relaxed);
    let found = watch.take();
    for task in tasks {
        task.join().await;
    }
    found
}

fn cache_of(rt: &Rt, load: &Load, watch: &Arc<Watch>) -> Cache {
    let settings = Settings {
        memory_bytes: load.memory_bytes,
        nodes: load.nodes.clone(),
        dirty: load.dirty,
        watermark_scale_factor: load.watermark_scale_factor,
        page_memory: PageMemory::Phantom,
        policy: Policy {
            eviction: load.eviction,
            ..Policy::default()
        },
        ..Settings::default()
    };
    open_cache(rt, settings, Some(watch.clone()))
}

impl Stage {
    /// A store that takes this many pages a second, or any number.
    fn attach(&self, cache: &Cache, pages_per_s: Option<u64>, is_unstable: bool) -> AttachedStore {
        let null_store = Arc::new(NullStore { is_unstable });
        let attached = match pages_per_s {
            None => cache.attach(null_store),
            Some(rate) => {
                let rate = Rate::bytes(rate * PAGE);
                let inner = Arc::new(RateStore::new(self.rt.clone(), null_store, rate));
                let watch = self.watch.clone();
                cache.attach(Arc::new(Watched { watch, inner }))
            }
        };
        attached.expect("a new cache takes a store")
    }

    fn start(&self, cache: &Cache, chance: &Prng) -> Vec<Task> {
        let load = &self.load;
        let written = self.attach(cache, Some(load.pages_per_s), load.is_unstable);
        let swap = load.anonymous.map(|(pages, slots, pages_per_s)| {
            let store = self.attach(cache, Some(pages_per_s), false);
            let set = cache.set_swap(&store, SWAP, slots * PAGE);
            set.expect("a load's swap is large enough");
            cache.anonymous(pages * PAGE).expect("it fits its swap")
        });
        let read = self.attach(cache, None, false);
        let frames = load.memory_bytes / PAGE;
        let nodes = load.nodes.len();
        let open = |store: &AttachedStore, object, pages: u64, node: u64| {
            let opened = cache.open(store, object, pages * PAGE);
            let file = opened.expect("a new object opens");
            file.on_node(node as usize % nodes)
        };
        let mut tasks = Vec::new();
        for writer in 0..load.writers {
            let file = open(&written, ObjectId(writer), 0, writer);
            tasks.push(self.rt.spawn("writer", self.clone().write(file)));
        }
        for number in 0..load.scanners {
            let file = open(&read, ObjectId(SCANNED + number), 4 * frames, number);
            let scan = self.clone().scan(file, number);
            tasks.push(self.rt.spawn("scanner", scan));
        }
        for number in 0..load.rereaders {
            let file = open(&read, ObjectId(REREAD + number), load.hot_pages, number);
            let chance = chance.child(&format!("rereader {number}"));
            let reread = self.clone().reread(file, REREAD + number, chance);
            tasks.push(self.rt.spawn("rereader", reread));
        }
        if load.is_held {
            let file = open(&read, HELD, frames, 0);
            let hold = self.clone().hold(file, chance.child("holder"));
            tasks.push(self.rt.spawn("holder", hold));
        }
        if let Some(memory) = swap {
            let churn = self.clone().churn(memory, chance.child("churn"));
            tasks.push(self.rt.spawn("churn", churn));
        }
        tasks
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn write(self, file: File) {
        let bytes = vec![0; (self.load.call_pages * PAGE) as usize];
        let mut at = 0;
        while self.goes_on() {
            // While pages are held there may be no frame.
            let _ = file.write_at(&bytes, at).await;
            at += bytes.len() as u64;
            self.rt.yield_now().await;
        }
    }

    /// Reads a file larger than memory from its start to its end, again and again.
    async fn scan(self, file: File, reader: u64) {
        let mut bytes = vec![0; (self.load.call_pages * PAGE) as usize];
        let mut at = 0;
        while self.goes_on() {
            self.read(&file, &mut bytes, at, reader).await;
            at = (at + bytes.len() as u64) % file.len();
            self.rest().await;
        }
    }

    /// Reads the same few pages again and again.
    async fn reread(self, file: File, reader: u64, mut chance: Prng) {
        let mut bytes = vec![0; PAGE as usize];
        while self.goes_on() {
            let page = chance.below(self.load.hot_pages);
            self.read(&file, &mut bytes, page * PAGE, reader).await;
            self.rest().await;
        }
    }

    /// A rest between two calls, or until a calm is over.
    async fn rest(&self) {
        self.rt.sleep(self.load.rest).await;
        let into_period_ms = self.rt.now().as_millis() % PERIOD.as_millis();
        if self.load.is_calm_at_times && into_period_ms < CALM.as_millis() {
            let left_ms = CALM.as_millis() - into_period_ms;
            self.rt.sleep(Span::from_millis(left_ms)).await;
        }
    }

    async fn read(&self, file: &File, bytes: &mut [u8], at: u64, reader: u64) {
        self.watch.call_begins(reader);
        // While pages are held there may be no frame.
        let _ = file.read_at(bytes, at).await;
        self.watch.call_ends(reader);
    }

    /// Now and then holds as many pages as possible for a while.
    async fn hold(self, file: File, mut chance: Prng) {
        while self.goes_on() {
            let rest = Span::from_micros(300_000 + chance.below(1_000_000));
            self.rt.sleep(rest).await;
            let mut guards = Vec::new();
            let pages = file.len() / PAGE;
            let until = self.rt.now() + TAKING;
            for page in 0..pages - chance.below(pages / 4) {
                match file.page(page).await {
                    Ok(guard) if self.goes_on() && self.rt.now() < until => guards.push(guard),
                    _ => break,
                }
            }
            let held = Span::from_micros(chance.below(HELD_MOST_US));
            self.rt.sleep(held).await;
        }
    }

    /// Writes and reads pages of anonymous memory.
    async fn churn(self, memory: File, mut chance: Prng) {
        let mut bytes = vec![0; PAGE as usize];
        let pages = memory.len() / PAGE;
        while self.goes_on() {
            let at = chance.below(pages) * PAGE;
            if chance.chance(1, 3) {
                let _ = memory.read_at(&mut bytes, at).await;
            } else {
                let _ = memory.write_at(&bytes, at).await;
            }
            self.rest().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::judge_pressure;

    #[test]
    fn reclaim_does_what_it_promises() {
        for seed in 0..12 {
            assert_eq!(judge_pressure(seed), None);
        }
    }
}
