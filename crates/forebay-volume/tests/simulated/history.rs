//! What every writer began with, what it tried to commit, and what was acknowledged as durable.

#![allow(dead_code, reason = "each test file uses a part")]

use super::bucket::Bucket;
use forebay_volume::{
    Access, ChunkName, Holder, Manifest, Map, Opened, Opening, PAGE_BYTES, PageFormat, Progress,
    Source, Twin, VolumeFault, Writer, crc32c,
};
use std::collections::BTreeMap;

/// Pages of the volume: a chunk, and a part of one.
pub(crate) const PAGES: usize = 20;

/// The stamp in each page; 0 is a page of zeros.
pub(crate) type State = Vec<u64>;

/// The volume of every simulation, with pages of one of the formats.
pub(crate) fn manifest(pages: PageFormat) -> Manifest {
    let manifest = Manifest::new(7, PAGES as u64 * PAGE_BYTES, 64 << 10).unwrap();
    manifest.with_pages(pages)
}

/// A page that says `stamp`.
pub(crate) fn page_of(stamp: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES as usize];
    page[..8].copy_from_slice(&stamp.to_le_bytes());
    page[4088..].copy_from_slice(&stamp.to_le_bytes());
    page
}

fn stamp_of(page: &[u8]) -> u64 {
    let stamp = u64::from_le_bytes(page[..8].try_into().unwrap());
    assert_eq!(page[4088..], stamp.to_le_bytes(), "a page is whole");
    stamp
}

/// Page `page`, which lies at byte `at` of the chunk `name`; none if that is gone.
pub(crate) fn page_of_chunk(
    bucket: &Bucket,
    name: ChunkName,
    page: u64,
    at: u64,
) -> Option<Vec<u8>> {
    let holder = Holder::Chunk(name);
    let stored = stored_in(bucket, &name.to_string(), holder, at)?;
    Some(opened(bucket, holder, page, stored))
}

/// Page `page`, which lies at byte `at` of a copy of record `record`; none if both are gone or are
/// other records: where one was removed, a slow opening may have put its own, which does not count
/// and is shorter.
pub(crate) fn page_of_record(
    bucket: &Bucket,
    record: u64,
    page: u64,
    at: u64,
    crc: u32,
) -> Option<Vec<u8>> {
    let holder = Holder::Record(record);
    let copies = Twin::BOTH.into_iter();
    let mut stored = copies.filter_map(|twin| stored_in(bucket, &twin.key(record), holder, at));
    let stored = stored.find(|stored| crc32c(stored) == crc)?;
    Some(opened(bucket, holder, page, stored))
}

fn stored_in<'b>(bucket: &'b Bucket, key: &str, holder: Holder, at: u64) -> Option<&'b [u8]> {
    let end = at + bucket.codec.pages_of(holder).stored_bytes();
    bucket.peek(key)?.get(at as usize..end as usize)
}

fn opened(bucket: &Bucket, holder: Holder, page: u64, stored: &[u8]) -> Vec<u8> {
    let pages = bucket.codec.pages_of(holder);
    let opened = pages.open_all(page, stored.to_vec());
    opened.expect("it is what was stored for this page")
}

/// The stamps that `writer` reads; none if an object is gone.
pub(crate) fn read(bucket: &Bucket, writer: &Writer) -> Option<State> {
    (0..PAGES as u64)
        .map(|page| {
            let bytes = match writer.source(page) {
                Source::Zeros => return Some(0),
                Source::Memory(bytes) => return Some(stamp_of(bytes)),
                Source::Chunk(object, at) => page_of_chunk(bucket, object.name, page, at),
                Source::Record { record, at, crc } => page_of_record(bucket, record, page, at, crc),
            };
            bytes.map(|bytes| stamp_of(&bytes))
        })
        .collect()
}

/// One writer.
struct History {
    /// What it began with, and what it tried to commit, in order.
    states: Vec<State>,
    /// The newest of these that was acknowledged as durable.
    acknowledged: usize,
}

/// All writers, by epoch.
#[derive(Default)]
pub(crate) struct Histories {
    writers: BTreeMap<u64, History>,
    /// How many found out that they have the volume no more.
    pub(crate) fenced: u64,
    /// Objects are lost, so that a volume may be refused.
    is_lossy: bool,
    /// How often that was noticed.
    pub(crate) noticed: u64,
    /// How many snapshots were taken, and how many were not because their pin was dropped.
    pub(crate) snapshots: u64,
    pub(crate) kept_twice: u64,
    pub(crate) dropped: u64,
    /// How many newer states were found by those who followed a writer.
    pub(crate) followed: u64,
}

impl Histories {
    /// Those of a bucket that loses an object at a time.
    pub(crate) fn lossy() -> Histories {
        Histories {
            is_lossy: true,
            ..Histories::default()
        }
    }

    /// Somebody found what is wrong with the volume.
    pub(crate) fn notice(&mut self, fault: &dyn std::fmt::Display) {
        assert!(
            self.is_lossy,
            "nothing was lost, and somebody finds {fault}"
        );
        self.noticed += 1;
    }

