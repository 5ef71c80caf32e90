//! The servers under limits of the system whose signals would end them with dirty pages.

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "mount_model/mounted.rs"]
mod mounted;
#[path = "serve_nbd/server.rs"]
mod server;

use mounted::{Mounted, is_left_out};
use rustix::process::Signal;
use server::{Served, through};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// A server of an image of 16 MiB, started by prlimit with `limit`.
fn limited(folder: &Path, limit: &str) -> Served {
    let (image, socket) = (folder.join("disk.img"), folder.join("nbd.sock"));
    let file = std::fs::File::create(&image).expect("the folder is ours");
    file.set_len(16 * MIB).expect("it has no blocks");
    let call = server::command(&image, &socket, &[]);
    Served::started(through("prlimit", &[limit], &call), socket)
}

#[test]
fn a_limit_on_the_size_of_files_fails_a_write_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = limited(folder.path(), "--fsize=8388608");
    let mut client = served.client();
    let far = client.write(12 * MIB, &[7; 4096], true).unwrap();
    assert_ne!(far, 0, "it cannot be made durable");
    assert_eq!(
        client.read(12 * MIB, 4096).unwrap(),
        [7; 4096],
        "it is kept"
    );
    assert_eq!(client.write(MIB, &[9; 4096], true).unwrap(), 0);
    served.signal(Signal::INT);
    // Two signals that wait for one thread would be one.
    served.read_until("interrupt again");
    served.signal(Signal::INT);
    let output = served.wait();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let image = std::fs::read(folder.path().join("disk.img")).unwrap();
    assert!(image[1 << 20..][..4096].iter().all(|&byte| byte == 9));
}

#[test]
fn a_store_that_refuses_is_one_line_when_it_begins_and_one_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("c");
    let (image, socket) = (folder.path().join("disk.img"), folder.path().join("s"));
    let file = std::fs::File::create(&image).expect("the folder is ours");
    file.set_len(16 * MIB).expect("it has no blocks");
    let mut call = server::command(&image, &socket, &[]);
    call.arg("--control").arg(&control);
    let limit = ["--fsize=8388608:unlimited"];
    let mut served = Served::started(through("prlimit", &limit, &call), socket);
    let mut client = served.client();
    assert_ne!(client.write(12 * MIB, &[7; 4096], true).unwrap(), 0);
    served.read_until("disk.img) has refused writes");
    let why = ask(&control, "why");
    assert!(why.starts_with("store 0 ("), "{why}");
    assert!(
        why.contains("4 KiB are kept in memory and tried again"),
        "{why}"
    );
    let top = ask(&control, "top");
    assert!(
        top.contains("has refused writes") && top.contains("fails "),
        "{top}"
    );
    let metrics = metrics(&control);
    for line in [
        "forebay_bdi_requests_refused_total{bdi=\"0\",kind=\"write\",reason=\"out_of_range\"} ",
        "forebay_bdi_failed_bytes{bdi=\"0\"} 4096",
        "forebay_bdi_in_trouble{bdi=\"0\"} 1",
        "forebay_sync_errors_total 1",
        "forebay_client_errors_total 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    raise_limit(served.process());
    served.read_until("disk.img) no longer refuses writes");
    assert!(!ask(&control, "why").contains("refused"));
    let output = served.end(0);
    let lines = output.lines().filter(|line| line.contains("refuse"));
    assert_eq!(lines.count(), 0, "each was told once: {output}");
}

#[test]
fn a_mount_tells_of_a_source_that_refuses_in_the_same_way() {
    if is_left_out() {
        return;
    }
    let folder = Mounted::folders();
    let control = folder.path().join("c");
    let mut call = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"));
    call.args(["mount", "--foreground", "--memory", "32M", "--control"]);
    let folders = ["source", "mount"].map(|name| folder.path().join(name));
    call.arg(&control).args(folders);
    let limit = ["--fsize=1048576:unlimited"];
    let mut mounted = Mounted::started(folder, through("prlimit", &limit, &call));
    let file = std::fs::File::create(mounted.path("log")).expect("the folder is ours");
    // The write, or the sync, fails as soon as the server knows.
    let written = file.write_all_at(&[7; 4096], 2 * MIB);
    let synced = written.and_then(|()| file.sync_all());
    assert!(synced.is_err(), "it is past the limit");
    mounted.read_until("source) has refused ");
    let why = ask(&control, "why");
    assert!(why.contains("has refused "), "{why}");
    let counted = metrics(&control);
    assert!(counted.contains("forebay_bdi_in_trouble{bdi=\"0\"} 1"));
    let refused = "forebay_client_errors_total{errno=\"EFBIG\"} ";
    assert!(counted.contains(refused), "{counted}");
    raise_limit(mounted.process());
    // It is told by its next sync, or was by the one before.
    let _ = file.write_all_at(&[7; 4096], 2 * MIB);
    let _ = file.sync_all();
    mounted.read_until("source) no longer refuses ");
    drop(file);
    mounted.end();
    let bytes = std::fs::read(mounted.behind("log")).expect("it is written");
    assert_eq!(bytes[2 << 20..], [7; 4096]);
}

fn raise_limit(process: u32) {
    let raised = std::process::Command::new("prlimit")
        .args(["--pid", &process.to_string()])
        .arg("--fsize=unlimited:unlimited")
        .status();
    assert!(raised.expect("the first call had it").success());
}

/// What `forebay COMMAND` prints of the server at `control`.
fn ask(control: &Path, command: &str) -> String {
    let mut call = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"));
    call.arg(command).arg(control);
    if command == "top" {
        call.arg("--once");
    }
    let output = call.output().expect("the program is built");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The metrics of the server at `control`.
fn metrics(control: &Path) -> String {
    let mut stream = UnixStream::connect(control).expect("the server listens");
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request).expect("the server reads");
    let mut reply = String::new();
    stream
        .read_to_string(&mut reply)
        .expect("the server answers");
    reply
}

#[test]
fn a_limit_on_processor_time_ends_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let served = limited(folder.path(), "--cpu=3600:7200");
    let mut client = served.client();
    assert_eq!(client.write(0, &[5; 4096], false).unwrap(), 0);
    served.signal(Signal::XCPU);
    let output = served.wait();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let image = std::fs::read(folder.path().join("disk.img")).unwrap();
    assert_eq!(image[..4096], [5; 4096]);
}
