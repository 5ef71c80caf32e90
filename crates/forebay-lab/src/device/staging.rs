//! What a volume in a bucket has in memory: pages by chunk, and which chunk is uploaded next.
//!
//! The rules are those of the store that ships (`forebay-bucket`): a chunk that is whole is
//! uploaded, and the fullest ones while more than half of the room is taken; a commit is of what
//! was staged when it came, and what comes later is staged above that; no page is staged in a chunk
//! that is being uploaded with all that it has; a commit of few pages has them in its record.

use forebay_base::PAGE_BYTES;
use forebay_store::{IoKind, ObjectId, Request};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// A chunk of an object, by its place.
pub(super) type Chunk = (ObjectId, u64);

/// Pages that a commit's record has room for.
const RECORD_PAGES: u64 = 16;

/// What a commit has to ask for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Everything is in the bucket.
    Nothing,
    /// One record.
    Record,
    /// Chunks first.
    Chunks,
}

/// A chunk that is put together and uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upload {
    pub(super) chunk: Chunk,
    /// Bytes that come from the object that it replaces.
    pub(super) base_bytes: u64,
}

/// Pages that are staged for one record.
#[derive(Default)]
struct Layer {
    chunks: BTreeMap<Chunk, BTreeSet<u64>>,
    pages: u64,
    /// Chunks that are uploaded next.
    planned: VecDeque<Chunk>,
    /// Whether something has changed since the last record.
    is_unrecorded: bool,
}

impl Layer {
    /// Its pages of `chunk` are elsewhere now, or nowhere.
    fn remove(&mut self, chunk: Chunk) {
        self.pages -= self.chunks.remove(&chunk).map_or(0, |it| it.len() as u64);
    }

    fn has(&self, chunk: Chunk, page: u64) -> bool {
        self.chunks.get(&chunk).is_some_and(|it| it.contains(&page))
    }
}

/// For which record an object is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// That of the commit.
    Commit,
    /// A later one.
    Later,
}

/// See above.
pub(super) struct Staging {
    chunk_pages: u64,
    most_pages: u64,
    uploads: usize,
    fresh: Layer,
    /// What the commit holds.
    frozen: Layer,
    uploading: BTreeMap<Chunk, For>,
    /// Chunks that have an object in the bucket, and how many of each object always had one.
    made: BTreeSet<Chunk>,
    laid_out: BTreeMap<ObjectId, u64>,
}

impl Staging {
    pub(super) fn new(chunk_bytes: u64, staged_bytes: u64, uploads: usize) -> Staging {
        Staging {
            chunk_pages: chunk_bytes / PAGE_BYTES as u64,
            most_pages: staged_bytes / PAGE_BYTES as u64,
            uploads,
            fresh: Layer::default(),
            frozen: Layer::default(),
            uploading: BTreeMap::new(),
            made: BTreeSet::new(),
            laid_out: BTreeMap::new(),
        }
    }

    /// Whether chunks of the commit are on their way.
    pub(super) fn is_uploading(&self) -> bool {
        self.uploading.values().any(|&whose| whose == For::Commit)
    }

    /// A commit has come: it is of what is staged now.
    pub(super) fn freeze(&mut self) {
        self.frozen = std::mem::take(&mut self.fresh);
        self.uploading.values_mut().for_each(|it| *it = For::Commit);
    }

    /// `object` has been in the bucket for ever, and is this long.
    pub(super) fn lay_out(&mut self, object: ObjectId, length_bytes: u64) {
        let chunks = pages_of(length_bytes).div_ceil(self.chunk_pages);
        self.laid_out.insert(object, chunks);
    }

    /// Whether a change can be staged now.
    pub(super) fn fits(&self, request: Request) -> bool {
        if request.kind != IoKind::Write {
            return true;
        }
        let pages = pages_in(request);
        let of = |page| (request.object, page / self.chunk_pages);
        let touched = of(pages.start)..=of(pages.end.max(1) - 1);
        let mut uploading = self.uploading.range(touched);
        let is_free = !uploading.any(|(_, &whose)| whose == For::Later);
        is_free && self.staged_pages() + (pages.end - pages.start) <= self.most_pages
    }

    fn staged_pages(&self) -> u64 {
        self.fresh.pages + self.frozen.pages
    }

    /// Takes a change that fits.
    pub(super) fn change(&mut self, request: Request) {
        let first_byte = request.offset_bytes;
        match request.kind {
            IoKind::Write => self.stage(request),
            IoKind::SetLength => self.drop_from(request.object, pages_of(first_byte)..u64::MAX),
            IoKind::Discard => {
                let end = (first_byte + request.length_bytes) / PAGE_BYTES as u64;
                self.drop_from(request.object, pages_of(first_byte)..end);
            }
            IoKind::Read | IoKind::Commit => return,
        }
        self.fresh.is_unrecorded = true;
    }

    fn stage(&mut self, request: Request) {
        for page in pages_in(request) {
            let chunk = (request.object, page / self.chunk_pages);
            let layer = &mut self.fresh;
            let staged = layer.chunks.entry(chunk).or_default();
            layer.pages += u64::from(staged.insert(page % self.chunk_pages));
            if staged.len() as u64 == self.chunk_pages && !layer.planned.contains(&chunk) {
                layer.planned.push_back(chunk);
            }
        }
    }

