//! A listener and its clients, and how both of them end.

use crate::buffer_pool::BufferPool;
use crate::clients::{Client, Clients, STRANGERS_LIMIT};
use crate::connection::{self, ConnectionError, Host};
use crate::connection_state::ConnectionState;
use crate::export::Export;
use crate::listener::Listener;
use crate::opening::{Gate, OpeningError};
use crate::socket::Socket;
use crate::tls::TlsCredentials;
use forebay_base::Span;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::thread::{self, SMALL_STACK_BYTES, Stopwatch};
use forebay_rt::wait::WaitQueue;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use thiserror::Error;

/// Memory that each client takes for itself, its thread included, in bytes.
pub const CONNECTION_BYTES: usize = connection::OWN_BYTES;
/// Most bytes of shared buffers that one client can use.
pub const REQUESTS_BYTES: usize = connection::REQUESTS_BYTES;
/// Memory that a client takes in addition if it uses TLS, in bytes.
pub const TLS_BYTES: usize = 192 << 10;
/// Memory that the connections which have yet to show a certificate take together, in bytes.
pub const STRANGERS_BYTES: usize = STRANGERS_LIMIT * (SMALL_STACK_BYTES + TLS_BYTES);

/// The pause between two looks whether a stranger has given up its place.
const FOR_ROOM: Span = Span::from_millis(20);
/// The pause after the system refused a client; without it the server would ask again in a loop.
const AFTER_REFUSAL: Span = Span::from_millis(100);

/// Something that an operator may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A client came.
    Connected {
        /// Clients now.
        connections: usize,
    },
    /// A client left in order.
    Disconnected {
        /// Clients now.
        connections: usize,
    },
    /// A connection ended with an error.
    Failed {
        /// The reason.
        reason: String,
    },
    /// A client was turned away.
    Refused {
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Connected { connections } => write!(f, "client connected, {connections} now"),
            Notice::Disconnected { connections } => write!(f, "client left, {connections} now"),
            Notice::Failed { reason } => write!(f, "connection ended: {reason}"),
            Notice::Refused { reason } => write!(f, "client turned away: {reason}"),
        }
    }
}

/// The settings of a server.
#[derive(Clone)]
pub struct ServerSettings {
    /// Most clients at once; each takes [`CONNECTION_BYTES`] (16). Connections that have yet to
    /// show a certificate are counted separately. Where none is demanded, a connection that says
    /// nothing gives up its place after a second if another one waits for it.
    pub connections_limit: usize,
    /// Bytes of buffers that all clients share, taken at the start (4 MiB). They limit how many
    /// requests can wait for the store at once.
    pub shared_bytes: usize,
    /// How long a new client of an export waits at most for the writes of clients that left before
    /// it came (5 s); after that, these writes are broken off. A client that left in order, or that
    /// sends no more but still reads, has this long to get its answers.
    pub patience: Span,
    /// Receives the notices; called on the connections' threads.
    pub notify: Arc<dyn Fn(Notice) + Send + Sync>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            connections_limit: 16,
            shared_bytes: 4 << 20,
            patience: Span::from_secs(5),
            notify: Arc::new(|_| ()),
        }
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings")
            .field("connections_limit", &self.connections_limit)
            .field("shared_bytes", &self.shared_bytes)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// Why a server could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// Two exports have the same name, or there is no export.
    #[error("{0}")]
    Exports(String),
    /// The system gave no thread or no descriptor.
    #[error("cannot start the server: {0}")]
    System(#[from] io::Error),
}

/// A running server. Dropping it does not end it; [`Server::drain`] does.
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    exports: Vec<Export>,
    settings: ServerSettings,
    buffers: BufferPool,
    clients: Mutex<Clients>,
    is_accepting: AtomicBool,
    /// Clients that leave wake the callers that wait for the end.
    left: WaitQueue,
    is_draining: AtomicBool,
    /// Wakes the thread that accepts.
    stop: OwnedFd,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("exports", &self.shared.exports)
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Serves `exports` to whoever connects to `listener`. The first export is the default one.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        listener: Listener,
        exports: Vec<Export>,
        settings: ServerSettings,
    ) -> Result<Server, StartError> {
        check_names(&exports)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared {
            exports,
            buffers: connection::buffer_pool(settings.shared_bytes),
            clients: Mutex::new(Clients::new(
                settings.connections_limit,
                listener.credentials().is_some(),
            )),
            settings,
            is_accepting: AtomicBool::new(true),
            left: WaitQueue::new(),
            is_draining: AtomicBool::new(false),
            stop: stop.map_err(io::Error::from)?,
        });
        let door = shared.clone();
        // This thread ends by itself when the server drains.
        drop(thread::spawn_small("nbd-accept", move || {
            accept_all(&door, &listener);
        })?);
        Ok(Server { shared })
    }

    /// Clients now.
    pub fn connections(&self) -> usize {
        lock(&self.shared.clients).count()
    }

    /// Requests so far, or pieces of them, that were answered with an error.
    pub fn errors(&self) -> u64 {
        self.shared.buffers.errors.load(Ordering::Relaxed)
    }

    /// Accepts no more clients and no more requests. Requests that have come are answered, then the
    /// connections end by themselves; [`Server::ended`] returns once they have. Zeros that are
    /// written piece by piece are not written to their end.
    pub fn drain(&self) {
        let mut clients = lock(&self.shared.clients);
        self.shared.is_draining.store(true, Ordering::SeqCst);
        for client in clients.all() {
            client.drain();
        }
        drop(clients);
        // This fails only if the counter is full, and then it is readable already.
        let _ = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
    }

    /// Cuts off the clients that took none of their answers for `patience`, and returns their
    /// number. A client whose answer waits for the store is not cut off.
    pub fn cut_stalled(&self, patience: Span) -> usize {
        lock(&self.shared.clients).cut_stalled(patience)
    }

    /// Returns once the server is drained and the last client is gone.
    pub async fn ended(&self) {
        loop {
            let listener = self.shared.left.listen();
            if self.has_ended() {
                return;
            }
            listener.await;
        }
    }

    fn has_ended(&self) -> bool {
        let is_accepting = self.shared.is_accepting.load(Ordering::SeqCst);
        !is_accepting && lock(&self.shared.clients).is_empty()
    }
}

