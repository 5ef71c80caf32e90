//! What is on a medium, byte by byte, for machines whose pages have bytes.
//!
//! A write that has ended can be read back at once and is *pending* until a commit that was
//! submitted after its end has ended. A crash leaves what is durable and any part of what is
//! pending, page by page ([`Surface::crash`]).

use forebay_base::sync::{Mutex, lock};
use forebay_base::units::page_of;
use forebay_base::{PAGE_BYTES, Prng};
use forebay_store::{Io, IoKind, MemoryStore, ObjectId};
use std::collections::BTreeMap;

type Page = Box<[u8; PAGE_BYTES]>;

/// The bytes of all objects of one store.
#[derive(Debug, Default)]
pub struct Surface {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<ObjectId, Object>,
    /// The number of the next change.
    next_change: u64,
}

#[derive(Debug, Default)]
struct Object {
    durable: Layer,
    /// What a reader sees.
    visible: Layer,
    /// Changes since the last commit, oldest first, by number.
    pending: Vec<(u64, Change)>,
}

#[derive(Clone, Debug, Default)]
struct Layer {
    length_bytes: u64,
    pages: BTreeMap<u64, Page>,
}

#[derive(Clone, Debug)]
enum Change {
    /// The page `index` from its first byte on.
    Page {
        index: u64,
        bytes: Vec<u8>,
    },
    /// The object is at least this long.
    Grow(u64),
    Cut(u64),
    Zero(u64, u64),
}

impl Surface {
    /// Nothing anywhere.
    pub fn new() -> Surface {
        Surface::default()
    }

    /// The number of the next change, the first that a commit submitted now does not cover.
    pub(crate) fn mark(&self) -> u64 {
        lock(&self.state).next_change
    }

    /// Applies `io`, which is about to succeed. A commit covers the
    /// changes before `mark`.
    pub(crate) fn settle(&self, io: &mut Io, mark: u64) {
        let request = io.request();
        let mut state = lock(&self.state);
        let state = &mut *state;
        let object = state.objects.entry(request.object).or_default();
        let end = request.offset_bytes + request.length_bytes;
        let first = page_of(request.offset_bytes);
        let mut changes = Vec::new();
        match request.kind {
            IoKind::Read => return object.visible.read(io),
            IoKind::Commit => return object.commit(mark),
            IoKind::SetLength => changes.push(Change::Cut(request.offset_bytes)),
            IoKind::Discard => changes.push(Change::Zero(request.offset_bytes, end)),
            IoKind::Write => {
                for page in 0..io.page_count() {
                    let start = (page * PAGE_BYTES) as u64;
                    let length = (request.length_bytes - start).min(PAGE_BYTES as u64);
                    let mut bytes = vec![0; length as usize];
                    io.copy_page(page, 0, &mut bytes);
                    let index = first + page as u64;
                    changes.push(Change::Page { index, bytes });
                }
                changes.push(Change::Grow(end));
            }
        }
        for change in changes {
            object.visible.apply(&change);
            object.pending.push((state.next_change, change));
            state.next_change += 1;
        }
    }

    /// What a crash leaves: the durable bytes, and each pending change or not, as `chance` decides.
    pub fn crash(&self, chance: &mut Prng) -> MemoryStore {
        let image = MemoryStore::new();
        for (&number, object) in &lock(&self.state).objects {
            let mut left = object.durable.clone();
            for (_, change) in &object.pending {
                if chance.chance(1, 2) {
                    left.apply(change);
                }
            }
            image.fill(number, &left.bytes());
        }
        image
    }

    /// Whether a crash would lose nothing.
    pub fn is_durable(&self) -> bool {
        let state = lock(&self.state);
        state
            .objects
            .values()
            .all(|object| object.pending.is_empty())
    }

    /// All bytes of an object that a reader would see.
    pub fn bytes(&self, object: ObjectId) -> Vec<u8> {
        let state = lock(&self.state);
        let object = state.objects.get(&object);
        object.map_or_else(Vec::new, |object| object.visible.bytes())
    }
}

impl Object {
    fn commit(&mut self, mark: u64) {
        let covered = self.pending.partition_point(|&(number, _)| number < mark);
        for (_, change) in self.pending.drain(..covered) {
            self.durable.apply(&change);
        }
    }
}

impl Layer {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Page { index, bytes } => {
                let page = self.page(*index);
                page[..bytes.len()].copy_from_slice(bytes);
            }
            Change::Grow(end) => self.length_bytes = self.length_bytes.max(*end),
            Change::Cut(length) => {
                self.zero(*length, u64::MAX);
                self.length_bytes = *length;
            }
            Change::Zero(from, to) => self.zero(*from, *to),
        }
    }

    fn page(&mut self, index: u64) -> &mut Page {
        let fresh = || Box::new([0; PAGE_BYTES]);
        self.pages.entry(index).or_insert_with(fresh)
    }

    fn zero(&mut self, from: u64, to: u64) {
        let page_bytes = PAGE_BYTES as u64;
        self.pages
            .retain(|&index, _| index * page_bytes < from || (index + 1) * page_bytes > to);
        let touched = [page_of(from), page_of(to.saturating_sub(1))];
        for index in touched {
            let Some(page) = self.pages.get_mut(&index) else {
                continue;
            };
            let start = index * page_bytes;
            let first = from.clamp(start, start + page_bytes) - start;
            let last = to.clamp(start, start + page_bytes) - start;
            if first < last {
                page[first as usize..last as usize].fill(0);
            }
        }
    }

    fn read(&self, io: &mut Io) {
        let request = io.request();
        let first = page_of(request.offset_bytes);
        for page in 0..io.page_count() {
            let mut bytes = [0; PAGE_BYTES];
            let start = page * PAGE_BYTES;
            let asked = (request.length_bytes as usize - start).min(PAGE_BYTES);
            if let Some(kept) = self.pages.get(&(first + page as u64)) {
                let at = request.offset_bytes + start as u64;
                let there = self.length_bytes.saturating_sub(at).min(asked as u64) as usize;
                bytes[..there].copy_from_slice(&kept[..there]);
            }
            io.fill_page(page, 0, &bytes);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut all = vec![0; self.length_bytes as usize];
        for (&index, page) in &self.pages {
            let start = index as usize * PAGE_BYTES;
            let end = all.len().min(start + PAGE_BYTES);
            if start < end {
                all[start..end].copy_from_slice(&page[..end - start]);
            }
        }
        all
    }
}

#[cfg(test)]
#[path = "surface_tests.rs"]
mod tests;
