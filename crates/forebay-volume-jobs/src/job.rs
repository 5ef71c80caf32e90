//! Jobs: what has to be asked of a bucket, with what is known before and what an answer has to be.

use forebay_store::Io;
use forebay_volume::{
    Append, ChunkName, ChunkObject, Holder, InlinePage, PAGE_BYTES, PageCodec, PageFormat, Scope,
    Source, Twin, Writer, crc32c,
};
use std::ops::Range;

pub(crate) const PAGE: usize = PAGE_BYTES as usize;

/// Something to ask of the bucket.
#[derive(Debug)]
pub enum Job {
    /// Pages of a read.
    Read(Box<ReadJob>),
    /// The object of a chunk.
    Upload(UploadJob),
    /// A copy of the record of a commit, or of the last one: see [`Writer::next`].
    Record(Twin),
    /// Pages that lie in a record of which little is needed: see [`Writer::sparse_pages`].
    Move(Vec<(u64, InlinePage)>),
    /// A map, which shortens the next start.
    Map(Append),
    /// Objects to remove, which nobody needs.
    Remove(Vec<String>),
}

/// Pages of a read that lie in the bucket.
#[derive(Debug)]
pub struct ReadJob {
    /// The request.
    pub io: Io,
    /// Where the pages lie that are not filled yet.
    pub pieces: Vec<Piece>,
    /// Whether an object was missing before that the map still names.
    pub is_repeated: bool,
    /// The record of the state that it reads.
    pub number: u64,
}

impl ReadJob {
    /// The request, with all pieces filled. What it does not ask for of its last page is zeros.
    pub fn filled(self) -> Io {
        let mut io = self.io;
        let used = (io.request().length_bytes % PAGE_BYTES) as usize;
        if used > 0 {
            let last = io.page_count() - 1;
            io.fill_page(last, used, &[0; PAGE][used..]);
        }
        io
    }
}

/// Some pages of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first of them, as a number of the request's pages, or of the chunk's.
    pub first: usize,
    /// The number of the first of them in the volume, and how many they are.
    page: u64,
    count: usize,
    holder: Holder,
    /// Where they begin in the object.
    at: u64,
    /// The checksum of what is stored there, if the map has one.
    crc: Option<u32>,
}

impl Piece {
    /// Page `page` of the volume, as number `first` of a request. None if it does not lie in the
    /// bucket.
    pub fn new(first: usize, page: u64, source: Source<'_>) -> Option<Piece> {
        let (holder, at, crc) = match source {
            Source::Chunk(object, at) => (Holder::Chunk(object.name), at, None),
            Source::Record { record, at, crc } => (Holder::Record(record), at, Some(crc)),
            Source::Zeros | Source::Memory(_) => return None,
        };
        Some(Piece {
            first,
            page,
            count: 1,
            holder,
            at,
            crc,
        })
    }

    /// Page `page` of the volume, which lies in a record.
    pub fn in_record(page: u64, from: InlinePage) -> Piece {
        let InlinePage { record, at, crc } = from;
        let source = Source::Record { record, at, crc };
        Piece::new(0, page, source).expect("a record lies in the bucket")
    }

    /// The key of its object, and of the second copy if there is one.
    pub fn keys(&self) -> Vec<String> {
        match self.holder {
            Holder::Chunk(name) => vec![name.to_string()],
            Holder::Record(record) => Twin::BOTH.map(|twin| twin.key(record)).to_vec(),
        }
    }

    /// The key of its object.
    pub fn key(&self) -> String {
        match self.holder {
            Holder::Chunk(name) => name.to_string(),
            Holder::Record(record) => Twin::First.key(record),
        }
    }

    /// The bytes of the object in which its pages are stored.
    pub fn range(&self, codec: &PageCodec) -> Range<u64> {
        let stored_bytes = codec.pages_of(self.holder).stored_bytes();
        self.at..self.at + self.count as u64 * stored_bytes
    }

    /// Its pages, of what was found in [`Piece::range`]; none if that cannot be right.
    pub fn open(&self, codec: &PageCodec, stored: Vec<u8>) -> Option<Vec<u8>> {
        let range = self.range(codec);
        let is_right = stored.len() as u64 == range.end - range.start
            && self.crc.is_none_or(|crc| crc == crc32c(&stored));
        let pages = codec.pages_of(self.holder);
        is_right.then(|| pages.open_all(self.page, stored))?
    }

    /// Takes `next` in, if it is the page after this in the same object. Each page of a record has
    /// a checksum of its own.
    pub(crate) fn goes_on_with(&mut self, next: &Piece, format: PageFormat) -> bool {
        let goes_on = self.holder == next.holder
            && self.at + self.count as u64 * format.stored_bytes() == next.at
            && self.page + self.count as u64 == next.page
            && self.crc.is_none();
        self.count += if goes_on { next.count } else { 0 };
        goes_on
    }
}

