//! Clients that come over a network: which ones get in, which ones do not, and that their bytes
//! stay intact.

#[path = "tls/certificates.rs"]
mod certificates;

use certificates::Authority;
use forebay::{Cache, Settings};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_nbd::wire::{
    OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_BYTES, Request, command, option, option_reply,
};
use forebay_nbd::{Export, Listener, Notice, Server, ServerSettings, TlsCredentials};
use forebay_store::{MemoryStore, ObjectId};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use tempfile::TempDir;

const LENGTH_BYTES: u64 = 16 << 20;

/// A server on a free port of this machine that demands TLS.
struct Served {
    folder: TempDir,
    authority: Authority,
    server: Server,
    /// Kept because the file ends with the cache.
    _cache: Cache,
    address: String,
    failures: Arc<Mutex<Vec<String>>>,
}

impl Served {
    fn start() -> Served {
        Served::with_limit(16)
    }

    /// A server for this many clients.
    fn with_limit(connections_limit: usize) -> Served {
        let folder = tempfile::tempdir().expect("the test set it up");
        let authority = Authority::new();
        authority.write_server(folder.path());
        let credentials = TlsCredentials::folder(folder.path()).expect("the test set it up");
        let listener = Listener::tls(
            "127.0.0.1:0".parse().expect("the test set it up"),
            credentials,
        )
        .expect("the test set it up");
        let address = listener
            .uri()
            .strip_prefix("nbds://")
            .expect("the test set it up")
            .to_owned();
        let cache = Cache::new(Settings {
            memory_bytes: 16 << 20,
            ..Settings::default()
        })
        .expect("the test set it up");
        let store = cache
            .attach(Arc::new(MemoryStore::new()))
            .expect("the test set it up");
        let file = cache
            .open(&store, ObjectId(1), LENGTH_BYTES)
            .expect("the test set it up");
        let failures = Arc::new(Mutex::new(Vec::new()));
        let heard = failures.clone();
        let settings = ServerSettings {
            shared_bytes: 1 << 20,
            connections_limit,
            notify: Arc::new(move |notice| {
                if let Notice::Failed { reason } | Notice::Refused { reason } = notice {
                    lock(&heard).push(reason);
                }
            }),
            ..ServerSettings::default()
        };
        let server = Server::start(listener, vec![Export::new("", file)], settings)
            .expect("the test set it up");
        Served {
            folder,
            authority,
            server,
            _cache: cache,
            address,
            failures,
        }
    }

    /// A client that has read the greeting and sent its flags.
    fn greet(&self) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("the test set it up");
        take::<18>(&mut stream).expect("the server answers");
        stream.write_all(&[0, 0, 0, 3]).expect("the server answers");
        stream
    }

    /// A client that was allowed to switch to TLS.
    fn upgrade(&self) -> TcpStream {
        let mut stream = self.greet();
        stream
            .write_all(&head(option::STARTTLS))
            .expect("the server answers");
        assert_eq!(
            answer(&mut stream).expect("the server answers"),
            option_reply::ACK
        );
        stream
    }

    fn connect(&self, config: ClientConfig) -> io::Result<Secured> {
        let name = "localhost".try_into().expect("the test set it up");
        let connection = ClientConnection::new(Arc::new(config), name).expect("the test set it up");
        let mut stream = StreamOwned::new(connection, self.upgrade());
        stream.write_all(&head(option::EXPORT_NAME))?;
        let length: [u8; 8] = take(&mut stream)?;
        assert_eq!(u64::from_be_bytes(length), LENGTH_BYTES);
        take::<2>(&mut stream)?;
        Ok(stream)
    }

    /// Ends the server and returns why connections failed.
    fn end(self) -> Vec<String> {
        self.server.drain();
        forebay_rt::block_on(self.server.ended());
        lock(&self.failures).clone()
    }
}

type Secured = StreamOwned<ClientConnection, TcpStream>;

fn take<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn head(kind: u32) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// The kind of the next answer; its data is skipped.
fn answer(stream: &mut impl Read) -> io::Result<u32> {
    let head: [u8; 20] = take(stream)?;
    assert_eq!(head[..8], OPTION_REPLY_MAGIC.to_be_bytes());
    let number = |at| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    io::copy(&mut stream.take(u64::from(number(16))), &mut io::sink())?;
    Ok(number(12))
}

fn request(kind: u16, offset_bytes: u64, length_bytes: u32) -> [u8; REQUEST_BYTES] {
    let request = Request {
        flags: 0,
        kind,
        cookie: 7,
        offset_bytes,
        length_bytes,
    };
    request.encode()
}

