use super::*;
use crate::device::{DeviceSettings, build};
use forebay_base::{Instant, Prng};
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::{Finish, FinishedIo, Request, StoreError};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Notes how requests end, by their token.
#[derive(Default)]
struct Heard(Mutex<Vec<(u64, Result<(), StoreError>)>>);

impl Finish for Heard {
    fn finished(&self, io: FinishedIo) {
        lock(&self.0).push((io.token, io.result));
    }
}

struct Bench {
    machine: Virtual,
    files: FileSystem,
    heard: Arc<Heard>,
}

impl Bench {
    fn new(device: &str, kind: &str, bytes: u64) -> Bench {
        let machine = Virtual::new(VirtualSettings::default());
        let device = DeviceSettings::named(device).expect("the catalogue has it");
        let device = build(&machine.rt(), "device", &device).expect("it can be");
        let settings = FileSystemSettings::named(kind).expect("it is known");
        Bench {
            files: FileSystem::new(machine.rt(), device, 0..bytes, settings),
            machine,
            heard: Arc::default(),
        }
    }

    fn submit(&self, kind: IoKind, object: u64, range: (u64, u64), token: u64) {
        let request = Request {
            kind,
            object: ObjectId(object),
            offset_bytes: range.0,
            length_bytes: range.1,
        };
        let io = Io::phantom(request, self.heard.clone(), token);
        self.files.submit(io);
    }

    fn write(&self, object: u64, offset: u64, length: u64) {
        self.submit(IoKind::Write, object, (offset, length), 0);
    }

    /// Runs until everything has ended, checks that all succeeded, and returns how many requests
    /// there were.
    fn settle(&self) -> usize {
        self.machine.run_for(Span::from_secs(1_000));
        let ends = lock(&self.heard.0);
        assert!(ends.iter().all(|(_, result)| result.is_ok()), "{ends:?}");
        ends.len()
    }

    fn create(&self, object: u64, directory: u64) {
        let created = self.files.create(ObjectId(object), directory);
        self.machine.run(created).expect("there is room");
    }

    fn address(&self, object: u64, page: u64) -> u64 {
        let found = self.files.address_of(ObjectId(object), page);
        found.expect("it has its place")
    }
}

#[test]
fn a_file_that_grows_lies_in_few_ranges() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 35);
    for index in 0..100 {
        bench.write(1, index * 512 * KIB, 512 * KIB);
    }
    assert_eq!(bench.files.extents_of(ObjectId(1)), 1);
    assert_eq!(bench.settle(), 100);
    // The data, a log buffer, an inode: three places.
    assert!(bench.files.device().statistics().seeks <= 3);
}

#[test]
fn a_file_of_several_groups_gives_its_room_back_to_each_of_them() {
    // Groups of 256 MiB: the file lies in three of them.
    let bench = Bench::new("USB-fast", "xfs", GIB);
    for object in 1..=3 {
        for index in 0..40 {
            bench.write(object, index * 16 * MIB, 16 * MIB);
        }
        bench.settle();
        bench.machine.run(bench.files.remove(ObjectId(object)));
    }
    let log_and_inodes = 65 * MIB;
    assert!(bench.files.free_bytes() > GIB - log_and_inodes);
}

#[test]
fn files_of_a_directory_that_grow_together_interleave_and_others_are_apart() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 35);
    for (object, directory) in [(1, 0), (2, 0), (3, 1)] {
        bench.create(object, directory);
    }
    for index in 0..64 {
        for object in 1..4 {
            bench.write(object, index * 512 * KIB, 512 * KIB);
        }
    }
    for (object, most) in [(1, 10), (2, 10), (3, 1)] {
        let ranges = bench.files.extents_of(ObjectId(object));
        assert!(ranges <= most, "{object}: {ranges}");
    }
    assert!(bench.files.extents_of(ObjectId(1)) > 2);
    let quarter = (1_u64 << 35) / 4;
    assert_eq!(bench.address(1, 0) / quarter, 0);
    assert_eq!(bench.address(3, 0) / quarter, 1);
    bench.settle();
}

#[test]
fn delayed_allocation_places_what_is_known_at_once() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 35);
    for step in 1..=40 {
        for object in 1..=4 {
            let known = bench.files.reaches(ObjectId(object), 0..step * 256 * KIB);
            known.expect("nothing is placed yet");
        }
    }
    assert_eq!(bench.files.address_of(ObjectId(1), 0), None);
    for object in 1..=4 {
        bench.write(object, 0, 64 * KIB);
    }
    for object in 1..=4 {
        bench.files.close(ObjectId(object));
        assert_eq!(bench.files.extents_of(ObjectId(object)), 1);
        let first = bench.address(object, 0);
        let last = bench.address(object, 2559);
        assert_eq!(last - first, 2559 * 4 * KIB);
    }
    bench.settle();
}