/// A chunk that becomes an object.
#[derive(Debug)]
pub struct UploadJob {
    /// Its number.
    pub chunk: u64,
    /// The name of the object.
    pub name: ChunkName,
    /// The number of its first page in the volume.
    first_page: u64,
    /// The number of the writer that makes it.
    pub writer: u128,
    /// Its pages, as far as they are known. After the upload, the memory, to be used again.
    pub bytes: Vec<u8>,
    /// The object that it replaces, and the pages that are taken over from there, by their places.
    base: Option<(ChunkObject, Vec<usize>)>,
    /// Pages that are taken over from records.
    inline: Vec<Piece>,
    /// How many uploads had failed when this one began.
    pub(crate) failures_before: u64,
}

impl UploadJob {
    /// The object `name` of `chunk`, put together of what `writer` has of `scope`, in the memory of
    /// `bytes`.
    pub fn new(
        writer: &Writer,
        scope: Scope,
        chunk: u64,
        name: ChunkName,
        mut bytes: Vec<u8>,
    ) -> UploadJob {
        let pages = writer.manifest().pages_of(chunk);
        bytes.clear();
        bytes.reserve_exact(writer.manifest().chunk_bytes as usize);
        let mut base = None;
        let mut inline = Vec::new();
        for (index, (page, source)) in writer.assemble(scope, chunk).enumerate() {
            match source {
                Source::Memory(memory) => {
                    bytes.extend(memory);
                    continue;
                }
                Source::Chunk(object, _) => {
                    let (_, places) = base.get_or_insert_with(|| (object, Vec::new()));
                    places.push(index);
                }
                Source::Record { .. } | Source::Zeros => {
                    inline.extend(Piece::new(index, page, source));
                }
            }
            bytes.extend([0; PAGE]);
        }
        UploadJob {
            chunk,
            name,
            first_page: pages.start,
            writer: writer.map().writer(),
            bytes,
            base,
            inline,
            failures_before: 0,
        }
    }

    /// The key of the object of which it takes pages over, if there is one.
    pub fn base(&self) -> Option<String> {
        self.base
            .as_ref()
            .map(|(object, _)| object.name.to_string())
    }

    /// The pages of that object; none if `stored` cannot be right.
    pub fn open_base(&self, codec: &PageCodec, stored: Vec<u8>) -> Option<Vec<u8>> {
        let (object, _) = self.base.as_ref()?;
        let pages = codec.pages_of(Holder::Chunk(object.name));
        let length = self.bytes.len() / PAGE * pages.stored_bytes() as usize;
        let is_right = stored.len() == length && crc32c(&stored) == object.crc;
        is_right.then(|| pages.open_all(self.first_page, stored))?
    }

    /// Takes over what it needs of the `found` pages of that object.
    pub fn take_base(&mut self, found: &[u8]) {
        for &place in self.base.iter().flat_map(|(_, places)| places) {
            let at = place * PAGE..(place + 1) * PAGE;
            self.bytes[at.clone()].copy_from_slice(&found[at]);
        }
    }

    /// Pages that it takes over from records.
    pub fn inline(&self) -> Vec<Piece> {
        self.inline.clone()
    }

    /// Takes `found` over, the page of `piece`.
    pub fn take_inline(&mut self, piece: &Piece, found: &[u8]) {
        let at = piece.first * PAGE;
        self.bytes[at..at + PAGE].copy_from_slice(found);
    }

    /// Whether all of it is zeros: no object is made then.
    pub fn is_zeros(&self) -> bool {
        // Eight bytes are looked at together, because a chunk has many.
        let (words, rest) = self.bytes.as_chunks::<8>();
        words.iter().all(|&word| u64::from_ne_bytes(word) == 0)
            && rest.iter().all(|&byte| byte == 0)
    }

    /// The object. Its memory is that of the pages, if they lie there as they are.
    pub fn object(&mut self, codec: &PageCodec) -> Vec<u8> {
        if codec.format() == PageFormat::Plain {
            return std::mem::take(&mut self.bytes);
        }
        let pages = codec.pages_of(Holder::Chunk(self.name));
        let count = self.bytes.len() / PAGE;
        let mut object = Vec::with_capacity(count * pages.stored_bytes() as usize);
        for (page, bytes) in (self.first_page..).zip(self.bytes.chunks_exact(PAGE)) {
            pages.seal(self.writer, page, bytes, &mut object);
        }
        object
    }
}

/// How a removal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// All of it is gone.
    Done,
    /// There was no answer.
    NotNow,
    /// It is of no use to ask again.
    Refused,
}
