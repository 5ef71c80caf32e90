//! The client with servers of other projects: the contract of stores, faults, restarts.

#[path = "client/far.rs"]
mod far;
#[path = "../../forebay-store/tests/support/mod.rs"]
mod support;

use far::{Far, LOSSY, MIB};
use forebay::{AccessError, Cache, Settings};
use forebay_base::{PAGE_BYTES, Prng, Span};
use forebay_block::Disk;
use forebay_nbd::client::{ClientSettings, NbdOpener, NbdStore};
use forebay_nbd::{Export, Listener, Server, ServerSettings};
use forebay_rt::{block_on, thread};
use forebay_store::{Failure, IoKind, MemoryStore, ObjectId, Opener, VolumeError, VolumeMode};
use std::sync::Arc;
use support::Driver;

const PAGE: u64 = PAGE_BYTES as u64;
const OBJECT: ObjectId = NbdStore::OBJECT;

fn pattern(salt: u64, length: usize) -> Vec<u8> {
    let mut prng = Prng::from_seed(salt);
    (0..length).map(|_| prng.next_u64() as u8).collect()
}

/// Runs `check` over fresh exports of 8 MiB.
fn over_all(check: impl Fn(&str, &Driver)) {
    let qemu = ["-t", "-k", "SOCK", "-f", "raw", "IMG"];
    let shared = ["-t", "-e", "8", "-k", "SOCK", "-f", "raw", "IMG"];
    let memory = ["-f", "-U", "SOCK", "memory", "8M"];
    let narrow = [
        "-f",
        "-U",
        "SOCK",
        "--filter=blocksize-policy",
        "memory",
        "8M",
        "blocksize-minimum=512",
        "blocksize-maximum=64K",
        "blocksize-error-policy=error",
    ];
    let slow = [
        "-f",
        "-U",
        "SOCK",
        "--filter=delay",
        "memory",
        "8M",
        "wdelay=2ms",
        "rdelay=1ms",
    ];
    let paced = [
        "-f",
        "-U",
        "SOCK",
        "--filter=rate",
        "memory",
        "8M",
        "rate=400M",
    ];
    let plain = ["-f", "-U", "SOCK", "--no-sr", "memory", "8M"];
    for (name, program, arguments) in [
        ("qemu-nbd", "qemu-nbd", &qemu[..]),
        ("qemu-nbd for several", "qemu-nbd", &shared),
        ("nbdkit memory", "nbdkit", &memory),
        ("nbdkit of narrow blocks", "nbdkit", &narrow),
        ("nbdkit with delays", "nbdkit", &slow),
        ("nbdkit at a rate", "nbdkit", &paced),
        ("nbdkit without chunks", "nbdkit", &plain),
        ("nbdkit with a cache", "nbdkit", &LOSSY),
    ] {
        let Some(far) = Far::start(program, arguments, 8 * MIB) else {
            continue;
        };
        eprintln!("over {name}");
        let store = far.open();
        assert_eq!(store.length_bytes(), 8 * MIB);
        check(name, &Driver::new(store, 1_024));
    }
}

#[test]
fn the_contract_of_stores_holds() {
    over_all(|name, driver| {
        // 2: a read sees what was written; 3: the rest is zeros.
        for (salt, offset, length) in [(1, 0, 4096), (2, 8192, 65_536), (3, 40_960, 49_152)] {
            let bytes = pattern(salt, length);
            driver.write(OBJECT, offset, &bytes).expect("it is written");
            assert!(
                driver.read(OBJECT, offset, length as u64) == bytes,
                "{name}"
            );
        }
        let tail = driver.read(OBJECT, 0, PAGE + 100);
        assert!(
            tail[4196..].iter().all(|&byte| byte == 0),
            "{name}: not asked for"
        );
        let end = driver.read(OBJECT, 8 * MIB - PAGE, 4 * PAGE);
        assert!(end.iter().all(|&byte| byte == 0), "{name}: past the end");
        let past = driver.read(OBJECT, 9 * MIB, PAGE);
        assert!(
            past.iter().all(|&byte| byte == 0),
            "{name}: far past the end"
        );
        // 4: a refused request changes nothing, and the next one succeeds.
        let outside = driver.write(OBJECT, 8 * MIB - PAGE, &pattern(4, 2 * PAGE_BYTES));
        assert_eq!(outside, Err(Failure::OutOfRange), "{name}");
        assert_eq!(driver.order(IoKind::Commit, OBJECT, 0, 0), Ok(()), "{name}");
        assert_eq!(driver.order(IoKind::SetLength, OBJECT, 8 * MIB, 0), Ok(()));
        let cut = driver.order(IoKind::SetLength, OBJECT, MIB, 0);
        assert_eq!(cut, Err(Failure::Unsupported), "{name}");
        let other = driver.order(IoKind::Commit, ObjectId(1), 0, 0);
        assert_eq!(other, Err(Failure::Gone), "{name}");
        for kind in [IoKind::Read, IoKind::Write, IoKind::Discard] {
            assert_eq!(
                driver.order(kind, OBJECT, 0, 0),
                Ok(()),
                "{name}: nothing to do"
            );
        }
    });
}