/// Reclaim writes pages ahead of the flusher: they must lie where the flusher would have put them,
/// and the flusher must find what is left of the file beside them, without taking space twice.
#[test]
fn pages_written_out_of_their_turn_lie_in_their_turn() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 33);
    let length = 64 * MIB;
    let known = bench.files.reaches(ObjectId(1), 0..length);
    known.expect("nothing is placed yet");
    for page in [9_000, 5_000, 12_000] {
        bench.write(1, page * 4 * KIB, 4 * KIB);
    }
    bench.write(1, 0, length);
    bench.files.close(ObjectId(1));
    bench.settle();
    assert_eq!(bench.files.extents_of(ObjectId(1)), 1);
    assert_eq!(
        bench.address(1, 9_000) - bench.address(1, 0),
        9_000 * 4 * KIB
    );
    let inode_bytes = 16 * KIB;
    let taken = (1 << 33) - bench.files.free_bytes();
    assert_eq!(taken, length + 64 * MIB + inode_bytes, "file, log, inode");
}

#[test]
fn what_was_skipped_in_the_cache_gets_no_place() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 33);
    let known = bench.files.reaches(ObjectId(1), GIB..GIB + 8 * KIB);
    known.expect("nothing is placed yet");
    bench.write(1, GIB + 4 * KIB, 4 * KIB);
    bench.settle();
    assert!(bench.files.address_of(ObjectId(1), 0).is_none());
    let before = bench.address(1, GIB / (4 * KIB));
    assert_eq!(bench.address(1, GIB / (4 * KIB) + 1), before + 4 * KIB);
}

#[test]
fn without_delay_files_are_placed_in_the_order_of_the_calls() {
    let bench = Bench::new("HDD-A", "ext3", 1 << 35);
    for object in [1, 2] {
        bench.create(object, 0);
    }
    for step in 1..=4 {
        for object in [1, 2] {
            let placed = bench.files.reaches(ObjectId(object), 0..step * 64 * KIB);
            placed.expect("there is room");
        }
    }
    let first = bench.address(1, 0);
    assert_eq!(bench.address(2, 0), first + 64 * KIB);
    assert_eq!(bench.address(1, 16), first + 128 * KIB);
}

#[test]
fn a_hole_costs_nothing_and_reads_at_once() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 35);
    bench.write(1, 10 * MIB, 4 * KIB);
    bench.settle();
    let before = bench.files.device().statistics().reads;
    bench.submit(IoKind::Read, 1, (0, MIB), 7);
    assert_eq!(lock(&bench.heard.0).last(), Some(&(7, Ok(()))));
    bench.submit(IoKind::Read, 1, (10 * MIB, 4 * KIB), 8);
    assert_eq!(bench.settle(), 3);
    let reads = bench.files.device().statistics().reads;
    assert_eq!(reads.requests, before.requests + 1);
}

#[test]
fn a_full_device_refuses_and_a_removed_file_makes_room() {
    let bench = Bench::new("USB-fast", "ntfs", 8 * MIB);
    for index in 0..9 {
        bench.write(1, index * MIB, MIB);
    }
    bench.machine.run_for(Span::from_secs(100));
    let failed: Vec<bool> = lock(&bench.heard.0)
        .iter()
        .map(|(_, result)| result.is_err())
        .collect();
    assert!(failed.contains(&true));
    bench.machine.run(bench.files.remove(ObjectId(1)));
    assert!(bench.files.free_bytes() >= 8 * MIB - 8 * KIB);
    lock(&bench.heard.0).clear();
    bench.write(2, 0, MIB);
    assert_eq!(bench.settle(), 1);
}

#[test]
fn truncation_and_discard_free_what_they_take() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 35);
    bench.create(1, 0);
    let free = bench.files.free_bytes();
    bench.write(1, 0, MIB);
    bench.submit(IoKind::SetLength, 1, (MIB, 0), 0);
    bench.settle();
    assert_eq!(bench.files.free_bytes(), free - MIB);
    bench.submit(IoKind::Discard, 1, (100, 20_000), 0);
    // Only whole pages: from 4096 to 16384.
    assert_eq!(bench.files.free_bytes(), free - MIB + 12 * KIB);
    bench.submit(IoKind::SetLength, 1, (0, 0), 0);
    assert_eq!(bench.files.free_bytes(), free);
}

#[test]
fn btrfs_writes_what_is_written_again_elsewhere() {
    for (kind, moves) in [("btrfs", true), ("xfs", false)] {
        let bench = Bench::new("HDD-A", kind, 1 << 35);
        bench.write(1, 0, 256 * KIB);
        bench.settle();
        let before = bench.address(1, 16);
        bench.write(1, 64 * KIB, 4 * KIB);
        bench.settle();
        assert_eq!(bench.address(1, 16) != before, moves, "{kind}");
        assert_eq!(bench.address(1, 0) + 60 * KIB, bench.address(1, 15));
        assert_eq!(
            bench.files.extents_of(ObjectId(1)),
            if moves { 3 } else { 1 }
        );
    }
}

