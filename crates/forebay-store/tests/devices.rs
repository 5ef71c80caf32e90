//! A block device is a store of fixed length. Needs a loop device, so it is skipped, with a
//! message, where there is none.

mod support;

use forebay_store::{Failure, FileStore, IoKind, Method, OpenMode, Store};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use support::fixtures::{file_stores, settings};
use support::{Driver, on_a_tiny_file_system};

const DEVICE_BYTES: u64 = 8 << 20;

/// A loop device, detached when dropped.
struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// A device of `length_bytes` over a new file in `folder`.
    fn attach(folder: &Path, length_bytes: u64) -> Option<LoopDevice> {
        let backing = folder.join("backing");
        std::fs::File::create(&backing)
            .and_then(|file| file.set_len(length_bytes))
            .expect("the file behind the device is made");
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&backing)
            .output()
            .ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| LoopDevice {
            path: PathBuf::from(path.trim()),
        })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{}: could not be detached", self.path.display());
        }
    }
}

fn check_device(name: &str, driver: &Driver, store: &FileStore, path: &Path) {
    let opened = store.open(path, OpenMode::ReadWrite).expect("it opens");
    assert_eq!(opened.length_bytes, DEVICE_BYTES, "{name}");
    let object = opened.object;
    let bytes: Vec<u8> = (0..65_536_u32).map(|at| (at % 251) as u8).collect();
    driver.write(object, 0, &bytes).expect("it is written");
    driver
        .write(object, 65_536, &bytes[..5000])
        .expect("a tail is written");
    assert!(driver.read(object, 0, 65_536) == bytes, "{name}");
    assert!(
        driver.read(object, 65_536, 5000)[..5000] == bytes[..5000],
        "{name}"
    );
    driver
        .order(IoKind::Commit, object, 0, 0)
        .expect("it is made durable");

    // Whole blocks, and a range that no device can punch out.
    for (start, length) in [(8192, 16_384), (40_001, 77)] {
        driver
            .order(IoKind::Discard, object, start, length)
            .expect("it is discarded");
    }
    let mut expected = bytes;
    expected[8192..24_576].fill(0);
    expected[40_001..40_078].fill(0);
    assert!(driver.read(object, 0, 65_536) == expected, "{name}");

    let read = driver.read(object, DEVICE_BYTES - 4096, 8192);
    assert!(read.iter().all(|&byte| byte == 0), "{name}: past its end");
    let behind = driver.write(object, DEVICE_BYTES - 4096, &[1; 8192]);
    assert_eq!(behind, Err(Failure::OutOfRange), "{name}");
    let set_length = |length| driver.order(IoKind::SetLength, object, length, 0);
    assert_eq!(set_length(DEVICE_BYTES), Ok(()), "{name}");
    assert_eq!(set_length(4096), Err(Failure::Unsupported), "{name}");
    store.close(object);
}

#[test]
fn a_block_device_is_a_store_of_fixed_length() {
    for (name, store) in file_stores() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let Some(device) = LoopDevice::attach(folder.path(), DEVICE_BYTES) else {
            eprintln!("skipped: no loop device can be had here");
            return;
        };
        let driver = Driver::new(Arc::clone(&store) as Arc<dyn Store>, 64);
        check_device(name, &driver, &store, &device.path);
        drop((driver, store));
    }
}

/// The kernel reports once that it could not write bytes back, and marks their pages clean.
#[test]
fn a_commit_fails_after_one_that_lost_bytes() {
    const MIB: usize = 1 << 20;
    for method in [Method::Uring, Method::Positioned] {
        let store = match FileStore::new(settings(method, false)) {
            Ok(store) => store,
            Err(error) => {
                eprintln!("skipped: {method:?}: {error}");
                continue;
            }
        };
        on_a_tiny_file_system("1m", |folder| {
            let Some(device) = LoopDevice::attach(folder, 4 << 20) else {
                eprintln!("skipped: no loop device can be had here");
                return;
            };
            let driver = Driver::new(Arc::clone(&store) as Arc<dyn Store>, 512);
            let open = || store.open(&device.path, OpenMode::ReadWrite);
            let object = open().expect("it opens").object;
            for part in [0, MIB] {
                let written = driver.write(object, part as u64, &vec![7; MIB]);
                assert_eq!(written, Ok(()), "{method:?}: the kernel's cache takes it");
            }
            let commit = |object| driver.order(IoKind::Commit, object, 0, 0);
            let lost = commit(object);
            assert!(lost.is_err(), "{method:?}: there is room for half of it");
            assert_eq!(commit(object), lost, "{method:?}");
            assert_eq!(store.make_writable(object, &device.path), Ok(true));
            assert_eq!(commit(object), lost, "{method:?}");
            assert_eq!(store.commit_failure(object), lost.err(), "{method:?}");
            // The same object goes on once it is opened anew, without what may be lost.
            assert_eq!(store.open_anew(object), Ok(true), "{method:?}");
            assert_eq!(store.commit_failure(object), None, "{method:?}");
            assert_eq!(commit(object), Ok(()), "{method:?}");
            store.close(object);
            assert_eq!(store.open_anew(object), Ok(false), "{method:?}");
            // A caller that opens it anew begins anew, and has to write again what may be lost.
            let anew = open().expect("it opens").object;
            assert_eq!(commit(anew), Ok(()), "{method:?}");
        });
    }
}

/// Lets a device say that it needs stable pages until this is dropped. The system keeps this
/// setting when the device gets another file, so the next user of the device would see it too.
struct NeedsStablePages {
    says: PathBuf,
}

impl NeedsStablePages {
    /// None if the device has no such setting.
    fn ask_of(device: &LoopDevice) -> Option<NeedsStablePages> {
        let name = device.path.file_name().expect("a device has a name");
        let says = Path::new("/sys/block")
            .join(name)
            .join("queue/stable_writes");
        std::fs::write(&says, "1").ok()?;
        Some(NeedsStablePages { says })
    }
}

impl Drop for NeedsStablePages {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(&self.says, "0") {
            eprintln!("{}: {error}", self.says.display());
        }
    }
}

/// Such a device takes checksums of pages, which a cache overwrites while they are written.
#[test]
fn a_device_that_needs_stable_pages_is_written_through_the_kernel() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let Some(device) = LoopDevice::attach(folder.path(), DEVICE_BYTES) else {
        eprintln!("skipped: no loop device can be had here");
        return;
    };
    let store = FileStore::new(settings(Method::Positioned, true)).expect("it starts");
    let is_direct = |mode| store.open(&device.path, mode).expect("it opens").direct;
    let asked = is_direct(OpenMode::ReadWrite).then(|| NeedsStablePages::ask_of(&device));
    // Dropped before the device is detached.
    let Some(Some(_asked)) = asked else {
        eprintln!("skipped: no device can be made to need stable pages here");
        return;
    };
    assert!(!is_direct(OpenMode::ReadWrite));
    assert!(is_direct(OpenMode::ReadOnly), "nothing is overwritten");
}
