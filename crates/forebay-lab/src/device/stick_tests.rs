use super::super::testing::{Bench, is_near};
use super::super::{DeviceSettings, TransferKind};
use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn settings(name: &str) -> StickSettings {
    match DeviceSettings::named(name) {
        Some(DeviceSettings::Stick(stick)) => stick,
        other => panic!("{name} is {other:?}"),
    }
}

fn span_of_writes(stick: &mut Stick, writes: impl IntoIterator<Item = (u64, u64)>) -> Span {
    let mut sum = Span::ZERO;
    for (start_bytes, length_bytes) in writes {
        sum += stick.write(&Command {
            tag: 0,
            kind: TransferKind::Write,
            start_bytes,
            length_bytes,
        });
    }
    sum
}

#[test]
fn the_published_table_of_three_open_units_on_a_card_that_supports_two() {
    let card = StickSettings {
        program_bytes_per_s: (8.8 * MIB as f64) as u64,
        copy_bytes_per_s: 19 * MIB,
        open_units: 2,
        ..settings("USB-slow")
    };
    // Block in KiB, and MiB/s; the model may differ by a tenth.
    for (block_kib, published) in [
        (4096, 7.75),
        (2048, 5.03),
        (1024, 3.24),
        (512, 1.76),
        (256, 0.912),
    ] {
        let mut stick = Stick::new(card.clone());
        let block = block_kib * KIB;
        let rounds = 4 * MIB / block;
        // Three units that are no neighbours, a block of each in turn; then the next three.
        let mut span = Span::ZERO;
        for first in (0..40).map(|triple| triple * 30) {
            let writes = (0..rounds).flat_map(|round| {
                [0, 10, 20].map(|unit| ((first + unit) * 4 * MIB + round * block, block))
            });
            span += span_of_writes(&mut stick, writes);
        }
        let rate = 40.0 * 12.0 / span.as_secs_f64();
        assert!(
            is_near(rate, published, 10.0),
            "{block_kib} KiB: {rate} MiB/s"
        );
    }
}

#[test]
fn one_writer_has_the_program_rate() {
    for (name, mb_per_s) in [("USB-slow", 6.2), ("USB-fast", 19.5)] {
        let bench = Bench::named(name);
        for start in (0..64 * MIB).step_by(MIB as usize) {
            bench.submit(TransferKind::Write, start, MIB);
        }
        let rate = 64.0 * MIB as f64 / bench.finish().as_secs_f64() / 1e6;
        assert!(is_near(rate, mb_per_s, 2.0), "{name}: {rate} MB/s");
        assert!(bench.device.statistics().unit_changes <= 1);
    }
}

#[test]
fn ten_writers_on_a_slow_stick_have_2_5_to_3_mb_a_second() {
    let mut stick = Stick::new(settings("USB-slow"));
    // Ten files of 64 MiB, neighbours that start in the middle of a unit, 2 MiB of each in turn.
    let writes = (0..16).flat_map(|round| {
        (0..10).flat_map(move |file| {
            let start = MIB + file * 64 * MIB + round * 2 * MIB;
            (0..16).map(move |piece| (start + piece * 128 * KIB, 128 * KIB))
        })
    });
    let span = span_of_writes(&mut stick, writes);
    let rate = 320.0 * MIB as f64 / span.as_secs_f64() / 1e6;
    assert!((2.3..3.2).contains(&rate), "{rate} MB/s");
}

#[test]
fn a_page_next_to_the_pointer_costs_its_flash_page_and_one_elsewhere_a_unit() {
    let mut stick = Stick::new(settings("USB-fast"));
    span_of_writes(&mut stick, [(0, MIB)]);
    let next = span_of_writes(&mut stick, [(MIB, 4 * KIB)]);
    // 16 KiB at 19.5 MB/s.
    assert_eq!(next.as_micros(), 840);
    let same_flash_page = span_of_writes(&mut stick, [(MIB + 4 * KIB, 12 * KIB)]);
    assert_eq!(same_flash_page, Span::ZERO);
    // Three more units fit beside the first; from then on each change closes one.
    span_of_writes(&mut stick, (1..4).map(|unit| (unit * 40 * MIB, 4 * KIB)));
    let elsewhere = span_of_writes(&mut stick, [(400 * MIB, 4 * KIB)]);
    // 40 ms, the page, and the rest of the first unit, 3 MiB less 16 KiB, at 42.9 MB/s.
    let expected_ms = 40.0 + 0.84 + (3.0 * MIB as f64 - 16_384.0) / 42_900.0;
    let ms = elsewhere.as_secs_f64() * 1e3;
    assert!(is_near(ms, expected_ms, 0.1), "{ms} ms, not {expected_ms}");
}

#[test]
fn writing_backwards_closes_the_unit() {
    let mut stick = Stick::new(settings("USB-slow"));
    span_of_writes(&mut stick, [(0, MIB)]);
    assert_eq!(stick.counts().unit_changes, 0);
    let again = span_of_writes(&mut stick, [(0, 16 * KIB)]);
    assert_eq!(stick.counts().unit_changes, 1);
    assert_eq!(stick.counts().copied_bytes, 3 * MIB);
    assert!(again > Span::from_millis(40 + 220), "{again}");
}

#[test]
fn a_gap_in_an_open_unit_is_copied() {
    let mut stick = Stick::new(settings("USB-slow"));
    span_of_writes(&mut stick, [(0, MIB), (2 * MIB, 2 * MIB)]);
    assert_eq!(stick.counts().copied_bytes, MIB);
    assert_eq!(stick.counts().unit_changes, 0);
    assert!(stick.open.is_empty(), "the unit is full");
}

#[test]
fn reads_have_their_latency_and_rate() {
    let bench = Bench::named("USB-slow");
    let span = bench.one_by_one(&[(TransferKind::Read, 0, 120 * KIB)]);
    // 0.7 ms and 122880 bytes at 15 MB/s.
    assert_eq!(span.as_micros(), 700 + 8_192);
}
