//! The map: where every byte of a volume is, as of one record.
//!
//! - invariant VB1: a map is the replay of records 1 to its number, each of which carries the
//!   checksum of the one before. Whatever map the replay began with, its bytes are the same.
//! - invariant VB2: only the last writer that opened the volume commits. A record of another
//!   writer, or of another epoch, is damage.

use crate::checksum::crc32c;
use crate::chunk_table::{ChunkObject, ChunkTable, ENTRY_BYTES};
use crate::fault::VolumeFault;
use crate::fields::{Fields, close};
use crate::manifest::Manifest;
use crate::name::{ChunkName, log_key, map_key};
use crate::page_format::PAGE_BYTES;
use crate::record::{Body, Content, Record, page_at};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// More writers than that had no volume.
const EPOCHS_LIMIT: u64 = u32::MAX as u64;
/// The most pages that may lie in records. A commit that would exceed it makes chunks of some.
pub const INLINE_TOTAL: usize = 1 << 15;
/// Bytes of memory for each of them: entries of two trees, and of the object.
const INLINE_ENTRY_BYTES: u64 = 96;
/// Bytes of an entry of the object, more than usual: four are the checksum.
const OBJECT_ENTRY_BYTES: u64 = 12;
const MAGIC: [u8; 6] = *b"FBVMAP";
/// Maps of format 1 do not name their volume, and their entries have 28 bytes. Those of format 3
/// say how long the volume is, because it was resized.
const FORMAT: u16 = 2;
const RESIZED_FORMAT: u16 = 3;

/// A page that lies in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlinePage {
    /// In which record.
    pub record: u64,
    /// The byte of its object at which the page begins.
    pub at: u64,
    /// The checksum of the page.
    pub crc: u32,
}

/// Where every byte of a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The checksum of the manifest.
    volume: u32,
    /// The length of the volume, if it is not the one with which it was made.
    resized_bytes: Option<u64>,
    number: u64,
    checksum: u32,
    epoch: u64,
    writer: u128,
    settled: u64,
    /// What the last writer said of itself, and whether it has not closed the volume.
    who: String,
    is_open: bool,
    /// The records that opened the volume: they stay for ever, because they are the fence.
    openings: Vec<u64>,
    chunks: ChunkTable,
    pages: BTreeMap<u64, InlinePage>,
    /// The records in which they lie.
    records: BTreeMap<u64, RecordUse>,
}

/// What of a record is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordUse {
    /// Pages that it has, and those of them that are the newest.
    pub(crate) pages: u64,
    pub(crate) live: u64,
}

impl Map {
    /// The map of a new volume: zeros.
    pub fn new(manifest: &Manifest) -> Map {
        Map {
            volume: manifest.checksum(),
            resized_bytes: None,
            number: 0,
            checksum: manifest.checksum(),
            epoch: 0,
            writer: 0,
            settled: 0,
            who: String::new(),
            is_open: false,
            openings: Vec::new(),
            chunks: ChunkTable::default(),
            pages: BTreeMap::new(),
            records: BTreeMap::new(),
        }
    }

    /// The manifest of its volume, which is `manifest`, with the length that the volume has here.
    pub fn manifest(&self, manifest: &Manifest) -> Manifest {
        let made = manifest.as_made();
        self.resized_bytes.map_or(made, |length_bytes| {
            made.with_length(length_bytes)
                .expect("the length has been judged")
        })
    }

    /// The map with which `clone` begins, a clone of this state of the volume. Its manifest has the
    /// length of this state.
    #[must_use]
    pub fn of_clone(self, clone: &Manifest) -> Map {
        Map {
            volume: clone.checksum(),
            resized_bytes: None,
            is_open: false,
            ..self
        }
    }

    /// The last record that is in it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The checksum of that record.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// How many writers there were.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last one's number.
    pub fn writer(&self) -> u128 {
        self.writer
    }

