//! A source that has no room for what is written to its mount.

mod support;

use forebay_base::Span;
use forebay_rt::thread::pause_current;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use support::below::{Below, Kind};
use support::{TestMount, is_left_out, read, until};

const MIB: usize = 1 << 20;

/// Writes pieces of a megabyte until one is refused, and returns how many bytes were taken and why
/// no more.
fn write_until_refused(path: &Path, most: usize) -> (usize, std::io::Result<()>) {
    let mut file = File::create(path).expect("a name needs no room");
    let piece = vec![7; MIB];
    let mut taken = 0;
    while taken < most {
        match file.write(&piece) {
            Ok(bytes) => taken += bytes,
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, file.sync_all())
}

fn over_small(test: impl FnOnce(&mut TestMount)) {
    if is_left_out() {
        return;
    }
    let Some(below) = Below::small(24 << 20) else {
        return;
    };
    // All that is written has room in memory.
    let mut bench = TestMount::over_with(&below.root(), 256 << 20);
    test(&mut bench);
    bench.end();
}

#[test]
fn what_the_source_has_no_room_for_is_refused_when_it_is_written() {
    over_small(|bench| {
        let (taken, end) = write_until_refused(&bench.path("large"), 40 * MIB);
        assert_eq!(end.unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(taken >= 20 * MIB, "{taken} of 24 MiB");
        let fullness = bench.mount.as_ref().unwrap().fullness();
        assert_eq!((fullness.refused_writes, fullness.full_systems), (1, 1));
        assert!(fullness.refused_bytes > 0);
        // What was taken is there to the last byte.
        OpenOptions::new()
            .write(true)
            .open(bench.path("large"))
            .unwrap()
            .sync_all()
            .expect("all of it has room");
        assert!(read(&bench.behind("large")) == vec![7; taken]);
        fs::remove_file(bench.path("large")).unwrap();
        // It looks again every five seconds.
        until("there is room again", || {
            pause_current(Span::from_millis(100));
            bench.mount.as_ref().unwrap().fullness().full_systems == 0
        });
        let (taken, end) = write_until_refused(&bench.path("small"), 8 * MIB);
        end.expect("there is room");
        assert_eq!(taken, 8 * MIB);
    });
}

/// Some count what was written long after, and some keep room for root.
#[test]
fn disks_refuse_what_does_not_fit_and_have_what_was_taken() {
    if is_left_out() {
        return;
    }
    for kind in [Kind::Ext4, Kind::Xfs, Kind::Btrfs] {
        let Some(below) = Below::with(kind, |_root| {}) else {
            continue;
        };
        let mut bench = TestMount::over_with(&below.root(), 512 << 20);
        let (taken, end) = write_until_refused(&bench.path("large"), 400 * MIB);
        let refused = end.expect_err("320 MiB are smaller");
        assert_eq!(refused.kind(), ErrorKind::StorageFull, "{kind:?}");
        assert!(taken > 150 * MIB, "{kind:?} took {taken}");
        let file = File::open(bench.path("large")).unwrap();
        let synced = file.sync_all();
        assert!(
            synced.is_ok(),
            "{kind:?} has no room for {taken}: {synced:?}"
        );
        drop(file);
        let behind = fs::metadata(bench.behind("large")).unwrap();
        assert_eq!(behind.len(), taken as u64, "{kind:?}");
        bench.end();
    }
}

/// A file system that says it has room, and a quota that is less.
#[test]
fn a_quota_that_is_used_up_is_told_as_one_and_what_was_taken_is_kept() {
    if is_left_out() {
        return;
    }
    let Some(below) = Below::with(Kind::Btrfs, |_root| {}) else {
        return;
    };
    if !below.limit_part("16M") {
        return;
    }
    let mut bench = TestMount::over_with(&below.root().join("part"), 256 << 20);
    let mut other = File::create(bench.path("other")).unwrap();
    let (taken, end) = write_until_refused(&bench.path("large"), 40 * MIB);
    assert_eq!(end.unwrap_err().kind(), ErrorKind::QuotaExceeded);
    let refusals = bench.mount.as_ref().unwrap().refusals();
    assert!(
        refusals.iter().any(|(name, _)| *name == "EDQUOT"),
        "{refusals:?}"
    );
    // As long as that lasts, a write is refused for what it is.
    let written = other.write_all(&[7; 4096]);
    let again = written.and_then(|()| other.sync_all()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::QuotaExceeded);
    assert!(below.limit_part("200M"));
    let file = OpenOptions::new().write(true).open(bench.path("large"));
    let file = file.unwrap();
    until("the quota is large enough", || file.sync_all().is_ok());
    drop((file, other));
    assert!(read(&bench.behind("large")) == vec![7; taken]);
    bench.end();
}

/// Many small files need room together.
#[test]
fn files_that_have_no_room_together_are_refused() {
    over_small(|bench| {
        let bytes = vec![9; 100_000];
        let name = |at: usize| format!("file-{at}");
        let refused = (0..400).find(|at| fs::write(bench.path(&name(*at)), &bytes).is_err());
        let refused = refused.expect("40 MB do not fit in 24 MiB");
        assert!(refused > 200, "{refused} had room");
        for at in 0..refused {
            let file = File::open(bench.path(&name(at))).unwrap();
            file.sync_all().expect("what was taken has room");
            assert!(read(&bench.behind(&name(at))) == bytes);
        }
    });
}

/// As a database does that lives in a full file system.
#[test]
fn what_has_its_room_already_is_written_though_nothing_is_left() {
    over_small(|bench| {
        let base = bench.path("base");
        fs::write(&base, vec![1; 4 * MIB]).unwrap();
        let (_, end) = write_until_refused(&bench.path("large"), 40 * MIB);
        end.unwrap_err();
        let file = OpenOptions::new().write(true).open(&base).unwrap();
        for at in 0..4 {
            let at = at * MIB as u64;
            file.write_all_at(&vec![2; MIB], at).expect("it has room");
        }
        file.sync_all().expect("it is written");
        assert!(read(&bench.behind("base")) == vec![2; 4 * MIB]);
    });
}