#[test]
fn a_discarded_range_is_zeros_and_the_rest_stays() {
    over_all(|name, driver| {
        let mut bytes = pattern(1, 16 * PAGE_BYTES);
        driver.write(OBJECT, 0, &bytes).expect("it is written");
        for (start, length) in [(0, 4096), (12_288, 20_480), (61_440, 4096)] {
            let done = driver.order(IoKind::Discard, OBJECT, start, length);
            assert_eq!(done, Ok(()), "{name}");
            bytes[start as usize..(start + length) as usize].fill(0);
            assert!(driver.read(OBJECT, 0, 16 * PAGE) == bytes, "{name}");
        }
        let past = driver.order(IoKind::Discard, OBJECT, 9 * MIB, MIB);
        assert_eq!(past, Ok(()), "{name}");
    });
}

#[test]
fn many_requests_at_once_end_each_in_its_own_pages() {
    over_all(|name, driver| {
        block_on(async {
            let writes: Vec<u64> = (0..200)
                .map(|page| driver.submit_write(OBJECT, page * PAGE, &pattern(page, PAGE_BYTES)))
                .collect();
            for token in writes {
                driver.finish(token).await.expect("it is written");
            }
            let reads: Vec<u64> = (0..200)
                .map(|page| driver.submit_read(OBJECT, page * PAGE, PAGE))
                .collect();
            for (page, token) in reads.into_iter().enumerate() {
                let read = driver.finish(token).await.expect("it is read");
                assert!(
                    read == pattern(page as u64, PAGE_BYTES),
                    "{name}: page {page}"
                );
            }
        });
    });
}

#[test]
fn an_error_of_the_server_is_the_error_of_its_request() {
    let arguments = [
        "-f",
        "-U",
        "SOCK",
        "--filter=error",
        "memory",
        "8M",
        "error-pwrite=ENOSPC",
        "error-pwrite-rate=50%",
        "error-pread=EIO",
        "error-pread-rate=50%",
    ];
    let Some(far) = Far::start("nbdkit", &arguments, 0) else {
        return;
    };
    let driver = Driver::new(far.open(), 64);
    let mut written = [0; 2];
    let mut read = [0; 2];
    for page in 0..200 {
        match driver.write(OBJECT, page * PAGE, &pattern(page, PAGE_BYTES)) {
            Ok(()) => written[0] += 1,
            Err(failure) => {
                assert_eq!(failure, Failure::NoSpace);
                written[1] += 1;
                continue;
            }
        }
        match driver.try_read(OBJECT, page * PAGE, PAGE) {
            Ok(bytes) => {
                read[0] += 1;
                assert!(bytes == pattern(page, PAGE_BYTES));
            }
            Err(failure) => {
                assert_eq!(failure, Failure::Device(5));
                read[1] += 1;
            }
        }
    }
    assert!(written.iter().chain(&read).all(|&count| count > 10));
}

/// The result of a commit before and after a restart, without a cache above.
#[test]
fn a_commit_after_a_restart_asks_for_the_writes_again_once() {
    let Some(mut far) = Far::lossy(8 * MIB) else {
        return;
    };
    let driver = Driver::new(far.open(), 64);
    let commit = || driver.order(IoKind::Commit, OBJECT, 0, 0);
    driver.write(OBJECT, 0, &[7; 4096]).expect("it is written");
    assert_eq!(commit(), Ok(()));
    far.kill();
    far.begin();
    assert!(driver.read(OBJECT, 0, PAGE).iter().all(|&byte| byte == 7));
    assert_eq!(commit(), Ok(()), "nothing was forgotten");
    driver
        .write(OBJECT, PAGE, &[8; 4096])
        .expect("it is written");
    // Once another request has been answered, the write counts as heard of: the client notes that
    // only after it has reported the write's end (V2).
    assert!(driver.read(OBJECT, PAGE, PAGE) == [8; 4096]);
    far.kill();
    far.begin();
    assert_eq!(commit(), Err(Failure::Forgotten));
    assert!(
        driver
            .read(OBJECT, PAGE, PAGE)
            .iter()
            .all(|&byte| byte == 0)
    );
    driver
        .write(OBJECT, PAGE, &[8; 4096])
        .expect("it is written");
    assert_eq!(commit(), Ok(()));
    far.kill();
    let image = std::fs::read(far.image()).expect("the image is there");
    assert!(image[..4096] == [7; 4096] && image[4096..8192] == [8; 4096]);
}