#[test]
fn created_files_cost_a_kib_of_log_and_a_32nd_of_a_cluster() {
    let bench = Bench::new("RAID0-12", "xfs", 1 << 38);
    let files = bench.files.clone();
    let began = bench.machine.now();
    bench.machine.run(async move {
        for file in 0..10_000 {
            let created = files.create(ObjectId(file), 3).await;
            created.expect("there is room");
        }
    });
    assert!(
        bench.machine.now() > began,
        "the log's writes were waited for"
    );
    bench.settle();
    let counts = bench.files.metadata_counts();
    // 10000 KiB in buffers of 32 KiB, and the last in part.
    assert_eq!(counts.log_writes, 313);
    assert!(
        counts.log_bytes.abs_diff(10_000 * KIB) <= 4 * KIB,
        "{counts:?}"
    );
    assert!((313..=330).contains(&counts.cluster_writes), "{counts:?}");
    assert_eq!(bench.machine.tasks(), [], "nothing is left to write");
}

/// What invariant IN1 says, and what reclaim waits for.
#[test]
fn an_inode_is_given_up_once_it_is_written_and_read_again_when_it_is_opened() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 35);
    for file in 1..=3 {
        bench.create(file, 0);
    }
    for file in [2, 1, 2] {
        bench.files.retire(ObjectId(file));
    }
    assert_eq!(bench.files.unused(), 2);
    let given = bench.files.give_up(5);
    assert_eq!(given.gone, 0, "their cluster differs from the disk");
    let writing = given.writing.expect("it is being written");
    let began = bench.machine.now();
    bench.machine.run(async move { writing.wait().await });
    assert!(bench.machine.now() > began, "the disk took its time");
    let given = bench.files.give_up(5);
    assert_eq!((given.gone, given.writing.is_none()), (2, true));
    bench.files.retire(ObjectId(1));
    assert_eq!(bench.files.unused(), 0, "it is not in memory any more");
    for (file, reads) in [(3, 0), (1, 1), (1, 1), (2, 2)] {
        bench.machine.run(bench.files.look_up(ObjectId(file)));
        assert_eq!(bench.files.metadata_counts().cluster_reads, reads);
    }
    bench.files.retire(ObjectId(1));
    assert_eq!(bench.files.give_up(1).gone, 1, "nothing was changed since");
    bench.files.retire(ObjectId(2));
    bench.machine.run(bench.files.look_up(ObjectId(2)));
    bench.files.retire(ObjectId(3));
    bench.machine.run(bench.files.remove(ObjectId(3)));
    assert_eq!(bench.files.unused(), 0, "one is open, and one is removed");
    bench.settle();
}

/// Reclaim waits for an inode, and not for others of its cluster.
#[test]
fn an_inode_waits_for_its_own_write() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 35);
    for file in 1..=2 {
        bench.create(file, 0);
    }
    bench.settle();
    bench.files.retire(ObjectId(1));
    // The other one of the cluster is changed and being written.
    bench.write(2, 0, 4 * KIB);
    bench.files.retire(ObjectId(2));
    let given = bench.files.give_up(2);
    assert_eq!(given.gone, 1, "the first is as it is on the disk");
    let writes = bench.files.metadata_counts().cluster_writes;
    let again = bench.files.give_up(2);
    assert!(given.writing.is_some() && again.writing.is_some());
    let counts = bench.files.metadata_counts();
    assert_eq!(counts.cluster_writes, writes, "one write at a time");
    bench.settle();
    assert_eq!(bench.files.give_up(2).gone, 1);
}

/// A file that grows on the device changes its inode, and one that is overwritten does not.
#[test]
fn a_longer_file_has_a_changed_inode() {
    for kind in ["xfs", "ext4"] {
        let bench = Bench::new("HDD-A", kind, 1 << 35);
        let mut writes = 0;
        for (offset, changes) in [(0, 1), (0, 0), (64 * KIB, 1)] {
            bench.write(1, offset, 64 * KIB);
            bench.settle();
            writes += changes;
            let counts = bench.files.metadata_counts();
            assert_eq!(counts.cluster_writes, writes, "{kind} at {offset}");
        }
    }
}

