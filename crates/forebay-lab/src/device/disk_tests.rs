use super::super::drive::{Command, Drive};
use super::super::testing::{Bench, is_near};
use super::super::{DeviceSettings, TransferKind};
use super::{Disk, MediumWork};
use forebay_base::{Instant, Prng, Span};

const MIB: u64 = 1 << 20;

fn mb_per_s(bytes: u64, span: Span) -> f64 {
    bytes as f64 / span.as_secs_f64() / 1e6
}

#[test]
fn the_mean_seek_over_random_pairs_is_the_published_one() {
    let Some(DeviceSettings::Disk(disk)) = DeviceSettings::named("HDD-A") else {
        panic!("HDD-A is a disk");
    };
    let mut chance = Prng::from_seed(1);
    let pairs = 20_000;
    let sum: f64 = (0..pairs)
        .map(|_| {
            let from = chance.below(disk.capacity_bytes);
            let to = chance.below(disk.capacity_bytes);
            disk.seek_span(from.abs_diff(to)).as_secs_f64() * 1e3
        })
        .sum();
    let mean_ms = sum / f64::from(pairs);
    assert!(is_near(mean_ms, 8.5, 1.0), "{mean_ms} ms");
}

#[test]
fn sequential_writes_run_at_the_rate_of_the_medium() {
    let bench = Bench::named("HDD-A");
    let bytes = 256 * MIB;
    for start in (0..bytes).step_by(MIB as usize) {
        bench.submit(TransferKind::Write, start, MIB);
    }
    bench.finish();
    let busy = bench.device.statistics().busy;
    // All except what was still in the cache when the last write ended.
    assert!(
        is_near(mb_per_s(bytes - 16 * MIB, busy), 75.0, 2.0),
        "{busy}"
    );
    assert_eq!(bench.device.statistics().seeks, 1);
}

#[test]
fn a_short_gap_ahead_passes_under_the_head() {
    let bench = Bench::named("HDD-A");
    // Every other quarter of a MiB: half of the rate, and no turn for each of them.
    let bytes = 256 * MIB;
    for start in (0..bytes).step_by(MIB as usize / 2) {
        bench.submit(TransferKind::Write, start, MIB / 4);
    }
    bench.finish();
    let rate = mb_per_s(bytes / 2, bench.device.statistics().busy);
    assert!((33.0..43.0).contains(&rate), "{rate} MB/s");
}

/// A page far ahead of a stream does not wait until the stream has come there.
#[test]
fn what_came_during_a_sweep_waits_for_the_next() {
    let Some(DeviceSettings::Disk(settings)) = DeviceSettings::named("HDD-A") else {
        panic!("HDD-A is a disk");
    };
    let mut disk = Disk::new(settings, Prng::from_seed(1));
    let far = 4_096 * MIB;
    let mut drained = Vec::new();
    // The first begins a sweep of its own; the next two are the second sweep, in which the
    // stream goes on before it is over.
    for (tag, start) in [(0, 0), (1, far), (2, MIB), (3, 2 * MIB)] {
        let command = Command {
            tag,
            kind: TransferKind::Write,
            start_bytes: start,
            length_bytes: MIB,
        };
        if tag == 3 {
            drained.push(next_drained(&mut disk));
        }
        disk.accept(command, Instant::ZERO);
    }
    drained.extend((0..3).map(|_| next_drained(&mut disk)));
    assert_eq!(drained, [0, MIB, far, 2 * MIB]);
}

/// Where the write starts that the medium is doing; it has finished that write afterwards.
fn next_drained(disk: &mut Disk) -> u64 {
    let doing = disk.doing.expect("the medium is busy");
    let MediumWork::Drain(command) = doing.work else {
        panic!("it drains the cache, not {doing:?}");
    };
    disk.advance(doing.until, &mut Vec::new());
    command.start_bytes
}

#[test]
fn a_random_read_alone_takes_overhead_seek_half_a_turn_and_transfer() {
    let bench = Bench::named("HDD-A");
    // A quarter of the stroke: 0.8 + 14.4 / 2 = 8.0 ms; half a turn is 60/7200/2 s = 4.167 ms;
    // 4096 bytes at 75 MB/s are 0.055 ms; the overhead is 0.3 ms.
    let quarter = (250_u64 << 30) / 4;
    let span = bench.one_by_one(&[(TransferKind::Read, quarter, 4096)]);
    let ms = span.as_secs_f64() * 1e3;
    assert!((ms - 12.521).abs() < 0.002, "{ms} ms");
}

#[test]
fn random_reads_one_by_one_are_77_a_second() {
    let bench = Bench::named("HDD-A");
    let mut chance = Prng::from_seed(2);
    let page = || (TransferKind::Read, chance.below(250 << 18) << 12, 4096);
    let reads: Vec<_> = std::iter::repeat_with(page).take(2_000).collect();
    let span = bench.one_by_one(&reads);
    // 0.3 + 8.5 + 4.167 + 0.055 = 13.02 ms.
    let each_ms = span.as_secs_f64() * 1e3 / 2_000.0;
    assert!(is_near(each_ms, 13.02, 1.5), "{each_ms} ms");
}

