use super::super::testing::{Bench, is_near};
use super::super::{
    DeviceSettings, FULL_PACE, Partition, QueueSettings, RatedSettings, TransferKind,
};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Instant, Prng, Span};
use forebay_store::{Finish, FinishedIo, Io, IoKind, ObjectId, Rate, Request, Store};

const MIB: u64 = 1 << 20;

fn rated(bytes_per_s: u64, burst_bytes: u64) -> DeviceSettings {
    DeviceSettings::Rated(RatedSettings {
        bytes_per_s,
        burst_bytes,
        ..RatedSettings::default()
    })
}

#[test]
fn a_rated_device_passes_bytes_at_its_rate() {
    let bench = Bench::of(&rated(1 << 20, 0));
    for index in 0..10 {
        bench.submit(TransferKind::Write, index * MIB, MIB);
    }
    assert_eq!(bench.finish(), Span::from_secs(10));
    let totals = bench.device.statistics();
    assert_eq!(totals.writes.requests, 10);
    // 1 + 2 + ... + 10 seconds over ten requests.
    assert!(is_near(totals.await_ms(), 5_500.0, 0.001));
    assert_eq!(totals.busy, Span::from_secs(10));
    assert_eq!(totals.queued_ns, 55_000_000_000);
}

#[test]
fn operations_a_second_hold_for_small_requests() {
    let bench = Bench::of(&DeviceSettings::Rated(RatedSettings {
        operations_per_s: 100,
        ..RatedSettings::default()
    }));
    for index in 0..50 {
        bench.submit(TransferKind::Read, index * 2 * MIB, 4096);
    }
    assert_eq!(bench.finish(), Span::from_millis(500));
}

#[test]
fn a_rate_that_changes_takes_effect_on_what_is_passing() {
    let bench = Bench::of(&rated(1 << 20, 0));
    for index in 0..4 {
        bench.submit(TransferKind::Write, index * MIB, MIB);
    }
    bench.machine.run_for(Span::from_millis(1_500));
    // Half of the second has passed; the other half takes a second at half the rate.
    assert!(bench.device.set_rate(Rate::bytes(1 << 19)));
    bench.machine.run_for(Span::from_millis(1_000));
    assert_eq!(lock(&bench.ends).len(), 2);
    assert!(bench.device.set_rate(Rate::bytes(0)));
    bench.machine.run_for(Span::from_secs(100));
    assert_eq!(lock(&bench.ends).len(), 2, "it stands still");
    assert!(bench.device.set_rate(Rate::bytes(1 << 20)));
    let ended = bench.finish();
    assert!(is_near(ended.as_secs_f64(), 104.5, 0.001), "{ended}");
}

#[test]
fn a_burst_passes_at_once_after_an_idle_time() {
    let bench = Bench::of(&rated(1 << 20, 4 * MIB));
    bench.machine.run_for(Span::from_secs(60));
    for index in 0..6 {
        bench.submit(TransferKind::Write, index * MIB, MIB);
    }
    assert_eq!(bench.finish(), Span::from_secs(62));
    let at_once = Instant::ZERO + Span::from_secs(60);
    let early = lock(&bench.ends)
        .iter()
        .filter(|(_, at)| *at == at_once)
        .count();
    assert_eq!(early, 4);
}

#[test]
fn a_rated_drive_with_a_depth_lets_reads_pass_the_writes_that_wait() {
    let read_ends_after = |depth| {
        let bench = Bench::of(&DeviceSettings::Rated(RatedSettings {
            bytes_per_s: 1 << 20,
            depth,
            queue: QueueSettings {
                batch: 1,
                ..RatedSettings::default().queue
            },
            ..RatedSettings::default()
        }));
        for index in 0..10 {
            bench.submit(TransferKind::Write, index * MIB, MIB);
        }
        bench.machine.run_for(Span::from_millis(500));
        bench.submit(TransferKind::Read, 100 * MIB, MIB);
        bench.finish();
        let ends = lock(&bench.ends);
        ends.iter()
            .find(|(start, _)| *start == 100 * MIB)
            .map(|(_, at)| *at)
    };
    let at = |seconds| Some(Instant::ZERO + Span::from_secs(seconds));
    assert_eq!(read_ends_after(None), at(11), "the drive has them all");
    assert_eq!(read_ends_after(Some(1)), at(2), "one write is passing");
    assert_eq!(read_ends_after(Some(4)), at(5), "four are");
}

