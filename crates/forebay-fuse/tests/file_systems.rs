//! Which file is which, over every file system that can be made here.

mod support;

use forebay_base::Span;
use forebay_rt::thread::pause_current;
use rustix::fs::{AtFlags, CWD, Timestamps, utimensat};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use support::below::{Below, KINDS, Kind};
use support::{TestMount, is_left_out, read, until};

/// Longer than the kernel believes a name.
const BELIEVED: Span = Span::from_millis(1_200);

fn fill(root: &Path) {
    fs::create_dir_all(root.join("folder/deep")).expect("a folder");
    fs::write(root.join("folder/old"), b"old\n").expect("a file");
    fs::write(root.join("log"), b"one\n").expect("a file");
}

/// Runs `test` over each file system, with a mount of it.
fn over_each(test: impl Fn(&str, &mut TestMount)) {
    if is_left_out() {
        return;
    }
    for kind in KINDS {
        let Some(below) = Below::with(kind, fill) else {
            continue;
        };
        let mut bench = TestMount::over(&below.root());
        test(&format!("{kind:?}"), &mut bench);
        bench.end();
    }
    let mut below = TestMount::of_size(16 << 20);
    fill(&below.path(""));
    let mut bench = TestMount::over(&below.path(""));
    test("a mount", &mut bench);
    bench.end();
    // It has files of the one below open.
    drop(bench);
    below.end();
}

fn append(path: &Path, line: &[u8]) {
    let file = OpenOptions::new().append(true).open(path);
    let mut file = file.expect("it opens");
    file.write_all(line).expect("it is written");
    file.sync_all().expect("it is durable");
}

/// An overlay makes another file of it below, with another birth.
#[test]
fn a_file_that_is_copied_up_stays_the_same_file() {
    over_each(|kind, bench| {
        let log = bench.path("log");
        let mut reader = File::open(&log).unwrap();
        let number = fs::metadata(&log).unwrap().ino();
        append(&log, b"two\n");
        pause_current(BELIEVED);
        assert_eq!(fs::metadata(&log).unwrap().ino(), number, "{kind:?}");
        append(&log, b"three\n");
        let mut seen = Vec::new();
        reader.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, b"one\ntwo\nthree\n", "{kind:?}");
        drop(reader);
        pause_current(BELIEVED);
        append(&log, b"four\n");
        assert_eq!(read(&log), b"one\ntwo\nthree\nfour\n", "{kind:?}");
        assert_eq!(read(&bench.behind("log")), read(&log), "{kind:?}");
    });
}

/// The folder in which a program works, as `git` does it.
#[test]
fn a_folder_that_is_copied_up_stays_where_programs_work() {
    over_each(|kind, bench| {
        let script = "echo new >file && mkdir deep/er && cd deep && sleep 1.2 && /bin/pwd -P && \
                      cat ../file && cd er && sleep 1.2 && /bin/pwd -P";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-ec", script]);
        let output = shell.current_dir(bench.path("folder")).output().unwrap();
        assert!(output.status.success(), "{kind:?}: {output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains("/mount/folder/deep\nnew\n"),
            "{kind:?}: {said}"
        );
    });
}

/// As a backup is restored.
#[test]
fn a_restored_file_is_read_again_though_its_length_and_time_are_as_before() {
    over_each(|kind, bench| {
        let (path, behind) = (bench.path("file"), bench.behind("file"));
        for byte in [b'a', b'b', b'c'] {
            fs::write(&path, [byte; 5_000]).unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            // Once it is settled, the time below is the one that is shown.
            let shown = fs::metadata(&path).unwrap();
            until("it is settled", || {
                bench.mount.as_ref().unwrap().settle();
                let below = fs::metadata(&behind).unwrap();
                (below.mtime(), below.mtime_nsec()) == (shown.mtime(), shown.mtime_nsec())
            });
            assert_eq!(read(&path), [byte; 5_000]);
            let before = rustix::fs::stat(&behind).unwrap();
            fs::write(&behind, [byte + 10; 5_000]).unwrap();
            let times = Timestamps {
                last_access: rustix::fs::Timespec {
                    tv_sec: before.st_atime,
                    tv_nsec: before.st_atime_nsec as _,
                },
                last_modification: rustix::fs::Timespec {
                    tv_sec: before.st_mtime,
                    tv_nsec: before.st_mtime_nsec as _,
                },
            };
            utimensat(CWD, &behind, &times, AtFlags::empty()).unwrap();
            // The system reports a last close without waiting for us.
            until(&format!("{kind:?} shows old bytes"), || {
                read(&path) == [byte + 10; 5_000]
            });
        }
    });
}

/// As programs save what they edit; the kernel may believe the old name for a second.
#[test]
fn a_file_that_replaced_another_below_is_found_at_once() {
    over_each(|kind, bench| {
        for round in 0..5 {
            let name = format!("file-{round}");
            fs::write(bench.behind(&name), "old").unwrap();
            assert_eq!(fs::metadata(bench.path(&name)).unwrap().len(), 3);
            fs::write(bench.behind("new"), "new").unwrap();
            fs::rename(bench.behind("new"), bench.behind(&name)).unwrap();
            assert_eq!(read(&bench.path(&name)), b"new", "{kind:?}");
        }
    });
}

/// Backups read a file again whose number has changed.
#[test]
fn numbers_are_those_of_the_last_mount() {
    if is_left_out() {
        return;
    }
    for kind in KINDS {
        let Some(below) = Below::with(kind, fill) else {
            continue;
        };
        if kind == Kind::Btrfs {
            fs::write(below.root().join("part/inside"), b"inside").unwrap();
        }
        let mut names = vec!["log", "folder", "folder/old", "part", "part/inside"];
        let numbers = |names: &[&'static str]| {
            let mut bench = TestMount::over(&below.root());
            let number = |name| Some((name, fs::metadata(bench.path(name)).ok()?.ino()));
            let found: BTreeMap<_, _> = names.iter().copied().filter_map(number).collect();
            append(&bench.path("log"), b"more\n");
            bench.end();
            found
        };
        let first = numbers(&names);
        assert!(first.len() >= 3, "{kind:?}");
        names.reverse();
        assert_eq!(numbers(&names), first, "{kind:?}");
    }
}