    pub(crate) fn began(&mut self, epoch: u64, state: State) {
        let history = History {
            states: vec![state],
            acknowledged: 0,
        };
        let twice = self.writers.insert(epoch, history).is_some();
        assert!(!twice, "epoch {epoch} has two writers");
        self.judge();
    }

    pub(crate) fn tried(&mut self, epoch: u64, state: State) {
        self.writers.get_mut(&epoch).unwrap().states.push(state);
    }

    /// The newest try of `epoch` was acknowledged.
    pub(crate) fn acknowledge(&mut self, epoch: u64) {
        let history = self.writers.get_mut(&epoch).unwrap();
        history.acknowledged = history.states.len() - 1;
        self.judge();
    }

    /// The last writer, or the last of which something was acknowledged if objects are lost, and
    /// how much of it was.
    pub(crate) fn newest(&self) -> (u64, usize) {
        let mut writers = self.writers.iter().rev();
        let last = writers.find(|(_, history)| !self.is_lossy || history.acknowledged > 0);
        last.map_or((0, 0), |(epoch, history)| (*epoch, history.acknowledged))
    }

    /// A reader that began after `newest` finds `state`: nobody is asked for an older one.
    pub(crate) fn judge_reading(&self, newest: (u64, usize), state: &State) {
        let (epoch, acknowledged) = newest;
        let is_known = self.writers.range(epoch..).any(|(&at, history)| {
            let from = if at == epoch { acknowledged } else { 0 };
            history.states[from..].contains(state)
        });
        let is_new = epoch == 0 && state.iter().all(|&stamp| stamp == 0);
        assert!(
            is_known || is_new,
            "a reader finds what was never committed, or is gone"
        );
    }

    pub(crate) fn writers(&self) -> u64 {
        self.writers.len() as u64
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        let acknowledged = self.writers.values().map(|history| history.acknowledged);
        acknowledged.sum::<usize>() as u64
    }

    fn judge(&self) {
        let mut before: Option<&History> = None;
        for (epoch, history) in &self.writers {
            if self.is_lossy {
                self.judge_promises(*epoch, &history.states[0]);
                continue;
            }
            judge_state(before, *epoch, &history.states[0]);
            before = Some(history);
        }
    }

    /// `state`, with which `epoch` began, is one that an earlier writer committed or tried to, and
    /// no older than anything that was acknowledged to an earlier one.
    fn judge_promises(&self, epoch: u64, state: &State) {
        let earlier = || self.writers.range(..epoch);
        let mut promises = earlier().filter(|(_, it)| it.acknowledged > 0);
        let promised = promises
            .next_back()
            .map_or((0, 0), |(&at, it)| (at, it.acknowledged));
        let is_kept = earlier().any(|(&at, history)| {
            let found = history.states.iter().rposition(|known| known == state);
            found.is_some_and(|found| (at, found) >= promised)
        });
        let is_new = promised == (0, 0) && state.iter().all(|&stamp| stamp == 0);
        assert!(
            is_kept || is_new,
            "epoch {epoch} began without what was promised by {promised:?}"
        );
    }

    /// A reader finds what the last writer committed.
    pub(crate) fn judge_end(&self, bucket: &Bucket, may_be_refused: bool) {
        let Some((epoch, last)) = self.writers.last_key_value() else {
            return;
        };
        let mut opening = Opening::new(Access::Read);
        let opened: Opened = loop {
            let reply = bucket.answer(&opening.next());
            match opening.answer(reply) {
                Ok(Progress::Done(opened)) => break opened,
                Ok(Progress::More) => {}
                Err(VolumeFault::Damaged { .. }) if may_be_refused => return,
                Err(fault) => panic!("the volume is well, and somebody finds {fault}"),
            }
        };
        assert_rebuilt(bucket, &opened);
        let state = read(bucket, &Writer::new(opened)).expect("every object is there");
        if self.is_lossy {
            return self.judge_promises(epoch + 1, &state);
        }
        judge_state(Some(last), epoch + 1, &state);
    }
}

/// A map that was read back from its object is the same map.
fn assert_rebuilt(_bucket: &Bucket, opened: &Opened) {
    let bytes = opened.map.encode();
    let again = Map::decode(&opened.manifest, opened.map.number(), &bytes);
    assert_eq!(again.as_ref(), Ok(&opened.map));
}

/// `state`, with which `epoch` began, is one that the writer `before` committed or tried to commit,
/// and no older than the newest that was acknowledged as durable.
fn judge_state(before: Option<&History>, epoch: u64, state: &State) {
    let Some(before) = before else {
        assert!(state.iter().all(|&stamp| stamp == 0), "a new volume");
        return;
    };
    let found = before.states.iter().rposition(|known| known == state);
    let found = found.unwrap_or_else(|| panic!("epoch {epoch} began with no prefix of commits"));
    assert!(
        found >= before.acknowledged,
        "epoch {epoch} began with commit {found}, and {} was acknowledged",
        before.acknowledged
    );
}
