//! Snapshots, clones and followers of a volume in a folder, as an operator uses them.

#![allow(clippy::unwrap_used)]

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "serve_nbd/server.rs"]
mod server;

use client::Client;
use rustix::process::Signal;
use server::{Served, command};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const MIB: usize = 1 << 20;
const LENGTH: usize = 8 * MIB;

/// A volume, and the files of its owner.
struct Bench {
    folder: TempDir,
    address: String,
    sockets: u32,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("folder://{}/volume", folder.path().display());
        std::fs::write(folder.path().join("key"), "5a".repeat(32)).unwrap();
        Bench {
            folder,
            address,
            sockets: 0,
        }
    }

    fn key(&self) -> String {
        self.folder.path().join("key").display().to_string()
    }

    fn serve(&mut self, address: &str, more: &[&str]) -> Served {
        self.sockets += 1;
        let socket = self.folder.path().join(format!("{}.sock", self.sockets));
        let key = self.key();
        let more = [&["--key-file", &key], more].concat();
        Served::started(command(Path::new(address), &socket, &more), socket)
    }

    fn serve_to_write(&mut self) -> Served {
        let address = self.address.clone();
        let more = ["--create", "8M", "--chunk", "64K", "--garbage", "0%"];
        self.serve(&address, &more)
    }

    /// What is read of the volume at `address`.
    fn read(&mut self, address: &str, more: &[&str]) -> Vec<u8> {
        let server = self.serve(address, more);
        let mut client = server.client();
        let bytes = read_all(&mut client);
        drop(client);
        server.end(0);
        bytes
    }
}

fn volume(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("volume").args(words).output().unwrap()
}

