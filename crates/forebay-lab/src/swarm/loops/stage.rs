//! The stage: a world for the oracles of the loops.

use super::super::client::PAGE;
use super::super::machine::{machine_of, open_cache};
use super::super::null_store::NullStore;
use super::super::verdict::Violation;
use super::load::{Load, Side};
use super::probe::Probe;
use super::refusal::Refusing;
use super::watch::Watch;
use forebay::settings::PageMemory;
use forebay::{Cache, File, Settings};
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::{Prng, Span};
use forebay_rt::{Rt, Task};
use forebay_store::{ObjectId, Rate, RateStore};
use std::sync::Arc;

/// The time between two looks, if nothing happens.
const LOOK: Span = Span::from_millis(10);

/// What the oracles of the loops find.
pub(in super::super) fn judge_loops(seed: u64) -> Option<Violation> {
    let load = Load::draw(&mut Prng::from_seed(seed).child("loops"));
    let machine = machine_of(seed);
    let found = machine.run(play(machine.rt(), &load))?;
    let what = format!("{} ({load:?})", found.what);
    Some(Violation { what, ..found })
}

/// A store, and the medium that gives it its rate.
struct Site {
    side: Side,
    medium: Arc<RateStore>,
    writers: Vec<Task>,
}

async fn play(rt: Rt, load: &Load) -> Option<Violation> {
    let watch = Arc::new(Watch::new(rt.clone(), load));
    let settings = Settings {
        memory_bytes: load.memory_bytes,
        page_memory: PageMemory::Phantom,
        writeback_interval: load.interval,
        dirty_expire: load.expire,
        ..Settings::default()
    };
    let cache = open_cache(&rt, settings, Some(watch.clone()));
    watch.look_at(&cache);
    let stop = Arc::new(AtomicBool::new(false));
    let sites: Vec<Site> = load
        .sides
        .iter()
        .enumerate()
        .map(|(number, side)| Site::start((&rt, &cache, &watch), number, side.clone(), &stop))
        .collect();
    let began = rt.now();
    let mut has_changed = false;
    while rt.now().since(began) < load.span && !watch.has_found() {
        if !has_changed && rt.now().since(began).as_micros() * 3 >= load.span.as_micros() {
            has_changed = true;
            for (number, site) in sites.iter().enumerate() {
                site.change_rate();
                watch.rate_changes(number, site.side.later_pages_per_s);
            }
        }
        rt.sleep(LOOK).await;
        watch.look();
    }
    stop.store(true, Ordering::Relaxed);
    let found = watch.take();
    for writer in sites.into_iter().flat_map(|site| site.writers) {
        writer.join().await;
    }
    found
}

impl Site {
    fn start(
        (rt, cache, watch): (&Rt, &Cache, &Arc<Watch>),
        number: usize,
        side: Side,
        stop: &Arc<AtomicBool>,
    ) -> Site {
        let rate = Rate::bytes(side.pages_per_s * PAGE);
        let null_store = NullStore {
            is_unstable: side.is_unstable,
        };
        let refusing = Refusing {
            rt: rt.clone(),
            inner: Arc::new(null_store),
            refused: side.refused.clone(),
        };
        let medium = Arc::new(RateStore::new(rt.clone(), Arc::new(refusing), rate));
        let probe = Probe {
            watch: watch.clone(),
            number,
            inner: medium.clone(),
        };
        let attached = cache.attach(Arc::new(probe));
        let store = attached.expect("a new cache takes a store");
        let writers = (0..side.writers).map(|writer| {
            let object = ObjectId(writer);
            let opened = cache.open(&store, object, 0);
            let file = opened.expect("a new object opens");
            if writer < side.synced {
                rt.spawn("syncer", sync(rt.clone(), file.clone(), stop.clone()));
            }
            let (watch, stop, rt_of) = (watch.clone(), stop.clone(), rt.clone());
            let place = (number, object);
            let writes = write((rt_of, watch), place, file, side.clone(), stop);
            rt.spawn("writer", writes)
        });
        let writers = writers.collect();
        Site {
            side,
            medium,
            writers,
        }
    }

    fn change_rate(&self) {
        let rate = Rate::bytes(self.side.later_pages_per_s * PAGE);
        self.medium.set_rate(rate);
    }
}

/// Syncs repeatedly, with rests.
async fn sync(rt: Rt, file: File, stop: Arc<AtomicBool>) {
    const REST: Span = Span::from_millis(70);
    while !stop.load(Ordering::Relaxed) {
        rt.sleep(REST).await;
        // With a slow store this may need longer than a sync waits.
        let _ = file.sync().await;
    }
}

/// Writes repeatedly.
async fn write(
    (rt, watch): (Rt, Arc<Watch>),
    (number, object): (usize, ObjectId),
    file: File,
    side: Side,
    stop: Arc<AtomicBool>,
) {
    let bytes = vec![0; (side.call_pages * PAGE) as usize];
    let mut page = 0;
    let calls = match object {
        ObjectId(0) => side.first_calls,
        _ => u64::MAX,
    };
    for _ in 0..calls {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        watch.call_begins(number, object, page..page + side.call_pages);
        let written = file.write_at(&bytes, page * PAGE).await;
        written.expect("no writer is refused");
        watch.call_ends(number);
        page = (page + side.call_pages) % side.file_pages;
        match side.rest {
            Span::ZERO => rt.yield_now().await,
            rest => rt.sleep(rest).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::judge_loops;

    #[test]
    fn loops_do_what_they_promise() {
        for seed in 0..12 {
            assert_eq!(judge_loops(seed), None);
        }
    }
}
