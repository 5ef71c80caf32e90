//! Files that others change in the source while it is mounted.

mod support;

use forebay_base::Span;
use forebay_rt::block_on;
use forebay_rt::thread::{self, Stopwatch};
use forebay_store::FaultStore;
use rustix::fs::FallocateFlags;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use support::{TestMount, is_left_out, mounted, read, until};

/// How long a test waits for what has to happen.
const LONGEST: Span = Span::from_secs(30);

fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(path)
        .expect("it opens");
    file.write_all(bytes).expect("it is written");
}

/// Makes a file whose bytes and times the source has, while its commit is still owed.
fn write_without_commit(bench: &TestMount, faults: &FaultStore, name: &str) {
    fs::write(bench.path(name), vec![7; 100_000]).expect("memory takes it");
    bench.write_back_without_commit(faults);
}

/// The commit of what was written before is owed, and must not be forgotten with the pages.
#[test]
fn what_was_written_is_committed_though_the_file_was_changed_behind() {
    if is_left_out() {
        return;
    }
    let (mut bench, faults) = TestMount::faulty(16 << 20);
    write_without_commit(&bench, &faults, "file");
    append(&bench.behind("file"), b"more");
    let mut wanted = vec![7; 100_000];
    wanted.extend(b"more");
    // The system reports a last close without waiting for us.
    let began = Stopwatch::start();
    while read(&bench.path("file")) != wanted {
        assert!(began.elapsed() < LONGEST, "what is behind is never seen");
    }
    bench.end();
    assert!(read(&bench.behind("file")) == wanted);
}

/// Room that is asked for through the mount changes the time in the source, as another program
/// would.
#[test]
fn what_was_written_is_committed_though_room_was_asked_for() {
    if is_left_out() {
        return;
    }
    let (mut bench, faults) = TestMount::faulty(16 << 20);
    write_without_commit(&bench, &faults, "file");
    let file = OpenOptions::new().write(true).open(bench.path("file"));
    let file = file.expect("it opens");
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 200_000).expect("there is room");
    drop(file);
    // The system reports the close before one of these.
    for _ in 0..100 {
        assert!(read(&bench.path("file")) == vec![7; 100_000]);
    }
    bench.end();
    assert!(read(&bench.behind("file")) == vec![7; 100_000]);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is listed");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry).into_string().expect("plain names"))
        .collect();
    names.sort();
    names
}

/// The kernel keeps the listing of a folder of which it was just told all files, as `git status`
/// does it: it looks at the files first. A name that is made or removed behind is seen at once.
#[test]
fn a_listing_that_was_kept_shows_what_others_made_and_removed() {
    let Some(mut bench) = mounted() else { return };
    for name in ["one", "two"] {
        fs::write(bench.behind(name), name).expect("it is made");
    }
    let look_and_list = |wanted: &[&str]| {
        for name in wanted {
            fs::metadata(bench.path(name)).expect("it is there");
        }
        assert_eq!(names(&bench.path("")), wanted);
    };
    look_and_list(&["one", "two"]);
    // A listing is kept once the folder has not changed for a second.
    thread::pause_current(Span::from_millis(1_100));
    look_and_list(&["one", "two"]);
    look_and_list(&["one", "two"]);
    fs::write(bench.behind("three"), "three").expect("it is made");
    assert_eq!(names(&bench.path("")), ["one", "three", "two"]);
    thread::pause_current(Span::from_millis(1_100));
    look_and_list(&["one", "three", "two"]);
    fs::remove_file(bench.behind("one")).expect("it is removed");
    assert_eq!(names(&bench.path("")), ["three", "two"]);
    // So are those that are made and removed through the mount.
    fs::write(bench.path("four"), "four").expect("it is made");
    assert_eq!(names(&bench.path("")), ["four", "three", "two"]);
    fs::remove_file(bench.path("two")).expect("it is removed");
    assert_eq!(names(&bench.path("")), ["four", "three"]);
    bench.end();
}

/// The end of a file is where it is when the file is opened, not where it was at the last look-up.
#[test]
fn an_append_goes_behind_what_others_appended() {
    let Some(mut bench) = mounted() else { return };
    for round in 0..20 {
        let name = format!("log-{round}");
        fs::write(bench.behind(&name), b"11111\n").unwrap();
        assert_eq!(fs::metadata(bench.path(&name)).unwrap().len(), 6);
        append(&bench.behind(&name), b"22222\n");
        let mut options = OpenOptions::new();
        let mut file = options.append(true).open(bench.path(&name)).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 12);
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 12);
        file.write_all(b"33333\n").unwrap();
        file.sync_all().unwrap();
        assert_eq!(read(&bench.behind(&name)), b"11111\n22222\n33333\n");
    }
    bench.end();
}

