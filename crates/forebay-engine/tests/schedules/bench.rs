//! A cache of a few frames in front of a store with a thread.

use crate::PAGE;
use crate::store::{BesideStore, StoreThread};
use forebay_base::Span;
use forebay_engine::lab::LabCache;
use forebay_engine::settings::{NodeSettings, Watermarks, ZoneSettings};
use forebay_engine::{AttachedStore, Cache, Counter, File, Parts, Settings, blocking};
use forebay_rt::{Rt, block_on, thread};
use forebay_store::{Durability, Geometry, MemoryStore, ObjectId, Store};
use std::sync::Arc;

/// The fewest frames that a cache may have.
pub(crate) const FEWEST_FRAMES: u64 = 128;

pub(crate) struct Bench {
    pub(crate) rt: Rt,
    pub(crate) cache: Cache,
    pub(crate) store: Arc<BesideStore>,
    attached: AttachedStore,
    thread: StoreThread,
}

/// One zone of `frames` frames with these marks.
pub(crate) fn settings(frames: u64, marks: Watermarks) -> Settings {
    let zone = ZoneSettings {
        managed_pages: Some(frames),
        marks: Some(marks),
        ..ZoneSettings::default()
    };
    Settings {
        nodes: vec![NodeSettings { zones: vec![zone] }],
        objects_limit: 8,
        readahead_pages: 2,
        writeback_interval: Span::ZERO,
        prefault: false,
        ..Settings::default()
    }
}

/// A cache in which `pages` pages in use wake kswapd, and half as many again make a caller reclaim.
pub(crate) fn short_of_memory(pages: u64) -> Settings {
    let marks = Watermarks {
        min: FEWEST_FRAMES - pages - pages / 2,
        low: FEWEST_FRAMES - pages,
        high: FEWEST_FRAMES - pages + pages / 4,
    };
    settings(FEWEST_FRAMES, marks)
}

/// A cache with enough memory, in which `pages` pages may be dirty.
pub(crate) fn short_of_dirty(pages: u64) -> Settings {
    let marks = Watermarks {
        min: 2,
        low: 4,
        high: 6,
    };
    let mut settings = settings(FEWEST_FRAMES, marks);
    settings.dirty.dirty_bytes = pages * PAGE as u64;
    settings.dirty.background_bytes = pages / 2 * PAGE as u64;
    settings
}

impl Bench {
    pub(crate) fn new(settings: Settings, durability: Durability, seed: u64) -> Bench {
        let rt = Rt::real();
        let geometry = Geometry {
            max_io_pages: 4,
            queue_depth: 4,
            durability,
            ..MemoryStore::new().geometry()
        };
        let (store, thread) = BesideStore::start(geometry, seed);
        let parts = Parts {
            rt: rt.clone(),
            sink: None,
        };
        let cache = Cache::with_parts(settings, parts).expect("the settings are good");
        let attached = cache.attach(store.clone()).expect("a store is attached");
        Bench {
            rt,
            cache,
            store,
            attached,
            thread,
        }
    }

    /// An object of `pages` zeroed pages.
    pub(crate) fn open(&self, object: ObjectId, pages: u64) -> File {
        let bytes = vec![0; pages as usize * PAGE];
        self.store.fill(object, &bytes);
        let opened = self.cache.open(&self.attached, object, bytes.len() as u64);
        opened.expect("the object opens")
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.cache.statistics().get(counter)
    }

    /// Closes the cache and checks its books once nothing runs any more.
    pub(crate) fn close(self) {
        assert_eq!(block_on(self.cache.close()), Ok(()));
        block_on(self.rt.sleep(Span::from_secs(1)));
        assert_eq!(self.cache.check(), Vec::<String>::new());
        let thread = self.thread;
        drop((self.cache, self.attached, self.rt));
        thread.end();
    }
}

/// Starts a thread that uses `file`.
pub(crate) fn start(
    file: &File,
    act: impl FnOnce(blocking::File) + Send + 'static,
) -> thread::Joiner {
    let file = file.blocking();
    thread::spawn("caller", move || act(file)).expect("a thread starts")
}

/// Waits for threads.
pub(crate) fn join(threads: Vec<thread::Joiner>) {
    threads.into_iter().for_each(thread::Joiner::join);
}
