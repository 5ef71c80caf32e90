use super::*;
use crate::device::testing::Heard;
use forebay_rt::{Virtual, VirtualSettings};
use forebay_store::Request;

const MIB: u64 = 1 << 20;

struct Bench {
    machine: Virtual,
    server: Server,
    heard: Arc<Heard>,
}

impl Bench {
    fn new(settings: ServerSettings) -> Bench {
        let machine = Virtual::new(VirtualSettings::default());
        let rt = machine.rt();
        Bench {
            server: Server::new(rt.clone(), settings),
            heard: Heard::new(rt),
            machine,
        }
    }

    fn submit(&self, kind: IoKind, object: u64, bytes: u64, token: u64) {
        let request = Request {
            kind,
            object: ObjectId(object),
            offset_bytes: 0,
            length_bytes: bytes,
        };
        self.server
            .submit(Io::phantom(request, self.heard.clone(), token));
    }

    /// When the request with `token` ended, in milliseconds.
    fn end_ms(&self, token: u64) -> f64 {
        self.heard.end_ms(token).expect("it has ended")
    }

    fn unstable_bytes(&self) -> u64 {
        lock(&self.server.shared.state).unstable_bytes
    }

    fn ended(&self) -> usize {
        self.heard.ended()
    }
}

#[test]
fn a_write_takes_the_round_trip_and_its_bytes() {
    let bench = Bench::new(ServerSettings::default());
    bench.submit(IoKind::Write, 1, MIB, 0);
    bench.machine.run_for(Span::from_secs(1));
    // 0.2 ms and 1048576 bytes at 117 MB/s, 8.962 ms.
    assert!(
        (bench.end_ms(0) - 9.162).abs() < 0.001,
        "{}",
        bench.end_ms(0)
    );
    assert_eq!(bench.unstable_bytes(), MIB);
}

#[test]
fn a_commit_writes_its_file_alone_and_in_order() {
    let bench = Bench::new(ServerSettings::default());
    for index in 0..30 {
        bench.submit(IoKind::Write, index % 3, MIB, index);
    }
    bench.machine.run_for(Span::from_secs(1));
    let began_ms = 1_000.0;
    bench.submit(IoKind::Commit, 0, 0, 100);
    bench.submit(IoKind::Commit, 1, 0, 101);
    bench.machine.run_for(Span::from_secs(10));
    // 10 MiB at 90 MB/s are 116.51 ms, the sync is 20 ms, the round trip 0.2 ms.
    let one_ms = 116.51 + 20.0;
    let first = bench.end_ms(100) - began_ms;
    let second = bench.end_ms(101) - began_ms;
    assert!((first - one_ms - 0.2).abs() < 0.1, "{first} ms");
    assert!((second - 2.0 * one_ms - 0.2).abs() < 0.1, "{second} ms");
    assert_eq!(bench.unstable_bytes(), 10 * MIB);
}

#[test]
fn the_server_flushes_by_itself_down_to_its_mark() {
    let bench = Bench::new(ServerSettings::default());
    for index in 0..300 {
        bench.submit(IoKind::Write, 1, MIB, index);
    }
    bench.machine.run_for(Span::from_secs(60));
    let left = bench.unstable_bytes();
    assert!(left <= 100 * MIB && left > 92 * MIB, "{left}");
}

