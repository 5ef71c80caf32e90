use super::super::crash_disk::Act;
use super::super::extent_map::PIECE;
use super::super::pattern::{ZEROS, bytes_of_version};
use super::super::reader_model::{Change, NewLength};
use super::*;
use forebay_base::Prng;
use forebay_base::sync::atomic::AtomicBool;
use std::ops::Range;
use std::sync::Arc;

fn ledger() -> Ledger {
    Ledger::of_object(1, Arc::new(AtomicBool::new(false)))
}

fn sync(ledger: &mut Ledger) {
    let sync = ledger.sync_begins(None);
    ledger.sync_returned(sync);
}

#[test]
fn a_sync_that_returned_too_early_is_found() {
    let mut ledger = ledger();
    let version = ledger.new_version();
    let written = ledger.begin(Change {
        start: 0,
        end: 100,
        version,
        length: NewLength::AtLeast(100),
    });
    ledger.done(written);
    let mut disk = CrashDisk::default();
    assert_eq!(judge(&mut ledger, &disk), None, "nothing was synced");
    assert!(!ledger.needs_judging(0));
    sync(&mut ledger);
    assert!(ledger.needs_judging(0), "more has to be durable");
    let stored = bytes_of_version(version, 0, 100);
    let put = |disk: &mut CrashDisk, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        disk.done_durably(1, Act::Write { offset: 0, bytes });
    };
    put(&mut disk, &stored[..60]);
    let short = judge(&mut ledger, &disk).expect("40 bytes are missing");
    assert!(short.contains("60 bytes for certain"), "{short}");
    put(&mut disk, &stored);
    assert_eq!(judge(&mut ledger, &disk), None);
    sync(&mut ledger);
    assert!(!ledger.needs_judging(disk.revision()), "all is as it was");
    let mut other = stored.clone();
    other[70] ^= 1;
    put(&mut disk, &other);
    assert!(ledger.needs_judging(disk.revision()), "it is not");
    let wrong = judge(&mut ledger, &disk).expect("one byte is another");
    assert!(wrong.contains("at byte 70"), "{wrong}");
}

/// Makes a change in the ledger, a write mostly, and returns what the store has to do for it.
fn change(ledger: &mut Ledger, chance: &mut Prng, range: Range<u64>) -> Act {
    let Range { start, end } = range;
    match chance.below(6) {
        0 => {
            let ticket = ledger.begin(Change {
                start: end.min(ledger.len()),
                end: u64::MAX,
                version: ZEROS,
                length: NewLength::Exactly(end),
            });
            ledger.done(ticket);
            Act::SetLength(end as usize)
        }
        1 => {
            let ticket = ledger.begin(Change {
                start,
                end,
                version: ZEROS,
                length: NewLength::Same,
            });
            ledger.done(ticket);
            let (start, end) = (start as usize, end as usize);
            Act::Zero { start, end }
        }
        _ => {
            let version = ledger.new_version();
            let ticket = ledger.begin(Change {
                start,
                end,
                version,
                length: NewLength::AtLeast(end),
            });
            ledger.done(ticket);
            let (offset, bytes) = (
                start as usize,
                bytes_of_version(version, start, end - start),
            );
            Act::Write { offset, bytes }
        }
    }
}

/// Writes, cuts and zeros of six pieces, with syncs of the whole and of ranges. The disk loses a
/// piece now and then. Judging piece by piece finds what judging the whole would find.
#[test]
fn what_is_judged_again_is_enough() {
    let (mut found, mut kept) = (0, 0);
    for seed in 0..400 {
        let mut chance = Prng::from_seed(seed);
        let (mut ledger, mut disk) = (ledger(), CrashDisk::holding(Vec::new(), seed % 2 == 0));
        for moment in 0..60 {
            let end = 1 + chance.below(6 * PIECE as u64);
            let start = chance.below(end);
            let act = change(&mut ledger, &mut chance, start..end);
            let is_lost = chance.chance(1, 40);
            if !is_lost {
                disk.done(moment, act);
            }
            if chance.chance(1, 2) {
                continue;
            }
            let range = chance.chance(1, 3).then_some(start..end);
            let ticket = ledger.sync_begins(range);
            disk.commit(moment + 1);
            ledger.sync_returned(ticket);
            let whole = {
                let (shortest, longest) = ledger.durable_length_bytes();
                let mut image = disk.durable().to_vec();
                let is_long_enough = (shortest..=longest).contains(&(image.len() as u64));
                image.resize(longest as usize, 0);
                is_long_enough && ledger.judge_image(&image).is_ok()
            };
            let again = judge(&mut ledger, &disk);
            assert_eq!(
                again.is_none(),
                whole,
                "seed {seed}, moment {moment}: {again:?}"
            );
            if !whole {
                found += 1;
                break;
            }
            kept += 1;
        }
    }
    assert!(found > 50 && kept > 2_000, "{found} {kept}");
}