#[test]
fn a_device_that_stalls_goes_on_where_it_was() {
    let bench = Bench::named("SSD-SATA");
    bench.submit(TransferKind::Read, 0, 512 << 10);
    bench.machine.run_for(Span::from_micros(500));
    bench.device.set_pace(0);
    bench.submit(TransferKind::Read, MIB, 512 << 10);
    bench.machine.run_for(Span::from_secs(60));
    assert!(lock(&bench.ends).is_empty());
    bench.device.set_pace(FULL_PACE);
    let stalled = bench.finish().saturating_sub(Span::from_secs(60));
    let bench = Bench::named("SSD-SATA");
    bench.submit(TransferKind::Read, 0, 512 << 10);
    bench.machine.run_for(Span::from_micros(500));
    bench.submit(TransferKind::Read, MIB, 512 << 10);
    assert_eq!(stalled, bench.finish());
}

#[test]
fn half_a_pace_takes_twice_as_long() {
    let span = |thousandths| {
        let bench = Bench::named("HDD-D");
        bench.device.set_pace(thousandths);
        let reads: Vec<_> = (0..100)
            .map(|index| (TransferKind::Read, index * (1 << 30), 4096))
            .collect();
        bench.one_by_one(&reads).as_nanos()
    };
    assert!(span(FULL_PACE / 2).abs_diff(2 * span(FULL_PACE)) <= 200);
}

#[test]
fn solid_state_drives_have_their_published_figures() {
    for (name, kind, latency_us, per_s, rate) in [
        ("SSD-SATA", TransferKind::Read, 70, 80_000.0, 500e6),
        ("SSD-SATA", TransferKind::Write, 40, 70_000.0, 450e6),
        ("SSD-NVMe", TransferKind::Read, 80, 500_000.0, 3e9),
        ("SSD-NVMe", TransferKind::Write, 20, 300_000.0, 2e9),
    ] {
        let bench = Bench::named(name);
        let small: Vec<_> = (0..100).map(|index| (kind, index * MIB, 4096)).collect();
        let each_us = bench.one_by_one(&small).as_secs_f64() * 1e4;
        // A small one's bytes may take longer than its turn.
        let bytes_us = 4096.0 / rate * 1e6;
        assert!(
            each_us >= f64::from(latency_us) - 0.1,
            "{name}: {each_us} us"
        );
        assert!(
            each_us < f64::from(latency_us) + bytes_us,
            "{name}: {each_us} us"
        );

        let bench = Bench::named(name);
        for index in 0..2_000 {
            bench.submit(kind, index * MIB, 512);
        }
        let reached = 2_000.0 / bench.finish().as_secs_f64();
        assert!(is_near(reached, per_s, 3.0), "{name}: {reached} a second");

        let bench = Bench::named(name);
        for index in 0..256 {
            bench.submit(kind, index * MIB, MIB);
        }
        let reached = 256.0 * MIB as f64 / bench.finish().as_secs_f64();
        assert!(is_near(reached, rate, 2.0), "{name}: {reached} bytes/s");
    }
}

#[test]
fn what_is_submitted_in_one_go_is_merged_and_sorted_before_the_drive_sees_it() {
    let bench = Bench::named("USB-fast");
    for page in [3, 1, 2, 0, 7, 5, 6, 4] {
        bench.submit(TransferKind::Write, page * 4096, 4096);
    }
    bench.finish();
    let totals = bench.device.statistics();
    assert_eq!((totals.writes.requests, totals.writes.merged), (1, 7));
    assert_eq!(totals.seeks, 1);
}

