//! Bytes in memory: the store of tests, of the lab's quick runs, and of scratch data.
//!
//! Every request is finished within `submit`. An object begins to exist, empty, when it is first
//! named. Pages that were never written take no memory.

use crate::error::Failure;
use crate::holes::Extent;
use crate::io::Io;
use crate::request::{IoKind, ObjectId, Request};
use crate::{Durability, Geometry, Store};
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{Mutex, lock};
use forebay_base::units::{byte_of, page_of, pages_for};
use std::collections::BTreeMap;

type Page = Box<[u8; PAGE_BYTES]>;

/// A store that keeps its bytes in memory.
///
/// ```
/// use forebay_store::{MemoryStore, ObjectId};
/// let store = MemoryStore::new();
/// store.fill(ObjectId(7), b"already there");
/// assert_eq!(store.length_bytes(ObjectId(7)), 13);
/// assert_eq!(store.snapshot(ObjectId(7)), b"already there");
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    geometry: Geometry,
    objects: Mutex<BTreeMap<ObjectId, Object>>,
    /// Who has objects open as volumes.
    claims: Mutex<BTreeMap<ObjectId, Claims>>,
}

/// Of one object: a writer or any number of readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claims {
    Writer,
    Readers(usize),
}

#[derive(Debug, Default)]
struct Object {
    length_bytes: u64,
    /// Only pages with bytes below `length_bytes`; bytes of a page past the length are zeros.
    pages: BTreeMap<u64, Page>,
}

impl MemoryStore {
    /// A store whose finished writes are durable, with requests of up to 1 MiB.
    pub fn new() -> MemoryStore {
        MemoryStore::with(Geometry {
            block_bytes: PAGE_BYTES as u32,
            max_io_pages: 256,
            write_unit_pages: 1,
            queue_depth: 64,
            durability: Durability::OnFinish,
            stable_pages: true,
        })
    }

    /// A store that reports `geometry` as its own. Its pages are copied, so they have to be stable
    /// whatever `geometry` says about that.
    pub fn with(geometry: Geometry) -> MemoryStore {
        MemoryStore {
            geometry: Geometry {
                stable_pages: true,
                ..geometry
            },
            objects: Mutex::new(BTreeMap::new()),
            claims: Mutex::new(BTreeMap::new()),
        }
    }

    /// Claims `object` for one more reader, or for a writer. False if others are in the way.
    pub(crate) fn claim(&self, object: ObjectId, is_read_only: bool) -> bool {
        let mut claims = lock(&self.claims);
        let claimed = match (claims.get(&object), is_read_only) {
            (None, true) => Claims::Readers(1),
            (None, false) => Claims::Writer,
            (Some(Claims::Readers(readers)), true) => Claims::Readers(readers + 1),
            (Some(_), _) => return false,
        };
        claims.insert(object, claimed);
        true
    }

    /// Takes one [`MemoryStore::claim`] back.
    pub(crate) fn release(&self, object: ObjectId) {
        let mut claims = lock(&self.claims);
        match claims.get_mut(&object) {
            Some(Claims::Readers(readers)) if *readers > 1 => *readers -= 1,
            _ => drop(claims.remove(&object)),
        }
    }

    /// Gives `object` the length `length_bytes`.
    pub(crate) fn set_length(&self, object: ObjectId, length_bytes: u64) {
        let mut objects = lock(&self.objects);
        objects.entry(object).or_default().set_length(length_bytes);
    }

    /// The run of `object` from byte `offset_bytes` to at most `end_bytes`: pages that were never
    /// written are a hole.
    pub(crate) fn extent_at(&self, object: ObjectId, offset_bytes: u64, end_bytes: u64) -> Extent {
        let objects = lock(&self.objects);
        let first = page_of(offset_bytes);
        let is_there = |page: u64| {
            let found = objects.get(&object);
            found.is_some_and(|object| object.pages.contains_key(&page))
        };
        let is_hole = !is_there(first);
        let mut pages = first + 1..pages_for(end_bytes);
        let next = pages.find(|&page| is_there(page) == is_hole);
        Extent {
            end_bytes: next.map_or(end_bytes, byte_of),
            is_hole,
        }
    }

    /// The length of `object` in bytes; 0 if nobody has written it.
    pub fn length_bytes(&self, object: ObjectId) -> u64 {
        lock(&self.objects)
            .get(&object)
            .map_or(0, |object| object.length_bytes)
    }

    /// All bytes of `object`.
    pub fn snapshot(&self, object: ObjectId) -> Vec<u8> {
        let objects = lock(&self.objects);
        let Some(object) = objects.get(&object) else {
            return Vec::new();
        };
        let mut bytes = vec![0; object.length_bytes as usize];
        for (&index, page) in &object.pages {
            let start = byte_of(index) as usize;
            let end = bytes.len().min(start + PAGE_BYTES);
            bytes[start..end].copy_from_slice(&page[..end - start]);
        }
        bytes
    }

