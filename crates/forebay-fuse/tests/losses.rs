//! A source that takes bytes and then cannot make them durable, as programs see it.

mod support;

use forebay::Counter;
use forebay_base::Span;
use forebay_rt::thread::{self, pause_current};
use forebay_rt::{Rt, block_on};
use forebay_store::{Failure, Fault, FaultAction, FaultStore, IoKind};
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use support::{PATIENCE, TestMount, is_left_out, read, settings, until};
use tempfile::TempDir;

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let status = Command::new(program).args(arguments).arg(path).status();
    status.is_ok_and(|status| status.success())
}

/// A folder whose `source` is a file system on a disk that can be full: the file system takes what
/// is written, and fails when it writes it back.
struct ThinDisk {
    below: PathBuf,
    source: PathBuf,
}

impl ThinDisk {
    fn mount(folder: &TempDir) -> Option<ThinDisk> {
        let (below, source) = (folder.path().join("below"), folder.path().join("source"));
        for path in [&below, &source] {
            std::fs::create_dir(path).expect("a folder");
        }
        if !run("mount", &["-t", "tmpfs", "-o", "size=2m", "tmpfs"], &below) {
            return None;
        }
        let disk = ThinDisk { below, source };
        let image = disk.below.join("image");
        let made = File::create(&image).and_then(|file| file.set_len(8 << 20));
        made.expect("the disk is made");
        let is_mounted = run("mkfs.ext2", &["-q", "-F", "-b", "4096", "-N", "64"], &image)
            && Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &disk.source])
                .status()
                .is_ok_and(|status| status.success());
        is_mounted.then_some(disk)
    }

    /// Leaves no room below.
    fn fill(&self) {
        let mut filler = File::create(self.below.join("filler")).expect("it is made");
        while filler.write_all(&[1; 4096]).is_ok() {}
    }

    /// Makes room again.
    fn empty(&self) {
        std::fs::remove_file(self.below.join("filler")).expect("it is removed");
    }
}

impl Drop for ThinDisk {
    fn drop(&mut self) {
        for path in [&self.source, &self.below] {
            run("umount", &["-l"], path);
        }
    }
}

fn open(bench: &TestMount, name: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(bench.path(name)).expect("it opens")
}

/// Writes `bytes`, and waits until memory takes them: a mount that was full refuses writes until it
/// has looked again whether there is room.
fn write_when_taken(file: &File, bytes: &[u8], offset_bytes: u64) {
    until("the mount does not take it", || {
        match file.write_all_at(bytes, offset_bytes) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                pause_current(Span::from_millis(10));
                false
            }
            Err(error) => panic!("{error}"),
        }
    });
}

/// The fewest bytes that go through the kernel's cache: they fill no page.
const TAIL: [u8; 100] = [7; 100];

fn is_lost(result: std::io::Result<()>) -> bool {
    result.is_err_and(|error| matches!(error.raw_os_error(), Some(5 | 28)))
}

/// A folder with a thin disk; none if there is none here.
fn thin_disk() -> Option<(TempDir, ThinDisk)> {
    if is_left_out() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let disk = ThinDisk::mount(&folder);
    if disk.is_none() {
        eprintln!("skipped: a small file system cannot be mounted here");
    }
    disk.map(|disk| (folder, disk))
}

/// A mount before a thin disk, with empty files of these names on it; none if there is none here.
fn bench(names: &[&str]) -> Option<(TestMount, ThinDisk)> {
    let (folder, disk) = thin_disk()?;
    let bench = TestMount::in_folder(folder, settings(16 << 20), |cache, _, files| {
        cache.attach(files).expect("a new cache takes a store")
    });
    for name in names {
        let file = open(&bench, name);
        file.sync_all().expect("there is room");
    }
    Some((bench, disk))
}

/// A mount before a thin disk without room, with faults that a test injects, and a file of which
/// the memory has some bytes; none if there can be no such disk.
fn faulty_and_full() -> Option<(TestMount, Arc<FaultStore>, ThinDisk, File)> {
    let (folder, disk) = thin_disk()?;
    let (bench, faults) = TestMount::faulty_in_folder(folder, settings(16 << 20));
    let file = open(&bench, "file");
    file.sync_all().expect("there is room");
    disk.fill();
    write_when_taken(&file, &TAIL, 0);
    Some((bench, faults, disk, file))
}

