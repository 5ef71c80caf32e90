//! Which chunks become objects next.

#![allow(clippy::unwrap_used)]

mod opened;

use forebay_volume::{Need, PAGE_BYTES, Scope, Uploads};

const CHUNK_PAGES: u64 = 256;

/// Stages the first `pages` pages of `chunk`.
fn stage(writer: &mut forebay_volume::Writer, chunk: u64, pages: u64) {
    for page in 0..pages {
        writer.stage(chunk * CHUNK_PAGES + page, &[7; PAGE_BYTES as usize]);
    }
}

/// Invariant VB14.
#[test]
fn whole_chunks_come_first_then_the_fullest() {
    let mut writer = opened::writer();
    let mut uploads = Uploads::new(2);
    for (chunk, pages) in [(1, 3), (2, CHUNK_PAGES), (3, 5)] {
        stage(&mut writer, chunk, pages);
        uploads.staged(&writer, chunk..=chunk);
    }
    let next = |uploads: &mut Uploads, writer: &mut _| uploads.next(writer, Scope::All);
    let (first, _) = next(&mut uploads, &mut writer).unwrap();
    assert_eq!(first, 2);
    assert_eq!(next(&mut uploads, &mut writer), None, "none is whole");
    uploads.much_is_staged(&writer);
    let (second, name) = next(&mut uploads, &mut writer).unwrap();
    assert_eq!(second, 3);
    assert_eq!(next(&mut uploads, &mut writer), None, "two are under way");
    writer.made_with(3, name, 1);
    uploads.ended(3);
    uploads.much_is_staged(&writer);
    let (third, _) = next(&mut uploads, &mut writer).unwrap();
    assert_eq!(third, 1);
}

/// Invariant VB13.
#[test]
fn a_chunk_that_is_on_its_way_does_not_go_twice() {
    let mut writer = opened::writer();
    let mut uploads = Uploads::new(4);
    stage(&mut writer, 5, CHUNK_PAGES);
    uploads.staged(&writer, 5..=5);
    let (chunk, name) = uploads.next(&mut writer, Scope::All).unwrap();
    assert!(!uploads.lets_stage(&writer, 4..=5) && uploads.lets_stage(&writer, 6..=9));
    uploads.much_is_staged(&writer);
    assert_eq!(uploads.next(&mut writer, Scope::All), None);
    writer.made_with(chunk, name, 1);
    uploads.ended(chunk);
    assert!(uploads.is_idle() && uploads.lets_stage(&writer, 5..=5));
}

/// Invariant VB14.
#[test]
fn what_is_planned_goes_to_the_record_that_is_frozen_and_back() {
    let mut writer = opened::writer();
    let mut uploads = Uploads::new(1);
    for chunk in [1, 2] {
        stage(&mut writer, chunk, CHUNK_PAGES);
        uploads.staged(&writer, chunk..=chunk);
    }
    writer.freeze();
    uploads.freeze();
    assert_eq!(uploads.next(&mut writer, Scope::All), None);
    let (chunk, _) = uploads.next(&mut writer, Scope::Record).unwrap();
    assert_eq!(chunk, 1);
    assert!(uploads.are_for_record(&writer));
    // The chunk may be staged anew: this object is of what the record holds.
    assert!(uploads.lets_stage(&writer, 1..=1));
    let Need::Chunks(needed) = writer.need() else {
        panic!("two chunks are staged");
    };
    uploads.want(needed);
    writer.thaw();
    uploads.thaw();
    uploads.ended(1);
    let (chunk, _) = uploads.next(&mut writer, Scope::All).unwrap();
    assert!([1, 2].contains(&chunk));
    uploads.ended(chunk);
    uploads.clear();
    assert_eq!(uploads.next(&mut writer, Scope::All), None);
}