    /// Makes `bytes` the content of `object`.
    pub fn fill(&self, object: ObjectId, bytes: &[u8]) {
        let mut filled = Object {
            length_bytes: bytes.len() as u64,
            pages: BTreeMap::new(),
        };
        for (index, chunk) in bytes.chunks(PAGE_BYTES).enumerate() {
            filled.page(index as u64)[..chunk.len()].copy_from_slice(chunk);
        }
        lock(&self.objects).insert(object, filled);
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl Store for MemoryStore {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, mut io: Io) {
        let request = io.request();
        if io.page_count() > self.geometry.max_io_pages as usize || end_of(request).is_none() {
            return io.fail(Failure::OutOfRange);
        }
        {
            let mut objects = lock(&self.objects);
            let object = objects.entry(request.object).or_default();
            match request.kind {
                IoKind::Read => object.read(&mut io),
                IoKind::Write => object.write(&io),
                IoKind::Commit => {}
                IoKind::Discard => object.zero(
                    request.offset_bytes,
                    request.offset_bytes + request.length_bytes,
                ),
                IoKind::SetLength => object.set_length(request.offset_bytes),
            }
        }
        // The finisher may submit again, so no lock is held here.
        io.succeed();
    }

    fn length_bytes(&self, object: ObjectId) -> Option<u64> {
        Some(MemoryStore::length_bytes(self, object))
    }
}

/// The first byte past the request, if it can be addressed.
fn end_of(request: Request) -> Option<u64> {
    request
        .offset_bytes
        .checked_add(request.length_bytes)
        .filter(|&end| i64::try_from(end).is_ok())
}

impl Object {
    fn page(&mut self, index: u64) -> &mut Page {
        self.pages
            .entry(index)
            .or_insert_with(|| Box::new([0; PAGE_BYTES]))
    }

    fn read(&self, io: &mut Io) {
        let request = io.request();
        let first = page_of(request.offset_bytes);
        for slot in 0..io.page_count() {
            let used = used_bytes(request, slot);
            // What is not filled is zeros.
            if let Some(page) = self.pages.get(&(first + slot as u64)) {
                io.fill_page(slot, 0, &page[..used]);
            }
        }
    }

    fn write(&mut self, io: &Io) {
        let request = io.request();
        let first = page_of(request.offset_bytes);
        for slot in 0..io.page_count() {
            let used = used_bytes(request, slot);
            io.copy_page(slot, 0, &mut self.page(first + slot as u64)[..used]);
        }
        if request.length_bytes > 0 {
            let end = request.offset_bytes + request.length_bytes;
            self.length_bytes = self.length_bytes.max(end);
        }
    }

    fn set_length(&mut self, length_bytes: u64) {
        if length_bytes < self.length_bytes {
            self.zero(length_bytes, self.length_bytes);
            // `zero` keeps the rest of the page in which the object ended, which is now past the
            // end.
            drop(self.pages.split_off(&pages_for(length_bytes)));
        }
        self.length_bytes = length_bytes;
    }

    fn zero(&mut self, start: u64, end: u64) {
        let mut kept = self.pages.split_off(&page_of(start));
        let mut behind = kept.split_off(&end.div_ceil(PAGE_BYTES as u64));
        self.pages.append(&mut behind);
        for (index, mut page) in kept {
            let from = start.saturating_sub(byte_of(index)).min(PAGE_BYTES as u64) as usize;
            let to = (end - byte_of(index)).min(PAGE_BYTES as u64) as usize;
            if from == 0 && to == PAGE_BYTES {
                continue;
            }
            page[from..to].fill(0);
            self.pages.insert(index, page);
        }
    }
}

/// Bytes of page `slot` that belong to the range.
fn used_bytes(request: Request, slot: usize) -> usize {
    (request.length_bytes - byte_of(slot as u64)).min(PAGE_BYTES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroing_touches_its_range_alone() {
        for (start, end) in [
            (0, 4096),
            (100, 200),
            (4000, 4200),
            (1, 12_287),
            (4096, 8192),
            (5, 5),
        ] {
            let store = MemoryStore::new();
            store.fill(ObjectId(1), &[7; 12_288]);
            lock(&store.objects)
                .get_mut(&ObjectId(1))
                .expect("it was filled")
                .zero(start, end);
            let expected: Vec<u8> = (0..12_288)
                .map(|at| if (start..end).contains(&at) { 0 } else { 7 })
                .collect();
            assert!(store.snapshot(ObjectId(1)) == expected, "{start}..{end}");
        }
    }

    #[test]
    fn a_cut_leaves_no_page_behind_the_end() {
        let store = MemoryStore::new();
        store.fill(ObjectId(1), &[7; 2 * PAGE_BYTES + 5]);
        lock(&store.objects)
            .get_mut(&ObjectId(1))
            .expect("it was filled")
            .set_length(10);
        assert_eq!(store.snapshot(ObjectId(1)), [7; 10]);
    }

    #[test]
    fn growing_after_a_cut_shows_zeros() {
        let store = MemoryStore::new();
        store.fill(ObjectId(1), &[7; 10]);
        let mut objects = lock(&store.objects);
        let object = objects.get_mut(&ObjectId(1)).expect("it was filled");
        object.set_length(3);
        object.set_length(6);
        drop(objects);
        assert_eq!(store.snapshot(ObjectId(1)), [7, 7, 7, 0, 0, 0]);
    }
}
