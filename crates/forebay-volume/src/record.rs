//! Records of the log: what one commit changes, or who writes from here on.

use crate::checksum::crc32c;
use crate::fault::VolumeFault;
use crate::fields::{Fields, close};
use crate::manifest::CHUNKS_LIMIT;
use crate::name::{ChunkName, log_key};
use crate::page_format::PAGE;
use crate::page_format::PageFormat;

const MAGIC: [u8; 6] = *b"FBVREC";
/// Records of format 1 have one copy, fewer pages, and do not name a map; the pages of format 3 are
/// encrypted; one of format 4 changes the length of the volume.
const FORMAT: u16 = 2;
const SEALED_FORMAT: u16 = 3;
const RESIZED_FORMAT: u16 = 4;
const OLD_INLINE_PAGES: usize = 16;
/// Bytes before the entries, and of one entry.
const HEAD_BYTES: usize = 8 + 8 + 8 + 16 + 8 + 4 + 4 + 8 + 8;
const ENTRY_BYTES: usize = 4 + 4 + 8 + 8;
const MAPPED_BYTES: usize = 8;
/// The kind and two counts, a length, the newest map, and a checksum.
const REST_BYTES: usize = 4 + 8 + 8 + 8 + MAPPED_BYTES + 4;
/// The most pages that a record carries: a commit of no more pages needs no other object.
pub const INLINE_PAGES: usize = 512;
/// The most bytes that a writer says of itself.
pub const WHO_BYTES: usize = 256;

/// What a chunk becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Zeros.
    Hole,
    /// The bytes of an object.
    Object {
        /// Its name.
        name: ChunkName,
        /// The checksum of the whole chunk.
        crc: u32,
    },
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A new writer: nobody else commits from here on.
    Open {
        /// What it says of itself: host and process.
        who: String,
    },
    /// What a commit changes. Chunks come first, and pages lie above them.
    Commit {
        /// Chunks, by number.
        chunks: Vec<(u64, Content)>,
        /// Pages, by number, as they lie in the record: see [`PageFormat::record_bytes`].
        pages: Vec<(u64, Vec<u8>)>,
    },
    /// The volume gets another length. What lies past that is gone.
    Resize {
        /// The new length.
        length_bytes: u64,
        /// Chunks that change with it: those at the old and the new end among them, if they have
        /// other pages than before.
        chunks: Vec<(u64, Content)>,
    },
    /// The writer has ended.
    Close,
}

/// Number `number` of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the log.
    pub number: u64,
    /// How many writers there were, this one included.
    pub epoch: u64,
    /// A number that no other writer has: it makes the bytes of a record its writer's own.
    pub writer: u128,
    /// Chunk objects of this epoch below this number are named by now or never will be.
    pub settled: u64,
    /// The checksum of the record before, or of the manifest.
    pub prior: u32,
    /// The newest map that its writer knew to be there; 0 is none.
    pub mapped: u64,
    /// What it says.
    pub body: Body,
}

