//! Names and attributes, as they are asked for.

use super::*;
use crate::bench::{Bench, CALLER, without_privileges};
use forebay_rt::block_on;

fn changes() -> Changes {
    Changes {
        mode: None,
        user: None,
        group: None,
        length_bytes: None,
        accessed: None,
        modified: None,
    }
}

fn mode_of(inode: &Inode) -> u32 {
    rustix::fs::fstat(inode).unwrap().st_mode & PERMISSION_BITS
}

/// Who is not root may remove no capabilities, also where there are none.
#[test]
fn a_program_is_written_and_cut_by_a_mount_without_privileges() {
    let bench = Bench::new();
    let open = bench.create("program", 0o755);
    let inode = open.used.inode.clone();
    let privileged = Changes {
        mode: Some(0o6755),
        ..changes()
    };
    let cut = Changes {
        length_bytes: Some(3),
        ..changes()
    };
    let folder = bench.folder.clone();
    let (asked, other) = (inode.clone(), folder.clone());
    without_privileges(move || {
        folder.change(asked.id, privileged, CALLER).unwrap();
        folder.write(&open, b"bytes", 0, true).unwrap();
        assert_eq!(mode_of(&asked), 0o755);
        folder.change(asked.id, privileged, CALLER).unwrap();
        folder.change(asked.id, cut, CALLER).unwrap();
        assert_eq!(mode_of(&asked), 0o755);
    });
    assert_eq!(other.describe(&inode).unwrap().size, 3);
    block_on(bench.cache.close()).unwrap();
}
