//! Each operation of a mounted folder, as a program sees it.

mod support;

use forebay_base::Span;
use forebay_rt::thread::{self, Stopwatch};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    Timestamps, XattrFlags,
};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{TestMount, is_left_out, mounted, read};

const MIB: usize = 1 << 20;

fn read_write(path: &std::path::Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).expect("it opens")
}

#[test]
fn what_is_written_is_read_and_reaches_the_folder() {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("file");
    let bytes: Vec<u8> = (0..3 * MIB + 17).map(|at| (at * 7 % 251) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes.len() as u64);
    assert!(read(&path) == bytes);
    let file = File::open(&path).unwrap();
    let mut part = [0; 5000];
    file.read_exact_at(&mut part, 4000).unwrap();
    assert!(part[..] == bytes[4000..9000]);
    drop(file);
    bench.end();
    assert!(read(&bench.behind("file")) == bytes);
}

#[test]
fn a_file_that_is_there_is_read() {
    let Some(mut bench) = mounted() else { return };
    fs::create_dir(bench.behind("folder")).unwrap();
    fs::write(bench.behind("folder/old"), b"from before").unwrap();
    assert_eq!(read(&bench.path("folder/old")), b"from before");
    // Changed in the source while nobody has it open: the next open sees it. The system reports a
    // last close without waiting for us, so it may take an open or two until nobody has it.
    fs::write(bench.behind("folder/old"), b"newer, and longer").unwrap();
    let began = Stopwatch::start();
    while read(&bench.path("folder/old")) != b"newer, and longer" {
        assert!(
            began.elapsed() < Span::from_secs(30),
            "what is behind is never seen"
        );
    }
    bench.end();
}

#[test]
fn appends_go_to_the_end_and_truncates_cut() {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("log");
    let mut first = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .unwrap();
    let mut second = OpenOptions::new().append(true).open(&path).unwrap();
    for line in 0..100 {
        let file = if line % 2 == 0 {
            &mut first
        } else {
            &mut second
        };
        writeln!(file, "{line}").unwrap();
    }
    let text = String::from_utf8(read(&path)).unwrap();
    assert!(
        text.lines()
            .map(|line| line.parse::<u32>().unwrap())
            .eq(0..100)
    );
    first.set_len(5).unwrap();
    assert_eq!(read(&path), b"0\n1\n2");
    first.set_len(9).unwrap();
    assert_eq!(read(&path), b"0\n1\n2\0\0\0\0");
    drop(File::create(&path).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "opened with O_TRUNC");
    drop((first, second));
    bench.end();
}

