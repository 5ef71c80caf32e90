//! A client of a process: it writes, discards, reads and syncs its own pages of the volume.

use super::front::stamp_of;
use super::history::History;
use forebay_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_base::{Prng, Span};
use forebay_engine::File;
use forebay_rt::Rt;
use forebay_volume::PAGE_BYTES;
use std::collections::BTreeMap;
use std::ops::Range;

const LONGEST_CALL_PAGES: u64 = 24;
/// Enough for two whole chunks and parts of their neighbours.
const LONGEST_DISCARD_PAGES: u64 = 48;

/// What the clients of a process share.
pub(super) struct Shared {
    rt: Rt,
    history: Arc<Mutex<History>>,
    next_stamp: AtomicU64,
    pub(super) stop: AtomicBool,
    /// A byte that nobody wrote.
    pub(super) wrong: Mutex<Option<String>>,
}

impl Shared {
    pub(super) fn new(rt: Rt, history: Arc<Mutex<History>>, process: u64) -> Shared {
        Shared {
            rt,
            history,
            next_stamp: AtomicU64::new(((process + 1) << 32) + 1),
            stop: AtomicBool::new(false),
            wrong: Mutex::new(None),
        }
    }
}

/// Works on `pages` until it has to stop.
pub(super) async fn work(shared: Arc<Shared>, file: File, pages: Range<u64>, mut chance: Prng) {
    // The last write of each page that is known to be made.
    let mut known = BTreeMap::new();
    while !shared.stop.load(Ordering::Relaxed) {
        match chance.below(10) {
            0 | 1 => {
                let own = |page: u64| pages.contains(&page);
                let begun = lock(&shared.history).sync_begins(own);
                if file.sync().await.is_ok() {
                    lock(&shared.history).sync_returned(begun);
                }
            }
            2 | 3 => {
                let page = pages.start + chance.below(pages.end - pages.start);
                read(&shared, &file, page, &known).await;
            }
            4 => {
                let discarded = part(&pages, LONGEST_DISCARD_PAGES, &mut chance);
                change(&shared, &file, discarded, true, &mut known).await;
            }
            _ => {
                let written = part(&pages, LONGEST_CALL_PAGES, &mut chance);
                change(&shared, &file, written, false, &mut known).await;
            }
        }
        let rest = Span::from_micros(chance.below(20_000));
        shared.rt.sleep(rest).await;
    }
}

/// At most `most` of `pages`.
fn part(pages: &Range<u64>, most: u64, chance: &mut Prng) -> Range<u64> {
    let length = 1 + chance.below(most);
    let first = pages.start + chance.below(pages.end - pages.start);
    first..(first + length).min(pages.end)
}

/// Writes `pages`, or discards them: then they are zeros.
async fn change(
    shared: &Shared,
    file: &File,
    pages: Range<u64>,
    discards: bool,
    known: &mut BTreeMap<u64, u64>,
) {
    let mut bytes = vec![0; ((pages.end - pages.start) * PAGE_BYTES) as usize];
    for (page, bytes) in pages.clone().zip(bytes.chunks_mut(PAGE_BYTES as usize)) {
        let stamp = if discards {
            0
        } else {
            shared.next_stamp.fetch_add(1, Ordering::Relaxed)
        };
        bytes[..8].copy_from_slice(&stamp.to_le_bytes());
        lock(&shared.history).write_begins(page, stamp);
        known.insert(page, stamp);
    }
    let range = pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
    let changed = if discards {
        file.discard(range).await
    } else {
        file.write_at(&bytes, range.start).await
    };
    if changed.is_ok() {
        let mut history = lock(&shared.history);
        pages.for_each(|page| history.write_returned(page));
    } else {
        // A part of it may be there.
        known.retain(|page, _| !pages.contains(page));
    }
}

async fn read(shared: &Shared, file: &File, page: u64, known: &BTreeMap<u64, u64>) {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    let result = file.read_at(&mut bytes, page * PAGE_BYTES).await;
    let found = stamp_of(&bytes);
    if let (Ok(_), Some(&stamp)) = (result, known.get(&page))
        && found != stamp
    {
        let what = format!("page {page} reads as {found:#x}, and {stamp:#x} was written last");
        lock(&shared.wrong).get_or_insert(what);
    }
}
