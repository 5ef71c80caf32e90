use super::*;
use crate::device::testing::Heard;
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::{Finish, FinishedIo};

const MIB: u64 = 1 << 20;
const PAGE: u64 = PAGE_BYTES as u64;

struct Bench {
    machine: Virtual,
    bucket: Bucket,
    heard: Arc<Heard>,
}

impl Bench {
    fn new(settings: BucketSettings) -> Bench {
        assert_eq!(settings.check(), Ok(()));
        let machine = Virtual::new(VirtualSettings::default());
        let rt = machine.rt();
        Bench {
            bucket: Bucket::new(rt.clone(), settings),
            heard: Heard::new(rt),
            machine,
        }
    }

    fn submit(&self, kind: IoKind, offset_bytes: u64, length_bytes: u64, token: u64) {
        let request = Request {
            kind,
            object: ObjectId(1),
            offset_bytes,
            length_bytes,
        };
        self.bucket
            .submit(Io::phantom(request, self.heard.clone(), token));
    }

    /// When the request with `token` ended, in milliseconds; None if it has not.
    fn end_ms(&self, token: u64) -> Option<f64> {
        self.heard.end_ms(token)
    }

    fn is_near(&self, token: u64, ms: f64) {
        let end_ms = self.end_ms(token).expect("it has ended");
        assert!((end_ms - ms).abs() < 0.01, "{end_ms} ms, not {ms}");
    }

    fn run_for(&self, seconds: u64) {
        self.machine.run_for(Span::from_secs(seconds));
    }

    /// Puts and gets so far.
    fn requests(&self) -> (u64, u64) {
        let seen = self.bucket.seen_as_device();
        (seen.writes.requests, seen.reads.requests)
    }
}

#[test]
fn a_small_commit_is_one_put() {
    let bench = Bench::new(BucketSettings::default());
    bench.submit(IoKind::Write, 0, PAGE, 0);
    bench.is_near(0, 0.0);
    bench.submit(IoKind::Commit, 0, 0, 1);
    bench.run_for(1);
    // 25 ms, and 4608 bytes at 60 MB/s.
    bench.is_near(1, 25.077);
    assert_eq!(bench.requests(), (1, 0));
    assert_eq!(bench.bucket.seen_as_device().flushes, 1);
}

#[test]
fn a_commit_of_nothing_asks_for_nothing() {
    let bench = Bench::new(BucketSettings::default());
    bench.submit(IoKind::Commit, 0, 0, 0);
    bench.is_near(0, 0.0);
    assert_eq!(bench.requests(), (0, 0));
}

#[test]
fn a_larger_commit_puts_its_chunks_and_then_a_record() {
    let bench = Bench::new(BucketSettings::default());
    bench.submit(IoKind::Write, 0, 17 * PAGE, 0);
    bench.submit(IoKind::Commit, 0, 0, 1);
    // What comes now is for the next record, also in a chunk that is on its way for this one.
    bench.submit(IoKind::Write, 4 * MIB, PAGE, 2);
    bench.submit(IoKind::Write, 0, PAGE, 3);
    bench.is_near(2, 0.0);
    bench.is_near(3, 0.0);
    bench.run_for(1);
    // 1 MiB at 60 MB/s is 17.476 ms; the record has 512 bytes.
    let chunk_ms = 25.0 + 17.476;
    bench.is_near(1, chunk_ms + 25.009);
    assert_eq!(bench.requests(), (2, 0));
    bench.submit(IoKind::Commit, 0, 0, 4);
    bench.run_for(1);
    bench.is_near(4, 1_025.145);
    assert_eq!(bench.requests(), (3, 0));
}

#[test]
fn a_chunk_that_is_replaced_in_part_is_read_first() {
    let bench = Bench::new(BucketSettings::default());
    bench.bucket.lay_out(ObjectId(1), 8 * MIB);
    bench.submit(IoKind::Write, 0, 17 * PAGE, 0);
    bench.submit(IoKind::Commit, 0, 0, 1);
    bench.run_for(1);
    let base_ms = (MIB - 17 * PAGE) as f64 / 60_000.0;
    bench.is_near(1, 25.0 + base_ms + 25.0 + 17.476 + 25.009);
    assert_eq!(bench.requests(), (2, 1));
}

#[test]
fn whole_chunks_go_to_the_bucket_without_a_commit() {
    let bench = Bench::new(BucketSettings::default());
    for index in 0..4 {
        bench.submit(IoKind::Write, index * MIB / 4, MIB / 4, index);
    }
    bench.submit(IoKind::Write, MIB, MIB / 4, 4);
    bench.run_for(1);
    assert_eq!(bench.requests(), (1, 0), "the other one is not whole");
}