/// What `forebay volume` prints.
fn done(words: &[&str]) -> String {
    let output = volume(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Why `forebay volume` does nothing.
fn refused(words: &[&str], status: i32) -> String {
    let output = volume(words);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// All of the volume, as `client` reads it.
fn read_all(client: &mut Client) -> Vec<u8> {
    let parts = (0..LENGTH).step_by(MIB);
    parts
        .flat_map(|at| client.read(at as u64, MIB).unwrap())
        .collect()
}

/// Writes all of the volume, a piece at a time, each made durable.
fn fill(server: &Served, byte: u8) -> Vec<u8> {
    let mut client = server.client();
    for (index, at) in (0..LENGTH).step_by(MIB / 2).enumerate() {
        let bytes = vec![byte + index as u8 % 3; MIB / 2];
        assert_eq!(client.write(at as u64, &bytes, index % 2 == 0).unwrap(), 0);
    }
    assert_eq!(client.flush().unwrap(), 0);
    read_all(&mut client)
}

#[test]
fn an_operator_goes_back_to_what_was() {
    let mut bench = Bench::new();
    let (address, key) = (bench.address.clone(), bench.key());
    let server = bench.serve_to_write();
    let monday = fill(&server, 10);
    let text = done(&["snapshot", &address, "monday"]);
    assert!(text.contains("the snapshot monday is taken"), "{text}");
    for byte in 20..30 {
        fill(&server, byte);
    }
    done(&["gc", &address]);
    let text = refused(&["rollback", &address, "monday", "--key-file", &key], 1);
    assert!(text.contains("did not close it"), "{text}");
    server.signal(Signal::KILL);
    drop(server);

    assert!(bench.read(&address, &["--snapshot", "monday"]) == monday);
    let text = done(&["info", &address]);
    assert!(text.contains("snapshot monday, taken 2"), "{text}");
    assert!(
        text.contains(" UTC\n") && text.contains("for snapshots alone"),
        "{text}"
    );
    let copy = format!("folder://{}/copy", bench.folder.path().display());
    let words = [
        "copy",
        &address,
        &copy,
        "--snapshot",
        "monday",
        "--key-file",
        &key,
    ];
    let text = done(&words);
    assert!(
        text.contains("a copy of the snapshot monday of folder://"),
        "{text}"
    );
    assert!(bench.read(&copy, &["--read-only"]) == monday);

    let rollback = [
        "rollback",
        &address,
        "monday",
        "--key-file",
        &key,
        "--take-over",
    ];
    let text = done(&rollback);
    assert!(
        text.contains("it is as of the snapshot monday again; 8"),
        "{text}"
    );
    assert!(bench.read(&address, &["--read-only"]) == monday);
    let server = bench.serve_to_write();
    let now = fill(&server, 40);
    server.end(0);
    let text = done(&["snapshot", &address, "monday", "--remove"]);
    assert!(text.contains("the snapshot monday is removed"), "{text}");
    done(&["gc", &address]);
    done(&["check", &address]);
    assert!(bench.read(&address, &["--read-only"]) == now);
}

#[test]
fn an_operator_tries_something_on_a_clone() {
    let mut bench = Bench::new();
    let base = bench.address.clone();
    let clone = format!("folder://{}/clone", bench.folder.path().display());
    let server = bench.serve_to_write();
    let was = fill(&server, 10);
    let text = done(&["clone", &base, &clone]);
    assert_eq!(text, format!("{base}: {clone} is a clone of it\n"));
    let now = fill(&server, 20);
    assert!(bench.read(&clone, &["--read-only"]) == was);
    let clones_server = bench.serve(&clone, &["--garbage", "0%"]);
    let tried = fill(&clones_server, 30);
    clones_server.end(0);
    assert!(read_all(&mut server.client()) == now);
    server.end(0);

    let text = done(&["info", &clone]);
    assert!(
        text.contains(&format!("a clone of {base}, whose snapshot clone-")),
        "{text}"
    );
    let text = done(&["info", &base]);
    assert!(text.contains(", which a clone needs, taken 2"), "{text}");
    let text = refused(&["remove", &base], 1);
    assert!(text.contains("remove or flatten the clone first"), "{text}");
    let text = refused(&["clone", &base, &clone], 1);
    assert!(
        text.starts_with(&format!("forebay: {clone}: there is a volume")),
        "{text}"
    );
    let text = refused(&["clone", &base, "s3://other/clone"], 1);
    assert!(text.contains("s3://other/clone: "), "{text}");

    let text = done(&["flatten", &clone]);
    assert!(text.contains("it no longer shares anything"), "{text}");
    let text = refused(&["flatten", &clone], 1);
    assert!(text.contains("it is no clone"), "{text}");
    done(&["remove", &base]);
    done(&["check", &clone]);
    assert!(bench.read(&clone, &["--read-only"]) == tried);
}

#[test]
fn a_volume_becomes_longer_and_shorter() {
    let mut bench = Bench::new();
    let (address, key) = (bench.address.clone(), bench.key());
    let server = bench.serve_to_write();
    let bytes = fill(&server, 10);
    let text = refused(&["resize", &address, "9M", "--key-file", &key], 1);
    assert!(text.contains("did not close it"), "{text}");
    server.end(0);
    let text = done(&["resize", &address, "9M", "--key-file", &key]);
    assert!(text.contains("it has 9 MiB now"), "{text}");
    let server = bench.serve(&address, &[]);
    let mut client = server.client();
    assert_eq!(client.read(LENGTH as u64, MIB).unwrap(), vec![0; MIB]);
    assert_eq!(client.write(LENGTH as u64, &vec![7; MIB], true).unwrap(), 0);
    drop(client);
    server.end(0);
    let text = refused(&["resize", &address, "8M", "--key-file", &key], 1);
    assert!(
        text.contains("would be lost; allow that with --shrink"),
        "{text}"
    );
    done(&["resize", &address, "8M", "--shrink", "--key-file", &key]);
    done(&["gc", &address]);
    assert!(bench.read(&address, &["--read-only"]) == bytes);
    let text = refused(
        &[
            "resize",
            &address,
            "8000001",
            "--shrink",
            "--key-file",
            &key,
        ],
        1,
    );
    assert!(text.contains("a multiple of 4096 bytes"), "{text}");
}

#[test]
fn a_follower_shows_what_another_server_has_flushed() {
    let mut bench = Bench::new();
    let address = bench.address.clone();
    let server = bench.serve_to_write();
    let mut writer = server.client();
    let follower = bench.serve(&address, &["--follow", "100ms"]);
    let mut reader = follower.client();
    for round in 1..4 {
        assert_eq!(writer.write(0, &vec![round; MIB], false).unwrap(), 0);
        assert_eq!(writer.flush().unwrap(), 0);
        // What it has cached of the round before goes within its interval.
        let shows = |_: &u32| {
            forebay_rt::thread::pause_current(forebay_base::Span::from_millis(50));
            read_all(&mut reader)[..MIB] == vec![round; MIB]
        };
        assert!((0..600).find(shows).is_some(), "round {round}");
    }
    assert_ne!(reader.write(0, &[1; 4096], false).unwrap(), 0);
    drop((writer, reader));
    follower.end(0);
    server.end(0);
}

#[test]
fn what_is_no_snapshot_is_refused_by_name() {
    let mut bench = Bench::new();
    let address = bench.address.clone();
    bench.serve_to_write().end(0);
    let text = refused(&["snapshot", &address, "a/b"], 2);
    assert!(text.contains("up to 64 letters, digits"), "{text}");
    let text = refused(&["snapshot", &address, "monday", "--remove"], 1);
    assert!(text.contains("there is no snapshot monday"), "{text}");
    done(&["snapshot", &address, "monday"]);
    let text = refused(&["snapshot", &address, "monday"], 1);
    assert!(
        text.contains("there is a snapshot monday already"),
        "{text}"
    );
    let text = refused(&["rollback", &address, "monday"], 1);
    assert!(text.contains("it is encrypted"), "{text}");

    // A snapshot is of a volume in a bucket, and takes no writes.
    let image = bench.folder.path().join("image");
    std::fs::write(&image, vec![0; MIB]).unwrap();
    let socket = bench.folder.path().join("image.sock");
    let output = command(&image, &socket, &["--snapshot", "monday"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("--snapshot is for volumes in buckets"),
        "{text}"
    );
    let server = bench.serve(&address, &["--snapshot", "monday"]);
    let mut client = server.client();
    assert_ne!(client.write(0, &[1; 4096], false).unwrap(), 0);
    drop(client);
    server.end(0);
}
