use super::*;
use crate::event::{CallKind, CauseTimes};

const ROOM: Room = Room {
    rows: 32,
    stalls: 128,
};

fn call(number: u32, took_ms: u64) -> WaitedCall {
    WaitedCall {
        caller: CallerKey::handle(number),
        bdi: Some(0),
        kind: CallKind::Write,
        offset_bytes: 0,
        bytes: 4096,
        began: Instant::ZERO,
        took: Span::from_millis(took_ms),
        causes: CauseTimes::default(),
        pause: None,
    }
}

fn note(ledger: &Ledger, number: u32, us: u64, now: Instant) {
    let spans = [(Cause::OwnRate, Span::from_micros(us))];
    let threshold = Span::from_millis(10);
    ledger.note(&call(number, us / 1_000), spans.into_iter(), threshold, now);
}

fn at_secs(secs: u64) -> Instant {
    Instant::ZERO + Span::from_secs(secs)
}

fn us_of(ledger: &Ledger, now: Instant, minutes: Option<usize>) -> u64 {
    let sums = ledger.sums(minutes.map(|minutes| Window::minutes(now, minutes)));
    sums.iter().map(|(_, sums)| sums.us).sum()
}

#[test]
fn invariant_wl1_what_has_no_row_is_in_the_sum() {
    let ledger = Ledger::with_room(ROOM);
    for number in 0..100 {
        note(&ledger, number, 7, Instant::ZERO);
    }
    let sums = ledger.sums(None);
    assert_eq!(sums.len(), ROOM.rows + 1);
    assert_eq!(us_of(&ledger, Instant::ZERO, None), 700);
    let others = sums.last().expect("there are rows");
    assert_eq!(others.0.caller, CallerKey::OTHERS);
    assert_eq!(others.1.calls, 100 - ROOM.rows as u64);
}

#[test]
fn invariant_wl1_a_full_ledger_goes_on_with_those_that_wait_now() {
    let ledger = Ledger::with_room(ROOM);
    let callers = 100 * ROOM.rows as u64;
    for number in 0..callers {
        note(&ledger, number as u32, 7, at_secs(number * 20));
        assert_eq!(us_of(&ledger, at_secs(number * 20), None), 7 * (number + 1));
    }
    let now = at_secs((callers - 1) * 20);
    let rows = ledger.sums(Some(Window::minutes(now, 2)));
    let newest = CallerKey::handle(callers as u32 - 1);
    assert!(rows.iter().any(|(key, _)| key.caller == newest), "{rows:?}");
}

#[test]
fn windows_show_what_made_room_for_others() {
    let ledger = Ledger::with_room(ROOM);
    let (first, second, third) = (at_secs(30), at_secs(90), at_secs(150));
    note(&ledger, 0, 1 << 20, first);
    for number in 1..=2 * ROOM.rows as u32 {
        note(&ledger, number, 1, second);
    }
    note(&ledger, 0, 1 << 10, third);
    let rows = ROOM.rows as u64;
    assert_eq!(us_of(&ledger, third, Some(1)), 1 << 10);
    assert_eq!(us_of(&ledger, third, Some(2)), (1 << 10) + 2 * rows);
    assert_eq!(
        us_of(&ledger, third, Some(3)),
        (1 << 20) + (1 << 10) + 2 * rows
    );
    let sums = ledger.sums(Some(Window::minutes(third, 2)));
    let others = sums.last().expect("there are rows");
    assert_eq!(others.0.caller, CallerKey::OTHERS);
    assert_eq!(others.1.calls, rows + 1);
}

#[test]
fn of_rows_of_one_minute_the_heavy_one_stays() {
    let ledger = Ledger::with_room(ROOM);
    let now = at_secs(30);
    note(&ledger, 1_000, 1 << 20, now);
    for number in 0..500 {
        note(&ledger, number, 1, now);
    }
    let rows = ledger.sums(Some(Window::minutes(now, 1)));
    let heavy = CallerKey::handle(1_000);
    assert!(rows.iter().any(|(key, _)| key.caller == heavy), "{rows:?}");
}

#[test]
fn minutes_are_forgotten_and_the_whole_is_not() {
    let ledger = Ledger::with_room(ROOM);
    for minute in 0..25 {
        note(&ledger, 1, 1 << minute, at_secs(minute * 60 + 30));
    }
    let now = at_secs(24 * 60 + 59);
    assert_eq!(us_of(&ledger, now, Some(1)), 1 << 24);
    assert_eq!(us_of(&ledger, now, Some(2)), (1 << 24) + (1 << 23));
    assert_eq!(us_of(&ledger, now, Some(10)), (1 << 25) - (1 << 15));
    assert_eq!(us_of(&ledger, now, None), (1 << 25) - 1);
    assert_eq!(us_of(&ledger, at_secs(26 * 60), Some(2)), 0);
    assert_eq!(us_of(&ledger, at_secs(26 * 60), Some(3)), 1 << 24);
}