#[test]
fn names_are_made_moved_and_removed() {
    let Some(mut bench) = mounted() else { return };
    fs::create_dir(bench.path("d")).unwrap();
    fs::write(bench.path("d/a"), b"a").unwrap();
    fs::write(bench.path("b"), b"b").unwrap();
    fs::rename(bench.path("d/a"), bench.path("c")).unwrap();
    assert_eq!(read(&bench.path("c")), b"a");
    let (b, c) = (bench.path("b"), bench.path("c"));
    let refused = rustix::fs::renameat_with(CWD, &b, CWD, &c, RenameFlags::NOREPLACE);
    assert_eq!(refused, Err(Errno::EXIST));
    rustix::fs::renameat_with(CWD, &b, CWD, &c, RenameFlags::EXCHANGE).unwrap();
    assert_eq!((read(&b), read(&c)), (b"a".to_vec(), b"b".to_vec()));
    fs::rename(&b, &c).unwrap();
    assert_eq!(read(&c), b"a", "it was replaced");
    fs::hard_link(&c, bench.path("d/link")).unwrap();
    assert_eq!(fs::metadata(&c).unwrap().nlink(), 2);
    fs::write(bench.path("d/link"), b"both").unwrap();
    assert_eq!(read(&c), b"both");
    std::os::unix::fs::symlink("d/link", bench.path("s")).unwrap();
    assert_eq!(
        fs::read_link(bench.path("s")).unwrap().to_str(),
        Some("d/link")
    );
    assert_eq!(read(&bench.path("s")), b"both");
    let not_empty = fs::remove_dir(bench.path("d")).unwrap_err();
    assert_eq!(not_empty.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    fs::remove_file(bench.path("d/link")).unwrap();
    fs::remove_dir(bench.path("d")).unwrap();
    let fifo = bench.path("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let left = fs::read_dir(bench.path("")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["c", "fifo", "s"]);
    bench.end();
    assert_eq!(read(&bench.behind("c")), b"both");
}

#[test]
fn a_removed_file_lives_as_long_as_it_is_open() {
    let Some(mut bench) = mounted() else { return };
    let mut file = read_write(&bench.path("gone"));
    file.write_all(&vec![7; 100_000]).unwrap();
    fs::remove_file(bench.path("gone")).unwrap();
    assert!(!bench.behind("gone").exists());
    file.write_all_at(&[8; 10], 99_995).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 100_005);
    // Nothing was let go while it has a user (invariant M2).
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!((bytes.len(), &bytes[99_995..]), (100_005, &[8; 10][..]));
    assert!(bytes[..99_995].iter().all(|&byte| byte == 7));
    drop(file);
    bench.end();
    assert_eq!(bench.cache.statistics().dirty(), 0);
}

#[test]
fn modes_owners_and_times_pass_through() {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("file");
    fs::write(&path, b"bytes").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(
        fs::metadata(bench.behind("file")).unwrap().mode() & 0o7777,
        0o640
    );
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
        let reported = fs::metadata(&path).unwrap();
        assert_eq!((reported.uid(), reported.gid()), (12, 34));
    }
    let when = Timespec {
        tv_sec: 981_173_106,
        tv_nsec: 7,
    };
    let times = Timestamps {
        last_access: when,
        last_modification: when,
    };
    // The bytes are not written yet; writing them does not change the time that was set.
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    let reported = fs::metadata(&path).unwrap();
    assert_eq!((reported.mtime(), reported.mtime_nsec()), (981_173_106, 7));
    bench.end();
    let behind = fs::metadata(bench.behind("file")).unwrap();
    assert_eq!((behind.mtime(), behind.mtime_nsec()), (981_173_106, 7));
}

/// Whether the file `path` can have the time of modification `when`, which it then has.
fn takes_time(path: &std::path::Path, when: Timespec) -> bool {
    let times = Timestamps {
        last_access: when,
        last_modification: when,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::empty()).expect("it is ours");
    let reported = fs::metadata(path).expect("it is there");
    (reported.mtime(), reported.mtime_nsec()) == (when.tv_sec, when.tv_nsec)
}

#[test]
fn times_before_1970_pass_through() {
    let Some(mut bench) = mounted() else { return };
    let names = ["half", "nearly", "whole", "after"];
    let whens = [(-2, 500_000_000), (-1, 1), (-1, 0), (1, 5)];
    let whens = whens.map(|(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec });
    for (name, when) in names.into_iter().zip(whens) {
        let (path, behind) = (bench.path(name), bench.behind(name));
        fs::write(&behind, b"bytes").unwrap();
        if !takes_time(&behind, when) {
            println!("the file system has no time {when:?}");
            continue;
        }
        assert!(takes_time(&behind, Timespec { tv_sec: 1, ..when }));
        assert!(takes_time(&path, when), "{when:?}");
        let reported = fs::metadata(&behind).unwrap();
        assert_eq!(
            (reported.atime(), reported.atime_nsec()),
            (when.tv_sec, when.tv_nsec)
        );
        assert_eq!(
            (reported.mtime(), reported.mtime_nsec()),
            (when.tv_sec, when.tv_nsec)
        );
    }
    bench.end();
}

#[test]
fn a_time_that_was_seen_stays_when_the_bytes_are_written_later() {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("file");
    fs::write(&path, vec![1; 50_000]).unwrap();
    let seen = fs::metadata(&path).unwrap();
    forebay_rt::block_on(bench.cache.sync()).unwrap();
    let later = fs::metadata(&path).unwrap();
    assert_eq!(
        (seen.mtime(), seen.mtime_nsec()),
        (later.mtime(), later.mtime_nsec())
    );
    assert_eq!(
        (seen.ctime(), seen.ctime_nsec()),
        (later.ctime(), later.ctime_nsec())
    );
    bench.end();
    let behind = fs::metadata(bench.behind("file")).unwrap();
    assert_eq!(
        (seen.mtime(), seen.mtime_nsec()),
        (behind.mtime(), behind.mtime_nsec())
    );
}