/// The next sync of the file reports its loss, and the one after it does not.
fn expect_one_report(bench: &TestMount) {
    let file = open(bench, "file");
    assert!(is_lost(file.sync_all()), "no sync has reported it");
    file.sync_all().expect("it is reported once");
}

/// The time of modification that changed files get.
const CHANGED_SECS: i64 = 1;

/// Changes a file as another program would. The current time would not do: the system's clock may
/// not have moved since the write-back.
fn change_behind(bench: &TestMount, name: &str) {
    let when = format!("@{CHANGED_SECS}");
    assert!(run("touch", &["-d", &when], &bench.behind(name)));
}

#[test]
fn a_sync_fails_until_the_file_is_opened_anew() {
    let Some((mut bench, disk)) = bench(&["file"]) else {
        return;
    };
    let file = open(&bench, "file");
    disk.fill();
    write_when_taken(&file, &TAIL, 0);
    assert!(is_lost(file.sync_data()), "there is no room");
    assert!(is_lost(file.sync_all()), "the kernel would call it written");
    disk.empty();
    assert!(is_lost(file.sync_data()), "room does not bring it back");
    drop(file);
    let rt = Rt::real();
    let deadline = rt.now() + PATIENCE;
    loop {
        let file = open(&bench, "file");
        write_when_taken(&file, &TAIL, 0);
        if file.sync_all().is_ok() {
            break;
        }
        assert!(rt.now() < deadline, "a file that is opened anew is not new");
    }
    let mount = bench.mount.as_ref().expect("it is mounted");
    assert!(mount.losses() >= 1, "it was not let go in silence");
    assert_eq!(read(&bench.behind("file")), TAIL);
    bench.end();
}

#[test]
fn what_nobody_heard_of_is_reported_by_the_next_sync() {
    let Some((mut bench, disk)) = bench(&["file"]) else {
        return;
    };
    let file = open(&bench, "file");
    disk.fill();
    write_when_taken(&file, &TAIL, 0);
    drop(file);
    let mount = bench.mount.as_ref().expect("it is mounted");
    let rt = Rt::real();
    let deadline = rt.now() + PATIENCE;
    while mount.losses() == 0 {
        block_on(mount.write_back());
        assert!(rt.now() < deadline, "it is not given up");
    }
    disk.empty();
    expect_one_report(&bench);
    bench.end();
}

#[test]
fn a_file_that_cannot_be_made_durable_does_not_keep_the_mount() {
    let Some((mut bench, disk)) = bench(&["reported", "unreported"]) else {
        return;
    };
    let (answer, other) = (open(&bench, "reported"), open(&bench, "other"));
    disk.fill();
    for file in [&answer, &other] {
        write_when_taken(file, &TAIL, 0);
    }
    assert!(is_lost(answer.sync_data()), "there is no room");
    drop((answer, other));
    let losses = bench.end_with_losses(PATIENCE);
    assert_eq!(losses, 2, "neither was let go in silence");
}

/// A file that was changed in the source has a new content; the old one's bytes may be lost
/// meanwhile.
#[test]
fn what_is_lost_of_a_file_that_was_changed_behind_is_reported() {
    let Some((mut bench, faults, disk, file)) = faulty_and_full() else {
        return;
    };
    drop(file);
    bench.write_back_without_commit(&faults);
    // Now the system finds that there is no room, while no program has asked about this file.
    assert!(!run("sync", &["-f"], &disk.source), "there is no room");
    change_behind(&bench, "file");
    let mount = bench.mount.as_ref().expect("it is mounted");
    until("it is not given up", || {
        drop(open(&bench, "file"));
        mount.losses() > 0
    });
    expect_one_report(&bench);
    assert_eq!(bench.end_with_losses(PATIENCE), 1);
}

