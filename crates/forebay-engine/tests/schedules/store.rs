//! A store with a thread of its own, on which its requests end, in order or out of order. It knows
//! what would be left of an object after a power failure.

use crate::PAGE;
use forebay_base::Prng;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::wait::WaitQueue;
use forebay_rt::{block_on, thread};
use forebay_store::{
    Durability, Ending, Geometry, Intercept, Io, IoKind, MemoryStore, ObjectId, Store,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct BesideStore {
    memory: MemoryStore,
    queue: Mutex<Queue>,
    /// Each object as it was when the last commit of it that has ended began.
    durable: Mutex<BTreeMap<ObjectId, Vec<u8>>>,
    /// Writes that were made durable by themselves, in their order.
    durable_writes: Mutex<Vec<DurableWrite>>,
    changed: WaitQueue,
}

struct DurableWrite {
    object: ObjectId,
    start: usize,
    bytes: Vec<u8>,
}

impl DurableWrite {
    fn put(&self, image: &mut Vec<u8>) {
        let end = self.start + self.bytes.len();
        image.resize(image.len().max(end), 0);
        image[self.start..end].copy_from_slice(&self.bytes);
    }
}

/// What a commit makes durable: an image, and the durable writes after the first `writes_before`.
#[derive(Default)]
struct Committed {
    image: Vec<u8>,
    writes_before: usize,
}

#[derive(Default)]
struct Queue {
    /// Requests, and for each commit what it makes durable.
    waiting: Vec<(Io, Committed)>,
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
            durable_writes: Mutex::default(),
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
                self.commit(request.object, committed);
            }
            if io.asks_durable() && chance.chance(1, 2) {
                self.write_durably(io);
            } else {
                self.memory.submit(io);
            }
        }
    }

    fn write_durably(&self, mut io: Io) {
        let request = io.request();
        let mut write = DurableWrite {
            object: request.object,
            start: request.offset_bytes as usize,
            bytes: vec![0; request.length_bytes as usize],
        };
        for (page, bytes) in write.bytes.chunks_mut(PAGE).enumerate() {
            io.copy_page(page, 0, bytes);
        }
        write.put(lock(&self.durable).entry(request.object).or_default());
        io.intercept(Arc::new(Durably));
        self.memory.submit(io);
        // Last: a commit that counts it has its bytes in the image.
        lock(&self.durable_writes).push(write);
    }

    /// No commit takes back what was made durable after it began.
    fn commit(&self, object: ObjectId, committed: Committed) {
        let Committed {
            mut image,
            writes_before,
        } = committed;
        for write in &lock(&self.durable_writes)[writes_before..] {
            if write.object == object {
                write.put(&mut image);
            }
        }
        lock(&self.durable).insert(object, image);
    }

    async fn next(&self, chance: &mut Prng) -> Option<(Io, Committed)> {
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

/// Says that a write was made durable by itself.
struct Durably;

impl Intercept for Durably {
    fn ended(&self, mut ending: Ending) {
        ending.make_durable();
        ending.pass();
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
            // In this order: what comes between is in both.
            let writes_before = lock(&self.durable_writes).len();
            Committed {
                image: self.written(request.object),
                writes_before,
            }
        } else {
            Committed::default()
        };
        lock(&self.queue).waiting.push((io, committed));
        self.changed.wake_all();
    }
}

impl StoreThread {
    /// Returns once the thread has ended, after the last request.
    pub(crate) fn end(self) {
        lock(&self.store.queue).is_ending = true;
        self.store.changed.wake_all();
        self.joiner.join();
    }
}
