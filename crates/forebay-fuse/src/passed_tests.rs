//! Files that the mount may write and not read, as the user that serves it.

use crate::changes::Changes;
use crate::data::Sought;
use crate::handles::Handle;
use crate::testing::{CALLER, TestFolder, child, without_privileges};
use forebay_rt::block_on;
use rustix::fs::OFlags;
use std::os::unix::fs::PermissionsExt;

fn give_to_caller(bench: &TestFolder, name: &str, mode: u32) {
    let path = bench.behind().join(name);
    std::fs::write(&path, b"before").unwrap();
    let (user, group) = (Some(CALLER.user), Some(CALLER.group));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, user, group).unwrap();
        let open_to_all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(bench.behind(), open_to_all).unwrap();
    }
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).unwrap();
}

#[test]
fn a_file_that_may_only_be_written_is_written() {
    let bench = TestFolder::new();
    give_to_caller(&bench, "drop-box", 0o200);
    let folder = bench.folder.clone();
    without_privileges(move || {
        let (inode, _) = folder.names.look_up(child("drop-box")).unwrap();
        let handle = folder
            .open_files
            .open(inode.id, OFlags::WRONLY.bits() as i32, 0)
            .unwrap();
        let Some(Handle::Passed(passed)) = folder.open_files.handles.remove(handle) else {
            panic!("the cache cannot read it");
        };
        assert_eq!(passed.write(b"AFTER", 1), Ok(5));
        passed.sync(false).unwrap();
        assert_eq!(passed.seek(Sought::Hole.from(0)), Ok(6));
        let cut = Changes {
            mode: None,
            user: None,
            group: None,
            length_bytes: Some(3),
            accessed: None,
            modified: None,
        };
        assert_eq!(
            folder
                .open_files
                .change(inode.id, cut, CALLER)
                .unwrap()
                .size,
            3
        );
        let refused = folder
            .open_files
            .open(inode.id, OFlags::RDWR.bits() as i32, 0);
        assert_eq!(refused, Err(rustix::io::Errno::ACCESS));
    });
    assert_eq!(
        std::fs::metadata(bench.behind().join("drop-box"))
            .unwrap()
            .len(),
        3
    );
    block_on(bench.cache.close()).unwrap();
}

#[test]
fn a_file_that_is_born_without_rights_is_used_by_its_maker() {
    let bench = TestFolder::new();
    give_to_caller(&bench, "other", 0o600);
    let (folder, cache) = (bench.folder.clone(), bench.cache.clone());
    without_privileges(move || {
        let mode = crate::permissions::NewMode {
            bits: 0o444,
            mask: 0,
        };
        let flags = OFlags::WRONLY.bits() as i32;
        let made = folder.open_files.create(child("born"), mode, flags, CALLER);
        let (_, handle) = made.unwrap();
        let open = folder.open_files.handles.file(handle).unwrap();
        folder.open_files.write(&open, b"bytes", 0, false).unwrap();
        folder.open_files.allocate(&open, 0, 100_000, 0).unwrap();
        assert_eq!(folder.open_files.seek(&open, 0, Sought::Data), Ok(0));
        folder.open_files.sync(&open, false).unwrap();
        drop((open, folder.open_files.handles.remove(handle)));
        block_on(cache.sync()).unwrap();
    });
    assert_eq!(
        std::fs::metadata(bench.behind().join("born"))
            .unwrap()
            .len(),
        100_000
    );
    block_on(bench.cache.close()).unwrap();
}