/// The system reports a loss once, to the first that asks; a commit that had begun before learns of
/// it.
#[test]
fn what_a_commit_under_way_finds_lost_is_reported_though_the_file_was_changed_behind() {
    let Some((mut bench, faults, _disk, file)) = faulty_and_full() else {
        return;
    };
    drop(file);
    faults.inject(Fault::each(IoKind::Commit, FaultAction::NeverAnswer));
    let cache = bench.cache.clone();
    let sync = thread::spawn("sync", move || {
        block_on(cache.sync()).expect_err("there is no room");
    });
    until("it is not committed", || faults.held() > 0);
    faults.clear();
    let mount = bench.mount.as_ref().expect("it is mounted");
    mount.settle();
    let behind = File::open(bench.behind("file")).expect("it opens");
    assert!(is_lost(behind.sync_all()), "there is no room");
    change_behind(&bench, "file");
    until("it is not opened anew", || {
        let answer = open(&bench, "file").metadata().expect("it is there");
        answer.mtime() == CHANGED_SECS
    });
    // By then the new one has asked, and got no error.
    pause_current(Span::from_millis(300));
    assert_eq!(mount.losses(), 0, "who asked first was another");
    assert_eq!(faults.release(), 1);
    until("it is not noticed", || mount.losses() > 0);
    sync.expect("a thread").join();
    expect_one_report(&bench);
    assert_eq!(bench.end_with_losses(PATIENCE), 1);
}

/// What is left to write when the mount ends may take more than one try.
#[test]
fn a_file_that_is_lost_and_dirty_at_the_end_does_not_keep_the_mount() {
    let Some((mut bench, faults, disk, file)) = faulty_and_full() else {
        return;
    };
    assert!(is_lost(file.sync_data()), "there is no room");
    let no_space = FaultAction::Fail(Failure::NoSpace);
    faults.inject(Fault::each(IoKind::Write, no_space));
    write_when_taken(&file, &vec![7; 65_536], 1 << 20);
    assert!(is_lost(file.sync_data()), "there is no room");
    drop(file);
    assert_ne!(bench.cache.statistics().dirty(), 0, "there is no room");
    let losses = bench.end_with_losses_after(PATIENCE, || {
        // By then each file was tried once.
        pause_current(Span::from_secs(1));
        disk.empty();
        faults.clear();
    });
    assert_eq!(losses, 1, "it was not let go in silence");
}

/// Loses the end of a new file that has an old time, and returns whether the mount has not noticed
/// yet: the file is closed behind our back, and the close may come after the loss.
fn lose_unnoticed(bench: &TestMount, disk: &ThinDisk, name: &str) -> bool {
    let mount = bench.mount.as_ref().expect("it is mounted");
    let losses = mount.losses();
    let file = open(bench, name);
    write_when_taken(&file, &vec![8; 102_400], 0);
    file.sync_all().expect("there is room");
    disk.fill();
    write_when_taken(&file, &TAIL, 102_400);
    // Long before the write-back, by any clock.
    let past = |tv_nsec| Timespec { tv_sec: 1, tv_nsec };
    let times = Timestamps {
        last_access: past(UTIME_OMIT),
        last_modification: past(0),
    };
    rustix::fs::futimens(&file, &times).expect("it is ours");
    drop(file);
    block_on(bench.cache.sync()).expect_err("there is no room");
    disk.empty();
    mount.losses() == losses
}

/// The times that a lost content showed are set in the source before the next one looks.
#[test]
fn what_is_opened_after_a_loss_stays() {
    let Some((mut bench, disk)) = bench(&[]) else {
        return;
    };
    let mut names = (0..8).map(|attempt| format!("file-{attempt}"));
    let name = names.find(|name| lose_unnoticed(&bench, &disk, name));
    let path = bench.path(&name.expect("an open has to find it"));
    let mount = bench.mount.as_ref().expect("it is mounted");
    let losses = mount.losses();
    until("it is not given up", || {
        read(&path);
        mount.losses() > losses
    });
    let before = bench.cache.statistics().counters;
    for _ in 0..100 {
        read(&path);
    }
    let after = bench.cache.statistics().counters;
    assert_eq!(before[&Counter::Pgpgin], after[&Counter::Pgpgin]);
    bench.end();
}

/// A program that is cut off may keep a lost file open for any length of time.
#[test]
fn a_lost_file_that_is_open_does_not_keep_the_mount() {
    let Some((bench, disk)) = bench(&["file"]) else {
        return;
    };
    let file = open(&bench, "file");
    disk.fill();
    write_when_taken(&file, &TAIL, 0);
    let mount = bench.mount.as_ref().expect("it is mounted");
    let closed = Rt::real().timeout(PATIENCE, async {
        mount.close().await;
        while bench.cache.close().await.is_err() {}
    });
    block_on(closed).expect("the mount does not end");
    assert_eq!(mount.losses(), 1, "it was not let go in silence");
    assert!(is_lost(file.sync_all()), "it was lost");
    drop(file);
}
