//! What a volume in a bucket has in memory: pages by chunk, and which chunk is uploaded next.
//!
//! The rules are those of the store that ships (`forebay-bucket`): a chunk that is whole is
//! uploaded, and the fullest ones while more than half of the room is taken; no page is staged in a
//! chunk that is being uploaded; a commit of few pages has them in its record.

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

/// See above.
pub(super) struct Staging {
    chunk_pages: u64,
    most_pages: u64,
    uploads: usize,
    chunks: BTreeMap<Chunk, BTreeSet<u64>>,
    pages: u64,
    planned: VecDeque<Chunk>,
    uploading: BTreeSet<Chunk>,
    /// Chunks that have an object in the bucket, and how many of each object always had one.
    made: BTreeSet<Chunk>,
    laid_out: BTreeMap<ObjectId, u64>,
    /// Whether something has changed since the last record.
    is_unrecorded: bool,
}

impl Staging {
    pub(super) fn new(chunk_bytes: u64, staged_bytes: u64, uploads: usize) -> Staging {
        Staging {
            chunk_pages: chunk_bytes / PAGE_BYTES as u64,
            most_pages: staged_bytes / PAGE_BYTES as u64,
            uploads,
            chunks: BTreeMap::new(),
            pages: 0,
            planned: VecDeque::new(),
            uploading: BTreeSet::new(),
            made: BTreeSet::new(),
            laid_out: BTreeMap::new(),
            is_unrecorded: false,
        }
    }

    pub(super) fn is_uploading(&self) -> bool {
        !self.uploading.is_empty()
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
        let is_free = self.uploading.range(touched).next().is_none();
        is_free && self.pages + (pages.end - pages.start) <= self.most_pages
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
        self.is_unrecorded = true;
    }

    fn stage(&mut self, request: Request) {
        for page in pages_in(request) {
            let chunk = (request.object, page / self.chunk_pages);
            let staged = self.chunks.entry(chunk).or_default();
            self.pages += u64::from(staged.insert(page % self.chunk_pages));
            if staged.len() as u64 == self.chunk_pages && !self.planned.contains(&chunk) {
                self.planned.push_back(chunk);
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
        let gone: Vec<Chunk> = self.chunks.range(chunks.clone()).map(|it| *it.0).collect();
        for chunk in gone {
            if !self.uploading.contains(&chunk) {
                self.pages -= self.chunks.remove(&chunk).map_or(0, |it| it.len() as u64);
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
            let staged = self.chunks.get(&chunk);
            staged.is_none_or(|it| !it.contains(&(page % self.chunk_pages)))
                && self.has_object(chunk)
        };
        pages_in(request).filter(is_missing).count() as u64 * PAGE_BYTES as u64
    }

    fn has_object(&self, chunk: Chunk) -> bool {
        let laid_out = self.laid_out.get(&chunk.0);
        self.made.contains(&chunk) || laid_out.is_some_and(|&chunks| chunk.1 < chunks)
    }

    pub(super) fn need(&self) -> Need {
        match self.pages {
            _ if !self.is_unrecorded => Need::Nothing,
            0..=RECORD_PAGES => Need::Record,
            _ => Need::Chunks,
        }
    }

    /// All that is staged is uploaded next.
    pub(super) fn plan_all(&mut self) {
        let free = |chunk: &&Chunk| !self.uploading.contains(chunk);
        self.planned = self.chunks.keys().filter(free).copied().collect();
    }

    /// A record is being made: it has what is staged, and names all objects so far.
    pub(super) fn seal(&mut self) -> u64 {
        let pages = std::mem::take(&mut self.pages);
        self.made
            .extend(std::mem::take(&mut self.chunks).into_keys());
        self.planned.clear();
        self.is_unrecorded = false;
        pages
    }

    /// The next chunk of those that are planned.
    pub(super) fn next_planned(&mut self) -> Option<Upload> {
        if self.uploading.len() >= self.uploads {
            return None;
        }
        loop {
            let chunk = self.planned.pop_front()?;
            let Some(staged) = self.chunks.get(&chunk) else {
                continue;
            };
            if self.uploading.contains(&chunk) {
                continue;
            }
            let base_pages = if self.has_object(chunk) {
                self.chunk_pages - staged.len() as u64
            } else {
                0
            };
            self.uploading.insert(chunk);
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
        if self.planned.is_empty() && self.pages * 2 > self.most_pages {
            let free = self.chunks.iter();
            let free = free.filter(|(chunk, _)| !self.uploading.contains(chunk));
            let mut fullest: Vec<_> = free.map(|(chunk, pages)| (pages.len(), *chunk)).collect();
            fullest.sort_unstable_by(|a, b| b.cmp(a));
            let fullest = fullest.into_iter().take(self.uploads);
            self.planned = fullest.map(|(_, chunk)| chunk).collect();
        }
        self.next_planned()
    }

    /// The object of `chunk` is there.
    pub(super) fn uploaded(&mut self, chunk: Chunk) {
        self.uploading.remove(&chunk);
        self.pages -= self.chunks.remove(&chunk).map_or(0, |it| it.len() as u64);
        self.made.insert(chunk);
        self.is_unrecorded = true;
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