fn check_names(exports: &[Export]) -> Result<(), StartError> {
    if exports.is_empty() {
        return Err(StartError::Exports("a server needs an export".into()));
    }
    for (at, export) in exports.iter().enumerate() {
        if exports[..at]
            .iter()
            .any(|other| other.name() == export.name())
        {
            let name = export.name();
            return Err(StartError::Exports(format!(
                "two exports are called '{name}'; give each another name"
            )));
        }
    }
    Ok(())
}

/// Lets clients in until the server drains.
fn accept_all(shared: &Arc<Shared>, listener: &Listener) {
    loop {
        await_client(shared, listener);
        if shared.is_draining.load(Ordering::SeqCst) {
            break;
        }
        if !lock(&shared.clients).makes_room() {
            thread::pause_current(FOR_ROOM);
            continue;
        }
        match listener.accept() {
            Ok(Some(socket)) => admit(shared, socket, listener.credentials()),
            Ok(None) => {}
            Err(error) => {
                shared.refuse(error.to_string());
                thread::pause_current(AFTER_REFUSAL);
            }
        }
    }
    shared.is_accepting.store(false, Ordering::SeqCst);
    shared.left.wake_all();
}

fn await_client(shared: &Shared, listener: &Listener) {
    let mut fds = [
        PollFd::new(listener, PollFlags::IN),
        PollFd::new(&shared.stop, PollFlags::IN),
    ];
    if let Err(errno) = poll(&mut fds, None)
        && errno != Errno::INTR
    {
        shared.refuse(errno.to_string());
        thread::pause_current(AFTER_REFUSAL);
    }
}

/// Starts the thread of a new client, unless there are too many.
fn admit(shared: &Arc<Shared>, socket: Socket, credentials: Option<&TlsCredentials>) {
    let credentials = credentials.cloned();
    let state = Arc::new(ConnectionState::new());
    let number = match shared.enter(&socket, &state) {
        Ok(number) => number,
        Err(reason) => return shared.refuse(reason),
    };
    let place = ClientPlace {
        shared: shared.clone(),
        number,
    };
    let started = thread::spawn_small("nbd-client", move || {
        let gate = Gate {
            credentials,
            welcome: Box::new(|| place.welcome()),
        };
        let host = Host {
            exports: &place.shared.exports,
            buffers: &place.shared.buffers,
            state: &state,
            number: lock(&place.shared.clients).arrival(place.number),
            begin: &|export| place.begin(export),
        };
        let outcome = connection::serve(&socket, &gate, &host);
        drop(gate);
        socket.shut_down(Shutdown::Both);
        place.end(outcome);
    });
    if let Err(error) = started {
        shared.refuse(format!("no thread for it: {error}"));
    }
}

impl Shared {
    fn refuse(&self, reason: String) {
        (self.settings.notify)(Notice::Refused { reason });
    }

    fn notify(&self, notice: impl FnOnce(usize) -> Notice) {
        let connections = lock(&self.clients).count();
        (self.settings.notify)(notice(connections));
    }

    /// A place for a new client or a stranger, or the reason why there is none.
    fn enter(&self, socket: &Socket, state: &Arc<ConnectionState>) -> Result<usize, String> {
        let client = Client {
            socket: socket.try_clone().map_err(|error| error.to_string())?,
            state: state.clone(),
            is_stranger: true,
            since: Stopwatch::start(),
            is_cut: false,
            export: None,
            had_left: None,
        };
        let mut clients = lock(&self.clients);
        if self.is_draining.load(Ordering::SeqCst) {
            return Err("the server is ending".into());
        }
        clients.enter(client)
    }
}

/// A client's place. It is given back when the client's thread ends, for whatever reason.
struct ClientPlace {
    shared: Arc<Shared>,
    number: usize,
}

impl ClientPlace {
    /// Turns a stranger into a client, or returns the reason why not.
    fn welcome(&self) -> Result<(), String> {
        lock(&self.shared.clients).welcome(self.number)?;
        let connected = |connections| Notice::Connected { connections };
        self.shared.notify(connected);
        Ok(())
    }

    /// Returns once the clients that agreed on this export before and have left can change nothing
    /// any more.
    fn begin(&self, export: usize) {
        let gone = lock(&self.shared.clients).agree(self.number, export);
        let (patience, watch) = (self.shared.settings.patience, Stopwatch::start());
        for state in gone {
            let left = patience.saturating_sub(watch.elapsed());
            state.writes.await_end(left);
        }
    }

    /// Reports how the connection ended. A failure is reported before the place is free, so that a
    /// caller that waits for the end has already got the report.
    fn end(self, outcome: Result<(), ConnectionError>) {
        let shared = self.shared.clone();
        match outcome {
            Ok(()) if lock(&shared.clients).is_stranger(self.number) => {}
            Ok(()) => {
                drop(self);
                shared.notify(|connections| Notice::Disconnected { connections });
            }
            Err(ConnectionError::Opening(OpeningError::Full(reason))) => shared.refuse(reason),
            Err(error) => (shared.settings.notify)(Notice::Failed {
                reason: error.to_string(),
            }),
        }
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        lock(&self.shared.clients).leave(self.number);
        self.shared.left.wake_all();
    }
}