#[test]
fn the_congestion_mark_goes_on_and_off() {
    let bench = Bench::named("HDD-A");
    for index in 0..140 {
        bench.submit(TransferKind::Write, index * (1 << 30), 512 << 10);
    }
    assert!(bench.device.is_congested(TransferKind::Write));
    bench.finish();
    assert!(!bench.device.is_congested(TransferKind::Write));

    let bench = Bench::named("HDD-B-5");
    for index in 0..140 {
        bench.submit(TransferKind::Write, index * (1 << 30), 512 << 10);
    }
    assert!(!bench.device.is_congested(TransferKind::Write));
}

#[test]
fn every_transfer_ends_exactly_once() {
    for (seed, name) in ["HDD-A", "USB-slow", "SSD-SATA", "SSD-NVMe", "RAID0-4"]
        .into_iter()
        .enumerate()
    {
        for round in 0..4 {
            let bench = Bench::named(name);
            let mut chance = Prng::from_seed(seed as u64 * 100 + round);
            let mut submitted = Vec::new();
            for index in 0..600 {
                let kind = match chance.below(20) {
                    0 => TransferKind::Flush,
                    1..10 => TransferKind::Read,
                    _ => TransferKind::Write,
                };
                // Their starts tell them apart; a flush has no range.
                let start = (chance.below(1 << 10) << 16) + index * (64 << 20);
                let start = if chance.chance(1, 2) {
                    start
                } else {
                    index << 12
                };
                let length = (1 + chance.below(400)) << 12;
                bench.submit(kind, start, length);
                submitted.push(start);
                if chance.chance(1, 10) {
                    let pause = Span::from_micros(chance.below(20_000));
                    bench.machine.run_for(pause);
                }
                if chance.chance(1, 50) {
                    bench.device.set_pace(chance.below(2_000) as u32);
                }
            }
            bench.device.set_pace(FULL_PACE);
            bench.finish();
            let mut ended = bench.order();
            ended.sort_unstable();
            submitted.sort_unstable();
            assert_eq!(ended, submitted, "{name}, round {round}");
            assert_eq!(bench.machine.tasks(), [], "{name}: it has gone to rest");
        }
    }
}

fn commit(finish: Arc<dyn Finish>) -> Io {
    let request = Request {
        kind: IoKind::Commit,
        object: ObjectId(0),
        offset_bytes: 0,
        length_bytes: 0,
    };
    Io::new(request, Vec::new(), finish, 0)
}

#[test]
fn a_machine_that_is_dropped_answers_what_is_under_way() {
    struct Heard(Mutex<Vec<bool>>);
    impl Finish for Heard {
        fn finished(&self, io: FinishedIo) {
            lock(&self.0).push(io.result.is_ok());
        }
    }

    let heard = Arc::new(Heard(Mutex::default()));
    let bench = Bench::named("HDD-A");
    let store = Partition::new(Arc::clone(&bench.device), 0, 1 << 30);
    store.submit(commit(heard.clone()));
    drop(store);
    drop(bench);
    assert_eq!(*lock(&heard.0), [false]);
}

/// A waiter of a device holds the device, as a cache holds its stores.
#[test]
fn what_is_under_way_does_not_keep_a_device_whose_machine_is_gone() {
    struct Waits {
        _store: Arc<Partition>,
    }
    impl Finish for Waits {
        fn finished(&self, io: FinishedIo) {
            assert!(io.result.is_err(), "its machine is gone");
        }
    }

    let bench = Bench::named("HDD-A");
    let store = Arc::new(Partition::new(Arc::clone(&bench.device), 0, 1 << 30));
    let waits = Arc::new(Waits {
        _store: Arc::clone(&store),
    });
    let gone = Arc::downgrade(&waits);
    for _ in 0..300 {
        store.submit(commit(waits.clone()));
    }
    drop((store, waits, bench));
    assert!(gone.upgrade().is_none());
}
