//! A front on top of this crate alone: reads, writes, zeros, trims, flushes and holes by plain
//! function calls.

#[path = "front/calls.rs"]
mod calls;

use calls::Calls;
use forebay::{Cache, Settings};
use forebay_base::sync::{Mutex, lock};
use forebay_block::{BlockError, Disk, Extent, FileHoles, Job, PIECE_BYTES, Pool, SLOTS, extents};
use forebay_store::{
    Durability, FileStore, FileStoreSettings, Geometry, Io, IoKind, MemoryStore, ObjectId,
    OpenMode, Store,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const PIECE: u64 = PIECE_BYTES as u64;
const LENGTH_BYTES: u64 = 8 << 20;
const OBJECT: ObjectId = ObjectId(1);

/// A store in memory that counts its commits. Its reads wait while it is shut.
struct Shop {
    memory: MemoryStore,
    held: Mutex<Option<Vec<Io>>>,
    commits: Mutex<u64>,
}

impl Shop {
    /// Filled with bytes that encode their offset.
    fn stocked() -> Arc<Shop> {
        let geometry = MemoryStore::new().geometry();
        let memory = MemoryStore::with(Geometry {
            durability: Durability::OnCommit,
            ..geometry
        });
        let bytes: Vec<u8> = (0..LENGTH_BYTES).map(|at| (at / 4096) as u8).collect();
        memory.fill(OBJECT, &bytes);
        Arc::new(Shop {
            memory,
            held: Mutex::new(None),
            commits: Mutex::new(0),
        })
    }

    fn shut(&self) {
        *lock(&self.held) = Some(Vec::new());
    }

    fn open(&self) {
        let held = lock(&self.held).take();
        for io in held.into_iter().flatten() {
            self.memory.submit(io);
        }
    }
}

impl Store for Shop {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, io: Io) {
        match io.request().kind {
            IoKind::Commit => *lock(&self.commits) += 1,
            IoKind::Read => {
                if let Some(held) = &mut *lock(&self.held) {
                    return held.push(io);
                }
            }
            IoKind::Write | IoKind::Discard | IoKind::SetLength => {}
        }
        self.memory.submit(io);
    }
}

fn cache() -> Cache {
    let settings = Settings {
        memory_bytes: 16 << 20,
        ..Settings::default()
    };
    Cache::new(settings).expect("there is memory")
}

/// A disk, and the cache, which must live as long as the disk.
fn disk(shop: &Arc<Shop>) -> (Cache, Disk) {
    let cache = cache();
    let store = cache.attach(shop.clone()).expect("it is the first");
    let file = cache.open(&store, OBJECT, LENGTH_BYTES);
    (cache, Disk::new(file.expect("it is the first")))
}

#[test]
fn written_bytes_are_read_and_trimmed_ones_are_zeros() {
    let ((_cache, disk), ending) = (disk(&Shop::stocked()), AtomicBool::new(false));
    let mut calls = Calls::new(&disk, &Arc::new(Pool::new(0)), &ending);
    let read = |calls: &mut Calls<'_>, start: u64, end: u64| {
        calls.call(Job::Read(start..end), &[]).unwrap()
    };
    assert_eq!(read(&mut calls, 4095, 4097), [0, 1]);
    let bytes = vec![9; PIECE_BYTES];
    let written = calls.call(Job::Write(100..100 + PIECE), &bytes);
    assert_eq!(written, Ok(vec![]));
    assert_eq!(read(&mut calls, 99, 102), [0, 9, 9]);
    calls.call(Job::Trim(8192..12_288), &[]).unwrap();
    for no_hole in [false, true] {
        let start = if no_hole { 4096 } else { 16_384 };
        let range = start..start + 4096;
        calls.call(Job::Zero { range, no_hole }, &[]).unwrap();
    }
    let expected: Vec<u8> = (0..20_481_u64)
        .map(|at| match at {
            0..100 | 4096..12_288 | 16_384..20_480 => 0,
            _ => 9,
        })
        .collect();
    assert!(read(&mut calls, 0, 20_481) == expected);
    assert!(calls.is_idle());
}

#[test]
fn bytes_written_through_are_in_the_store_and_committed() {
    let shop = Shop::stocked();
    let ((_cache, disk), ending) = (disk(&shop), AtomicBool::new(false));
    let mut calls = Calls::new(&disk, &Arc::new(Pool::new(0)), &ending);
    calls.write_through(5000..5003, &[1, 2, 3]).unwrap();
    assert_eq!(shop.memory.snapshot(OBJECT)[4999..5004], [1, 1, 2, 3, 1]);
    assert_eq!(*lock(&shop.commits), 1);
    calls.call(Job::Write(9000..9001), &[7]).unwrap();
    calls.call(Job::Flush(0..u64::MAX), &[]).unwrap();
    assert_eq!(shop.memory.snapshot(OBJECT)[9000], 7);
    assert_eq!(*lock(&shop.commits), 2);
}

