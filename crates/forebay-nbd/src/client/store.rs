//! A server's export as a store with one object.

use super::address::Address;
use super::connecting::{Demands, LINKS, connect_all};
use super::greeting::Facts;
use super::link::{LINK_BYTES, PAGES_LIMIT};
use super::mail::Mail;
use super::pending::{Pending, Wanted};
use super::refusal::ClientError;
use super::worker::Worker;
use crate::wire::transmission_flag;
use forebay_base::sync::atomic::Ordering;
use forebay_base::sync::{Mutex, lock};
use forebay_base::{PAGE_BYTES, Span};
use forebay_rt::block_on;
use forebay_rt::thread::{Joiner, SMALL_STACK_BYTES, spawn_small};
use forebay_rt::wait::Slot;
use forebay_store::{Durability, Extent, Failure, Geometry, Io, ObjectId, Store};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::ThreadId;

/// Requests that keep a server busy.
const QUEUE_DEPTH: u32 = 32;

/// The most memory of the client of one server.
pub const SERVER_BYTES: usize = LINKS * LINK_BYTES + SMALL_STACK_BYTES;

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// A request waits this long for a server that is away. Then it fails with
    /// [`Failure::NoAnswer`]. A request that a connected server does not answer goes on waiting: if
    /// it were sent a second time, the server could carry out the older one of the two last.
    pub answer_timeout: Span,
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            answer_timeout: Span::from_secs(30),
        }
    }
}

/// An export of an NBD server.
///
/// ```
/// use forebay::{Cache, Settings};
/// use forebay_nbd::client::{ClientSettings, NbdStore};
/// use forebay_nbd::{Export, Listener, Server, ServerSettings};
/// use forebay_store::{MemoryStore, ObjectId};
///
/// # let folder = tempfile::tempdir()?;
/// # let socket = folder.path().join("nbd.sock");
/// // Somebody's server.
/// let far = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// let store = far.attach(std::sync::Arc::new(MemoryStore::new()))?;
/// let exports = vec![Export::new("disk", far.open(&store, ObjectId(1), 64 << 20)?)];
/// let server = Server::start(Listener::unix(&socket)?, exports, ServerSettings::default())?;
///
/// let address = format!("nbd+unix:///disk?socket={}", socket.display()).parse()?;
/// let store = NbdStore::open(&address, true, ClientSettings::default())?;
/// let length_bytes = store.length_bytes();
/// let near = Cache::new(Settings { memory_bytes: 8 << 20, ..Settings::default() })?;
/// let attached = near.attach(store)?;
/// let file = near.open(&attached, NbdStore::OBJECT, length_bytes)?.blocking();
/// file.write_at(b"far away", 4096)?;
/// file.sync()?;
/// # drop((file, attached, near));
/// # server.drain();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NbdStore {
    mail: Arc<Mail>,
    facts: Facts,
    connections: usize,
    joiner: Option<Joiner>,
    thread: Arc<Mutex<Option<ThreadId>>>,
}

impl fmt::Debug for NbdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NbdStore")
            .field("facts", &self.facts)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

impl NbdStore {
    /// The number of the export as an object.
    pub const OBJECT: ObjectId = ObjectId(0);

    /// Connects to the server at `address`. If `writes`, the export must take writes and flushes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn open(
        address: &Address,
        writes: bool,
        settings: ClientSettings,
    ) -> Result<Arc<NbdStore>, ClientError> {
        let demands = Demands {
            writes,
            known: None,
        };
        let links = connect_all(address, demands, &mut || true)?;
        let (facts, connections) = (links[0].facts, links.len());
        let system = |error: io::Error| ClientError::System(error);
        let mail = Mail::new(QUEUE_DEPTH as usize).map_err(|errno| system(errno.into()))?;
        let mail = Arc::new(mail);
        let timeout = settings.answer_timeout;
        let worker = Worker::new(mail.clone(), address.clone(), demands, links, timeout);
        let thread = Arc::new(Mutex::new(None));
        let enrolled = thread.clone();
        let joiner = spawn_small("forebay-nbd-to", move || {
            *lock(&enrolled) = Some(std::thread::current().id());
            worker.run();
        });
        Ok(Arc::new(NbdStore {
            mail,
            facts,
            connections,
            joiner: Some(joiner.map_err(system)?),
            thread,
        }))
    }

    /// The length of the export.
    pub fn length_bytes(&self) -> u64 {
        self.facts.length_bytes
    }

    /// Connections that the server allowed when it was opened.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// The run from byte `offset_bytes` to at most `end_bytes`, as the server reports it.
    pub(crate) fn extent_at(&self, offset_bytes: u64, end_bytes: u64) -> Extent {
        let answer = Arc::new(Slot::new());
        let wanted = Wanted::Extent {
            offset_bytes,
            end_bytes,
            found: None,
            answer: answer.clone(),
        };
        self.mail.post(Pending::new(wanted, 0));
        block_on(async { answer.take().await })
    }
}

impl Store for NbdStore {
    fn geometry(&self) -> Geometry {
        let pages = self.facts.payload_limit_bytes / PAGE_BYTES as u32;
        Geometry {
            block_bytes: self.facts.least_block_bytes.max(512),
            max_io_pages: pages.min(PAGES_LIMIT),
            write_unit_pages: 1,
            queue_depth: QUEUE_DEPTH,
            durability: Durability::Unstable,
            stable_pages: true,
        }
    }

    fn is_read_only(&self, _object: ObjectId) -> bool {
        self.facts.flags & transmission_flag::READ_ONLY != 0
    }

    fn length_bytes(&self, object: ObjectId) -> Option<u64> {
        (object == NbdStore::OBJECT).then_some(self.facts.length_bytes)
    }

    fn submit(&self, io: Io) {
        if io.request().object != NbdStore::OBJECT {
            return io.fail(Failure::Gone);
        }
        if io.page_count() > self.geometry().max_io_pages as usize {
            return io.fail(Failure::OutOfRange);
        }
        let heard = self.mail.heard.load(Ordering::Acquire);
        self.mail.post(Pending::new(Wanted::Io(io), heard));
    }
}

impl Drop for NbdStore {
    fn drop(&mut self) {
        self.mail.stop();
        let Some(joiner) = self.joiner.take() else {
            return;
        };
        // A finisher may drop the last handle, on the thread itself, which then ends alone.
        if *lock(&self.thread) != Some(std::thread::current().id()) {
            joiner.join();
        }
    }
}
