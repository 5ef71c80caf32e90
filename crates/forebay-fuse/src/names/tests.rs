//! Names and attributes, as the kernel asks for them.

use super::*;
use crate::changes::Changes;
use crate::folder::Folder;
use crate::inode::ROOT;
use crate::source::PERMISSION_BITS;
use crate::testing::{CALLER, TestFolder, child, without_privileges};
use forebay_base::sync::lock;
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

fn mode_of(folder: &Folder, inode: &Arc<Inode>) -> u32 {
    let held = folder.source.hold(inode).unwrap();
    rustix::fs::fstat(held).unwrap().st_mode & PERMISSION_BITS
}

/// A user other than root may not remove capabilities, even if there are none.
#[test]
fn a_program_is_written_and_cut_by_a_mount_without_privileges() {
    let bench = TestFolder::new();
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
        folder
            .open_files
            .change(asked.id, privileged, CALLER)
            .unwrap();
        folder.open_files.write(&open, b"bytes", 0, true).unwrap();
        assert_eq!(mode_of(&folder, &asked), 0o755);
        folder
            .open_files
            .change(asked.id, privileged, CALLER)
            .unwrap();
        folder.open_files.change(asked.id, cut, CALLER).unwrap();
        assert_eq!(mode_of(&folder, &asked), 0o755);
    });
    let held = other.source.hold(&inode).unwrap();
    assert_eq!(other.names.describe(&held).unwrap().size, 3);
    block_on(bench.cache.close()).unwrap();
}

fn name_of(inode: &Inode) -> (u64, String) {
    let (parent, name) = inode.name().unwrap();
    (parent.id, name.to_str().unwrap().into())
}

/// The name of a file is used to report a loss, and to ask the kernel to forget it.
#[test]
fn a_file_is_known_by_the_name_that_it_was_given_last() {
    let bench = TestFolder::new();
    let folder = &bench.folder;
    let [one, other] = ["one", "other"].map(|name| bench.create(name, 0o600));
    let (one, other) = (&one.used.inode, &other.used.inode);
    let mode = NewMode {
        bits: 0o700,
        mask: 0,
    };
    let fresh = Fresh::Folder { mode };
    let below = folder
        .names
        .make(child("folder"), fresh, CALLER)
        .unwrap()
        .ino
        .0;
    let to = ChildName {
        parent: below,
        name: "new".as_ref(),
    };
    let plain = fuser::RenameFlags::empty();
    folder.names.rename(child("one"), to, plain).unwrap();
    assert_eq!(name_of(one), (below, "new".into()));
    let exchange = fuser::RenameFlags::RENAME_EXCHANGE;
    folder.names.rename(child("other"), to, exchange).unwrap();
    assert_eq!(name_of(other), (below, "new".into()));
    assert_eq!(name_of(one), (ROOT, "other".into()));
    let gone = folder.names.rename(child("none"), child("other"), plain);
    assert_eq!(gone, Err(Errno::NOENT));
    assert_eq!(name_of(one), (ROOT, "other".into()));
}

/// Asks about a file as a kernel that knows it as `id` does.
fn size_of(folder: &Folder, id: u64) -> Result<u64, Errno> {
    let held = folder.source.held(id)?;
    folder.names.describe(&held).map(|reported| reported.size)
}

#[test]
fn files_are_found_again_when_their_descriptors_were_given_back() {
    let bench = TestFolder::new();
    let folder = &bench.folder;
    std::fs::create_dir_all(bench.behind().join("a/b")).unwrap();
    std::fs::write(bench.behind().join("a/b/file"), b"bytes").unwrap();
    let look = |parent, name: &str| {
        let name = name.as_ref();
        let reported = folder.names.look_up_described(ChildName { parent, name });
        reported.unwrap().ino.0
    };
    let a = look(ROOT, "a");
    let b = look(a, "b");
    let file = look(b, "file");
    folder.source.spare();
    assert_eq!(size_of(folder, file), Ok(5));
    // A folder on the way is moved, and the file too, by us.
    let plain = fuser::RenameFlags::empty();
    folder
        .names
        .rename(child("a"), child("other"), plain)
        .unwrap();
    let from = ChildName {
        parent: b,
        name: "file".as_ref(),
    };
    folder.names.rename(from, child("moved"), plain).unwrap();
    folder.source.spare();
    assert_eq!(size_of(folder, file), Ok(5));
    // Another file replaces it below: the new one is not mistaken for it.
    let behind = bench.behind();
    std::fs::write(behind.join("new"), b"another").unwrap();
    std::fs::rename(behind.join("new"), behind.join("moved")).unwrap();
    folder.source.spare();
    assert_eq!(size_of(folder, file), Err(Errno::STALE));
    let found = folder.names.look_up_described(child("moved")).unwrap();
    assert_eq!(found.size, 7);
    assert_ne!(found.ino.0, file);
    block_on(bench.cache.close()).unwrap();
}

