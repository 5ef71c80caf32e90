//! `forebay serve nbd` under limits of the system whose signals would end it with dirty pages.

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/server.rs"]
mod server;

use rustix::process::Signal;
use server::{Served, through};
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
