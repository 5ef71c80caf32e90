//! A source that fails or does not answer, as programs see it.

mod support;

use forebay_rt::thread::spawn;
use forebay_store::{Failure, Fault, FaultAction, IoKind};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{TestMount, is_left_out, read, until};

const DEVICE_FAILS: Fault = Fault {
    kind: Some(IoKind::Write),
    object: None,
    range_bytes: None,
    when: forebay_store::FaultWhen::Always,
    action: FaultAction::Fail(Failure::Device(5)),
};

/// More than there are seats and threads for calls that wait.
const WRITERS: usize = 24;

fn create(bench: &TestMount, name: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(bench.path(name)).expect("it opens")
}

#[test]
fn a_failed_write_is_reported_once_to_each_and_kept() {
    if is_left_out() {
        return;
    }
    let (mut bench, faults) = TestMount::faulty(16 << 20);
    let (first, second) = (create(&bench, "file"), create(&bench, "file"));
    first.write_all_at(&[7; 9000], 0).expect("memory takes it");
    faults.inject(DEVICE_FAILS);
    let reported = first.sync_all().expect_err("it cannot be durable");
    assert_eq!(reported.raw_os_error(), Some(5));
    assert_eq!(read(&bench.path("file")), [7; 9000], "it is kept");
    faults.clear();
    // A program that starts another leaves it a copy for a moment, which is closed.
    drop(second.try_clone().expect("a copy"));
    // The other one wrote nothing, and gets the error all the same.
    let reported = second.sync_data().expect_err("it has not heard of it");
    assert_eq!(reported.raw_os_error(), Some(5));
    // The flusher may have tried again while the device still failed: that is another failure, and
    // is reported once as well.
    if first.sync_all().is_err() {
        first.sync_all().expect("the device is well again");
    }
    assert_eq!(read(&bench.behind("file")), [7; 9000]);
    drop((first, second));
    bench.end();
}

#[test]
fn a_failed_write_is_reported_at_close_as_what_it_is() {
    if is_left_out() {
        return;
    }
    for (failure, words) in [
        (Failure::Device(5), "Input/output error"),
        (Failure::NoSpace, "No space left on device"),
        (Failure::OverQuota, "Disk quota exceeded"),
    ] {
        expect_at_close(failure, words);
    }
}