fn expect_done(stream: &mut impl Read) {
    let reply: [u8; 16] = take(stream).expect("the server answers");
    assert_eq!(reply[4..8], [0; 4]);
}

#[test]
fn a_renewed_certificate_is_shown_to_clients_that_come_later() {
    let served = Served::start();
    let before = served.authority.client(&served.authority);
    let renewed = Authority::new();
    renewed.write_server(served.folder.path());
    assert!(
        served.connect(before).is_err(),
        "its authority is a different one now"
    );
    let now = renewed.client(&renewed);
    drop(served.connect(now.clone()).expect("it is trusted now"));
    // Half of a renewal: the credentials that were read last stay in use.
    std::fs::write(served.folder.path().join("server-key.pem"), "no key").expect("it is ours");
    drop(served.connect(now).expect("it is still trusted"));
    served.end();
}

#[test]
fn what_is_written_through_tls_is_read_through_tls() {
    let served = Served::start();
    let config = served.authority.client(&served.authority);
    let mut stream = served.connect(config).unwrap();
    // Longer than what TLS holds back for a client that does not read.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let written = request(command::WRITE, 4097, bytes.len() as u32);
    stream.write_all(&written).unwrap();
    stream.write_all(&bytes).unwrap();
    expect_done(&mut stream);
    // All requests are sent at once, so that the answers have to wait for their turn.
    for piece in 0..30 {
        let wanted = request(command::READ, 4097 + piece * 100_000, 100_000);
        stream.write_all(&wanted).unwrap();
    }
    let mut found = Vec::new();
    for _ in 0..30 {
        expect_done(&mut stream);
        let start = found.len();
        found.resize(start + 100_000, 0);
        stream.read_exact(&mut found[start..]).unwrap();
    }
    assert!(found == bytes);
    stream.write_all(&request(command::DISC, 0, 0)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "closed in order");
    assert_eq!(served.end(), Vec::<String>::new());
}

#[test]
fn a_client_without_a_certificate_is_let_go() {
    let served = Served::start();
    let config = served.authority.stranger();
    assert!(served.connect(config).is_err());
    let failures = served.end();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].starts_with("TLS: "), "{failures:?}");
}

#[test]
fn a_client_of_another_authority_is_let_go() {
    let served = Served::start();
    let config = served.authority.client(&Authority::new());
    assert!(served.connect(config).is_err());
    let failures = served.end();
    assert!(failures[0].starts_with("TLS: "), "{failures:?}");
}

#[test]
fn bytes_in_the_clear_after_the_request_for_tls_end_it() {
    let served = Served::start();
    let mut stream = served.greet();
    let injected = [head(option::STARTTLS), head(option::LIST)].concat();
    stream.write_all(&injected).unwrap();
    let mut rest = Vec::new();
    // The connection ends, with or without the unread bytes.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() <= 20, "only the answer to the first");
    let failures = served.end();
    assert!(failures[0].contains("plain text"), "{failures:?}");
}

#[test]
fn garbage_instead_of_tls_ends_it() {
    let served = Served::start();
    let mut stream = served.upgrade();
    stream.write_all(&[0x5a; 4096]).unwrap();
    let mut rest = Vec::new();
    // The server's alert, or a reset.
    let _ = stream.read_to_end(&mut rest);
    let gone = served.upgrade();
    drop(gone);
    let failures = served.end();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].starts_with("TLS: "), "{failures:?}");
}

#[test]
fn files_that_do_not_fit_together_are_refused() {
    let served = Served::start();
    let other = tempfile::tempdir().unwrap();
    Authority::new().write_server(other.path());
    let file = |name: &str| served.folder.path().join(name);
    let refused = TlsCredentials::load(
        &file("server-cert.pem"),
        &other.path().join("server-key.pem"),
        &file("ca-cert.pem"),
    );
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("cannot be used"), "{text}");
    assert_eq!(served.end(), Vec::<String>::new());
}

#[test]
fn strangers_take_no_place_from_a_client_with_a_certificate() {
    let served = Served::with_limit(1);
    // More strangers than there may be at once, so that the first ones must make room.
    let silent: Vec<TcpStream> = (0..24).map(|_| served.greet()).collect();
    let good = || served.authority.client(&served.authority);
    let mut client = served.connect(good()).unwrap();
    assert_eq!(served.server.connections(), 1);
    assert!(served.connect(good()).is_err(), "it has the only place");
    client.write_all(&request(command::FLUSH, 0, 0)).unwrap();
    expect_done(&mut client);
    drop((silent, client));
    let failures = served.end();
    let full = "1 clients are connected, which is the limit";
    assert_eq!(failures, [full], "and nothing else");
}
