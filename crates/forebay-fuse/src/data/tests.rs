//! Bytes of files that the mount may not open for everything.

use super::*;
use crate::testing::{CALLER, TestFolder, child, without_privileges};
use forebay_rt::block_on;

/// Its owner may write to a file that it may not read, and may forbid itself both while it has it
/// open.
#[test]
fn a_file_that_may_not_be_read_is_synced() {
    let bench = TestFolder::new();
    for mode in [0o200, 0o000] {
        let open = bench.create(&format!("file-{mode:o}"), mode);
        let (folder, asked) = (bench.folder.clone(), open.clone());
        without_privileges(move || {
            folder.open_files.write(&asked, b"bytes", 0, false).unwrap();
            assert_eq!(folder.open_files.sync(&asked, true), Ok(()), "{mode:o}");
            folder.open_files.write(&asked, b"more", 5, false).unwrap();
            assert_eq!(folder.open_files.sync(&asked, false), Ok(()), "{mode:o}");
        });
        let held = bench.source().hold(&open.used.inode).unwrap();
        let reported = bench.names().describe(&held).unwrap();
        assert_eq!((reported.size, u32::from(reported.perm)), (9, mode));
    }
    block_on(bench.cache.close()).unwrap();
}

#[test]
fn a_hole_is_found_in_a_file_that_may_not_be_read() {
    let bench = TestFolder::new();
    let open = bench.create("file", 0o200);
    let folder = bench.folder.clone();
    without_privileges(move || {
        folder
            .open_files
            .write(&open, &[7; 4096], 0, false)
            .unwrap();
        assert_eq!(folder.open_files.seek(&open, 0, Sought::Hole), Ok(4096));
    });
    block_on(bench.cache.close()).unwrap();
}

/// The kernel does not check whether the maker of a file may open it.
#[test]
fn a_file_that_somebody_else_makes_first_is_not_opened_unasked() {
    let bench = TestFolder::new();
    std::fs::write(bench.behind().join("secret"), b"secret").unwrap();
    let mode = NewMode {
        bits: 0o666,
        mask: 0o022,
    };
    let flags = OFlags::RDWR | OFlags::CREATE;
    let made = |flags: OFlags| {
        let flags = flags.bits() as i32;
        bench.files().create(child("secret"), mode, flags, CALLER)
    };
    assert_eq!(made(flags).map(|_| ()), Err(Errno::STALE));
    assert_eq!(made(flags | OFlags::EXCL).map(|_| ()), Err(Errno::EXIST));
    block_on(bench.cache.close()).unwrap();
}
