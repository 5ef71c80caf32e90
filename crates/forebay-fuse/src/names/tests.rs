//! Names and attributes, as they are asked for.

use super::*;
use crate::bench::{Bench, CALLER, place, without_privileges};
use crate::inode::ROOT;
use crate::source::PERMISSION_BITS;
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

fn name_of(inode: &Inode) -> (u64, String) {
    let (parent, name) = inode.name().unwrap();
    (parent, name.into_string().unwrap())
}

/// By its name a loss is told, and the kernel is asked to forget a file.
#[test]
fn a_file_is_known_by_the_name_that_it_was_given_last() {
    let bench = Bench::new();
    let folder = &bench.folder;
    let [one, other] = ["one", "other"].map(|name| bench.create(name, 0o600));
    let (one, other) = (&one.used.inode, &other.used.inode);
    let mode = NewMode {
        bits: 0o700,
        mask: 0,
    };
    let fresh = Fresh::Folder { mode };
    let below = folder.make(place("folder"), fresh, CALLER).unwrap().ino.0;
    let to = Place {
        parent: below,
        name: "new".as_ref(),
    };
    let plain = fuser::RenameFlags::empty();
    folder.rename(place("one"), to, plain).unwrap();
    assert_eq!(name_of(one), (below, "new".into()));
    let exchange = fuser::RenameFlags::RENAME_EXCHANGE;
    folder.rename(place("other"), to, exchange).unwrap();
    assert_eq!(name_of(other), (below, "new".into()));
    assert_eq!(name_of(one), (ROOT, "other".into()));
    let gone = folder.rename(place("none"), place("other"), plain);
    assert_eq!(gone, Err(Errno::NOENT));
    assert_eq!(name_of(one), (ROOT, "other".into()));
}