/// The same if the file was written through the mount before, and closed.
#[test]
fn an_append_to_a_file_of_the_mount_goes_behind_what_others_appended() {
    let Some(mut bench) = mounted() else { return };
    let (path, behind) = (bench.path("log"), bench.behind("log"));
    fs::write(&path, b"11111\n").unwrap();
    block_on(bench.cache.sync()).unwrap();
    bench.mount.as_ref().unwrap().settle();
    assert_eq!(fs::metadata(&path).unwrap().len(), 6);
    append(&behind, b"22222\n");
    // The system reports a last close without waiting for us.
    let began = Stopwatch::start();
    while read(&path) != b"11111\n22222\n" {
        assert!(began.elapsed() < LONGEST, "what is behind is never seen");
    }
    append(&path, b"33333\n");
    bench.end();
    assert_eq!(read(&behind), b"11111\n22222\n33333\n");
}

/// An open that is refused once, so that the kernel learns the length, is not refused for as long
/// as the file grows.
#[test]
fn a_file_that_grows_below_is_opened_all_the_same() {
    let Some(mut bench) = mounted() else { return };
    let (path, behind) = (bench.path("log"), bench.behind("log"));
    fs::write(&behind, [7; 100]).expect("it is made");
    let is_over = Arc::new(AtomicBool::new(false));
    let seen = is_over.clone();
    let grows = thread::spawn("appender", move || {
        while !seen.load(Ordering::Relaxed) {
            append(&behind, &[7; 100]);
            thread::pause_current(Span::from_millis(1));
        }
    });
    let began = Stopwatch::start();
    let mut outcome = Ok(());
    while began.elapsed() < Span::from_secs(1) && outcome.is_ok() {
        outcome = fs::File::open(&path).map(drop);
    }
    is_over.store(true, Ordering::Relaxed);
    grows.expect("a thread").join();
    outcome.expect("it opens");
    bench.end();
}

/// Each program that opens it at the same time has to learn where its end is.
#[test]
fn appends_of_two_go_behind_what_others_appended() {
    let Some(mut bench) = mounted() else { return };
    for round in 0..100 {
        let name = format!("log-{round}");
        fs::write(bench.behind(&name), b"11111\n").unwrap();
        assert_eq!(fs::metadata(bench.path(&name)).unwrap().len(), 6);
        append(&bench.behind(&name), b"22222\n");
        let starts = Arc::new(Barrier::new(2));
        let writers = [b"33333\n", b"44444\n"].map(|line| {
            let (path, starts) = (bench.path(&name), starts.clone());
            let writer = thread::spawn("writer", move || {
                starts.wait();
                append(&path, line);
            });
            writer.expect("a thread")
        });
        writers.into_iter().for_each(thread::Joiner::join);
        let found = read(&bench.path(&name));
        let mut lines: Vec<&[u8]> = found.split(|&byte| byte == b'\n').collect();
        lines.sort_unstable();
        let wanted: [&[u8]; 5] = [b"", b"11111", b"22222", b"33333", b"44444"];
        assert_eq!(lines, wanted, "round {round}");
    }
    bench.end();
}

/// A path is looked up again: no call ends up at the file that had the name before.
#[test]
fn names_that_were_changed_below_are_never_stale() {
    let Some(mut bench) = mounted() else { return };
    let calls: [fn(&Path) -> std::io::Result<()>; 6] = [
        |path| fs::metadata(path).map(drop),
        |path| fs::read(path).map(drop),
        |path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)),
        |path| OpenOptions::new().append(true).open(path).map(drop),
        |path| OpenOptions::new().write(true).open(path)?.set_len(1),
        |path| fs::read_dir(path.parent().expect("a folder")).map(drop),
    ];
    // For a second the kernel may believe the old name.
    let fares = |call: fn(&Path) -> std::io::Result<()>, path: &Path| match call(path) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
            false
        }
    };
    let in_folder = |call: fn(&Path) -> std::io::Result<()>, name: &str| {
        let (made, left) = (bench.behind(name), bench.behind("left"));
        let (other, path) = (bench.behind("other"), bench.path(name).join("file"));
        fs::create_dir(&made).unwrap();
        fs::write(made.join("file"), b"bytes").unwrap();
        assert!(fares(call, &path));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), b"other").unwrap();
        fs::rename(&made, &left).unwrap();
        fares(call, &path);
        fs::rename(&other, &made).unwrap();
        fares(call, &path);
        fs::remove_dir_all(&left).unwrap();
        until("the new one is found", || fares(call, &path));
        fs::remove_dir_all(&made).unwrap();
        until("it is gone", || !fares(call, &path));
    };
    for (at, call) in calls.into_iter().enumerate() {
        in_folder(call, &format!("folder-{at}"));
    }
    bench.end();
}