#[test]
fn a_commit_writes_the_log_and_then_flushes() {
    let bench = Bench::new("HDD-A", "xfs", 1 << 35);
    bench.write(1, 0, 4 * KIB);
    bench.machine.run_for(Span::from_millis(100));
    let before = bench.files.metadata_counts().log_writes;
    bench.submit(IoKind::Commit, 1, (0, 0), 9);
    let began = bench.machine.now();
    while lock(&bench.heard.0).len() < 2 {
        bench.machine.run_for(Span::from_micros(100));
    }
    assert_eq!(bench.files.metadata_counts().log_writes, before + 1);
    assert_eq!(bench.files.device().statistics().flushes, 1);
    // The log lies in the middle of the range: a seek, half a turn, and the flush's 8 ms.
    let took = bench.machine.now() - began;
    assert!(
        took > Span::from_millis(14) && took < Span::from_millis(25),
        "{took}"
    );
}

#[test]
fn every_request_ends_exactly_once() {
    for (seed, kind) in FileSystemSettings::names().into_iter().enumerate() {
        let bench = Bench::new("HDD-B", &kind, 1 << 36);
        let mut chance = Prng::from_seed(seed as u64);
        for token in 0..800 {
            let kind = match chance.below(20) {
                0 => IoKind::Commit,
                1 => IoKind::SetLength,
                2 => IoKind::Discard,
                3..9 => IoKind::Read,
                _ => IoKind::Write,
            };
            let offset = chance.below(1 << 12) << 12;
            let length = match kind {
                IoKind::Commit | IoKind::SetLength => 0,
                _ => 1 + chance.below(512 << 10),
            };
            bench.submit(kind, chance.below(6), (offset, length), token);
            if chance.chance(1, 8) {
                let pause = Span::from_micros(chance.below(10_000));
                bench.machine.run_for(pause);
            }
        }
        assert_eq!(bench.settle(), 800);
        let mut tokens: Vec<u64> = lock(&bench.heard.0).iter().map(|(it, _)| *it).collect();
        tokens.sort_unstable();
        assert!(tokens.into_iter().eq(0..800), "{kind}");
        for object in 0..6 {
            bench.machine.run(bench.files.remove(ObjectId(object)));
        }
    }
}

/// Writers of files of their own in one directory, whose flusher gives each eight requests in turn.
async fn write_in_turn(files: FileSystem, heard: Arc<Heard>, rt: Rt, writers: u64) {
    let largest = u64::from(files.geometry().max_io_pages) << 12;
    let mut submitted = 0;
    for round in 0..240 / writers {
        for object in 0..writers {
            let first = round * 8 * largest;
            // The cache has up to 150 MiB that are not written.
            let known = files.reaches(ObjectId(object), first..first + ((37_500 / writers) << 12));
            known.expect("there is room");
            for offset_bytes in (0..8).map(|index| first + index * largest) {
                let request = Request {
                    kind: IoKind::Write,
                    object: ObjectId(object),
                    offset_bytes,
                    length_bytes: largest,
                };
                while submitted - lock(&heard.0).len() >= 128 {
                    rt.sleep(Span::from_millis(10)).await;
                }
                files.submit(Io::phantom(request, heard.clone(), 0));
                submitted += 1;
            }
        }
    }
    while lock(&heard.0).len() < submitted {
        rt.sleep(Span::from_millis(10)).await;
    }
}

#[test]
fn writers_on_a_slow_stick_get_what_was_published() {
    // MB/s with one, two and ten writers on XFS; 2.5 to 3.0 for the last.
    for (writers, published, percent) in [(1, 6.2, 5.0), (2, 4.8, 20.0), (10, 2.75, 15.0)] {
        let bench = Bench::new("USB-slow", "xfs", 8 << 30);
        for object in 0..writers {
            bench.create(object, 0);
        }
        let (files, heard) = (bench.files.clone(), bench.heard.clone());
        let work = write_in_turn(files, heard, bench.machine.rt(), writers);
        bench.machine.run(work);
        let bytes = bench.files.device().statistics().writes.bytes as f64;
        let rate = bytes / (bench.machine.now() - Instant::ZERO).as_secs_f64() / 1e6;
        let off = (rate - published).abs() / published * 100.0;
        assert!(off < percent, "{writers} writers: {rate} MB/s, {off} % off");
    }
}

#[test]
fn a_file_that_does_not_fit_leaves_its_room_to_others() {
    let bench = Bench::new("HDD-A", "xfs", 64 * MIB);
    let data = &bench.files;
    let free_bytes = data.free_bytes();
    assert_eq!(data.lay_out(ObjectId(1), 0, GIB), Err(NoRoom));
    assert_eq!(data.extents_of(ObjectId(1)), 0);
    // Except for the cluster of inodes, which is there for the next one.
    assert!(free_bytes - data.free_bytes() < MIB);
    let fits_bytes = data.free_bytes() - MIB;
    assert_eq!(data.lay_out(ObjectId(2), 0, fits_bytes), Ok(()));
}
