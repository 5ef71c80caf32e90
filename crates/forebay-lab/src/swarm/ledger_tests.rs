use super::super::pattern::bytes_of_version;
use super::*;

fn write(ledger: &mut Ledger, start: u64, end: u64) -> (Ticket, u64) {
    let version = ledger.new_version();
    let length = NewLength::AtLeast(end);
    (
        ledger.begin(Change {
            start,
            end,
            version,
            length,
        }),
        version,
    )
}

fn ledger() -> Ledger {
    Ledger::of_object(1, Arc::new(AtomicBool::new(false)))
}

#[test]
fn a_reader_may_see_what_was_written_while_it_read() {
    let mut ledger = ledger();
    let (first, version) = write(&mut ledger, 0, 100);
    ledger.done(first);
    let reader = ledger.look(0..100);
    let (second, later) = write(&mut ledger, 0, 50);
    ledger.done(second);
    let mut seen = bytes_of_version(version, 0, 100);
    seen[..50].copy_from_slice(&bytes_of_version(later, 0, 50));
    assert_eq!(ledger.seen(reader, 0, &seen), Ok(()));
    let reader = ledger.look(0..100);
    assert!(
        ledger
            .seen(reader, 0, &bytes_of_version(version, 0, 100))
            .is_err()
    );
}

#[test]
fn a_sync_promises_what_was_there_when_it_began() {
    let mut ledger = ledger();
    let (first, one) = write(&mut ledger, 0, 100);
    ledger.done(first);
    let sync = ledger.sync_begins(None);
    let (second, two) = write(&mut ledger, 0, 100);
    ledger.done(second);
    ledger.sync_returned(sync);
    assert_eq!(ledger.judge_image(&bytes_of_version(one, 0, 100)), Ok(()));
    assert_eq!(ledger.judge_image(&bytes_of_version(two, 0, 100)), Ok(()));
    assert!(ledger.judge_image(&[0; 100]).is_err());
    assert_eq!(ledger.durable_length_bytes(), (100, 100));
}

#[test]
fn a_sync_of_a_range_promises_that_range() {
    let mut ledger = ledger();
    let (first, one) = write(&mut ledger, 0, 100);
    ledger.done(first);
    let sync = ledger.sync_begins(Some(0..50));
    ledger.sync_returned(sync);
    let mut image = bytes_of_version(one, 0, 100);
    image[50..].fill(0);
    assert_eq!(ledger.judge_image(&image), Ok(()));
    image[49] ^= 1;
    assert!(ledger.judge_image(&image).is_err());
}