#[test]
fn a_time_that_was_set_while_writing_outlives_the_write_back() {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("file");
    let file = read_write(&path);
    file.write_all_at(&[1; 9000], 0).unwrap();
    // As tar does: the time is set before any program looks, and before the close.
    let when = Timespec {
        tv_sec: 981_173_106,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: when,
        last_modification: when,
    };
    rustix::fs::futimens(&file, &times).unwrap();
    drop(file);
    forebay_rt::block_on(bench.cache.sync()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mtime(), 981_173_106);
    bench.end();
    assert_eq!(
        fs::metadata(bench.behind("file")).unwrap().mtime(),
        981_173_106
    );
}

#[test]
fn extended_attributes_pass_through() {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("file");
    fs::write(&path, b"x").unwrap();
    match rustix::fs::setxattr(&path, "user.colour", b"blue", XattrFlags::CREATE) {
        Err(Errno::OPNOTSUPP) => return println!("the file system has no user attributes"),
        other => other.unwrap(),
    }
    let mut value = [0; 16];
    assert_eq!(
        rustix::fs::getxattr(&path, "user.colour", &mut value),
        Ok(4)
    );
    assert_eq!(&value[..4], b"blue");
    assert_eq!(
        rustix::fs::getxattr(bench.behind("file"), "user.colour", &mut value),
        Ok(4)
    );
    let mut names = [0; 256];
    let length = rustix::fs::listxattr(&path, &mut names).unwrap();
    let names = &names[..length];
    assert!(
        names
            .split(|&byte| byte == 0)
            .any(|name| name == b"user.colour")
    );
    rustix::fs::removexattr(&path, "user.colour").unwrap();
    let gone = rustix::fs::getxattr(&path, "user.colour", &mut value);
    assert_eq!(gone, Err(Errno::NODATA));
    bench.end();
}

#[test]
fn holes_are_punched_found_and_filled() {
    let Some(mut bench) = mounted() else { return };
    let file = read_write(&bench.path("file"));
    file.write_all_at(&vec![9; MIB], 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 100_000, 300_000).unwrap();
    let mut bytes = vec![1; MIB];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let is_zero = |at: usize| (100_000..400_000).contains(&at);
    assert!((0..MIB).all(|at| bytes[at] == if is_zero(at) { 0 } else { 9 }));
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(0)).unwrap();
    assert!((100_000..=102_400).contains(&hole), "a hole at {hole}");
    let data = rustix::fs::seek(&file, SeekFrom::Data(hole)).unwrap();
    assert!((397_312..=400_000).contains(&data), "data at {data}");
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 900_000, 300_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1_200_000);
    file.read_exact_at(&mut bytes[..1000], 900_000).unwrap();
    assert_eq!(bytes[..1000], [0; 1000]);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2_000_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2_000_000);
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 3_000_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2_000_000);
    drop(file);
    bench.end();
    assert_eq!(fs::metadata(bench.behind("file")).unwrap().len(), 2_000_000);
}

#[test]
fn direct_reads_and_writes_are_like_others() {
    let Some(mut bench) = mounted() else { return };
    let path = bench.path("file");
    fs::write(&path, [3; 8192]).unwrap();
    let fd = rustix::fs::open(&path, OFlags::RDWR | OFlags::DIRECT, Mode::empty()).unwrap();
    let file = File::from(fd);
    let mut page = vec![0; 4096];
    file.read_exact_at(&mut page, 4096).unwrap();
    assert!(page == [3; 4096]);
    file.write_all_at(&[4; 4096], 4096).unwrap();
    assert!(read(&path)[4096..] == [4; 4096]);
    drop(file);
    bench.end();
}

#[test]
fn locks_keep_others_out() {
    let Some(mut bench) = mounted() else { return };
    let (first, second) = (
        read_write(&bench.path("file")),
        read_write(&bench.path("file")),
    );
    first.lock().unwrap();
    assert!(second.try_lock().is_err());
    first.unlock().unwrap();
    second.try_lock().unwrap();
    drop((first, second));
    bench.end();
}

