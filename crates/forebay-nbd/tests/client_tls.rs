//! The client through TLS: with servers of this crate and of other projects, what it refuses, and
//! restarts.

#[path = "tls/certificates.rs"]
mod certificates;
#[path = "client/far.rs"]
mod far;
#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;

use certificates::Authority;
use far::{Far, MIB};
use forebay::{Cache, Settings};
use forebay_base::{Prng, Span};
use forebay_nbd::client::{ClientError, ClientSettings, NbdStore};
use forebay_nbd::{Export, Listener, Server, ServerSettings, TlsCredentials};
use forebay_store::{Failure, IoKind, MemoryStore, ObjectId};
use std::path::Path;
use std::sync::Arc;
use support::Driver;
use tempfile::TempDir;

const OBJECT: ObjectId = NbdStore::OBJECT;

/// A folder with the certificates of both sides.
struct Pki {
    authority: Authority,
    folder: TempDir,
}

impl Pki {
    fn new() -> Pki {
        let pki = Pki {
            authority: Authority::new(),
            folder: tempfile::tempdir().expect("a folder for the test"),
        };
        pki.authority.write_server(pki.path());
        pki.authority.write_client(pki.path());
        pki
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// nbdkit that speaks TLS as `tls` says and demands certificates.
    fn nbdkit(&self, tls: &str) -> Option<Far> {
        let arguments = self.arguments(tls);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Far::start("nbdkit", &arguments, 8 * MIB)
    }

    fn arguments(&self, tls: &str) -> Vec<String> {
        let certificates = format!("--tls-certificates={}", self.path().display());
        let tls = format!("--tls={tls}");
        let fixed = ["-f", "-U", "SOCK", "--filter=cache", "--tls-verify-peer"];
        let plugin = ["file", "IMG", "cache=writeback"];
        let fixed = fixed.iter().map(|&text| text.to_owned());
        fixed
            .chain([certificates, tls])
            .chain(plugin.iter().map(|&text| text.to_owned()))
            .collect()
    }
}

fn open(address: &str) -> Result<Arc<NbdStore>, ClientError> {
    let settings = ClientSettings {
        answer_timeout: Span::from_millis(1_500),
    };
    NbdStore::open(&address.parse().expect("it is an address"), true, settings)
}

/// The address of `far` through TLS, with the certificates in `folder`.
fn secured(far: &Far, folder: &Path) -> String {
    let (socket, folder) = (far.socket(), folder.display().to_string());
    format!(
        "nbds+unix:///?socket={}&tls-certificates={folder}",
        socket.display()
    )
}

fn refusal(address: &str) -> String {
    let refused = open(address).map(drop);
    refused.expect_err(address).to_string()
}

/// Writes all of 8 MiB in requests of several sizes, and reads it back.
fn use_it(name: &str, driver: &Driver) {
    let mut prng = Prng::from_seed(1);
    let bytes: Vec<u8> = (0..8 * MIB).map(|_| prng.next_u64() as u8).collect();
    for (at, part) in bytes.chunks(64 << 10).enumerate() {
        let written = driver.write(OBJECT, at as u64 * (64 << 10), part);
        assert_eq!(written, Ok(()), "{name}");
    }
    assert_eq!(driver.order(IoKind::Commit, OBJECT, 0, 0), Ok(()), "{name}");
    for at in (0..8 * MIB).step_by(256 << 10) {
        let read = driver.read(OBJECT, at, 256 << 10);
        assert!(
            read == bytes[at as usize..][..256 << 10],
            "{name}, byte {at}"
        );
    }
}

#[test]
fn bytes_go_through_tls_to_servers_of_other_projects_and_come_back() {
    let pki = Pki::new();
    let credentials = format!(
        "tls-creds-x509,id=t,dir={},endpoint=server,verify-peer=on",
        pki.path().display()
    );
    let qemu = ["-t", "-k", "SOCK", "-f", "raw", "--object", &credentials];
    let qemu = [&qemu[..], &["--tls-creds", "t", "IMG"]].concat();
    let qemu = Far::start("qemu-nbd", &qemu, 8 * MIB);
    for (name, far) in [("nbdkit", pki.nbdkit("require")), ("qemu-nbd", qemu)] {
        let Some(far) = far else { continue };
        let store = open(&secured(&far, pki.path())).expect(name);
        use_it(name, &Driver::new(store, 1_024));
    }
}

#[test]
fn bytes_go_through_tls_to_a_server_of_this_crate_and_come_back() {
    let pki = Pki::new();
    let credentials = TlsCredentials::folder(pki.path()).unwrap();
    let listener = Listener::tls("127.0.0.1:0".parse().unwrap(), credentials).unwrap();
    let place = listener.uri().strip_prefix("nbds://").unwrap().to_owned();
    let port = place.trim_end_matches('/').rsplit(':').next().unwrap();
    let cache = Cache::new(Settings {
        memory_bytes: 32 << 20,
        ..Settings::default()
    });
    let cache = cache.unwrap();
    let memory = cache.attach(Arc::new(MemoryStore::new())).unwrap();
    let file = cache.open(&memory, ObjectId(1), 8 * MIB).unwrap();
    let settings = ServerSettings {
        shared_bytes: 4 << 20,
        ..ServerSettings::default()
    };
    let server = Server::start(listener, vec![Export::new("", file)], settings).unwrap();
    let address = format!(
        "nbds://localhost:{port}/?tls-certificates={}",
        pki.path().display()
    );
    let store = open(&address).expect("it is trusted");
    assert_eq!(store.connections(), 4, "each of them has TLS");
    use_it("forebay", &Driver::new(store, 1_024));
    let plain = refusal(&format!("nbd://localhost:{port}/"));
    assert!(plain.contains("begins with nbds://"), "{plain}");
    let unnamed = refusal(&address.replace("localhost", "127.0.0.1"));
    assert!(unnamed.contains("is not for 127.0.0.1"), "{unnamed}");
    server.drain();
    forebay_rt::block_on(server.ended());
}

#[test]
fn who_cannot_be_trusted_is_refused_with_the_reason() {
    let pki = Pki::new();
    let Some(far) = pki.nbdkit("require") else {
        return;
    };
    let good = secured(&far, pki.path());
    drop(open(&good).expect("it is trusted"));
    let plain = refusal(&far_in_the_clear(&far));
    assert!(plain.contains("begins with nbds://"), "{plain}");
    let renamed = refusal(&format!("{good}&tls-hostname=other.example"));
    assert!(renamed.contains("is not for other.example"), "{renamed}");
    let other = Pki::new();
    let unknown = refusal(&secured(&far, other.path()));
    assert!(unknown.contains("authority that is not known"), "{unknown}");
    let empty = tempfile::tempdir().unwrap();
    let missing = refusal(&secured(&far, empty.path()));
    assert!(missing.contains("ca-cert.pem"), "{missing}");
    let unsuitable = good.split("&tls-certificates").next().unwrap();
    let unsuitable = refusal(unsuitable);
    let is_told = unsuitable.contains("tls-certificates=DIR");
    assert!(is_told, "the system knows no such authority: {unsuitable}");
    // No certificate of this client.
    std::fs::copy(
        pki.path().join("ca-cert.pem"),
        empty.path().join("ca-cert.pem"),
    )
    .unwrap();
    let stranger = refusal(&secured(&far, empty.path()));
    assert!(stranger.contains("accept this client"), "{stranger}");
    // One without its key.
    std::fs::copy(
        pki.path().join("client-cert.pem"),
        empty.path().join("client-cert.pem"),
    )
    .unwrap();
    let keyless = refusal(&secured(&far, empty.path()));
    assert!(keyless.contains("client-key.pem"), "{keyless}");
}

fn far_in_the_clear(far: &Far) -> String {
    format!("nbd+unix:///?socket={}", far.socket().display())
}

#[test]
fn a_certificate_that_has_expired_is_refused() {
    let pki = Pki::new();
    pki.authority.write_expired_server(pki.path());
    let Some(far) = pki.nbdkit("require") else {
        return;
    };
    let expired = refusal(&secured(&far, pki.path()));
    assert!(expired.contains("has expired"), "{expired}");
}

#[test]
fn a_restart_goes_through_tls_and_never_to_a_server_without_it() {
    let pki = Pki::new();
    let Some(mut far) = pki.nbdkit("require") else {
        return;
    };
    let driver = Driver::new(open(&secured(&far, pki.path())).unwrap(), 64);
    let write = |byte| driver.write(OBJECT, 0, &[byte; 4096]);
    let commit = || driver.order(IoKind::Commit, OBJECT, 0, 0);
    assert_eq!(write(1), Ok(()));
    far.kill();
    far.begin();
    assert_eq!(commit(), Err(Failure::Forgotten), "it was another server");
    assert_eq!((write(2), commit()), (Ok(()), Ok(())));
    // The next one has no TLS: nothing goes there in the clear.
    let switch = |far: &mut Far, tls: &str| {
        far.kill();
        let arguments = pki.arguments(tls);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        far.change(&arguments);
        far.begin();
    };
    switch(&mut far, "off");
    let image = far.image();
    let refused = refusal(&secured(&far, pki.path()));
    assert!(refused.contains("offers no TLS"), "{refused}");
    assert_eq!(write(3), Err(Failure::NoAnswer));
    assert_eq!(std::fs::read(&image).unwrap()[0], 2);
    switch(&mut far, "require");
    let mut tries = 0;
    while write(4).is_err() {
        tries += 1;
        assert!(tries < 60, "it has TLS again");
    }
    let ends: Vec<_> = (0..2).map(|_| commit()).collect();
    assert_eq!(ends[1], Ok(()), "{ends:?}");
}
