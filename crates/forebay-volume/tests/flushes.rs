//! A writer takes no more memory the more flushes there were.

#![allow(clippy::unwrap_used)]

mod opened;

use forebay_base::Prng;
use forebay_volume::{Call, Need, PAGE_BYTES, Progress, Reply, Scope, Twin, Writer};
use opened::{Bucket, open, writing};

/// `FOREBAY_VOLUME_FLUSHES` is another number, and `FOREBAY_VOLUME_CHUNKS` the length in MiB.
fn typed(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |typed| typed.parse().expect("it is a number"))
}

/// The bytes of memory that this process has.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

/// A bucket that takes everything and keeps nothing: a writer reads nothing back but pages that it
/// moves.
fn answer(call: &Call) -> Reply {
    match call {
        Call::Make { .. } | Call::Remove { .. } => Reply::Done,
        Call::Get { .. } | Call::List { .. } => unreachable!("a writer asks for neither"),
    }
}

fn flush(writer: &mut Writer) {
    while let Need::Chunks(chunks) = writer.need() {
        for chunk in chunks {
            let name = writer.name(Scope::Record);
            writer.made_with(chunk, name, 1);
        }
    }
    writer.seal();
    while writer.is_recording() {
        for twin in Twin::BOTH {
            while let Some(call) = writer.next(twin) {
                writer.answer(twin, answer(&call)).unwrap();
            }
        }
    }
}

/// What a store does between flushes, with `--garbage 50`.
fn tidy(writer: &mut Writer) {
    let most_dead_bytes = (64 << 20_u64).max(writer.live_bytes() / 2);
    for (page, from) in writer.sparse_pages(most_dead_bytes / (4 * PAGE_BYTES)) {
        writer.moved(page, from, vec![1; PAGE_BYTES as usize]);
    }
    while let Some(mut map) = writer.map_to_make(most_dead_bytes) {
        let made = map.answer(answer(&map.next()));
        assert!(matches!(made, Progress::Done(_)));
        writer.map_made();
    }
    let removed = writer.removals(256, most_dead_bytes).len();
    writer.removed(removed);
}

#[test]
fn memory_does_not_grow_with_the_number_of_flushes() {
    let flushes = typed("FOREBAY_VOLUME_FLUSHES", 60_000);
    let length_bytes = typed("FOREBAY_VOLUME_CHUNKS", 1_024) << 20;
    let mut writer = open(&mut Bucket::default(), writing(1, length_bytes)).unwrap();
    let mut prng = Prng::from_seed(1);
    let pages = length_bytes / PAGE_BYTES;
    let mut settled_bytes = 0;
    for number in 0..flushes {
        for _ in 0..=prng.below(4) {
            writer.stage(prng.below(pages), &[7; PAGE_BYTES as usize]);
        }
        flush(&mut writer);
        tidy(&mut writer);
        if number == flushes / 3 {
            settled_bytes = resident_bytes();
        }
    }
    let grown_bytes = resident_bytes().saturating_sub(settled_bytes);
    println!(
        "{flushes} flushes, {} chunks, {} records since the last map, {settled_bytes} bytes after \
         a third, {grown_bytes} more at the end",
        writer.map().chunk_count(),
        writer.log_records()
    );
    // If each flush left 200 bytes behind, it would be seen.
    assert!(grown_bytes < 8 << 20, "{grown_bytes} bytes more");
}
