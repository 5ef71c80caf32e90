use super::*;
use forebay_base::Span;

const KIB: u64 = 1 << 10;

fn elevator(largest_bytes: u64) -> Elevator {
    Elevator::new(ElevatorSettings {
        requests: 128,
        largest_bytes,
        batch: 16,
        sorts: true,
    })
}

fn write(start: u64, length: u64) -> Transfer {
    Transfer::unheard(TransferKind::Write, start, length)
}

fn read(start: u64, length: u64) -> Transfer {
    Transfer::unheard(TransferKind::Read, start, length)
}

fn taken(elevator: &mut Elevator, now: Instant) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| elevator.take(now))
        .map(|queued| (queued.start_bytes, queued.length_bytes))
        .collect()
}

#[test]
fn neighbours_merge_at_back_and_front_up_to_the_largest_request() {
    let mut elevator = elevator(16 * KIB);
    let now = Instant::ZERO;
    for start in [4, 8, 0, 12, 16, 100] {
        elevator.add(write(start * KIB, 4 * KIB), now);
    }
    // Four pieces make a request of 16 KiB; the fifth is too much, the last no neighbour.
    assert_eq!(elevator.merged(TransferKind::Write), 3);
    let requests = taken(&mut elevator, now);
    assert_eq!(
        requests,
        [(0, 16 * KIB), (16 * KIB, 4 * KIB), (100 * KIB, 4 * KIB)]
    );
}

#[test]
fn what_closes_a_gap_makes_one_request_of_two() {
    let mut elevator = elevator(512 * KIB);
    let now = Instant::ZERO;
    for page in [3, 1, 2, 0, 7, 5, 6, 4] {
        elevator.add(write(page * 4 * KIB, 4 * KIB), now);
    }
    assert_eq!(elevator.merged(TransferKind::Write), 7);
    assert_eq!(elevator.sides[WRITES].taken, 1);
    assert_eq!(taken(&mut elevator, now), [(0, 32 * KIB)]);
}

#[test]
fn a_long_transfer_becomes_several_requests() {
    let mut elevator = elevator(512 * KIB);
    elevator.add(write(0, 1280 * KIB), Instant::ZERO);
    let requests = taken(&mut elevator, Instant::ZERO);
    assert_eq!(
        requests,
        [
            (0, 512 * KIB),
            (512 * KIB, 512 * KIB),
            (1024 * KIB, 256 * KIB)
        ]
    );
}

#[test]
fn requests_go_one_way_and_start_again_at_the_lowest() {
    let mut elevator = elevator(512 * KIB);
    let now = Instant::ZERO;
    for start in [50, 10, 90] {
        elevator.add(write(start << 20, 4 * KIB), now);
    }
    assert_eq!(elevator.take(now).map(|it| it.start_bytes >> 20), Some(10));
    elevator.add(write(5 << 20, 4 * KIB), now);
    elevator.add(write(60 << 20, 4 * KIB), now);
    let rest: Vec<u64> = taken(&mut elevator, now)
        .into_iter()
        .map(|(start, _)| start >> 20)
        .collect();
    assert_eq!(rest, [50, 60, 90, 5]);
}

#[test]
fn reads_pass_over_writes_but_not_for_ever() {
    let mut elevator = elevator(4 * KIB);
    let now = Instant::ZERO;
    for index in 0..40 {
        elevator.add(write(index << 20, 4 * KIB), now);
        elevator.add(read((100 + index) << 20, 4 * KIB), now);
    }
    let kinds: Vec<bool> = std::iter::from_fn(|| elevator.take(now))
        .map(|queued| queued.kind == TransferKind::Read)
        .collect();
    // Two batches of reads, one of writes, the other reads, the other writes.
    let runs: Vec<(bool, usize)> = kinds
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len()))
        .collect();
    assert_eq!(runs, [(true, 32), (false, 16), (true, 8), (false, 24)]);
}

#[test]
fn an_overdue_write_has_the_next_batch() {
    let mut elevator = elevator(4 * KIB);
    elevator.add(write(7 << 20, 4 * KIB), Instant::ZERO);
    elevator.add(write(1 << 20, 4 * KIB), Instant::ZERO);
    let late = Instant::ZERO + Span::from_secs(5);
    elevator.add(read(0, 4 * KIB), late);
    let first = elevator.take(late).expect("three wait");
    assert_eq!(
        (first.kind, first.start_bytes),
        (TransferKind::Write, 7 << 20)
    );
}

#[test]
fn congestion_begins_above_113_and_ends_below_103() {
    let mut elevator = elevator(4 * KIB);
    let now = Instant::ZERO;
    for index in 0..113 {
        elevator.add(write(index << 20, 4 * KIB), now);
    }
    assert!(!elevator.is_congested(TransferKind::Write));
    elevator.add(write(113 << 20, 4 * KIB), now);
    assert!(elevator.is_congested(TransferKind::Write));
    assert!(!elevator.is_congested(TransferKind::Read));
    for _ in 0..11 {
        elevator.take(now).expect("many wait");
        elevator.ended(TransferKind::Write, now);
    }
    assert!(elevator.is_congested(TransferKind::Write), "103 are left");
    elevator.ended(TransferKind::Write, now);
    assert!(!elevator.is_congested(TransferKind::Write), "102 are left");
}

#[test]
fn what_finds_no_room_waits_until_congestion_ends() {
    let mut elevator = elevator(4 * KIB);
    let now = Instant::ZERO;
    for index in 0..140 {
        elevator.add(write(index << 20, 4 * KIB), now);
    }
    assert_eq!(elevator.in_flight(), 128);
    assert_eq!(elevator.waiting(TransferKind::Write), 12);
    for _ in 0..25 {
        elevator.take(now).expect("many wait");
        elevator.ended(TransferKind::Write, now);
    }
    assert_eq!(elevator.waiting(TransferKind::Write), 12, "103 are left");
    elevator.take(now).expect("many wait");
    elevator.ended(TransferKind::Write, now);
    assert_eq!(elevator.waiting(TransferKind::Write), 0, "102 were left");
}

#[test]
fn without_sorting_requests_go_as_they_come() {
    let mut elevator = Elevator::new(ElevatorSettings {
        requests: 8,
        largest_bytes: 4 * KIB,
        batch: 16,
        sorts: false,
    });
    for start in [9, 1, 5] {
        elevator.add(write(start << 20, 4 * KIB), Instant::ZERO);
    }
    let order: Vec<u64> = taken(&mut elevator, Instant::ZERO)
        .into_iter()
        .map(|(start, _)| start >> 20)
        .collect();
    assert_eq!(order, [9, 1, 5]);
}
