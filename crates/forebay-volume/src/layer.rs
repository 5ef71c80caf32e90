//! Changes of a writer that lie above what is committed: pages, and chunks that are whole.

use crate::chunk_table::ChunkObject;
use crate::record::Content;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Where the bytes of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'w> {
    /// Nowhere: they are zeros.
    Zeros,
    /// In memory.
    Memory(&'w [u8]),
    /// In an object with a chunk, from this byte.
    Chunk(ChunkObject, u64),
    /// In record `record`, from byte `at`, with checksum `crc`.
    Record {
        /// The number of the record.
        record: u64,
        /// Its byte at which the page begins.
        at: u64,
        /// The checksum of the page.
        crc: u32,
    },
}

/// Staged pages by their numbers.
pub(crate) type Staged = BTreeMap<u64, Vec<u8>>;

/// See above. A page that is staged is newer than the chunk that it lies in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    /// Pages that are in no object.
    pub(crate) staged: Staged,
    /// Chunks that are in objects of their own, or have become zeros.
    pub(crate) pending: BTreeMap<u64, Content>,
}

impl Layer {
    pub(crate) fn is_empty(&self) -> bool {
        self.staged.is_empty() && self.pending.is_empty()
    }

    /// What it knows of `page`, which lies in `chunk` from byte `at` on.
    pub(crate) fn source(&self, page: u64, chunk: u64, at: u64) -> Option<Source<'_>> {
        if let Some(bytes) = self.staged.get(&page) {
            return Some(Source::Memory(bytes));
        }
        Some(match *self.pending.get(&chunk)? {
            Content::Hole => Source::Zeros,
            Content::Object { name, crc } => Source::Chunk(ChunkObject { name, crc }, at),
        })
    }

    /// Whether the chunk with `pages` is zeros here; none if it says nothing about it.
    pub(crate) fn is_hole(&self, chunk: u64, pages: Range<u64>) -> Option<bool> {
        if self.staged_in(pages) > 0 {
            return Some(false);
        }
        let content = self.pending.get(&chunk)?;
        Some(*content == Content::Hole)
    }

    pub(crate) fn staged_in(&self, pages: Range<u64>) -> usize {
        self.staged.range(pages).count()
    }

    /// Takes `pages` away; their memory goes to `spares`.
    pub(crate) fn drop_staged(&mut self, pages: Range<u64>, spares: &mut Vec<Vec<u8>>) {
        let pages: Vec<u64> = self.staged.range(pages).map(|(&page, _)| page).collect();
        spares.extend(pages.iter().filter_map(|page| self.staged.remove(page)));
    }

    /// Up to `count` chunks with the most staged pages.
    pub(crate) fn fullest(&self, count: usize, chunk_pages: u64) -> Vec<u64> {
        let mut pages_of: BTreeMap<u64, usize> = BTreeMap::new();
        for page in self.staged.keys() {
            *pages_of.entry(page / chunk_pages).or_default() += 1;
        }
        let mut chunks: Vec<(usize, u64)> = pages_of
            .into_iter()
            .map(|(chunk, pages)| (pages, chunk))
            .collect();
        chunks.sort_by(|a, b| b.cmp(a));
        chunks.truncate(count);
        chunks.into_iter().map(|(_, chunk)| chunk).collect()
    }

    /// Takes in the older changes of `below`. The objects that it had and that nobody needs now are
    /// returned.
    pub(crate) fn put_above(&mut self, below: Layer, chunk_pages: u64) -> Vec<Content> {
        for (page, bytes) in below.staged {
            if !self.pending.contains_key(&(page / chunk_pages)) {
                self.staged.entry(page).or_insert(bytes);
            }
        }
        let mut useless = Vec::new();
        for (chunk, content) in below.pending {
            match self.pending.entry(chunk) {
                Entry::Vacant(place) => {
                    place.insert(content);
                }
                Entry::Occupied(_) => useless.push(content),
            }
        }
        useless
    }
}

/// Which changes an object is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that the next record holds.
    Record,
    /// All.
    All,
}

/// The layers of a writer, and the objects that are being made of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    /// What came since the last record, or since the last freeze.
    pub(crate) fresh: Layer,
    /// What the next record holds, if it is another layer.
    pub(crate) frozen: Option<Layer>,
    /// The number of the layer `fresh`: it grows with each freeze.
    number: u64,
    /// Chunk objects that are being made, by number, and the newest layer that is in them.
    making: BTreeMap<u64, u64>,
}

impl Layers {
    pub(crate) fn are_empty(&self) -> bool {
        self.of(Scope::All).all(Layer::is_empty)
    }

    pub(crate) fn staged_pages(&self) -> usize {
        self.of(Scope::All).map(|it| it.staged.len()).sum()
    }

    /// Those of `scope`, the newest first.
    pub(crate) fn of(&self, scope: Scope) -> impl Iterator<Item = &Layer> {
        let is_seen = scope == Scope::All || self.frozen.is_none();
        let fresh = Some(&self.fresh).filter(|_| is_seen);
        fresh.into_iter().chain(&self.frozen)
    }

    /// What the next record holds.
    pub(crate) fn next(&self) -> &Layer {
        self.frozen.as_ref().unwrap_or(&self.fresh)
    }

    pub(crate) fn take_next(&mut self) -> Layer {
        let fresh = &mut self.fresh;
        let frozen = self.frozen.take();
        frozen.unwrap_or_else(|| std::mem::take(fresh))
    }

    pub(crate) fn freeze(&mut self) {
        self.frozen = Some(std::mem::take(&mut self.fresh));
        self.number += 1;
    }

    /// Makes one layer of both. The objects that nobody needs now are returned.
    pub(crate) fn thaw(&mut self, chunk_pages: u64) -> Vec<Content> {
        let frozen = self.frozen.take();
        frozen.map_or_else(Vec::new, |it| self.fresh.put_above(it, chunk_pages))
    }

    /// The object `number` is being made of `scope`.
    pub(crate) fn begin_object(&mut self, number: u64, scope: Scope) {
        let is_below = scope == Scope::Record && self.frozen.is_some();
        self.making
            .insert(number, self.number - u64::from(is_below));
    }

    /// It is there, or will not be.
    pub(crate) fn end_object(&mut self, number: u64) {
        self.making.remove(&number);
    }

    /// Whether the object `number` is being made of what the next record holds.
    pub(crate) fn is_for_record(&self, number: u64) -> bool {
        let layer = self.number - u64::from(self.frozen.is_some());
        self.making.get(&number) == Some(&layer)
    }

    /// Whether it is being made of everything.
    pub(crate) fn is_of_all(&self, number: u64) -> bool {
        self.making.get(&number) == Some(&self.number)
    }

    /// The first object that a later record will name: of those that are being made, and those that
    /// are made already.
    pub(crate) fn first_object(&self) -> Option<u64> {
        let made = self.fresh.pending.values().filter_map(|it| match it {
            Content::Object { name, .. } => Some(name.number),
            Content::Hole => None,
        });
        self.making.keys().copied().chain(made).min()
    }
}