impl Record {
    /// The record as an object, and its checksum.
    ///
    /// ```
    /// use forebay_volume::{Body, Record};
    /// let body = Body::Open { who: "host a, process 812".into() };
    /// let record = Record {
    ///     number: 1,
    ///     epoch: 1,
    ///     writer: 7,
    ///     settled: 0,
    ///     prior: 3,
    ///     mapped: 0,
    ///     body,
    /// };
    /// let (bytes, checksum) = record.encode();
    /// assert_eq!(Record::decode(1, &bytes)?, (record, checksum));
    /// # Ok::<(), forebay_volume::VolumeFault>(())
    /// ```
    pub fn encode(&self) -> (Vec<u8>, u32) {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.format().to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.writer.to_le_bytes());
        bytes.extend(self.settled.to_le_bytes());
        bytes.extend(self.prior.to_le_bytes());
        let (kind, chunks, pages, who): (u32, &[_], &[_], &str) = match &self.body {
            Body::Open { who } => (0, &[], &[], who),
            Body::Commit { chunks, pages } => (1, chunks, pages, ""),
            Body::Close => (2, &[], &[], ""),
            Body::Resize { chunks, .. } => (3, chunks, &[], ""),
        };
        let content_bytes: usize = pages.iter().map(|(_, content)| content.len()).sum();
        let entries_bytes = (chunks.len() + pages.len()) * ENTRY_BYTES;
        // A vector that grows by itself takes up to twice as much.
        bytes.reserve_exact(entries_bytes + content_bytes + who.len() + REST_BYTES);
        bytes.extend(kind.to_le_bytes());
        bytes.extend((chunks.len() as u64).to_le_bytes());
        bytes.extend((pages.len() as u64).to_le_bytes());
        let mut entry = |kind: u32, crc: u32, place: u64, number: u64| {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(crc.to_le_bytes());
            bytes.extend(place.to_le_bytes());
            bytes.extend(number.to_le_bytes());
        };
        for &(chunk, content) in chunks {
            match content {
                Content::Hole => entry(0, 0, chunk, 0),
                Content::Object { name, crc } => entry(1, crc, chunk, name.number),
            }
        }
        for (page, content) in pages {
            entry(2, crc32c(content), *page, 0);
        }
        for (_, content) in pages {
            bytes.extend(content);
        }
        bytes.extend(who.as_bytes());
        if let Body::Resize { length_bytes, .. } = self.body {
            bytes.extend(length_bytes.to_le_bytes());
        }
        // At the end, so that pages lie where they lay in format 1.
        bytes.extend(self.mapped.to_le_bytes());
        let checksum = close(&mut bytes);
        (bytes, checksum)
    }

    fn format(&self) -> u16 {
        match &self.body {
            Body::Commit { pages, .. } if pages.iter().any(|(_, it)| it.len() != PAGE) => {
                SEALED_FORMAT
            }
            Body::Resize { .. } => RESIZED_FORMAT,
            _ => FORMAT,
        }
    }

    /// Whether the record in `bytes` is of a format that has two copies.
    pub fn has_twin(bytes: &[u8]) -> bool {
        let format = bytes.get(MAGIC.len()..).and_then(<[u8]>::first_chunk);
        format.is_some_and(|&format| u16::from_le_bytes(format) > 1)
    }

    /// Number `number` of the log in `bytes`, and its checksum.
    ///
    /// # Errors
    /// [`VolumeFault::Newer`], [`VolumeFault::Damaged`].
    pub fn decode(number: u64, bytes: &[u8]) -> Result<(Record, u32), VolumeFault> {
        let key = log_key(number);
        let mut fields = Fields::open(&key, bytes, MAGIC, RESIZED_FORMAT)?;
        if fields.u64()? != number {
            return Err(fields.damaged("its number"));
        }
        let (epoch, writer) = (fields.u64()?, fields.u128()?);
        let (settled, prior, kind) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let chunks = fields.count(ENTRY_BYTES)?;
        let pages = fields.u64()?;
        let is_old = fields.format() == 1;
        let most_pages = if is_old {
            OLD_INLINE_PAGES
        } else {
            INLINE_PAGES
        };
        if pages > most_pages as u64 || chunks as u64 > CHUNKS_LIMIT {
            return Err(fields.damaged("a count"));
        }
        let body = match kind {
            1 => {
                let chunks = changed(&mut fields, epoch, chunks)?;
                let pages = carried(&mut fields, pages as usize)?;
                Body::Commit { chunks, pages }
            }
            3 if fields.format() != RESIZED_FORMAT => return Err(fields.damaged("its kind")),
            3 if pages > 0 => return Err(fields.damaged("a count")),
            3 => {
                let chunks = changed(&mut fields, epoch, chunks)?;
                let length_bytes = fields.u64()?;
                Body::Resize {
                    length_bytes,
                    chunks,
                }
            }
            0 | 2 if chunks > 0 || pages > 0 => return Err(fields.damaged("a count")),
            0 => Body::Open {
                who: who(&mut fields, if is_old { 0 } else { MAPPED_BYTES })?,
            },
            2 => Body::Close,
            _ => return Err(fields.damaged("its kind")),
        };
        let mapped = if is_old { 0 } else { fields.u64()? };
        let checksum = fields.checksum();
        fields.end()?;
        let record = Record {
            number,
            epoch,
            writer,
            settled,
            prior,
            mapped,
            body,
        };
        Ok((record, checksum))
    }
}

/// What is left, except the last `after_bytes`.
fn who(fields: &mut Fields<'_>, after_bytes: usize) -> Result<String, VolumeFault> {
    let length = fields.left().checked_sub(after_bytes);
    let length = length.filter(|&length| length <= WHO_BYTES);
    let length = length.ok_or(fields.damaged("its length"))?;
    let text = fields.bytes(length)?;
    let text = str::from_utf8(text).map_err(|_| fields.damaged("its text"))?;
    Ok(text.to_owned())
}

/// The kind of an entry, a checksum, the chunk or the page, and the number of an object.
fn entry(fields: &mut Fields<'_>) -> Result<(u32, u32, u64, u64), VolumeFault> {
    Ok((fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?))
}

/// The chunks of a record.
fn changed(
    fields: &mut Fields<'_>,
    epoch: u64,
    count: usize,
) -> Result<Vec<(u64, Content)>, VolumeFault> {
    let mut changed = Vec::with_capacity(count);
    for _ in 0..count {
        let content = match entry(fields)? {
            (0, 0, chunk, 0) => (chunk, Content::Hole),
            (1, crc, chunk, number) => {
                let name = ChunkName { epoch, number };
                (chunk, Content::Object { name, crc })
            }
            _ => return Err(fields.damaged("an entry")),
        };
        changed.push(content);
    }
    Ok(changed)
}

/// The pages of a record.
fn carried(fields: &mut Fields<'_>, count: usize) -> Result<Vec<(u64, Vec<u8>)>, VolumeFault> {
    let mut sums = Vec::with_capacity(count);
    for _ in 0..count {
        match entry(fields)? {
            (2, crc, page, 0) => sums.push((page, crc)),
            _ => return Err(fields.damaged("an entry")),
        }
    }
    let page_bytes = match fields.format() {
        SEALED_FORMAT => PageFormat::Encrypted.record_bytes() as usize,
        _ => PAGE,
    };
    let mut carried = Vec::with_capacity(count);
    for (page, crc) in sums {
        let content = fields.bytes(page_bytes)?;
        if crc32c(content) != crc {
            return Err(fields.damaged("a page"));
        }
        carried.push((page, content.to_vec()));
    }
    Ok(carried)
}

/// Where page `index` of a record with this many chunks and pages begins in its object. All pages
/// have `page_bytes` there.
pub(crate) fn page_at(chunks: usize, pages: usize, index: usize, page_bytes: usize) -> u64 {
    let entries = (chunks + pages) * ENTRY_BYTES;
    (HEAD_BYTES + entries + index * page_bytes) as u64
}
