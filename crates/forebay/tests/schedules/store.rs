//! A store with a thread of its own, on which its requests end, in order or out of order. It knows
//! what would be left of an object after a power failure.

use forebay_base::Prng;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::WaitQueue;
use forebay_rt::{block_on, thread};
use forebay_store::{Durability, Geometry, Io, IoKind, MemoryStore, ObjectId, PagePointer, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct BesideStore {
    memory: MemoryStore,
    queue: Mutex<Queue>,
    /// Each object as it was when the last commit of it that has ended began.
    durable: Mutex<BTreeMap<ObjectId, Vec<u8>>>,
    changed: WaitQueue,
}

#[derive(Default)]
struct Queue {
    /// Requests, and for each commit the content that it makes durable.
    waiting: Vec<(Io, Vec<u8>)>,
    is_ending: bool,
}

/// The thread of a store.
pub(crate) struct StoreThread {
    store: Arc<BesideStore>,
    joiner: thread::Joiner,
}

impl BesideStore {
    /// A store with this `geometry`, whose requests end in an order that `seed` draws.
    pub(crate) fn start(geometry: Geometry, seed: u64) -> (Arc<BesideStore>, StoreThread) {
        let store = Arc::new(BesideStore {
            memory: MemoryStore::with(geometry),
            queue: Mutex::default(),
            durable: Mutex::default(),
            changed: WaitQueue::new(),
        });
        let own = Arc::clone(&store);
        let serve = move || own.serve(Prng::from_seed(seed));
        let thread = StoreThread {
            store: Arc::clone(&store),
            joiner: thread::spawn("store", serve).expect("a thread starts"),
        };
        (store, thread)
    }

    pub(crate) fn fill(&self, object: ObjectId, bytes: &[u8]) {
        self.memory.fill(object, bytes);
        lock(&self.durable).insert(object, bytes.to_vec());
    }

    /// Everything that was written to `object`.
    pub(crate) fn written(&self, object: ObjectId) -> Vec<u8> {
        self.memory.snapshot(object)
    }

    /// What a power failure now would leave of `object`.
    pub(crate) fn durable(&self, object: ObjectId) -> Vec<u8> {
        if self.geometry().durability == Durability::OnFinish {
            return self.written(object);
        }
        lock(&self.durable)
            .get(&object)
            .cloned()
            .unwrap_or_default()
    }

    fn serve(&self, mut chance: Prng) {
        while let Some((io, committed)) = block_on(self.next(&mut chance)) {
            let request = io.request();
            if request.kind == IoKind::Commit {
                lock(&self.durable).insert(request.object, committed);
            }
            self.memory.submit(io);
        }
    }

    async fn next(&self, chance: &mut Prng) -> Option<(Io, Vec<u8>)> {
        loop {
            let changed = self.changed.listen();
            {
                let mut queue = lock(&self.queue);
                if !queue.waiting.is_empty() {
                    let any = chance.below(queue.waiting.len() as u64);
                    return Some(queue.waiting.swap_remove(any as usize));
                }
                if queue.is_ending {
                    return None;
                }
            }
            changed.await;
        }
    }
}

impl Store for BesideStore {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, io: Io) {
        let request = io.request();
        let is_commit = request.kind == IoKind::Commit;
        let committed = if is_commit {
            self.written(request.object)
        } else {
            Vec::new()
        };
        lock(&self.queue).waiting.push((io, committed));
        self.changed.wake_all();
    }

    fn register_memory(&self, _base: PagePointer, _length_bytes: usize) {}
}

impl StoreThread {
    /// Returns once the thread has ended, after the last request.
    pub(crate) fn end(self) {
        lock(&self.store.queue).is_ending = true;
        self.store.changed.wake_all();
        self.joiner.join();
    }
}