#[test]
fn only_the_latest_stalls_are_kept() {
    let ledger = Ledger::with_room(ROOM);
    note(&ledger, 1, 9_999, Instant::ZERO);
    assert_eq!(ledger.stalls(Instant::ZERO), []);
    for ms in 10..200 {
        note(&ledger, 1, ms * 1_000, Instant::ZERO);
    }
    let stalls = ledger.stalls(Instant::ZERO);
    assert_eq!(stalls.len(), ROOM.stalls);
    assert_eq!(stalls[0].took, Span::from_millis(199));
    let since = Instant::ZERO + Span::from_millis(198);
    assert_eq!(ledger.stalls(since).len(), 2);
}

#[test]
fn a_minute_ago_is_the_last_moment_that_is_so_old() {
    let ledger = Ledger::with_room(ROOM);
    assert_eq!(ledger.minute_ago(), None);
    for secs in (0..200).step_by(10) {
        assert!(lock(&ledger.books).is_moment(at_secs(secs)));
        let mut moment = Moment {
            at: at_secs(secs),
            ..Moment::default()
        };
        moment.note_rate(0, secs);
        moment.note_rate(1_000, 1);
        ledger.remember_moment(moment);
    }
    assert!(!lock(&ledger.books).is_moment(at_secs(197)));
    let past = ledger.minute_ago().expect("there are moments");
    assert_eq!((past.at, past.rate_of(Some(0))), (at_secs(130), 130));
    assert_eq!((past.rate_of(Some(1_000)), past.rate_of(None)), (0, 0));
}

/// A moment `ms` after the start, with the same number as its limit.
fn moment_at(ms: u64) -> Moment {
    Moment {
        at: Instant::ZERO + Span::from_millis(ms),
        limit_pages: ms,
        ..Moment::default()
    }
}

#[test]
fn callers_that_remember_the_same_moment_leave_one() {
    let ledger = Ledger::with_room(ROOM);
    ledger.remember_moment(moment_at(0));
    for ms in 8_000..8_100 {
        ledger.remember_moment(moment_at(ms));
    }
    let past = ledger.minute_ago().expect("there are moments");
    assert_eq!(past.limit_pages, 0);
}

#[test]
fn many_turns_of_knobs_leave_what_was_before_them() {
    let ledger = Ledger::with_room(ROOM);
    for ms in (0..20_000).step_by(100) {
        ledger.remember_turn(moment_at(ms));
    }
    let past = ledger.minute_ago().expect("there are moments");
    assert_eq!(past.limit_pages, 0);
}

#[test]
fn names_are_remembered_for_as_many_as_there_are_rows() {
    let ledger = Ledger::with_room(ROOM);
    let callers: Vec<Caller> = (0..100)
        .map(|number| Caller::connection(number, "a"))
        .collect();
    for caller in &callers {
        ledger.remember(caller);
        ledger.remember(caller);
    }
    assert_eq!(
        ledger.caller(callers[99].key()).to_string(),
        "client 99 (a)"
    );
    assert_eq!(ledger.caller(callers[0].key()).to_string(), "client 0");
}

#[test]
fn the_name_of_a_caller_that_still_waits_is_not_forgotten() {
    let ledger = Ledger::with_room(ROOM);
    let waits = Caller::named("backup");
    ledger.remember(&waits);
    for number in 0..100 {
        ledger.remember(&Caller::connection(number, "a"));
        let call = WaitedCall {
            caller: waits.key(),
            ..call(0, 1)
        };
        let spans = [(Cause::OwnRate, Span::from_millis(1))];
        ledger.note(&call, spans.into_iter(), Span::MAX, Instant::ZERO);
    }
    assert_eq!(ledger.caller(waits.key()), waits);
}

#[test]
fn a_ledger_keeps_within_its_bytes_unless_they_are_very_few() {
    for bytes in [8_192, 50_000, 300_000, MOST_BYTES] {
        assert!(Room::within(bytes).bytes() <= bytes, "{bytes}");
    }
    assert_eq!(Room::within(MOST_BYTES * 8).bytes(), MOST_BYTES);
    let (rows, stalls) = (LEAST, LEAST);
    assert_eq!(Room::within(0), Room { rows, stalls });
}
