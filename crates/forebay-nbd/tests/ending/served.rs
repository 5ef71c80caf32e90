//! A server in this process, and the bytes to send to it.

use forebay::{Cache, Settings};
use forebay_base::Span;
use forebay_nbd::wire::{OPTION_MAGIC, Request, command, option};
use forebay_nbd::{Export, Listener, Server, ServerSettings};
use forebay_store::{MemoryStore, ObjectId, Store};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

const LENGTH_BYTES: u64 = 8 << 20;

pub(crate) struct Served {
    _folder: TempDir,
    socket: PathBuf,
    pub(crate) server: Server,
    pub(crate) cache: Cache,
}

impl Served {
    pub(crate) fn start() -> Served {
        Served::before(Arc::new(MemoryStore::new()))
    }

    /// A server of a cache over `store`.
    pub(crate) fn before(store: Arc<dyn Store>) -> Served {
        Served::with(store, ServerSettings::default().patience)
    }

    /// The same, with this much patience for clients that left.
    pub(crate) fn with(store: Arc<dyn Store>, patience: Span) -> Served {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let socket = folder.path().join("nbd.sock");
        let listener = Listener::unix(&socket).expect("nobody listens there");
        let (server, cache) = serve(listener, store, patience);
        Served {
            _folder: folder,
            socket,
            server,
            cache,
        }
    }

    /// A client that has read the greeting and sent nothing.
    pub(crate) fn greet(&self) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).expect("the server listens");
        stream.read_exact(&mut [0; 18]).expect("the server greets");
        stream
    }

    /// A client that may send requests.
    pub(crate) fn client(&self) -> UnixStream {
        let mut stream = self.greet();
        stream.write_all(&hello()).expect("the server hears");
        stream.read_exact(&mut [0; 10]).expect("the server agrees");
        stream
    }

    /// Writes sevens to the first bytes.
    pub(crate) fn fill(&self, length_bytes: u32) {
        let mut client = self.client();
        let mut asked = request(command::WRITE, 0, length_bytes);
        asked.resize(asked.len() + length_bytes as usize, 7);
        client.write_all(&asked).expect("the server hears");
        expect_done(&mut client);
    }

    pub(crate) fn read(&self, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
        let mut client = self.client();
        let asked = request(command::READ, offset_bytes, length_bytes);
        client.write_all(&asked).expect("the server hears");
        expect_done(&mut client);
        let mut bytes = vec![0; length_bytes as usize];
        client.read_exact(&mut bytes).expect("the server answers");
        bytes
    }

    pub(crate) fn end(self) {
        self.server.drain();
        forebay_rt::block_on(self.server.ended());
        forebay_rt::block_on(self.cache.close()).expect("memory takes everything");
    }
}

/// A server of a cache over `store`; clients find it by `listener`.
pub(crate) fn serve(listener: Listener, store: Arc<dyn Store>, patience: Span) -> (Server, Cache) {
    let settings = Settings {
        memory_bytes: 16 << 20,
        ..Settings::default()
    };
    let cache = Cache::new(settings).expect("there is memory");
    let store = cache.attach(store).expect("it is the first");
    let file = cache.open(&store, ObjectId(1), LENGTH_BYTES);
    let export = Export::new("", file.expect("it is the first"));
    let settings = ServerSettings {
        patience,
        ..ServerSettings::default()
    };
    let server = Server::start(listener, vec![export], settings);
    (server.expect("it has an export"), cache)
}

/// The client's flags and its choice of the export; the server answers with ten bytes.
pub(crate) fn hello() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    bytes.extend(OPTION_MAGIC.to_be_bytes());
    bytes.extend(option::EXPORT_NAME.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

pub(crate) fn request(kind: u16, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    let request = Request {
        flags: 0,
        kind,
        cookie: 7,
        offset_bytes,
        length_bytes,
    };
    request.encode().to_vec()
}

/// Expects a simple reply without an error.
pub(crate) fn expect_done(stream: &mut impl Read) {
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).expect("the server answers");
    assert_eq!(reply[4..8], [0; 4]);
}