#[test]
fn what_was_discarded_stays_discarded_over_a_restart() {
    let Some(mut far) = Far::lossy(8 * MIB) else {
        return;
    };
    let driver = Driver::new(far.open(), 64);
    driver.write(OBJECT, 0, &[7; 8192]).expect("it is written");
    assert_eq!(driver.order(IoKind::Commit, OBJECT, 0, 0), Ok(()));
    assert_eq!(driver.order(IoKind::Discard, OBJECT, 0, PAGE), Ok(()));
    far.kill();
    far.begin();
    let read = driver.read(OBJECT, 0, 2 * PAGE);
    assert!(read[..4096] == [0; 4096] && read[4096..] == [7; 4096]);
}

/// The whole way: a cache, a writer, syncs, and a server that is killed again and again.
#[test]
fn no_kill_of_the_server_loses_a_byte_that_was_synced_and_nobody_hears_of_it() {
    const PAGES: u64 = 1_024;
    let Some(mut far) = Far::lossy(PAGES * PAGE) else {
        return;
    };
    let settings = Settings {
        memory_bytes: 2 << 20,
        writeback_interval: Span::from_millis(20),
        dirty_expire: Span::from_millis(10),
        ..Settings::default()
    };
    let cache = Cache::new(settings).expect("a small cache");
    let attached = cache.attach(far.open()).expect("it takes the store");
    let file = cache
        .open(&attached, OBJECT, PAGES * PAGE)
        .expect("it opens")
        .blocking();
    let mut model = vec![0_u8; (PAGES * PAGE) as usize];
    let mut chance = Prng::from_seed(50);
    for round in 0..25 {
        for _ in 0..150 {
            let page = chance.below(PAGES);
            let bytes = pattern(chance.next_u64(), PAGE_BYTES);
            let at = (page * PAGE) as usize;
            file.write_at(&bytes, page * PAGE)
                .expect("nobody hears of a kill");
            model[at..at + PAGE_BYTES].copy_from_slice(&bytes);
            let page = chance.below(PAGES);
            let mut read = vec![0; PAGE_BYTES];
            file.read_at(&mut read, page * PAGE)
                .expect("nobody hears of a kill");
            let at = (page * PAGE) as usize;
            assert!(
                read == model[at..at + PAGE_BYTES],
                "round {round}, page {page}"
            );
            if chance.chance(1, 40) {
                far.kill();
                far.begin();
            }
        }
        file.sync().expect("nobody hears of a kill");
        far.kill();
        let image = std::fs::read(far.image()).expect("the image is there");
        assert!(image == model, "round {round}: a synced byte is not there");
        far.begin();
    }
}

/// A write would fail when it is written back, long after it was taken.
#[test]
fn a_cache_refuses_changes_of_an_export_that_may_only_be_read() {
    let far = Cache::new(settings()).unwrap();
    let store = far.attach(Arc::new(MemoryStore::new())).unwrap();
    for is_read_only in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let disk = Disk::new(far.open(&store, ObjectId(1), MIB).unwrap());
        let disk = if is_read_only { disk.read_only() } else { disk };
        let exports = vec![Export::new("disk", disk)];
        let listener = Listener::unix(&socket).unwrap();
        let server = Server::start(listener, exports, ServerSettings::default()).unwrap();
        let address = format!("nbd+unix:///disk?socket={}", socket.display());
        let address = address.parse().unwrap();
        let opened = NbdStore::open(&address, !is_read_only, ClientSettings::default());
        let near = Cache::new(settings()).unwrap();
        let attached = near.attach(opened.unwrap()).unwrap();
        let file = near.open(&attached, OBJECT, MIB).unwrap().blocking();
        let written = file.write_at(&[7; 100], 0);
        let is_refused = matches!(written, Err(AccessError::ReadOnly { .. }));
        assert_eq!(is_refused, is_read_only, "{written:?}");
        drop(file);
        block_on(near.close()).unwrap();
        server.drain();
    }
}

