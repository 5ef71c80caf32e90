//! `forebay serve nbd` over block devices: one that accepts bytes and cannot make them durable, and
//! one that is in use. The tests need a loop device; without one they are skipped with a message.

#[path = "serve_nbd/client.rs"]
mod client;
#[path = "serve_nbd/lifetime.rs"]
mod lifetime;
#[path = "serve_nbd/server.rs"]
mod server;
#[path = "serve_nbd/small_disk.rs"]
mod small_disk;

use client::Client;
use forebay_nbd::wire::command;
use rustix::fs::{Mode, OFlags};
use server::Served;
use small_disk::SmallDisk;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;
/// EIO.
const IO_ERROR: u32 = 5;

/// A device of 16 MiB over a file with room for 4. The kernel's cache is in front of it, as for
/// every device that needs stable pages, so that it accepts bytes that will not become durable.
struct LossyDisk {
    device: PathBuf,
    below: SmallDisk,
    _folder: tempfile::TempDir,
}

impl LossyDisk {
    /// `None`, with a printed message, if the system does not allow `test` to have one.
    fn make(test: &str) -> Option<LossyDisk> {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let below = SmallDisk::mount(folder.path(), test)?;
        let Some(device) = attach(&folder.path().join("backing")) else {
            eprintln!("SKIPPED {test}: no loop device");
            return None;
        };
        let disk = LossyDisk {
            device,
            below,
            _folder: folder,
        };
        if !disk.needs_stable_pages("1") {
            eprintln!("SKIPPED {test}: a loop device cannot be made to need it");
            return None;
        }
        Some(disk)
    }

    fn needs_stable_pages(&self, value: &str) -> bool {
        let name = self.device.file_name().expect("a device has a name");
        let says = Path::new("/sys/block")
            .join(name)
            .join("queue/stable_writes");
        std::fs::write(says, value).is_ok()
    }
}

fn attach(backing: &Path) -> Option<PathBuf> {
    let file = std::fs::File::create(backing).expect("the file system is new");
    file.set_len(16 * MIB).expect("it has no blocks yet");
    let attached = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(backing)
        .output()
        .ok()?;
    let device = String::from_utf8(attached.stdout).ok()?;
    let is_attached = attached.status.success();
    is_attached.then(|| PathBuf::from(device.trim()))
}

impl Drop for LossyDisk {
    fn drop(&mut self) {
        // The system keeps the setting for the next user of the device.
        self.needs_stable_pages("0");
        let detached = Command::new("losetup").arg("-d").arg(&self.device).status();
        assert!(
            detached.is_ok_and(|status| status.success()),
            "{}",
            self.device.display()
        );
    }
}

/// A server of the disk. Its client has written more than the disk can make durable, and knows it.
fn lossy_server(disk: &LossyDisk, folder: &Path) -> (Served, Client) {
    let socket = folder.join("nbd.sock");
    let served = Served::started(server::command(&disk.device, &socket, &[]), socket);
    let mut client = served.client();
    for at in 0..6 {
        let written = client.write(at * MIB, &vec![7; MIB as usize], false);
        assert_eq!(written.expect("the server answers"), 0);
    }
    assert_eq!(client.flush().expect("it is answered"), IO_ERROR);
    (served, client)
}

fn assert_ends_with_a_loss(served: Served, disk: &LossyDisk) {
    let text = served.end(1);
    let named = format!("{}: the disk accepted data", disk.device.display());
    assert!(text.contains(&named), "{text}");
}

#[test]
fn an_image_is_reopened_once_every_client_knows_of_a_loss() {
    let Some(disk) = LossyDisk::make("an_image_is_reopened_once_every_client_knows_of_a_loss")
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (served, mut first) = lossy_server(&disk, folder.path());
    disk.below.grow();
    let mut second = served.client();
    assert_eq!(second.flush().unwrap(), IO_ERROR, "the first one is there");
    assert_eq!(first.flush().unwrap(), IO_ERROR);
    for client in [&mut first, &mut second] {
        let leave = Client::request(command::DISC, 0, 0, 0);
        client.send(leave, &[]).expect("the server reads");
        assert_eq!(client.stream.read(&mut [0; 1]).expect("it closes"), 0);
    }
    // Their places become free shortly after their streams have ended.
    let mut third = loop {
        let mut client = served.client();
        if client.flush().unwrap() == 0 {
            break client;
        }
    };
    for at in 0..6 {
        let written = third.write(at * MIB, &vec![9; MIB as usize], true);
        assert_eq!(written.expect("the server answers"), 0);
    }
    assert_eq!(third.flush().unwrap(), 0);
    assert_ends_with_a_loss(served, &disk);
    let image = std::fs::read(&disk.device).expect("it is there");
    assert!(image[..6 << 20].iter().all(|&byte| byte == 9));
}

#[test]
fn a_server_that_lost_bytes_ends_by_one_signal() {
    let Some(disk) = LossyDisk::make("a_server_that_lost_bytes_ends_by_one_signal") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (served, client) = lossy_server(&disk, folder.path());
    disk.below.grow();
    assert_ends_with_a_loss(served, &disk);
    drop(client);
}

#[test]
fn a_device_that_is_in_use_is_refused_or_named() {
    let Some(disk) = LossyDisk::make("a_device_that_is_in_use_is_refused_or_named") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder for the test");
    let socket = folder.path().join("nbd.sock");
    // As mount(2) does it.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let claim = || rustix::fs::open(&disk.device, flags, Mode::empty());
    let claimed = claim().expect("nobody uses it");
    let mut call = server::command(&disk.device, &socket, &[]);
    let refused = call.output().expect("the program starts");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(
        text.contains("this machine uses it: it is mounted"),
        "{text}"
    );
    let call = server::command(&disk.device, &socket, &["--read-only"]);
    let mut reader = Served::started(call, socket.clone());
    reader.read_until("may not be seen");
    reader.end(0);
    drop(claimed);
    let served = Served::started(server::command(&disk.device, &socket, &[]), socket);
    claim().expect_err("it is served");
    served.end(0);
}