#[test]
fn a_full_memory_lets_writes_wait_for_the_disk() {
    let bench = Bench::new(ServerSettings {
        memory_bytes: 64 * MIB,
        flush_above_bytes: 32 * MIB,
        ..ServerSettings::default()
    });
    for index in 0..1_000 {
        bench.submit(IoKind::Write, 1, MIB, index);
    }
    bench.machine.run_for(Span::from_secs(1_000));
    assert_eq!(bench.ended(), 1_000);
    // In the long run what comes in is what goes to the disk: 80 % of 90 MB/s.
    let rate = 936.0 * MIB as f64 / (bench.end_ms(999) / 1e3) / 1e6;
    assert!((70.0..74.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn a_read_goes_to_the_disk_and_comes_back_over_the_network() {
    let bench = Bench::new(ServerSettings::default());
    bench.submit(IoKind::Read, 1, MIB, 0);
    bench.machine.run_for(Span::from_secs(1));
    // 12.67 ms, 11.651 ms of disk, 8.962 ms of network, 0.2 ms.
    assert!(
        (bench.end_ms(0) - 33.483).abs() < 0.002,
        "{}",
        bench.end_ms(0)
    );
}

#[test]
fn congestion_is_what_is_under_way() {
    let bench = Bench::new(ServerSettings {
        under_way_bytes: 8 * MIB,
        ..ServerSettings::default()
    });
    assert_eq!(bench.server.geometry().queue_depth, 8);
    for index in 0..9 {
        bench.submit(IoKind::Write, 1, MIB, index);
    }
    assert!(bench.server.is_congested());
    bench.machine.run_for(Span::from_secs(1));
    assert!(!bench.server.is_congested());
    assert_eq!(bench.ended(), 9);
}

#[test]
fn a_server_that_gives_no_answer_goes_on_where_it_was() {
    let bench = Bench::new(ServerSettings::default());
    bench.submit(IoKind::Write, 1, MIB, 0);
    bench.machine.run_for(Span::from_millis(5));
    bench.server.set_pace(0);
    bench.machine.run_for(Span::from_secs(60));
    assert_eq!(bench.ended(), 0);
    bench.server.set_pace(super::super::FULL_PACE / 2);
    bench.machine.run_for(Span::from_secs(1));
    // 5 ms were over; the other 4.162 ms take twice as long.
    let end_ms = bench.end_ms(0);
    assert!((end_ms - 60_005.0 - 8.324).abs() < 0.002, "{end_ms}");
}

#[test]
fn a_server_is_busy_and_has_a_rate_like_a_device() {
    let bench = Bench::new(ServerSettings::default());
    bench.submit(IoKind::Write, 1, MIB, 1);
    bench.submit(IoKind::Read, 1, MIB, 2);
    let rt = bench.machine.rt();
    bench
        .machine
        .run(async move { rt.sleep(Span::from_secs(1)).await });
    assert_eq!(bench.ended(), 2);
    let seen = bench.server.seen_as_device();
    assert_eq!((seen.writes.bytes, seen.reads.bytes), (MIB, MIB));
    assert!(
        (seen.bytes_per_s() - 2.0 * MIB as f64).abs() < 1.0,
        "{seen:?}"
    );
    assert!((1.0..50.0).contains(&seen.utilised_percent()), "{seen:?}");
    assert!(
        seen.mean_queued() > 0.01 && seen.reads.await_ms() > 1.0,
        "{seen:?}"
    );
}

#[test]
fn a_slow_server_keeps_its_client_waiting_as_long_as_the_client_sees() {
    let await_ms = |thousandths, stall: Span| {
        let bench = Bench::new(ServerSettings::default());
        bench.server.set_pace(thousandths);
        bench.submit(IoKind::Write, 1, MIB, 0);
        bench.machine.run_for(Span::from_millis(1));
        bench
            .server
            .set_pace(if stall > Span::ZERO { 0 } else { thousandths });
        bench.machine.run_for(stall);
        bench.server.set_pace(thousandths);
        bench.machine.run_for(Span::from_secs(2));
        assert_eq!(bench.ended(), 1);
        bench.server.seen_as_device().writes.await_ms()
    };
    let full = await_ms(super::super::FULL_PACE, Span::ZERO);
    let tenth = await_ms(super::super::FULL_PACE / 10, Span::ZERO);
    assert!((tenth - 10.0 * full).abs() < 0.01, "{tenth} and {full}");
    let stalled = await_ms(super::super::FULL_PACE, Span::from_secs(5));
    assert!((stalled - full - 5_000.0).abs() < 0.01, "{stalled}");
}
