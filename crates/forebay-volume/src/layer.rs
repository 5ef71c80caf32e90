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

/// See above. A page that is staged is newer than the chunk that it lies in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    /// Pages that are in no object.
    pub(crate) staged: BTreeMap<u64, Vec<u8>>,
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