fn settings() -> Settings {
    Settings {
        memory_bytes: 8 << 20,
        ..Settings::default()
    }
}

#[test]
fn a_server_that_comes_back_as_another_one_is_refused_and_not_written_to() {
    let Some(mut far) = Far::lossy(8 * MIB) else {
        return;
    };
    let settings = ClientSettings {
        answer_timeout: Span::from_millis(700),
    };
    let store = NbdStore::open(&far.address(), true, settings).expect("it can be used");
    let driver = Driver::new(store, 64);
    driver.write(OBJECT, 0, &[7; 4096]).expect("it is written");
    let read_only = ["-f", "-U", "SOCK", "-r", "file", "IMG"];
    let flushless = ["-f", "-U", "SOCK", "sh", "FLUSHLESS"];
    for (arguments, length_bytes) in [
        (&LOSSY[..], 4 * MIB),
        (&read_only, 8 * MIB),
        (&flushless, 8 * MIB),
        (&LOSSY, 16 * MIB),
    ] {
        far.kill();
        far.make_image(length_bytes);
        let script = far.script(
            "case $1 in get_size) echo 8M;; can_write) exit 0;; pread) exit 1;; *) exit 2;; esac",
        );
        let arguments: Vec<String> = arguments
            .iter()
            .map(|text| text.replace("FLUSHLESS", &script))
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        far.change(&arguments);
        far.begin();
        let written = driver.write(OBJECT, 0, &[9; 4096]);
        assert_eq!(written, Err(Failure::NoAnswer), "{arguments:?}");
    }
    far.kill();
    far.make_image(8 * MIB);
    far.change(&LOSSY);
    far.begin();
    // The back-off may be at its longest, which is longer than a request waits here.
    let mut tries = 0;
    while driver.write(OBJECT, 0, &[9; 4096]).is_err() {
        tries += 1;
        assert!(tries < 60, "it is the old one again");
    }
    let commit = driver.order(IoKind::Commit, OBJECT, 0, 0);
    assert_eq!(commit, Err(Failure::Forgotten));
}

#[test]
fn a_store_can_be_dropped_while_its_server_is_away() {
    let Some(mut far) = Far::lossy(8 * MIB) else {
        return;
    };
    let driver = Driver::new(far.open(), 64);
    driver.write(OBJECT, 0, &[7; 4096]).expect("it is written");
    far.kill();
    let token = driver.submit_write(OBJECT, 0, &[8; 4096]);
    let Driver { desk, arena, .. } = driver.clone();
    drop(driver);
    let io = block_on(desk.take(token));
    assert!(
        io.result
            .is_err_and(|error| error.failure == Failure::NoAnswer)
    );
    arena.take_back(io.pages);
}

/// The server has the write when its flush fails, and answers it afterwards.
#[test]
fn a_write_that_is_answered_after_a_failed_flush_is_asked_for_again() {
    let Some(mut far) = Far::start("nbdkit", &["-f", "-U", "SOCK", "memory", "8M"], 0) else {
        return;
    };
    let (came, goes) = (
        far.folder.path().join("came"),
        far.folder.path().join("goes"),
    );
    let script = far.script(
        "cd `dirname $0`\n\
         case $1 in thread_model) echo parallel;; get_size) echo 8M;; pread) exit 1;;\n\
         can_write | can_flush) exit 0;;\n\
         pwrite) cat >/dev/null; touch came; while [ ! -e goes ]; do sleep 0.01; done;;\n\
         flush) [ -e goes ] || { echo EIO >&2; exit 1; };; *) exit 2;; esac",
    );
    far.kill();
    far.change(&["-f", "-U", "SOCK", "sh", &script]);
    far.begin();
    let driver = Driver::new(far.open(), 64);
    let commit = || driver.order(IoKind::Commit, OBJECT, 0, 0);
    let write = driver.submit_write(OBJECT, 0, &[8; 4096]);
    while !came.exists() {
        thread::pause_current(Span::from_millis(1));
    }
    assert_eq!(commit(), Err(Failure::Device(5)));
    std::fs::write(goes, "").expect("the write goes on");
    block_on(driver.finish(write)).expect("it is written");
    // The thread of the client knows that it has to end once it has ended one more request.
    assert_eq!(driver.order(IoKind::Discard, OBJECT, 0, 0), Ok(()));
    assert_eq!(commit(), Err(Failure::Forgotten), "it may be dropped");
    assert_eq!(commit(), Ok(()), "it was reported");
}

