//! The times of a content while others set them.

use super::*;
use forebay::{Cache, Settings};
use forebay_rt::block_on;
use forebay_rt::wait::Slot;
use forebay_store::{FileStore, FileStoreSettings, OpenMode};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

const LONG_AGO: Timespec = Timespec {
    tv_sec: 981_173_106,
    tv_nsec: 789,
};

const DURING_WRITE_BACK: Timespec = Timespec {
    tv_sec: 1_700_000_000,
    tv_nsec: 5,
};

fn stat_of(modified: Timespec) -> Stat {
    let mut stat = rustix::fs::stat("/").unwrap();
    (stat.st_mtime, stat.st_mtime_nsec) = (modified.tv_sec, modified.tv_nsec as _);
    stat
}

fn pair(time: Timespec) -> (i64, i64) {
    (time.tv_sec, time.tv_nsec)
}

fn reported(times: &Times) -> (i64, i64) {
    pair(times.kept.expect("a time was set").modified)
}

#[test]
fn a_time_that_is_set_is_reported_though_a_write_back_came_in_between() {
    let stat = stat_of(DURING_WRITE_BACK);
    let mut times = Times::of(&stat);
    times.were_set(LONG_AGO, &stat, false);
    assert_eq!(reported(&times), pair(LONG_AGO));
    assert_eq!(times.agreed, None, "the source has yet to be given it");
}

#[test]
fn what_the_source_made_of_a_time_is_reported_where_nothing_is_left_to_write() {
    let rounded = Timespec {
        tv_nsec: 0,
        ..LONG_AGO
    };
    let before = stat_of(DURING_WRITE_BACK);
    let after = stat_of(rounded);
    let mut times = Times::of(&before);
    times.were_set(LONG_AGO, &after, true);
    assert_eq!(reported(&times), pair(rounded));
    assert_eq!(times.agreed, Some(Agreed::of(&after)));
    times.were_set(PRESENT, &before, false);
    assert_eq!(reported(&times), pair(DURING_WRITE_BACK));
}

/// A file of the source and its content, with nothing to write.
struct Bench {
    _folder: tempfile::TempDir,
    cache: Cache,
    fd: OwnedFd,
    content: Content,
    through: Descriptors,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let files = FileStore::new(FileStoreSettings::default()).unwrap();
        let opened = files.open(&path, OpenMode::ReadWrite).unwrap();
        let cache = Cache::new(Settings {
            memory_bytes: 16 << 20,
            ..Settings::default()
        })
        .unwrap();
        let store = cache.attach(files).unwrap();
        let file = cache.open(&store, opened.object, opened.length_bytes);
        let fd = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).unwrap();
        let stat = rustix::fs::fstat(&fd).unwrap();
        let content = Content::new(opened.object, file.unwrap(), &stat);
        Bench {
            _folder: folder,
            cache,
            fd,
            content,
            through: Descriptors::new().unwrap(),
        }
    }
}

#[test]
fn settling_does_not_undo_a_time_that_is_set_meanwhile() {
    let bench = Arc::new(Bench::new());
    let (content, fd, through) = (&bench.content, &bench.fd, &bench.through);
    let is_over = Arc::new(AtomicBool::new(false));
    let (other, ends) = (bench.clone(), is_over.clone());
    let settler = forebay_rt::thread::spawn("settler", move || {
        while !ends.load(Ordering::Relaxed) {
            other.content.settle(&other.fd, &other.through).unwrap();
        }
    });
    for _ in 0..5000 {
        content.mark_modified();
        content.take_times(fd, through).unwrap();
        content.set_times(fd, through, OMITTED, LONG_AGO).unwrap();
        content.settle(fd, through).unwrap();
        assert!(content.is_settled());
        let stat = rustix::fs::fstat(fd).unwrap();
        assert_eq!(pair(modified_of(&stat)), pair(LONG_AGO));
    }
    is_over.store(true, Ordering::Relaxed);
    settler.unwrap().join();
    block_on(bench.cache.close()).unwrap();
}

/// A caller that looked before the time was set in the source asks again afterwards.
#[test]
fn a_file_that_is_settled_meanwhile_was_not_changed_below() {
    let bench = Bench::new();
    let (content, fd, through) = (&bench.content, &bench.fd, &bench.through);
    content.mark_modified();
    content.take_times(fd, through).unwrap();
    through.set_times(fd, OMITTED, DURING_WRITE_BACK).unwrap();
    let before = rustix::fs::fstat(fd).unwrap();
    content.settle(fd, through).unwrap();
    assert!(content.is_settled());
    assert!(content.changed_below(fd, &before).unwrap().is_none());
    through.set_times(fd, OMITTED, LONG_AGO).unwrap();
    let changed = content.changed_below(fd, &before).unwrap();
    let changed = changed.expect("another has set its time");
    assert_eq!(pair(modified_of(&changed)), pair(LONG_AGO));
    block_on(bench.cache.close()).unwrap();
}

#[test]
fn a_commit_is_owed_until_one_has_succeeded() {
    let bench = Bench::new();
    let content = &bench.content;
    let failed = content.pay_commit(false, || Err(Errno::IO));
    assert_eq!(failed, Err(Errno::IO));
    let tries = AtomicBool::new(false);
    let commit = || {
        tries.store(true, Ordering::Relaxed);
        Ok(())
    };
    assert_eq!(content.pay_commit(false, commit), Ok(()));
    assert!(tries.load(Ordering::Relaxed), "the first one failed");
    let again = content.pay_commit(false, || Err(Errno::IO));
    assert_eq!(again, Ok(()), "nothing is owed any more");
    assert_eq!(content.pay_commit(true, || Err(Errno::IO)), Err(Errno::IO));
    block_on(bench.cache.close()).unwrap();
}

/// A caller that comes while another does the commit waits for it.
#[test]
fn nobody_returns_before_an_owed_commit_is_done() {
    let bench = Arc::new(Bench::new());
    let (began, is_done) = (Arc::new(Slot::new()), Arc::new(AtomicBool::new(false)));
    let (other, begins, done) = (bench.clone(), began.clone(), is_done.clone());
    let first = forebay_rt::thread::spawn("first", move || {
        let commit = || {
            begins.set(());
            // Long enough for the other one to come.
            (0..10_000).for_each(|_| std::thread::yield_now());
            done.store(true, Ordering::SeqCst);
            Ok(())
        };
        other.content.pay_commit(false, commit).unwrap();
    });
    block_on(began.take());
    bench.content.pay_commit(false, || Ok(())).unwrap();
    assert!(is_done.load(Ordering::SeqCst));
    first.unwrap().join();
    block_on(bench.cache.close()).unwrap();
}
