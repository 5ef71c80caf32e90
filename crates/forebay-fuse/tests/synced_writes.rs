//! Writes that a program wants to be durable when they return.

mod support;

use forebay_store::{Failure, Fault, FaultAction, IoKind};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use support::{TestMount, is_left_out, read};

const MIB: u64 = 1 << 20;
/// `O_DSYNC`; the library's constant of that name is `O_SYNC`.
const DSYNC: OFlags = OFlags::from_bits_retain(0o10_000);

fn open(path: &std::path::Path, flags: OFlags) -> File {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.custom_flags(flags.bits() as i32);
    options.open(path).expect("it opens")
}

#[test]
fn a_write_of_a_file_that_was_opened_for_synced_writes_is_durable() {
    if is_left_out() {
        return;
    }
    let (mut bench, faults) = TestMount::faulty(16 * MIB);
    for (name, flags) in [("data", DSYNC), ("all", OFlags::SYNC)] {
        let mut file = open(&bench.path(name), flags);
        file.write_all(&[5; 10_000]).unwrap();
        assert!(read(&bench.behind(name)) == [5; 10_000], "{name}");
        file.write_all_at(&[6; 4096], 4096).unwrap();
        assert!(read(&bench.behind(name))[4096..8192] == [6; 4096], "{name}");
        // Its failure is the failure of the write.
        let fails = FaultAction::Fail(Failure::Device(5));
        faults.inject(Fault::each(IoKind::Commit, fails));
        let failed = file.write_all_at(&[7; 4096], 0).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(Errno::IO.raw_os_error()));
        faults.clear();
        file.write_all_at(&[8; 4096], 0).unwrap();
    }
    bench.end();
}

#[test]
fn a_single_write_can_be_synced() {
    if is_left_out() {
        return;
    }
    let (mut bench, faults) = TestMount::faulty(16 * MIB);
    let file = open(&bench.path("file"), OFlags::empty());
    let fails = FaultAction::Fail(Failure::Device(5));
    faults.inject(Fault::each(IoKind::Commit, fails));
    let write = |flags| rustix::io::pwritev2(&file, &[IoSlice::new(&[5; 4096])], 0, flags);
    assert_eq!(write(ReadWriteFlags::empty()), Ok(4096), "nobody commits");
    assert_eq!(write(ReadWriteFlags::DSYNC), Err(Errno::IO));
    faults.clear();
    assert_eq!(write(ReadWriteFlags::SYNC), Ok(4096));
    assert!(read(&bench.behind("file")) == [5; 4096]);
    drop(file);
    bench.end();
}