    /// Whole chunks of `pages` become holes.
    fn drop_from(&mut self, object: ObjectId, pages: Range<u64>) {
        let end = pages.end / self.chunk_pages;
        let chunks = (object, pages.start.div_ceil(self.chunk_pages))..(object, end);
        if chunks.start >= chunks.end {
            return;
        }
        let staged = self.fresh.chunks.range(chunks.clone());
        let gone: Vec<Chunk> = staged.map(|(chunk, _)| *chunk).collect();
        for chunk in gone {
            if !self.uploading.contains_key(&chunk) {
                self.fresh.remove(chunk);
            }
        }
        self.made.retain(|chunk| !chunks.contains(chunk));
        if let Some(laid_out) = self.laid_out.get_mut(&object)
            && *laid_out <= end
        {
            *laid_out = (*laid_out).min(chunks.start.1);
        }
    }

    /// Bytes of a read that are in the bucket alone.
    pub(super) fn missing_bytes(&self, request: Request) -> u64 {
        let is_missing = |page: &u64| {
            let chunk = (request.object, page / self.chunk_pages);
            let page = page % self.chunk_pages;
            let is_staged = self.fresh.has(chunk, page) || self.frozen.has(chunk, page);
            !is_staged && self.has_object(chunk)
        };
        pages_in(request).filter(is_missing).count() as u64 * PAGE_BYTES as u64
    }

    fn has_object(&self, chunk: Chunk) -> bool {
        let laid_out = self.laid_out.get(&chunk.0);
        self.made.contains(&chunk) || laid_out.is_some_and(|&chunks| chunk.1 < chunks)
    }

    pub(super) fn need(&self) -> Need {
        match self.frozen.pages {
            _ if !self.frozen.is_unrecorded => Need::Nothing,
            0..=RECORD_PAGES => Need::Record,
            _ => Need::Chunks,
        }
    }

    /// All that the commit holds is uploaded next.
    pub(super) fn plan_all(&mut self) {
        let free = |chunk: &&Chunk| !self.uploading.contains_key(chunk);
        let chunks = self.frozen.chunks.keys();
        self.frozen.planned = chunks.filter(free).copied().collect();
    }

    /// The record of the commit is being made: it has what was staged, and names its objects.
    pub(super) fn seal(&mut self) -> u64 {
        let frozen = std::mem::take(&mut self.frozen);
        self.made.extend(frozen.chunks.into_keys());
        frozen.pages
    }

    /// The next chunk that the commit needs.
    pub(super) fn next_of_commit(&mut self) -> Option<Upload> {
        self.next_planned(For::Commit)
    }

    fn next_planned(&mut self, whose: For) -> Option<Upload> {
        if self.uploading.len() >= self.uploads {
            return None;
        }
        loop {
            let layer = match whose {
                For::Commit => &mut self.frozen,
                For::Later => &mut self.fresh,
            };
            let chunk = layer.planned.pop_front()?;
            let Some(staged) = layer.chunks.get(&chunk) else {
                continue;
            };
            let staged = staged.len() as u64;
            if self.uploading.contains_key(&chunk) {
                continue;
            }
            let base_pages = if self.has_object(chunk) {
                self.chunk_pages - staged
            } else {
                0
            };
            self.uploading.insert(chunk, whose);
            return Some(Upload {
                chunk,
                base_bytes: base_pages * PAGE_BYTES as u64,
            });
        }
    }

    /// The next chunk that is uploaded without a commit.
    pub(super) fn next_upload(&mut self) -> Option<Upload> {
        if self.uploading.len() >= self.uploads {
            return None;
        }
        if self.fresh.planned.is_empty() && self.staged_pages() * 2 > self.most_pages {
            let free = self.fresh.chunks.iter();
            let free = free.filter(|(chunk, _)| !self.uploading.contains_key(chunk));
            let mut fullest: Vec<_> = free.map(|(chunk, pages)| (pages.len(), *chunk)).collect();
            fullest.sort_unstable_by(|a, b| b.cmp(a));
            let fullest = fullest.into_iter().take(self.uploads);
            self.fresh.planned = fullest.map(|(_, chunk)| chunk).collect();
        }
        self.next_planned(For::Later)
    }

    /// The object of `chunk` is there.
    pub(super) fn uploaded(&mut self, chunk: Chunk) {
        let layer = match self.uploading.remove(&chunk) {
            Some(For::Commit) => &mut self.frozen,
            Some(For::Later) | None => &mut self.fresh,
        };
        layer.remove(chunk);
        layer.is_unrecorded = true;
        self.made.insert(chunk);
    }
}

/// Pages that reach up to byte `bytes`.
fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES as u64)
}

/// Pages that `request` touches.
fn pages_in(request: Request) -> Range<u64> {
    let first = request.offset_bytes / PAGE_BYTES as u64;
    first..pages_of(request.offset_bytes + request.length_bytes)
}