#[test]
fn a_stream_is_as_fast_as_the_line_or_as_all_requests() {
    for (round_trip_us, rate) in [(25_000, 200e6), (250_000, 62.7e6)] {
        let bench = Bench::new(BucketSettings {
            round_trip_us,
            ..BucketSettings::default()
        });
        let (chunks, staged) = (400, 32);
        for index in 0..chunks {
            bench.submit(IoKind::Write, index * MIB, MIB, index);
        }
        assert!(bench.bucket.is_congested());
        bench.run_for(60);
        // The last one ends once all others are in the bucket except those that are staged.
        let end_ms = bench.end_ms(chunks - 1).expect("it ends");
        let reached = ((chunks - staged) * MIB) as f64 / end_ms * 1e3;
        assert!((reached / rate - 1.0).abs() < 0.05, "{reached} bytes/s");
        assert!(!bench.bucket.is_congested());
    }
}

#[test]
fn a_read_is_a_get_unless_its_pages_are_staged_or_were_never_written() {
    let bench = Bench::new(BucketSettings::default());
    bench.bucket.lay_out(ObjectId(1), 2 * MIB);
    bench.submit(IoKind::Read, 0, PAGE, 0);
    bench.submit(IoKind::Read, 2 * MIB, PAGE, 1);
    bench.submit(IoKind::Write, MIB, PAGE, 2);
    bench.submit(IoKind::Read, MIB, PAGE, 3);
    bench.is_near(1, 0.0);
    bench.is_near(3, 0.0);
    bench.run_for(1);
    bench.is_near(0, 25.069);
    // A page in memory and one in the bucket.
    bench.submit(IoKind::Read, MIB, 2 * PAGE, 4);
    bench.run_for(1);
    bench.is_near(4, 1_025.069);
    // What was cut off is not read.
    bench.submit(IoKind::SetLength, MIB, 0, 5);
    bench.submit(IoKind::Read, MIB, PAGE, 6);
    bench.is_near(6, 2_000.0);
    assert_eq!(bench.requests(), (0, 2));
}

#[test]
fn a_page_of_a_chunk_that_is_on_its_way_waits() {
    let bench = Bench::new(BucketSettings::default());
    bench.submit(IoKind::Write, 0, MIB, 0);
    bench.submit(IoKind::Write, 0, PAGE, 1);
    assert_eq!(bench.end_ms(1), None);
    bench.run_for(1);
    bench.is_near(1, 25.0 + 17.476);
}

#[test]
fn a_bucket_that_gives_no_answer_goes_on_where_it_was() {
    let bench = Bench::new(BucketSettings::default());
    bench.submit(IoKind::Write, 0, PAGE, 0);
    bench.submit(IoKind::Commit, 0, 0, 1);
    bench.machine.run_for(Span::from_millis(5));
    bench.bucket.set_pace(0);
    bench.run_for(60);
    assert_eq!(bench.end_ms(1), None);
    bench.bucket.set_pace(super::super::FULL_PACE);
    bench.run_for(1);
    bench.is_near(1, 60_025.077);
    let seen = bench.bucket.seen_as_device();
    assert!(
        (seen.writes.await_ms() - 60_025.077).abs() < 0.01,
        "{seen:?}"
    );
}

#[test]
fn a_machine_that_is_dropped_answers_what_is_under_way() {
    struct Failed(Mutex<u32>);
    impl Finish for Failed {
        fn finished(&self, io: FinishedIo) {
            *lock(&self.0) += u32::from(io.result.is_err());
        }
    }
    let bench = Bench::new(BucketSettings::default());
    bench.bucket.lay_out(ObjectId(1), MIB);
    let failed = Arc::new(Failed(Mutex::new(0)));
    for (kind, length_bytes) in [(IoKind::Commit, 0), (IoKind::Read, PAGE)] {
        bench.submit(IoKind::Write, 2 * MIB, PAGE, 0);
        let request = Request {
            kind,
            object: ObjectId(1),
            offset_bytes: 0,
            length_bytes,
        };
        bench.bucket.submit(Io::phantom(request, failed.clone(), 0));
    }
    drop(bench);
    assert_eq!(*lock(&failed.0), 2);
}

#[test]
fn impossible_figures_are_refused() {
    let small = BucketSettings {
        staged_bytes: 3 << 20,
        ..BucketSettings::default()
    };
    let refused = small.check().expect_err("three chunks").to_string();
    assert!(refused.contains("4194304 and more"), "{refused}");
    let odd = BucketSettings {
        chunk_bytes: 5_000,
        ..BucketSettings::default()
    };
    let refused = odd.check().expect_err("no whole pages").to_string();
    assert!(refused.contains("multiples of 4096"), "{refused}");
}