#[test]
fn many_requests_wait_at_once_and_no_more_than_there_is_room_for() {
    for (shared_bytes, at_once) in [(0, 1), (4 * SLOTS * PIECE_BYTES, SLOTS)] {
        let shop = Shop::stocked();
        let ((_cache, disk), ending) = (disk(&shop), AtomicBool::new(false));
        let mut calls = Calls::new(&disk, &Arc::new(Pool::new(shared_bytes)), &ending);
        shop.shut();
        // Far enough apart that no read starts readahead for the next one.
        let place = |at: usize| (at as u64 * 31 % 127) * PIECE;
        let begun: Vec<(usize, u64)> = (0..2 * SLOTS)
            .map_while(|at| {
                let start = place(at);
                Some((at, calls.begin(Job::Read(start..start + 10), &[])?))
            })
            .collect();
        assert_eq!(begun.len(), at_once);
        shop.open();
        for (at, number) in begun {
            assert_eq!(calls.end(number), Ok(vec![(place(at) / 4096) as u8; 10]));
        }
        assert!(calls.is_idle());
    }
}

#[test]
fn a_request_that_waits_does_not_hold_up_the_next() {
    let shop = Shop::stocked();
    let ((_cache, disk), ending) = (disk(&shop), AtomicBool::new(false));
    let mut calls = Calls::new(&disk, &Arc::new(Pool::new(1 << 20)), &ending);
    calls.call(Job::Read(0..1), &[]).unwrap();
    shop.shut();
    let slow = calls.begin(Job::Read(4 << 20..(4 << 20) + 1), &[]).unwrap();
    assert_eq!(calls.call(Job::Read(0..1), &[]), Ok(vec![0]));
    assert!(!calls.is_idle());
    shop.open();
    assert_eq!(calls.end(slow), Ok(vec![0]));
}

#[test]
fn invalid_jobs_are_refused_without_asking_the_store() {
    let shop = Shop::stocked();
    let ((_cache, disk), ending) = (disk(&shop), AtomicBool::new(false));
    let disk = disk.read_only();
    let mut calls = Calls::new(&disk, &Arc::new(Pool::new(0)), &ending);
    let write = calls.call(Job::Write(0..1), &[1]);
    assert_eq!(write, Err(BlockError::ReadOnly));
    let read = calls.call(Job::Read(LENGTH_BYTES..LENGTH_BYTES + 1), &[]);
    assert!(
        matches!(read, Err(BlockError::OutOfRange { .. })),
        "{read:?}"
    );
    assert_eq!(calls.call(Job::Read(0..1), &[]), Ok(vec![0]));
}

#[test]
fn holes_are_reported_until_something_is_written_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let files = FileStore::new(FileStoreSettings::default()).unwrap();
    let length_bytes = Some(LENGTH_BYTES);
    let opened = files
        .open(&path, OpenMode::Create { length_bytes })
        .unwrap();
    let holes = FileHoles::new(std::fs::File::open(&path).unwrap());
    let cache = cache();
    let store = cache.attach(files).unwrap();
    let file = cache.open(&store, opened.object, opened.length_bytes);
    let disk = Disk::new(file.unwrap()).with_holes(Arc::new(holes));
    let ending = AtomicBool::new(false);
    let mut calls = Calls::new(&disk, &Arc::new(Pool::new(0)), &ending);
    let reported = |calls: &mut Calls<'_>, most| -> Vec<Extent> {
        let job = Job::Extents {
            range: 0..LENGTH_BYTES,
            most,
        };
        extents(&calls.call(job, &[]).unwrap()).collect()
    };
    let run = |end_bytes, is_hole| Extent { end_bytes, is_hole };
    assert_eq!(reported(&mut calls, 9), [run(LENGTH_BYTES, true)]);
    calls
        .call(Job::Write(1 << 20..(1 << 20) + 1), &[1])
        .unwrap();
    let (data, rest) = ((1 << 20), (1 << 20) + PIECE);
    let expected = [run(data, true), run(rest, false), run(LENGTH_BYTES, true)];
    assert_eq!(reported(&mut calls, 9), expected);
    assert_eq!(reported(&mut calls, 1), expected[..1]);
}