/// A close after a write that failed like this is reported by a program in these `words`.
fn expect_at_close(failure: Failure, words: &str) {
    let (mut bench, faults) = TestMount::faulty(16 << 20);
    let file = create(&bench, "file");
    file.write_all_at(b"-", 0).expect("memory takes it");
    // dd reports the error of its close; it holds the file open while its input is open.
    let mut program = Command::new("dd")
        .arg(format!("of={}", bench.path("file").display()))
        .args(["conv=notrunc", "bs=1"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dd starts");
    let mut input = program.stdin.take().expect("it was asked for");
    input.write_all(b"x").expect("dd reads");
    until("dd does not write", || read(&bench.path("file")) == b"x");
    faults.inject(Fault {
        action: FaultAction::Fail(failure),
        ..DEVICE_FAILS
    });
    // What dd wrote may have been written back already.
    file.write_all_at(b"x", 0).expect("memory takes it");
    let told = file.sync_data().expect_err("it cannot be durable");
    assert_eq!(told.raw_os_error(), Some(failure.errno()));
    drop(input);
    let output = program.wait_with_output().expect("dd ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(words), "{said}");
    let name = match failure {
        Failure::Device(_) => "EIO",
        Failure::NoSpace => "ENOSPC",
        _ => "EDQUOT",
    };
    // The sync was answered with it, and the close.
    let refusals = bench.mount.as_ref().expect("it is mounted").refusals();
    let counted = refusals.iter().find(|(counted, _)| *counted == name);
    assert!(
        counted.is_some_and(|(_, count)| *count >= 2),
        "{refusals:?}"
    );
    faults.clear();
    drop(file);
    bench.end();
    assert_eq!(read(&bench.behind("file")), b"x");
}

#[test]
fn a_reader_closes_well_though_a_write_failed() {
    /// More than a pipe takes, so that dd still has the file open.
    const LENGTH_BYTES: usize = 1 << 20;
    if is_left_out() {
        return;
    }
    let (mut bench, faults) = TestMount::faulty(16 << 20);
    let file = create(&bench, "file");
    let bytes = vec![5; LENGTH_BYTES];
    file.write_all_at(&bytes, 0).expect("memory takes it");
    let mut program = Command::new("dd")
        .arg(format!("if={}", bench.path("file").display()))
        .arg("bs=4096")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dd starts");
    let mut output = program.stdout.take().expect("it was asked for");
    let mut begin = [0];
    output.read_exact(&mut begin).expect("dd has opened it");
    faults.inject(DEVICE_FAILS);
    // All above may have been written already.
    file.write_all_at(&[5], 0).expect("memory takes it");
    file.sync_data().expect_err("it cannot be durable");
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).expect("dd reads it");
    let ended = program.wait_with_output().expect("dd ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert_eq!([&begin[..], &rest].concat(), bytes);
    faults.clear();
    drop(file);
    bench.end();
}

#[test]
fn a_full_disk_is_reported_and_written_when_there_is_room() {
    if is_left_out() {
        return;
    }
    let (mut bench, faults) = TestMount::faulty(16 << 20);
    let file = create(&bench, "file");
    let full = FaultAction::Fail(Failure::NoSpace);
    faults.inject(Fault {
        action: full,
        ..DEVICE_FAILS
    });
    file.write_all_at(&[1; 5000], 0).expect("memory takes it");
    let reported = file.sync_data().expect_err("there is no room");
    assert_eq!(reported.kind(), ErrorKind::StorageFull);
    file.write_all_at(&[2; 5000], 5000)
        .expect("memory takes more");
    faults.clear();
    // A failure in between is reported here, or was reported above.
    file.sync_data()
        .or_else(|_told| file.sync_data())
        .expect("there is room");
    let bytes = read(&bench.behind("file"));
    assert_eq!(
        (&bytes[..5000], &bytes[5000..]),
        (&[1; 5000][..], &[2; 5000][..])
    );
    drop(file);
    bench.end();
}

/// The source folder is removed: a program that has a file open goes on with it, new names cannot
/// be made, and the mount ends as usual.
#[test]
fn a_source_that_is_removed_leaves_open_files_whole() {
    if is_left_out() {
        return;
    }
    let (mut bench, _faults) = TestMount::faulty(16 << 20);
    fs::create_dir(bench.path("folder")).expect("it is made");
    let file = create(&bench, "folder/file");
    file.write_all_at(&[3; 9000], 0).expect("memory takes it");
    fs::remove_dir_all(bench.behind("")).expect("it is removed");
    file.write_all_at(&[4; 100], 9000).expect("memory takes it");
    file.sync_all().expect("the file is there without a name");
    let mut bytes = vec![0; 9100];
    file.read_exact_at(&mut bytes, 0).expect("it is there");
    assert_eq!(
        (&bytes[..9000], &bytes[9000..]),
        (&[3; 9000][..], &[4; 100][..])
    );
    for name in ["new", "folder/new"] {
        let refused = File::create(bench.path(name)).expect_err("there is no folder");
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{name}");
    }
    drop(file);
    bench.end();
}

/// More writers than there are seats and threads for calls that wait, all on a device that does not
/// answer: reads of what is in memory are answered all the same.
#[test]
fn readers_do_not_wait_for_writers() {
    if is_left_out() {
        return;
    }
    let (mut bench, faults) = TestMount::faulty(8 << 20);
    fs::write(bench.path("read"), vec![9; 100_000]).expect("it is written");
    forebay_rt::block_on(bench.cache.sync()).expect("the device is well");
    let reader = File::open(bench.path("read")).expect("it opens");
    faults.inject(Fault {
        action: FaultAction::NeverAnswer,
        ..DEVICE_FAILS
    });
    let done = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let (file, done) = (create(&bench, &format!("write-{number}")), done.clone());
            spawn("writer", move || {
                for at in 0..16 {
                    // A call that waits too long for the device gets an error; here the device is
                    // released before.
                    file.write_all_at(&vec![1; 1 << 18], at << 18)
                        .expect("it is taken");
                }
                done.fetch_add(1, Ordering::SeqCst);
            })
            .expect("a thread")
        })
        .collect();
    let mut bytes = vec![0; 4096];
    let mut reads = 0;
    // Until the dirty limit holds every writer, and then some.
    while faults.held() == 0 || reads < 2000 {
        reader
            .read_exact_at(&mut bytes, (reads % 20) * 4096)
            .expect("it is there");
        assert!(bytes.iter().all(|&byte| byte == 9));
        reads += 1;
    }
    assert!(
        done.load(Ordering::SeqCst) < WRITERS,
        "the writers wait for the device"
    );
    faults.clear();
    faults.release();
    for writer in writers {
        writer.join();
    }
    drop(reader);
    bench.end();
}