/// A program may still have a descriptor that only names it.
#[test]
fn invariant_m4_a_file_that_loses_its_name_keeps_its_descriptor() {
    let bench = TestFolder::new();
    let folder = &bench.folder;
    for name in ["removed", "replaced", "other", "kept"] {
        std::fs::write(bench.behind().join(name), name).unwrap();
    }
    let look = |name| folder.names.look_up_described(child(name)).unwrap().ino.0;
    let [removed, replaced, kept] = ["removed", "replaced", "kept"].map(look);
    folder.names.remove(child("removed"), false).unwrap();
    let plain = fuser::RenameFlags::empty();
    let moved = folder
        .names
        .rename(child("other"), child("replaced"), plain);
    moved.unwrap();
    assert!(
        folder.names.remove(child("kept"), true).is_err(),
        "it is no folder"
    );
    folder.source.spare();
    assert_eq!(size_of(folder, removed), Ok(7));
    assert_eq!(size_of(folder, replaced), Ok(8));
    let fd_of = |id| lock(&folder.source.inode(id).unwrap().cached_fd).fd.clone();
    assert!(fd_of(removed).is_some(), "invariant M4");
    assert!(fd_of(kept).is_none());
    // A file with content is found by its content.
    let open = bench.create("open", 0o600);
    folder.open_files.write(&open, b"bytes", 0, false).unwrap();
    std::fs::remove_file(bench.behind().join("open")).unwrap();
    folder.source.spare();
    assert_eq!(size_of(folder, open.used.inode.id), Ok(5));
    drop(open);
    block_on(bench.cache.close()).unwrap();
}

/// A program that has a folder open reads on in it, and finds what is in it, even after the folder
/// was moved below.
#[test]
fn an_open_folder_is_found_though_it_was_moved_below() {
    let bench = TestFolder::new();
    let (folder, behind) = (&bench.folder, bench.behind());
    for change in ["moved", "replaced", "removed"] {
        std::fs::create_dir(behind.join(change)).unwrap();
        std::fs::write(behind.join(change).join("file"), b"bytes").unwrap();
        let id = folder.names.look_up_described(child(change)).unwrap().ino.0;
        let open = [0; 2].map(|_| {
            // Each program that opens it looks it up again.
            folder.source.spare();
            folder.names.open_directory(id).unwrap().0
        });
        match change {
            "removed" => std::fs::remove_dir_all(behind.join(change)).unwrap(),
            _ => std::fs::rename(behind.join(change), behind.join("elsewhere")).unwrap(),
        }
        if change == "replaced" {
            std::fs::create_dir(behind.join(change)).unwrap();
        }
        let [first, second] = open;
        drop(first);
        folder.source.spare();
        assert!(folder.source.held(id).is_ok(), "{change}");
        let inside = ChildName {
            parent: id,
            name: "file".as_ref(),
        };
        let found = folder.names.look_up_described(inside);
        match change {
            "removed" => assert_eq!(found.unwrap_err(), Errno::NOENT),
            _ => assert_eq!(found.unwrap().size, 5, "{change}"),
        }
        let mut entries = 0;
        let count = |_: &rustix::fs::RawDirEntry<'_>| {
            entries += 1;
            crate::directory::Room::Left
        };
        let walked = second.walk(0, count);
        match change {
            "removed" => assert_eq!(walked.unwrap_err(), Errno::NOENT, "as below"),
            _ => assert_eq!(entries, 3, "{change}"),
        }
        drop(second);
        folder.source.spare();
        // It can no longer be found by any descriptor, and is looked up again.
        assert_eq!(folder.source.held(id).unwrap_err(), Errno::STALE);
        let _ = std::fs::remove_dir_all(behind.join("elsewhere"));
    }
    block_on(bench.cache.close()).unwrap();
}

/// An open does not ask for capabilities: the first write has to.
#[test]
fn the_first_write_takes_capabilities_away() {
    /// Version 2, effective, with one permitted capability.
    const VALUE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let bench = TestFolder::new();
    let behind = bench.behind().join("file");
    std::fs::write(&behind, b"bytes").unwrap();
    if rustix::fs::setxattr(&behind, CAPABILITY, &VALUE, XattrFlags::empty()).is_err() {
        // Only root may set them.
        return;
    }
    let (inode, _) = bench.names().look_up(child("file")).unwrap();
    let flags = OFlags::RDWR.bits() as i32;
    let handle = bench.files().open(inode.id, flags, CALLER.thread).unwrap();
    let open = bench.files().handles.file(handle).unwrap();
    assert!(rustix::fs::getxattr_query(&behind, CAPABILITY).is_ok());
    bench.files().write(&open, b"other", 0, false).unwrap();
    let asked = rustix::fs::getxattr_query(&behind, CAPABILITY);
    assert_eq!(asked, Err(Errno::NODATA));
    drop(open);
    drop(bench.files().handles.remove(handle));
    block_on(bench.cache.close()).unwrap();
}
