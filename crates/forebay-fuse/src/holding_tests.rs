//! Files that are held, and requests that find no descriptor.

use super::*;
use crate::fd_cache::FdCache;
use crate::folder::Folder;
use crate::names::{ChildName, Fresh};
use crate::permissions::NewMode;
use crate::testing::{CALLER, TestFolder, child, until};
use forebay_rt::block_on;
use forebay_store::{Fault, FaultAction, FaultWhen, IoKind};
use rustix::fs::OFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::process::Command;

#[test]
fn descriptors_of_closed_files_are_found_for_whoever_has_none() {
    let bench = TestFolder::new();
    let open = bench.create("closed", 0o600);
    let closed = open.used.inode.clone();
    bench.files().write(&open, b"bytes", 0, false).unwrap();
    drop(open);
    let attempt = || {
        let is_spared = closed.content.is_empty();
        is_spared.then_some(()).ok_or(Errno::MFILE)
    };
    assert_eq!(bench.source().sparing(attempt), Err(Errno::MFILE));
    assert!(lock(&closed.cached_fd).fd.is_none(), "it was given back");
    assert_eq!(bench.source().sparing_surely(attempt), Ok(()));
    let behind = std::fs::read(bench.behind().join("closed"));
    assert_eq!(behind.unwrap(), b"bytes");
    block_on(bench.cache.close()).unwrap();
}

/// Each commit alone would take a turn of the journal.
#[test]
fn what_is_written_for_its_descriptors_is_committed_together() {
    let bench = TestFolder::new();
    for name in ["one", "other"] {
        let open = bench.create(name, 0o600);
        bench.files().write(&open, b"bytes", 0, false).unwrap();
    }
    bench.faults.inject(Fault {
        when: FaultWhen::First(2),
        ..Fault::each(IoKind::Commit, FaultAction::NeverAnswer)
    });
    let folder = bench.folder.clone();
    let caller = forebay_rt::thread::spawn("caller", move || {
        assert!(folder.source.spare_by_writing());
    });
    until("they wait for each other", || bench.faults.held() == 2);
    assert_eq!(bench.faults.release(), 2);
    caller.unwrap().join();
    let kept = bench.source().reaper.closed_files();
    assert!(kept.iter().all(|inode| inode.content.is_empty()));
    block_on(bench.cache.close()).unwrap();
}

#[test]
fn what_loses_its_name_is_not_given_back() {
    let bench = TestFolder::new();
    let inode = bench.create("file", 0o600).used.inode.clone();
    let is_held = || lock(&inode.cached_fd).fd.is_some();
    bench.source().pin(&inode);
    bench.source().spare();
    assert!(is_held(), "invariant M4");
    bench.source().unpin(&inode);
    bench.source().spare();
    assert!(!is_held());
    block_on(bench.cache.close()).unwrap();
}

#[test]
fn a_shelf_keeps_what_is_used() {
    let bench = TestFolder::new();
    let (cache, folder) = (FdCache::new(2), &bench.folder);
    let held = |name| {
        let inode = bench.create(name, 0o600).used.inode.clone();
        folder.source.hold(&inode).unwrap();
        lock(&inode.cached_fd).was_used = false;
        inode
    };
    let [used, unused, new] = ["used", "unused", "new"].map(held);
    let is_held = |inode: &Inode| lock(&inode.cached_fd).fd.is_some();
    cache.put(&used);
    cache.put(&unused);
    lock(&used.cached_fd).was_used = true;
    cache.put(&new);
    assert!(is_held(&used) && !is_held(&unused) && is_held(&new));
    block_on(bench.cache.close()).unwrap();
}

/// Takes all descriptors that the process has left.
fn take_all() -> Vec<File> {
    let taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!taken.is_empty(), "there were some");
    taken
}

/// Makes `request` while the process has no descriptor but those of the contents of closed files
/// that are not written yet. The request has to write some to get one.
fn without_descriptors<T>(
    bench: &TestFolder,
    name: &str,
    request: impl FnOnce(&Arc<Folder>) -> Result<T, Errno>,
) -> T {
    /// A content has two descriptors. A new file needs five: for its folder, for itself while it is
    /// made, for its path and two for its content.
    const CLOSED: u32 = 3;
    let folder = &bench.folder;
    let closed = (0..CLOSED).map(|number| format!("{number} closed for {name}"));
    let closed: Vec<_> = closed.collect();
    for closed in &closed {
        let open = bench.create(closed, 0o600);
        folder.open_files.write(&open, b"bytes", 0, false).unwrap();
    }
    folder.source.spare();
    let taken = take_all();
    let answer = request(folder);
    drop(taken);
    let is_written = |closed| std::fs::read(bench.behind().join(closed)).unwrap() == b"bytes";
    assert!(closed.iter().any(is_written), "{name} needs no descriptor");
    answer.unwrap_or_else(|errno| panic!("{name}: {errno}"))
}

