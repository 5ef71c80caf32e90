//! Contents that are let go while others use their files.

use crate::changes::Changes;
use crate::content::Content;
use crate::testing::{CALLER, TestFolder, until};
use forebay_base::sync::Arc;
use forebay_rt::block_on;
use forebay_store::{Fault, FaultAction, FaultWhen, IoKind};

fn cut_to(length_bytes: u64) -> Changes {
    Changes {
        mode: None,
        user: None,
        group: None,
        length_bytes: Some(length_bytes),
        accessed: None,
        modified: None,
    }
}

/// A commit that was asked for before a cut does not cover it.
#[test]
fn a_file_that_is_cut_while_it_is_let_go_is_committed_before_it_is_closed() {
    let bench = TestFolder::new();
    let folder = &bench.folder;
    let open = bench.create("file", 0o600);
    let bytes = vec![7; 65_536];
    folder.open_files.write(&open, &bytes, 0, false).unwrap();
    let inode = open.used.inode.clone();
    drop(open);
    bench.faults.inject(Fault {
        when: FaultWhen::First(1),
        ..Fault::each(IoKind::Commit, FaultAction::NeverAnswer)
    });
    let (retiring, retired) = (folder.clone(), inode.clone());
    let retire = forebay_rt::thread::spawn("retire", move || {
        block_on(TestFolder::retire(retiring, retired));
    });
    until("it is not committed", || bench.faults.held() == 1);
    folder
        .open_files
        .change(inode.id, cut_to(4096), CALLER)
        .unwrap();
    assert_eq!(bench.faults.release(), 1);
    retire.unwrap().join();
    until("it is never let go", || {
        block_on(TestFolder::retire(folder.clone(), inode.clone()));
        inode.content.get().is_none()
    });
    let synced = block_on(bench.cache.sync());
    synced.expect("nothing is asked of a file that is closed");
    let behind = std::fs::metadata(bench.behind().join("file")).unwrap();
    assert_eq!(behind.len(), 4096);
    block_on(bench.cache.close()).unwrap();
}

/// Some file systems say of every file that it has no name, and what is in memory of it is not to
/// be dropped for that.
#[test]
fn a_file_whose_names_are_not_counted_is_never_taken_for_a_removed_one() {
    let bench = TestFolder::new();
    for (name, names, is_nameless) in [("counted", 1, true), ("other", 0, false)] {
        let open = bench.create(name, 0o600);
        let inode = open.used.inode.clone();
        let content = &open.used.content;
        let mut stat = rustix::fs::stat(bench.behind().join(name)).unwrap();
        stat.st_nlink = names;
        let told = Content::new(content.object, content.file.clone(), &stat);
        inode
            .content
            .with(|slot| slot.content = Some(Arc::new(told)));
        std::fs::remove_file(bench.behind().join(name)).unwrap();
        assert_eq!(
            bench.folder.contents.is_nameless(&inode),
            is_nameless,
            "{name}"
        );
    }
    block_on(bench.cache.close()).unwrap();
}

/// An unmount drops the last messages of closed files. A mount below could never end if the folder
/// kept its files.
#[test]
fn a_folder_ends_though_the_kernel_never_told_of_a_last_close() {
    let bench = TestFolder::new();
    let contents = Arc::downgrade(&bench.folder.contents);
    let inode = bench.create("file", 0o600).used.inode.clone();
    bench.files().open(inode.id, 0, CALLER.thread).unwrap();
    assert!(inode.content.is_in_use());
    bench.files().close_handles();
    assert!(!inode.content.is_in_use());
    block_on(bench.cache.close()).unwrap();
    drop((bench, inode));
    until("something holds it", || contents.strong_count() == 0);
}
