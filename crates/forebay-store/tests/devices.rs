//! A block device is a store of fixed length. Needs a loop device, so it is skipped, aloud, where
//! none can be had.

mod support;

use forebay_store::{Failure, IoKind, OpenMode, Store};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use support::Driver;
use support::fixtures::file_stores;

const DEVICE_BYTES: u64 = 8 << 20;

/// A loop device over a file of its own, detached when dropped.
struct LoopDevice {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl LoopDevice {
    fn attach() -> Option<LoopDevice> {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let backing = folder.path().join("backing");
        std::fs::File::create(&backing)
            .and_then(|file| file.set_len(DEVICE_BYTES))
            .expect("the file behind the device is made");
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&backing)
            .output()
            .ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| LoopDevice {
            path: PathBuf::from(path.trim()),
            _folder: folder,
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

fn check_device(name: &str, driver: &Driver, store: &forebay_store::FileStore, path: &Path) {
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
    assert!(read.iter().all(|&byte| byte == 0), "{name}: behind its end");
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
        let Some(device) = LoopDevice::attach() else {
            eprintln!("skipped: no loop device can be had here");
            return;
        };
        let driver = Driver::new(Arc::clone(&store) as Arc<dyn Store>, 64);
        check_device(name, &driver, &store, &device.path);
        drop((driver, store));
    }
}