#[test]
fn a_page_away_from_the_stream_costs_8_to_14_ms() {
    let stream = |away: &[u64]| {
        let bench = Bench::named("HDD-A");
        for start in (0..128 * MIB).step_by(MIB as usize) {
            bench.submit(TransferKind::Write, start, MIB);
        }
        for &start in away {
            bench.submit(TransferKind::Write, start, 4096);
        }
        while bench.order().len() < 128 + away.len() {
            bench.machine.run_for(Span::from_millis(1));
        }
        bench.one_by_one(&[(TransferKind::Flush, 0, 0)]);
        bench.machine.now() - Instant::ZERO
    };
    let away: Vec<u64> = (1..=8).map(|index| index * (20 << 30)).collect();
    let extra_ms = stream(&away).saturating_sub(stream(&[])).as_secs_f64() * 1e3 / 8.0;
    assert!((6.0..14.0).contains(&extra_ms), "{extra_ms} ms");
}

#[test]
fn a_lone_write_ends_in_the_cache_and_a_flush_waits_for_the_medium() {
    let bench = Bench::named("HDD-A");
    let span = bench.one_by_one(&[(TransferKind::Write, 0, 4096)]);
    assert_eq!(span, Span::from_micros(300));
    let span = bench.one_by_one(&[(TransferKind::Flush, 0, 0)]);
    // The arm is on it since the start: 0.8 + 1.0 + 4.167 + 0.055 - 0.3 ms, then 8 ms.
    let ms = span.as_secs_f64() * 1e3;
    assert!((ms - 13.721).abs() < 0.002, "{ms} ms");
}

#[test]
fn writes_beyond_the_cache_wait_for_the_medium() {
    let bench = Bench::named("HDD-A");
    for start in (0..32 * MIB).step_by(MIB as usize) {
        bench.submit(TransferKind::Write, start, MIB);
    }
    let span = bench.finish();
    // 16 MiB have to leave before the last one enters: 16 MiB at 75 MB/s are 0.224 s.
    assert!(is_near(span.as_secs_f64(), 0.224, 5.0), "{span}");
}

#[test]
fn reads_go_before_what_the_cache_has() {
    let bench = Bench::named("HDD-A");
    for index in 0..30 {
        bench.submit(TransferKind::Write, index * (1 << 30), 4096);
    }
    bench.machine.run_for(Span::from_millis(10));
    let span = bench.one_by_one(&[(TransferKind::Read, 5 << 30, 4096)]);
    // One write is under way at most; then the read has its turn.
    assert!(span < Span::from_millis(20), "{span}");
}

#[test]
fn an_array_of_four_is_four_times_as_fast() {
    let bench = Bench::named("RAID0-4");
    let bytes = 1024 * MIB;
    for start in (0..bytes).step_by(MIB as usize) {
        bench.submit(TransferKind::Write, start, MIB);
    }
    bench.finish();
    let totals = bench.device.statistics();
    let rate = mb_per_s(bytes - 64 * MIB, totals.busy);
    assert!(is_near(rate, 300.0, 2.0), "{rate} MB/s");
    // Each member's chunks follow one another, so they merge up to the largest request.
    assert_eq!(totals.writes.bytes / totals.writes.requests, 512 << 10);
    assert_eq!(totals.seeks, 4);
}

#[test]
fn the_rate_falls_from_the_outer_edge_to_the_inner() {
    let Some(DeviceSettings::Disk(mut disk)) = DeviceSettings::named("HDD-B") else {
        panic!("HDD-B is a disk");
    };
    assert_eq!(disk.rate_at(disk.capacity_bytes / 3), 130_000_000);
    disk.rate_slope_percent = 25;
    assert_eq!(disk.rate_at(0), 162_500_000);
    assert_eq!(disk.rate_at(disk.capacity_bytes / 2), 130_000_000);
    assert_eq!(disk.rate_at(disk.capacity_bytes), 97_500_000);
}

#[test]
fn drawn_rotations_have_the_mean_of_half_a_turn() {
    let Some(DeviceSettings::Disk(mut disk)) = DeviceSettings::named("HDD-A") else {
        panic!("HDD-A is a disk");
    };
    disk.rotation_is_drawn = true;
    let bench = Bench::of(&DeviceSettings::Disk(disk));
    let reads: Vec<_> = (0..4_000)
        .map(|index| (TransferKind::Read, (index % 2) * (1 << 20), 4096))
        .collect();
    let each_ms = bench.one_by_one(&reads).as_secs_f64() * 1e3 / 4_000.0;
    // The seek over a MiB is 0.8 + 14.4 x sqrt(1 / 256000) = 0.828 ms.
    assert!(
        is_near(each_ms, 0.3 + 0.828 + 4.167 + 0.055, 2.0),
        "{each_ms}"
    );
}