#[test]
fn syncs_are_durable_and_folders_can_be_synced() {
    let Some(mut bench) = mounted() else { return };
    let file = read_write(&bench.path("file"));
    file.write_all_at(&vec![5; 70_000], 0).unwrap();
    file.sync_data().unwrap();
    assert!(
        read(&bench.behind("file")) == vec![5; 70_000],
        "it is behind while still mounted"
    );
    file.write_all_at(&[6; 10], 70_000).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::metadata(bench.behind("file")).unwrap().len(), 70_010);
    File::open(bench.path("")).unwrap().sync_all().unwrap();
    drop(file);
    bench.end();
}

#[test]
fn large_folders_are_listed_once_each() {
    let Some(mut bench) = mounted() else { return };
    fs::create_dir(bench.path("many")).unwrap();
    for number in 0..3000 {
        fs::write(bench.path(&format!("many/{number}")), b"").unwrap();
    }
    let entries = fs::read_dir(bench.path("many")).unwrap();
    let mut numbers: Vec<u32> = entries
        .map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..3000));
    let room = rustix::fs::statvfs(bench.path("")).unwrap();
    assert!(room.f_blocks > 0);
    bench.end();
}

#[test]
fn privileges_end_when_another_user_writes() {
    if is_left_out() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return println!("needs root to write as another user");
    }
    let mut bench = TestMount::of_size(16 << 20);
    let path = bench.path("program");
    fs::write(&path, b"x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let parent = path.parent().unwrap().parent().unwrap();
    fs::set_permissions(parent, fs::Permissions::from_mode(0o777)).unwrap();
    let status = std::process::Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-c",
        ])
        .arg(format!(
            "printf y >>{}; printf z >{}/made",
            path.display(),
            bench.path("").display()
        ))
        .status();
    let Ok(status) = status else {
        return println!("setpriv is missing");
    };
    assert!(status.success());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    let made = fs::metadata(bench.path("made")).unwrap();
    assert_eq!(
        (made.uid(), made.gid()),
        (65534, 65534),
        "it belongs to who made it"
    );
    bench.end();
    assert_eq!(read(&bench.behind("program")), b"xy");
}

/// Otherwise the pages of one such write, which can never be written, would stop all writes.
#[test]
fn what_no_file_below_can_hold_is_refused_as_below() {
    let Some(mut bench) = mounted() else { return };
    let (ours, below) = (
        read_write(&bench.path("ours")),
        read_write(&bench.behind("below")),
    );
    for place in [1 << 33, 1 << 44, (1 << 44) - 4098, 1 << 62] {
        let tried = |file: &File| {
            let written = file.write_at(b"eight bytes, all of them", place);
            let cut = file.set_len(place + 5000);
            let number = |error: std::io::Error| error.raw_os_error();
            (
                written.map_err(number),
                cut.map_err(number),
                file.metadata().unwrap().len(),
            )
        };
        assert_eq!(tried(&ours), tried(&below), "at {place}");
    }
    ours.set_len(0).unwrap();
    ours.write_at(b"others go on", 0).unwrap();
    ours.sync_all().unwrap();
    drop((ours, below));
    bench.end();
    assert_eq!(read(&bench.behind("ours")), b"others go on");
}

/// A request for room never cuts off what another program writes past the end at the same time.
#[test]
fn room_is_made_beside_writes_past_the_end() {
    if is_left_out() {
        return;
    }
    let step = 1_000;
    let mut bench = TestMount::of_size(16 << 20);
    let path = bench.path("file");
    let file = Arc::new(File::create_new(&path).unwrap());
    let is_over = Arc::new(AtomicBool::new(false));
    let (grown, seen) = (file.clone(), is_over.clone());
    let allocates = thread::spawn("allocates", move || {
        while !seen.load(Ordering::Relaxed) {
            let end = grown.metadata().unwrap().len() + step / 2;
            rustix::fs::fallocate(&*grown, FallocateFlags::empty(), 0, end).unwrap();
        }
    });
    for round in 0..2_000 {
        let at = file.metadata().unwrap().len() + step;
        file.write_all_at(&[7; 100], at).unwrap();
        let length = file.metadata().unwrap().len();
        assert!(length >= at + 100, "round {round}: {length} < {at} + 100");
        let mut found = [0; 100];
        file.read_exact_at(&mut found, at).unwrap();
        assert_eq!(found, [7; 100], "round {round}");
        if length > 4 << 20 {
            file.set_len(0).unwrap();
        }
    }
    is_over.store(true, Ordering::Relaxed);
    allocates.expect("a thread").join();
    drop(file);
    bench.end();
}
