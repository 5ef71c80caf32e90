//! What becomes of files that have lost their last name.

mod support;

use forebay_base::Span;
use forebay_rt::block_on;
use forebay_rt::thread::{Stopwatch, pause_current};
use forebay_store::{Fault, FaultAction, IoKind};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use support::{TestMount, is_left_out, mounted, read, settings};

/// How long a test waits for what has to happen.
const LONGEST: Span = Span::from_secs(30);

/// Descriptors of this process, in which the mount is, that hold a removed file of the source.
fn held(bench: &TestMount, name: &str) -> usize {
    let wanted = format!("{} (deleted)", bench.behind(name).display());
    let entries = fs::read_dir("/proc/self/fd").expect("the system reports");
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_str() == Some(&wanted)).count()
}

/// A removed or replaced file that was open once gives its room back to the disk.
#[test]
fn nothing_holds_a_removed_file() {
    let Some(mut bench) = mounted() else { return };
    for name in ["gone", "replaced", "new"] {
        fs::write(bench.path(name), vec![7; 100_000]).unwrap();
        File::open(bench.path(name)).unwrap().sync_all().unwrap();
    }
    fs::remove_file(bench.path("gone")).unwrap();
    fs::rename(bench.path("new"), bench.path("replaced")).unwrap();
    let began = Stopwatch::start();
    while held(&bench, "gone") + held(&bench, "replaced") > 0 {
        assert!(began.elapsed() < LONGEST, "a removed file keeps its room");
        std::thread::yield_now();
    }
    bench.end();
}

/// A descriptor that only names a file keeps it: what was written to it can still be read.
#[test]
fn a_file_without_a_name_is_kept_while_somebody_can_open_it() {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("nameless");
    let mut writer = File::create(&path).unwrap();
    writer.write_all(&vec![7; 100_000]).unwrap();
    let named = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    fs::remove_file(&path).unwrap();
    drop(writer);
    let again = format!("/proc/self/fd/{}", named.as_raw_fd());
    let began = Stopwatch::start();
    // The system reports the last close later, but before one of these.
    for _ in 0..100 {
        assert!(
            read(Path::new(&again)) == vec![7; 100_000],
            "it was dropped"
        );
    }
    let mut again = OpenOptions::new().write(true).open(&again).unwrap();
    again.write_all(&[8; 10]).unwrap();
    drop((again, named));
    while held(&bench, "nameless") > 0 {
        assert!(began.elapsed() < LONGEST, "a removed file keeps its room");
        std::thread::yield_now();
    }
    bench.end();
    assert_eq!(bench.cache.statistics().dirty(), 0);
}

/// A store that is silent for longer than a call waits does not make it kept for ever.
#[test]
fn a_removed_file_is_let_go_though_its_write_took_too_long() {
    if is_left_out() {
        return;
    }
    let mut settings = settings(16 << 20);
    settings.answer_timeout = Span::from_secs(1);
    settings.held_timeout = Span::from_secs(1);
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, faults) = TestMount::faulty_in_folder(folder, settings);
    fs::write(bench.path("gone"), vec![7; 100_000]).unwrap();
    faults.inject(Fault::each(IoKind::Write, FaultAction::NeverAnswer));
    block_on(bench.cache.sync()).expect_err("it is silent");
    fs::remove_file(bench.path("gone")).unwrap();
    pause_current(Span::from_secs(5));
    assert!(held(&bench, "gone") > 0, "its write is under way");
    faults.clear();
    faults.release();
    let began = Stopwatch::start();
    while held(&bench, "gone") > 0 {
        assert!(began.elapsed() < LONGEST, "a removed file keeps its room");
        std::thread::yield_now();
    }
    bench.end();
}