/// Requests for what is in a folder that is not held.
fn make_requests_without_descriptors(bench: &TestFolder) {
    let below = bench.behind().join("below");
    std::fs::create_dir(&below).unwrap();
    for name in ["file", "removed", "moved"] {
        std::fs::write(below.join(name), b"there").unwrap();
    }
    let parent = bench.names().look_up(child("below")).unwrap().0.id;
    let in_below = |name: &'static str| ChildName {
        parent,
        name: name.as_ref(),
    };
    let file = bench.names().look_up(in_below("file")).unwrap().0.id;
    let (mode, flags) = (
        NewMode {
            bits: 0o700,
            mask: 0,
        },
        OFlags::RDWR.bits() as i32,
    );
    let (moved, new) = (in_below("moved"), in_below("new name"));
    let none = fuser::RenameFlags::empty();
    let fresh = Fresh::Folder { mode };
    without_descriptors(bench, "lookup", |folder| {
        folder.names.look_up(in_below("file"))
    });
    without_descriptors(bench, "getattr", |folder| {
        folder
            .source
            .held(file)
            .and_then(|held| folder.names.describe(&held))
    });
    without_descriptors(bench, "opendir", |folder| {
        folder.names.open_directory(parent)
    });
    without_descriptors(bench, "mkdir", |folder| {
        folder.names.make(in_below("new folder"), fresh, CALLER)
    });
    without_descriptors(bench, "unlink", |folder| {
        folder.names.remove(in_below("removed"), false)
    });
    without_descriptors(bench, "rename", |folder| {
        folder.names.rename(moved, new, none)
    });
    without_descriptors(bench, "link", |folder| {
        folder.names.link(file, in_below("second name"))
    });
    without_descriptors(bench, "getxattr", |folder| {
        folder.names.attribute_names(file, 0)
    });
    let read = without_descriptors(bench, "open", |folder| folder.open_files.open(file, 0, 0));
    let made = without_descriptors(bench, "create", |folder| {
        folder
            .open_files
            .create(in_below("made"), mode, flags, CALLER)
    });
    drop(bench.files().handles.remove(made.1));
    let open = bench.files().handles.file(read).expect("it is open");
    without_descriptors(bench, "fsync", |folder| {
        folder.open_files.sync(&open, false)
    });
    drop(bench.files().handles.remove(read));
}

/// The lack is the whole process's, so this test runs in one of its own.
#[test]
fn a_request_gets_a_descriptor_of_a_closed_file_when_none_is_left() {
    const ALONE: &str = "FOREBAY_TEST_TAKES_ALL_DESCRIPTORS";
    if std::env::var_os(ALONE).is_some() {
        let limit = Rlimit {
            current: Some(256),
            ..getrlimit(Resource::Nofile)
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        let bench = TestFolder::new();
        make_requests_without_descriptors(&bench);
        block_on(bench.cache.close()).unwrap();
        return;
    }
    let program = std::env::current_exe().unwrap();
    let name = "holding::tests::a_request_gets_a_descriptor_of_a_closed_file_when_none_is_left";
    let output = Command::new(program)
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("1 passed"), "{said}");
}

/// Other requests need a descriptor for a moment.
#[test]
fn a_request_waits_for_others_that_have_the_last_descriptors() {
    let bench = TestFolder::new();
    let mut left = 5;
    let freed_in_the_end = || {
        left -= 1;
        if left > 0 { Err(Errno::NFILE) } else { Ok(()) }
    };
    assert_eq!(bench.source().sparing_surely(freed_in_the_end), Ok(()));
    let never_freed = || Err::<(), _>(Errno::MFILE);
    let refused = bench.source().sparing_surely(never_freed);
    assert_eq!(refused, Err(Errno::MFILE), "programs have them all open");
    block_on(bench.cache.close()).unwrap();
}