/// It may have made it durable with a flush of everything, and that flush may be what failed.
#[test]
fn a_discard_that_fails_counts_as_a_flush_that_failed() {
    let Some(mut far) = Far::start("nbdkit", &["-f", "-U", "SOCK", "memory", "8M"], 0) else {
        return;
    };
    let script = far.script(
        "case $1 in get_size) echo 8M;; pread) exit 1;; pwrite) cat >/dev/null;; flush) ;;\n\
         can_write | can_flush | can_zero) exit 0;; can_fua) echo native;;\n\
         zero) echo EIO >&2; exit 1;; *) exit 2;; esac",
    );
    far.kill();
    far.change(&["-f", "-U", "SOCK", "sh", &script]);
    far.begin();
    let driver = Driver::new(far.open(), 64);
    let order = |kind, length| driver.order(kind, OBJECT, 0, length);
    driver.write(OBJECT, 0, &[8; 4096]).expect("it is written");
    assert_eq!(order(IoKind::Discard, PAGE), Err(Failure::Device(5)));
    assert_eq!(order(IoKind::Commit, 0), Err(Failure::Forgotten));
    assert_eq!(order(IoKind::Commit, 0), Ok(()), "it was reported");
}

/// A server that hangs accepts nobody, and its queue is full.
#[test]
fn requests_to_a_server_that_accepts_nobody_fail_in_time_and_the_store_can_be_dropped() {
    let Some(mut far) = Far::lossy(8 * MIB) else {
        return;
    };
    let settings = ClientSettings {
        answer_timeout: Span::from_millis(300),
    };
    let store = NbdStore::open(&far.address(), true, settings).expect("it can be used");
    let driver = Driver::new(store, 64);
    let full = far.hang();
    for _ in 0..2 {
        let written = driver.write(OBJECT, 0, &[8; 4096]);
        assert_eq!(written, Err(Failure::NoAnswer));
    }
    drop(driver);
    drop(full);
}

#[test]
fn volumes_are_opened_claimed_and_know_their_holes() {
    let Some(far) = Far::start("nbdkit", &["-f", "-U", "SOCK", "memory", "8M"], 0) else {
        return;
    };
    let opener = NbdOpener::new(ClientSettings::default());
    let socket = far.folder.path().join("far.sock");
    let address = format!("nbd+unix:///?socket={}", socket.display());
    let open = |mode| opener.open_volume(address.as_ref(), mode);
    let volume = open(VolumeMode::ReadWrite).expect("it opens");
    assert_eq!(volume.length_bytes, 8 * MIB);
    let again = open(VolumeMode::ReadWrite).err();
    assert!(
        matches!(again, Some(VolumeError::InUse { .. })),
        "{again:?}"
    );
    let driver = Driver::new(Arc::clone(&volume.store), 64);
    driver
        .write(OBJECT, 2 * MIB, &vec![7; 65_536])
        .expect("it is written");
    let hole = volume.medium.extent_at(0, 8 * MIB);
    assert!(hole.is_hole && hole.end_bytes == 2 * MIB, "{hole:?}");
    let data = volume.medium.extent_at(2 * MIB, 8 * MIB);
    assert!(!data.is_hole && data.end_bytes < 3 * MIB, "{data:?}");
    drop((driver, volume));
    let length_bytes = 8 * MIB;
    let readers = [open(VolumeMode::ReadOnly), open(VolumeMode::ReadOnly)];
    assert!(readers.iter().all(Result::is_ok), "readers share it");
    drop(readers);
    assert!(open(VolumeMode::Create { length_bytes }).is_ok());
    let length_bytes = 9 * MIB;
    let longer = open(VolumeMode::Create { length_bytes }).err();
    assert!(
        matches!(longer, Some(VolumeError::WrongLength { .. })),
        "{longer:?}"
    );
    drop(far);
    thread::pause_current(Span::from_millis(10));
    let gone = open(VolumeMode::ReadWrite).err().expect("nobody is there");
    assert!(gone.to_string().contains("cannot be reached"), "{gone}");
    let text = opener.open_volume("nbd:///disk".as_ref(), VolumeMode::ReadOnly);
    assert!(text.is_err_and(|error| error.to_string().contains("names no host")));
}