    /// What the last one said of itself.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Whether the last one has not closed the volume.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Chunk objects of the last epoch below this number are named by now or never will be.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// The records that opened the volume.
    pub fn openings(&self) -> &[u64] {
        &self.openings
    }

    /// The object of `chunk`; none is a hole.
    pub fn chunk(&self, chunk: u64) -> Option<ChunkObject> {
        self.chunks.get(chunk)
    }

    /// How many chunks are no holes.
    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Page `page`, if it lies above its chunk.
    pub fn page(&self, page: u64) -> Option<InlinePage> {
        self.pages.get(&page).copied()
    }

    /// Every chunk that is no hole.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, ChunkObject)> + '_ {
        self.chunks.iter()
    }

    /// Every page that lies in a record.
    pub fn pages(&self) -> impl Iterator<Item = (u64, InlinePage)> + '_ {
        self.pages.iter().map(|(&page, &inline)| (page, inline))
    }

    /// Those of a range of pages that lie in records.
    pub fn pages_in(&self, range: Range<u64>) -> impl Iterator<Item = (u64, InlinePage)> + '_ {
        let pages = self.pages.range(range);
        pages.map(|(&page, &inline)| (page, inline))
    }

    /// The chunks that `other`, another state of the same volume, has elsewhere, or in part.
    pub fn differing_chunks(&self, other: &Map, manifest: &Manifest) -> BTreeSet<u64> {
        let chunk_pages = manifest.chunk_pages();
        let of = |one: &Map, other: &Map| -> Vec<u64> {
            let chunks = one.chunks();
            let chunks = chunks.filter(|&(chunk, it)| other.chunk(chunk) != Some(it));
            let pages = one.pages();
            let pages = pages.filter(|(page, it)| other.pages.get(page) != Some(it));
            let of_pages = pages.map(|(page, _)| page / chunk_pages);
            chunks.map(|(chunk, _)| chunk).chain(of_pages).collect()
        };
        of(self, other).into_iter().chain(of(other, self)).collect()
    }

    /// The bytes that `newer`, a later state of the same volume, has elsewhere.
    pub fn changed_bytes(&self, newer: &Map, manifest: &Manifest) -> Vec<Range<u64>> {
        let bytes_of = |pages: Range<u64>| pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
        let mut changed = Vec::new();
        for chunk in self.differing_chunks(newer, manifest) {
            let pages = manifest.pages_of(chunk);
            if self.chunk(chunk) != newer.chunk(chunk) {
                changed.push(bytes_of(pages));
                continue;
            }
            let differs = |page: &u64| self.pages.get(page) != newer.pages.get(page);
            changed.extend(pages.filter(differs).map(|page| bytes_of(page..page + 1)));
        }
        changed
    }

    /// The records in which pages lie, the oldest first, and how many pages of each are needed.
    pub fn needed_records(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.records.iter().map(|(&number, it)| (number, it.live))
    }

    /// How many pages lie in records.
    pub fn inline_pages(&self) -> usize {
        self.pages.len()
    }

    /// Moves on by `record`, whose object has the checksum `checksum`.
    ///
    /// # Errors
    /// [`VolumeFault::Damaged`] if it is not the next one, or says what no writer of `manifest`'s
    /// volume does. The map is then as it was.
    pub fn apply(
        &mut self,
        manifest: &Manifest,
        record: &Record,
        checksum: u32,
    ) -> Result<(), VolumeFault> {
        let manifest = &self.manifest(manifest);
        self.judge(manifest, record)
            .map_err(|what| VolumeFault::Damaged {
                key: log_key(record.number),
                what,
            })?;
        match &record.body {
            Body::Open { who } => {
                self.epoch = record.epoch;
                self.writer = record.writer;
                self.who.clone_from(who);
                self.is_open = true;
                self.openings.push(record.number);
            }
            Body::Commit { chunks, pages } => {
                for &(chunk, content) in chunks {
                    self.set_chunk(manifest, chunk, content);
                }
                if !pages.is_empty() {
                    let new = RecordUse {
                        pages: pages.len() as u64,
                        live: 0,
                    };
                    self.records.insert(record.number, new);
                }
                for (index, (page, content)) in pages.iter().enumerate() {
                    let inline = InlinePage {
                        record: record.number,
                        at: page_at(chunks.len(), pages.len(), index, content.len()),
                        crc: crc32c(content),
                    };
                    self.set_page(*page, inline);
                }
            }
            Body::Resize {
                length_bytes,
                chunks,
            } => self.resize(manifest, *length_bytes, chunks),
            Body::Close => self.is_open = false,
        }
        self.settled = record.settled;
        self.number = record.number;
        self.checksum = checksum;
        Ok(())
    }

    fn judge(&self, manifest: &Manifest, record: &Record) -> Result<(), &'static str> {
        if record.number != self.number + 1 || record.prior != self.checksum {
            return Err("it does not follow the record before");
        }
        let is_new = matches!(record.body, Body::Open { .. });
        let is_next = is_new && record.epoch > self.epoch;
        let is_same = !is_new
            && self.is_open
            && (record.epoch, record.writer) == (self.epoch, self.writer)
            && record.settled >= self.settled;
        if record.epoch > EPOCHS_LIMIT {
            return Err("its epoch");
        }
        if !is_next && !is_same {
            return Err("its writer had no right to it");
        }
        let past_the_end = Err("it lies past the end of the volume");
        match &record.body {
            Body::Commit { chunks, pages } => {
                let is_out = |&(chunk, _): &(u64, Content)| chunk >= manifest.chunks();
                let is_page_out = |(page, _): &(u64, Vec<u8>)| *page >= manifest.pages();
                if chunks.iter().any(is_out) || pages.iter().any(is_page_out) {
                    return past_the_end;
                }
            }
            Body::Resize {
                length_bytes,
                chunks,
            } => {
                let new = manifest.with_length(*length_bytes);
                let new = new.map_err(|_| "a length that no volume has")?;
                if chunks.iter().any(|&(chunk, _)| chunk >= new.chunks()) {
                    return past_the_end;
                }
                let is_named = |end: u64| chunks.iter().any(|&(chunk, _)| chunk == end);
                let is_torn = |end: &u64| !self.is_hole(manifest, *end) && !is_named(*end);
                if manifest.reshaped(&new).iter().any(is_torn) {
                    return Err("a chunk whose pages it changes is missing in it");
                }
            }
            Body::Open { .. } | Body::Close => {}
        }
        Ok(())
    }

    /// Whether `chunk` of the volume with `manifest` is zeros.
    pub(crate) fn is_hole(&self, manifest: &Manifest, chunk: u64) -> bool {
        let pages = manifest.pages_of(chunk);
        self.chunk(chunk).is_none() && self.pages_in(pages).next().is_none()
    }

    /// `manifest` has the length before.
    fn resize(&mut self, manifest: &Manifest, length_bytes: u64, chunks: &[(u64, Content)]) {
        for &(chunk, content) in chunks {
            self.set_chunk(manifest, chunk, content);
        }
        self.resized_bytes = Some(length_bytes);
        let new = self.manifest(manifest);
        let past = self.chunks().filter(|(chunk, _)| *chunk >= new.chunks());
        for chunk in past.map(|(chunk, _)| chunk).collect::<Vec<u64>>() {
            self.chunks.remove(chunk);
        }
        for (_, inline) in self.pages.split_off(&new.pages()) {
            self.leave(Some(inline));
        }
    }

    fn set_chunk(&mut self, manifest: &Manifest, chunk: u64, content: Content) {
        match content {
            Content::Hole => self.chunks.remove(chunk),
            Content::Object { name, crc } => {
                self.chunks.insert(chunk, ChunkObject { name, crc });
            }
        }
        let first = chunk * manifest.chunk_pages();
        let inside = first..first + manifest.chunk_pages();
        let covered: Vec<u64> = self.pages.range(inside).map(|(&page, _)| page).collect();
        for page in covered {
            let inline = self.pages.remove(&page);
            self.leave(inline);
        }
    }

    fn set_page(&mut self, page: u64, inline: InlinePage) {
        self.records.entry(inline.record).or_default().live += 1;
        let before = self.pages.insert(page, inline);
        self.leave(before);
    }

    /// A page of a record is needed no more.
    fn leave(&mut self, inline: Option<InlinePage>) {
        let Some(inline) = inline else {
            return;
        };
        if let Some(record) = self.records.get_mut(&inline.record) {
            record.live -= 1;
            if record.live == 0 {
                self.records.remove(&inline.record);
            }
        }
    }

    /// The records in which pages lie, the oldest first.
    pub(crate) fn records(&self) -> &BTreeMap<u64, RecordUse> {
        &self.records
    }

    /// About the bytes of the map as an object.
    pub fn object_bytes(&self) -> u64 {
        let openings = 8 * self.openings.len() as u64;
        let entries = self.chunks.len() + 2 * self.pages.len();
        512 + openings + OBJECT_ENTRY_BYTES * entries as u64
    }

    /// The bytes of memory that the map of a volume takes at most: each chunk and each page that
    /// lies in a record has its entry, and the map is an object now and then.
    pub fn memory_bytes(manifest: &Manifest) -> u64 {
        let inline_pages = manifest.pages().min(INLINE_TOTAL as u64);
        manifest.chunks() * (ENTRY_BYTES + OBJECT_ENTRY_BYTES) + inline_pages * INLINE_ENTRY_BYTES
    }

    /// The map as an object.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.object_bytes() as usize);
        bytes.extend(MAGIC);
        let format = self.resized_bytes.map_or(FORMAT, |_| RESIZED_FORMAT);
        bytes.extend(format.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.checksum.to_le_bytes());
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.writer.to_le_bytes());
        bytes.extend(self.settled.to_le_bytes());
        bytes.extend(u32::from(self.is_open).to_le_bytes());
        bytes.extend(self.volume.to_le_bytes());
        if let Some(length_bytes) = self.resized_bytes {
            bytes.extend(length_bytes.to_le_bytes());
        }
        let count = |bytes: &mut Vec<u8>, count: usize| {
            bytes.extend((count as u64).to_le_bytes());
        };
        count(&mut bytes, self.who.len());
        bytes.extend(self.who.as_bytes());
        count(&mut bytes, self.openings.len());
        for number in &self.openings {
            bytes.extend(number.to_le_bytes());
        }
        count(&mut bytes, self.chunks.len());
        let mut before = [0; 3];
        for (chunk, object) in self.chunks.iter() {
            let ChunkName { epoch, number } = object.name;
            steps(&mut bytes, &mut before, [chunk, epoch, number]);
            bytes.extend(object.crc.to_le_bytes());
        }
        count(&mut bytes, self.pages.len());
        let mut before = [0; 3];
        for (page, inline) in &self.pages {
            steps(&mut bytes, &mut before, [*page, inline.record, inline.at]);
            bytes.extend(inline.crc.to_le_bytes());
        }
        count(&mut bytes, self.records.len());
        let mut before = [0; 3];
        for (record, it) in &self.records {
            steps(&mut bytes, &mut before, [*record, it.pages, it.live]);
        }
        close(&mut bytes);
        bytes
    }

    fn read_records(&mut self, fields: &mut Fields<'_>) -> Result<(), VolumeFault> {
        let mut before = [0; 3];
        for _ in 0..fields.count(3)? {
            let [record, pages, live] = entry(fields, &mut before)?;
            let known = self.records.get_mut(&record);
            let known = known.filter(|it| it.pages == 0 && it.live == live && pages >= live);
            known.ok_or(fields.damaged("a record"))?.pages = pages;
        }
        if self.records.values().any(|it| it.pages == 0) {
            return Err(fields.damaged("its records"));
        }
        Ok(())
    }

    /// The bytes at its beginning that name its format.
    pub const HEAD_BYTES: u64 = MAGIC.len() as u64 + 2;

    /// Whether the map that begins with `head` is of format 1, whose programs kept one map.
    pub fn is_first_format(head: &[u8]) -> bool {
        head.strip_prefix(&MAGIC)
            .is_some_and(|format| format.starts_with(&1_u16.to_le_bytes()))
    }

    /// The map as of record `number`, in `bytes`.
    ///
    /// # Errors
    /// [`VolumeFault::Newer`], [`VolumeFault::Damaged`].
    pub fn decode(manifest: &Manifest, number: u64, bytes: &[u8]) -> Result<Map, VolumeFault> {
        let key = map_key(number);
        let mut fields = Fields::open(&key, bytes, MAGIC, RESIZED_FORMAT)?;
        let mut map = Map {
            number: fields.u64()?,
            checksum: fields.u32()?,
            epoch: fields.u64()?,
            writer: fields.u128()?,
            settled: fields.u64()?,
            is_open: match fields.u32()? {
                0 => false,
                1 => true,
                _ => return Err(fields.damaged("whether it is open")),
            },
            ..Map::new(manifest)
        };
        if fields.format() > 1 && fields.u32()? != map.volume {
            return Err(fields.damaged("it is of another volume"));
        }
        if fields.format() >= RESIZED_FORMAT {
            let length_bytes = fields.u64()?;
            let is_length = manifest.with_length(length_bytes).is_ok();
            map.resized_bytes = Some(length_bytes).filter(|_| is_length);
            map.resized_bytes.ok_or(fields.damaged("its length"))?;
        }
        let manifest = &map.manifest(manifest);
        if map.number != number {
            return Err(fields.damaged("its number"));
        }
        let length = fields.count(1)?;
        let who = str::from_utf8(fields.bytes(length)?).map_err(|_| fields.damaged("its text"))?;
        who.clone_into(&mut map.who);
        for _ in 0..fields.count(8)? {
            map.openings.push(fields.u64()?);
        }
        let least_bytes = if fields.format() > 1 { 7 } else { 28 };
        let mut before = [0; 3];
        for _ in 0..fields.count(least_bytes)? {
            let [chunk, epoch, number] = entry(&mut fields, &mut before)?;
            let crc = fields.u32()?;
            if chunk >= manifest.chunks() || !(1..=EPOCHS_LIMIT).contains(&epoch) {
                return Err(fields.damaged("a chunk that the volume does not have"));
            }
            let name = ChunkName { epoch, number };
            map.chunks.insert(chunk, ChunkObject { name, crc });
        }
        let mut before = [0; 3];
        for _ in 0..fields.count(least_bytes)? {
            let [page, record, at] = entry(&mut fields, &mut before)?;
            let crc = fields.u32()?;
            if page >= manifest.pages() {
                return Err(fields.damaged("it lies past the end of the volume"));
            }
            map.set_page(page, InlinePage { record, at, crc });
        }
        if fields.format() > 1 {
            map.read_records(&mut fields)?;
        } else {
            map.records.values_mut().for_each(|it| it.pages = it.live);
        }
        fields.end()?;
        Ok(map)
    }
}

/// Three numbers of an entry, as steps from those of the entry before: most are small, and a step
/// in seven bits of each byte takes one.
fn steps(bytes: &mut Vec<u8>, before: &mut [u64; 3], numbers: [u64; 3]) {
    for (before, number) in before.iter_mut().zip(numbers) {
        let step = number.wrapping_sub(*before) as i64;
        let mut rest = ((step << 1) ^ (step >> 63)) as u64;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        *before = number;
    }
}

fn entry(fields: &mut Fields<'_>, before: &mut [u64; 3]) -> Result<[u64; 3], VolumeFault> {
    for before in before.iter_mut() {
        if fields.format() == 1 {
            *before = fields.u64()?;
            continue;
        }
        let mut step = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = u64::from(fields.bytes(1)?[0]);
            step |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        *before = before.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg());
    }
    Ok(*before)
}
