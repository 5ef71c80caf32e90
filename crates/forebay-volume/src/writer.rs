//! What a writer keeps between commits: pages that came, chunks that are in objects of their own,
//! and the record that is being made.
//!
//! - invariant VB5: what a read sees is the newest write of each page, whether it is staged, in an
//!   object that no record names yet, or committed.
//! - invariant VB6: a record names only objects that were made before it.
//! - invariant VB7: while it is not known what became of a record, no other one is tried.
//! - invariant VB12: a record that was begun with [`Writer::freeze`] holds every change that came
//!   before that, and none that came after.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::checksum::crc32c;
use crate::collecting::MAPPED;
use crate::fault::VolumeFault;
use crate::layer::{Layer, Layers, Scope, Source, Staged};
use crate::manifest::Manifest;
use crate::map::{INLINE_TOTAL, InlinePage, Map};
use crate::name::{ChunkName, MAPPED_KEY, Twin, map_key};
use crate::opening::Opened;
use crate::page_format::PAGE;
use crate::pages::{Holder, PageCodec};
use crate::record::{Body, Content, INLINE_PAGES, Record};
use crate::twins::Twins;
use crate::waste::Waste;
use std::collections::{BTreeSet, BinaryHeap};

/// A chunk becomes an object if a commit has this part of its pages. What lies in records is read
/// page by page for it, so it stays there as long as there is room.
const WORTH: usize = 2;
/// Records of which the one is found that has the fewest of its pages left.
const SPARSE_LOOK: usize = 256;
/// Pages that are moved out of a record at a time.
const MOVED_PAGES: usize = 128;
/// Records between maps at least, so that a start reads few.
pub const RECORDS_BETWEEN_MAPS: u64 = 256;
/// Bytes of a map for each record since the last one at most: a large map is made less often.
const MAP_BYTES_PER_RECORD: u64 = 4096;
/// A map that lets objects be removed may cost this part of the bytes that came since the last one.
const MAP_SHARE: u64 = 8;

/// What has to be done for a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: nothing has changed.
    Nothing,
    /// These chunks first: see [`Writer::assemble`].
    Chunks(Vec<u64>),
    /// A record: see [`Writer::seal`].
    Record,
}

/// What an object of a chunk would take in. Those that are made first are the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fill {
    is_worth: bool,
    /// Pages above the chunk: those of the layer, and those in records.
    above: usize,
    of_layer: usize,
    chunk: u64,
}

/// How often each of `chunks` comes; they come in order.
fn counts(chunks: impl Iterator<Item = u64>) -> impl Iterator<Item = (u64, usize)> {
    let mut chunks = chunks.peekable();
    std::iter::from_fn(move || {
        let chunk = chunks.next()?;
        let mut count = 1;
        while chunks.next_if_eq(&chunk).is_some() {
            count += 1;
        }
        Some((chunk, count))
    })
}

/// Whether [`MAPPED_KEY`] is known to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marking {
    NotNeeded,
    /// A map is there that lets records be removed, once this is made.
    Due,
    Done,
}

/// A volume that is open for writing.
#[derive(Clone, Debug)]
pub struct Writer {
    manifest: Manifest,
    codec: PageCodec,
    /// As of the last record, and of the one in doubt.
    map: Map,
    base: u64,
    /// The record that opened the volume for this writer.
    opening: u64,
    next_object: u64,
    layers: Layers,
    sealed: Option<Twins>,
    /// The next record gives the volume the length that `manifest` has already.
    is_resizing: bool,
    /// Pages that lie in records and shall lie in the next one.
    moved: Vec<(u64, InlinePage, Vec<u8>)>,
    waste: Waste,
    marking: Marking,
    is_fenced: bool,
    /// Memory of pages that are staged no longer. Fresh memory costs more than what is put there.
    spares: Vec<Vec<u8>>,
}

impl Writer {
    /// The writer of `opened`, which was opened for writing. It makes no objects with pages of an
    /// encrypted volume: see [`Writer::with_codec`].
    pub fn new(opened: Opened) -> Writer {
        Writer::with_codec(opened, PageCodec::plain())
    }

    /// The same with what puts pages into the objects of this volume.
    pub fn with_codec(opened: Opened, codec: PageCodec) -> Writer {
        Writer {
            codec,
            waste: Waste::new(&opened.manifest, &opened.map, opened.base, opened.older),
            marking: Marking::NotNeeded,
            manifest: opened.manifest,
            opening: opened.map.number(),
            map: opened.map,
            base: opened.base,
            next_object: 0,
            layers: Layers::default(),
            sealed: None,
            moved: Vec::new(),
            is_resizing: false,
            is_fenced: false,
            spares: Vec::new(),
        }
    }

    /// Shows `opened` from now on, a later state of the same volume. For those who only read.
    pub fn follow(&mut self, opened: Opened) {
        *self = Writer::with_codec(opened, self.codec.clone());
    }

    /// What never changes of the volume.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The map as of the last record.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// How many pages are staged, or stay in memory until the record is there in which they are
    /// encrypted.
    pub fn staged_pages(&self) -> usize {
        let unsealed = self.sealed.as_ref().map_or(0, |it| it.unsealed.len());
        self.unrecorded_pages() + unsealed
    }

    /// How many pages are staged for a later record than the one that is being made.
    pub fn unrecorded_pages(&self) -> usize {
        self.layers.staged_pages()
    }

    /// How many pages of `chunk` are staged, since the last freeze.
    pub fn staged_in(&self, chunk: u64) -> u64 {
        self.layers.fresh.staged_in(self.pages_of(chunk)) as u64
    }

    /// Whether `chunk` has pages that are staged in the newest layer of `scope`, or lie in records:
    /// an object of its own would take them in.
    pub fn has_pages_above(&self, scope: Scope, chunk: u64) -> bool {
        let layer = match scope {
            Scope::Record => self.layers.next(),
            Scope::All => &self.layers.fresh,
        };
        layer.staged_in(self.pages_of(chunk)) > 0 || self.inline_in(chunk) > 0
    }

    /// Whether something waits for a record.
    pub fn has_changes(&self) -> bool {
        !self.layers.are_empty()
    }

    /// From now on, until [`Writer::seal`] or [`Writer::thaw`], the next record holds what came
    /// before this.
    ///
    /// # Panics
    /// If that was said before.
    pub fn freeze(&mut self) {
        assert!(self.layers.frozen.is_none(), "one record at a time");
        if !self.layers.fresh.is_empty() {
            self.stage_moved();
        }
        self.layers.freeze();
    }

    /// The next record holds everything again. Objects that are being made for it alone come too
    /// late: pages may have been staged above them since.
    pub fn thaw(&mut self) {
        for useless in self.layers.thaw(self.manifest.chunk_pages()) {
            self.forget(Some(useless));
        }
    }

    /// Whether the object `name` is being made of what the next record holds.
    pub fn is_for_record(&self, name: ChunkName) -> bool {
        self.layers.is_for_record(name.number)
    }

    /// Whether the object `name` is being made of everything: a page that is staged in its chunk
    /// meanwhile would be lost.
    pub fn is_of_all(&self, name: ChunkName) -> bool {
        self.layers.is_of_all(name.number)
    }

    /// Whether a record will name the object `name` once it is made. Otherwise what it is made of
    /// may be removed before it is read.
    pub fn is_wanted(&self, name: ChunkName) -> bool {
        self.is_for_record(name) || self.is_of_all(name)
    }

    /// Whether another writer has taken the volume over.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Where page `page` is.
    pub fn source(&self, page: u64) -> Source<'_> {
        self.source_in(Scope::All, page)
    }

    fn source_in(&self, scope: Scope, page: u64) -> Source<'_> {
        let chunk = page / self.manifest.chunk_pages();
        let index = page % self.manifest.chunk_pages();
        let at = index * self.manifest.pages.stored_bytes();
        let mut layers = self.layers.of(scope);
        if let Some(source) = layers.find_map(|it| it.source(page, chunk, at)) {
            return source;
        }
        let Some(inline) = self.map.page(page) else {
            return match self.map.chunk(chunk) {
                Some(object) => Source::Chunk(object, at),
                None => Source::Zeros,
            };
        };
        match &self.sealed {
            Some(twins) if inline.record == self.map.number() => {
                let start = inline.at as usize;
                let unsealed = twins.unsealed.get(&page).map(Vec::as_slice);
                Source::Memory(unsealed.unwrap_or_else(|| &twins.bytes()[start..start + PAGE]))
            }
            _ => Source::Record {
                record: inline.record,
                at: inline.at,
                crc: inline.crc,
            },
        }
    }

    /// Takes the bytes of `page`.
    ///
    /// # Panics
    /// If it lies past the end, or is not a page long.
    pub fn stage(&mut self, page: u64, bytes: &[u8]) {
        assert_eq!(bytes.len(), PAGE, "a whole page");
        self.stage_with(page, |to| to.copy_from_slice(bytes));
    }

    /// Takes what `fill` puts into `page`. It has to fill all of it: what is there before is of no
    /// page.
    ///
    /// # Panics
    /// If it lies past the end.
    pub fn stage_with(&mut self, page: u64, fill: impl FnOnce(&mut [u8])) {
        assert!(page < self.manifest.pages(), "a page of the volume");
        let spares = &mut self.spares;
        let staged = self.layers.fresh.staged.entry(page);
        fill(staged.or_insert_with(|| spares.pop().unwrap_or_else(|| vec![0; PAGE])));
    }

    /// Makes the whole of `chunk` zeros.
    ///
    /// # Panics
    /// If it lies past the end.
    pub fn discard(&mut self, chunk: u64) {
        assert!(chunk < self.manifest.chunks(), "a chunk of the volume");
        let pages = self.pages_of(chunk);
        self.layers
            .fresh
            .drop_staged(pages.clone(), &mut self.spares);
        let frozen = self.layers.frozen.as_ref();
        let below = frozen.and_then(|frozen| frozen.is_hole(chunk, pages));
        let replaced = if below.unwrap_or_else(|| self.was_hole(chunk)) {
            self.layers.fresh.pending.remove(&chunk)
        } else {
            self.layers.fresh.pending.insert(chunk, Content::Hole)
        };
        self.forget(replaced);
    }

    /// Whether `chunk` is zeros, as far as is known without reading.
    pub fn is_hole(&self, chunk: u64) -> bool {
        let mut layers = self.layers.of(Scope::All);
        let known = layers.find_map(|it| it.is_hole(chunk, self.pages_of(chunk)));
        known.unwrap_or_else(|| self.was_hole(chunk))
    }

    /// Whether `chunk` is zeros as of the last record.
    fn was_hole(&self, chunk: u64) -> bool {
        self.map.is_hole(&self.manifest, chunk)
    }

    /// Up to `count` chunks with the most pages that were staged since the last freeze.
    pub fn fullest(&self, count: usize) -> Vec<u64> {
        self.layers
            .fresh
            .fullest(count, self.manifest.chunk_pages())
    }

    /// From now on, and from the next record on for all others, the volume has `length_bytes`. Each
    /// of its chunks that is reshaped ([`Manifest::reshaped`]) and no hole has to be made before
    /// that record.
    ///
    /// # Errors
    /// [`VolumeFault::OutOfRange`].
    ///
    /// # Panics
    /// If something waits for a record.
    pub fn resize(&mut self, length_bytes: u64) -> Result<(), VolumeFault> {
        assert!(!self.has_changes(), "what was written comes first");
        self.manifest = self.manifest.with_length(length_bytes)?;
        self.is_resizing = true;
        Ok(())
    }

    /// What a commit needs now.
    pub fn need(&self) -> Need {
        if self.is_resizing {
            return Need::Record;
        }
        let layer = self.layers.next();
        if layer.staged.is_empty() {
            return if layer.pending.is_empty() {
                Need::Nothing
            } else {
                Need::Record
            };
        }
        let chunks = self.worth_writing(layer);
        if chunks.is_empty() {
            return Need::Record;
        }
        Need::Chunks(chunks)
    }

    /// The chunks that a commit of `layer` makes objects of: those of which much has changed, and
    /// as many others as it takes for the rest to have room in a record, and in all records.
    fn worth_writing(&self, layer: &Layer) -> Vec<u64> {
        // What lies in records of a chunk that has its object already is needed no more.
        let is_made = |chunk: u64| layer.pending.contains_key(&chunk);
        let made = layer.pending.keys().map(|&chunk| self.inline_in(chunk));
        let mut inline = self.map.inline_pages() - made.sum::<usize>();
        let mut staged = layer.staged.len();
        let most = INLINE_TOTAL.min(self.manifest.pages() as usize);
        let chunk_of = |page: u64| page / self.manifest.chunk_pages();
        let own = |(chunk, of_layer): (u64, usize)| {
            let pages = self.pages_of(chunk);
            let below = if is_made(chunk) {
                0
            } else {
                self.inline_in(chunk)
            };
            Fill {
                is_worth: of_layer * WORTH >= (pages.end - pages.start) as usize,
                above: of_layer + below,
                of_layer,
                chunk,
            }
        };
        let mut fills: BinaryHeap<Fill> = counts(layer.staged.keys().map(|&page| chunk_of(page)))
            .map(own)
            .collect();
        if inline + staged > most {
            // Some of what lies in records goes to chunks, so that there is room again.
            let own: BTreeSet<u64> = fills.iter().map(|fill| fill.chunk).collect();
            let others = counts(self.map.pages().map(|(page, _)| chunk_of(page)));
            let others = others.filter(|(chunk, _)| !own.contains(chunk) && !is_made(*chunk));
            fills.extend(others.map(|(chunk, above)| Fill {
                is_worth: false,
                above,
                of_layer: 0,
                chunk,
            }));
        }
        let mut needed = Vec::new();
        while let Some(fill) = fills.pop() {
            if !fill.is_worth && staged <= INLINE_PAGES && inline + staged <= most {
                break;
            }
            staged -= fill.of_layer;
            inline -= fill.above - fill.of_layer;
            needed.push(fill.chunk);
        }
        needed
    }

    /// Pages to be moved with [`Writer::moved`], because the record in which they lie has few that
    /// are needed: it could go without them. None while records have at most `spare_pages` more
    /// than are needed.
    pub fn sparse_pages(&self, spare_pages: u64) -> Vec<(u64, InlinePage)> {
        let records = self.map.records();
        let live = self.map.inline_pages() as u64;
        let pages: u64 = records.values().map(|it| it.pages).sum();
        if pages <= live + spare_pages || self.is_recording() {
            return Vec::new();
        }
        let oldest = records.iter().take(SPARSE_LOOK);
        let sparsest = oldest.min_by_key(|(_, it)| it.live * 1_000 / it.pages.max(1));
        let Some((&record, _)) = sparsest else {
            return Vec::new();
        };
        let lie_there = self
            .map
            .pages()
            .filter(|(_, inline)| inline.record == record);
        lie_there.take(MOVED_PAGES).collect()
    }

    /// Takes the bytes of a page that [`Writer::sparse_pages`] named, for the next record of
    /// changes.
    pub fn moved(&mut self, page: u64, from: InlinePage, bytes: Vec<u8>) {
        if self.moved.len() < MOVED_PAGES {
            self.moved.push((page, from, bytes));
        }
    }

    /// What was written since then is newer. An object that is being made of its chunk has the same
    /// bytes.
    fn stage_moved(&mut self) {
        for (page, from, bytes) in std::mem::take(&mut self.moved) {
            let InlinePage { record, at, crc } = from;
            if self.source(page) == (Source::Record { record, at, crc }) {
                self.layers.fresh.staged.insert(page, bytes);
            }
        }
    }

    /// The pages of `chunk` in order, to be put together into an object.
    pub fn assemble(
        &self,
        scope: Scope,
        chunk: u64,
    ) -> impl Iterator<Item = (u64, Source<'_>)> + '_ {
        self.pages_of(chunk)
            .map(move |page| (page, self.source_in(scope, page)))
    }

    /// A name for the object of a chunk that is put together of `scope`, used by nobody else.
    pub fn name(&mut self, scope: Scope) -> ChunkName {
        let name = ChunkName {
            epoch: self.map.epoch(),
            number: self.next_object,
        };
        self.layers.begin_object(name.number, scope);
        self.next_object += 1;
        name
    }

    /// The object `name` is there, with all that its scope of `chunk` had when it was put together;
    /// nothing has been staged there since ([`Writer::is_of_all`]).
    pub fn made(&mut self, chunk: u64, name: ChunkName, bytes: &[u8]) {
        let crc = crc32c(bytes);
        self.made_with(chunk, name, crc);
    }

    /// The same, with the checksum of the bytes.
    pub fn made_with(&mut self, chunk: u64, name: ChunkName, crc: u32) {
        self.made_of(chunk, name, Content::Object { name, crc });
    }

    /// The object `name` would have been zeros, and was not made: the chunk is a hole.
    pub fn made_zeros(&mut self, chunk: u64, name: ChunkName) {
        self.made_of(chunk, name, Content::Hole);
    }

    fn made_of(&mut self, chunk: u64, name: ChunkName, made: Content) {
        let (is_for_record, is_of_all) = (self.is_for_record(name), self.is_of_all(name));
        self.layers.end_object(name.number);
        let pages = self.pages_of(chunk);
        let layer = match &mut self.layers.frozen {
            Some(frozen) if is_for_record => frozen,
            _ if is_of_all => &mut self.layers.fresh,
            // The record that it was for gave up.
            _ => return self.forget(Some(made)),
        };
        layer.drop_staged(pages, &mut self.spares);
        let replaced = layer.pending.insert(chunk, made);
        self.forget(replaced);
    }

    /// No record will name what was made for the next one and is replaced already.
    fn forget(&mut self, replaced: Option<Content>) {
        if let Some(Content::Object { name, .. }) = replaced {
            self.waste.never_named(name);
        }
    }

    /// The object `name` could not be made, and nobody will name it.
    pub fn not_made(&mut self, name: ChunkName) {
        self.layers.end_object(name.number);
        // It may have been made all the same.
        self.waste.never_named(name);
    }

    /// Begins the record of a commit: see [`Writer::next`]. What is staged goes into it, or what
    /// was staged when it was frozen.
    ///
    /// # Panics
    /// If [`Writer::need`] is not [`Need::Record`], or a record is in doubt, or the volume is
    /// encrypted and the writer has no codec.
    pub fn seal(&mut self) {
        assert!(self.sealed.is_none(), "one record at a time");
        assert_eq!(self.need(), Need::Record, "what a commit needs first");
        let layer = self.layers.take_next();
        let chunks: Vec<_> = layer.pending.into_iter().collect();
        for &(chunk, _) in &chunks {
            if let Some(object) = self.map.chunk(chunk) {
                self.waste.replaced(object.name);
            }
        }
        if std::mem::take(&mut self.is_resizing) {
            assert!(layer.staged.is_empty(), "the chunks at its end are objects");
            let length_bytes = self.manifest.length_bytes;
            let body = Body::Resize {
                length_bytes,
                chunks,
            };
            return self.append(body, Staged::new());
        }
        let (pages, unsealed) = self.seal_pages(layer.staged);
        self.append(Body::Commit { chunks, pages }, unsealed);
    }

    /// The pages of a record as they lie there, and as they are staged if they are encrypted there.
    fn seal_pages(&self, staged: Staged) -> (Vec<(u64, Vec<u8>)>, Staged) {
        let sealing = self.codec.pages_of(Holder::Record(self.map.number() + 1));
        let record_bytes = self.manifest.pages.record_bytes();
        assert_eq!(
            sealing.stored_bytes(),
            record_bytes,
            "a codec of this volume"
        );
        if record_bytes == PAGE as u64 {
            return (staged.into_iter().collect(), Staged::new());
        }
        let seal = |(&page, bytes): (&u64, &Vec<u8>)| {
            let mut sealed = Vec::with_capacity(record_bytes as usize);
            sealing.seal(self.map.writer(), page, bytes, &mut sealed);
            (page, sealed)
        };
        (staged.iter().map(seal).collect(), staged)
    }

    /// Begins the last record.
    ///
    /// # Panics
    /// If a record is in doubt.
    pub fn close(&mut self) {
        assert!(self.sealed.is_none(), "one record at a time");
        self.append(Body::Close, Staged::new());
    }

    fn append(&mut self, body: Body, unsealed: Staged) {
        let settled = self.layers.first_object();
        let record = Record {
            number: self.map.number() + 1,
            epoch: self.map.epoch(),
            writer: self.map.writer(),
            settled: settled.unwrap_or(self.next_object),
            prior: self.map.checksum(),
            mapped: self.waste.covered(),
            body,
        };
        let (bytes, checksum) = record.encode();
        let applied = self.map.apply(&self.manifest, &record, checksum);
        applied.expect("a writer makes records that follow its own");
        self.sealed = Some(Twins::new(record.number, bytes, unsealed));
    }

    /// What to ask for this copy of the record that is being made; none if none is, or if this copy
    /// is there. Both may be asked for at the same time.
    pub fn next(&self, twin: Twin) -> Option<Call> {
        self.sealed.as_ref()?.next(twin)
    }

    /// Whether a record is being made, or in doubt.
    pub fn is_recording(&self) -> bool {
        self.sealed.is_some()
    }

    /// Takes the answer to [`Writer::next`]. It has ended once both copies are there.
    ///
    /// # Errors
    /// [`VolumeFault::Fenced`], now and for ever.
    pub fn answer(&mut self, twin: Twin, reply: Reply) -> Result<Progress<()>, VolumeFault> {
        if self.is_fenced {
            return Err(VolumeFault::Fenced);
        }
        let Some(twins) = &mut self.sealed else {
            return Ok(Progress::Done(()));
        };
        match twins.answer(twin, reply) {
            Progress::More => Ok(Progress::More),
            Progress::Done(Appended::Ours) => {
                let bytes = twins.bytes().len();
                self.sealed = None;
                self.waste.recorded(self.map.number(), bytes);
                if !self.has_changes() {
                    // A volume that rests keeps no memory for what may come.
                    self.spares = Vec::new();
                }
                Ok(Progress::Done(()))
            }
            Progress::Done(Appended::Theirs) => {
                self.is_fenced = true;
                Err(VolumeFault::Fenced)
            }
        }
    }

    /// The question for a copy of the record that only another writer can have made. Ask for both
    /// when an object is missing: others remove what their states do not need, and a writer that
    /// needs it may not get as far as a record of its own. None while a record is in doubt: that
    /// one says it.
    pub fn successor(&self, twin: Twin) -> Option<Call> {
        if self.sealed.is_some() {
            return None;
        }
        let key = twin.key(self.map.number() + 1);
        Some(Call::Get { key, range: None })
    }

    /// That record is there.
    pub fn succeeded(&mut self) {
        self.is_fenced = true;
    }

    /// A map to be made now, if enough records have come since the last one. It shortens the next
    /// start, and lets useless objects be removed, of which `most_bytes` may stay. See
    /// [`Writer::map_made`].
    pub fn map_to_make(&mut self, most_bytes: u64) -> Option<Append> {
        let map_bytes = self.map.object_bytes();
        let is_worth_it = self.waste.fresh_bytes() / MAP_SHARE >= map_bytes;
        let is_wanted = self.dead_bytes() > most_bytes && self.waste.wants_map() && is_worth_it;
        let usual = RECORDS_BETWEEN_MAPS.max(map_bytes / MAP_BYTES_PER_RECORD);
        self.map_after(if is_wanted { 1 } else { usual })
    }

    /// The same, if `records` records have come.
    pub fn map_after(&mut self, records: u64) -> Option<Append> {
        if self.marking == Marking::Due {
            return Some(Append::new(MAPPED_KEY.to_owned(), MAPPED.to_vec()));
        }
        let number = self.map.number();
        // See invariant VB19.
        let is_due = number >= self.base + records && number > self.opening;
        if self.sealed.is_some() || !is_due {
            return None;
        }
        self.base = self.map.number();
        self.waste.covers(&self.map);
        Some(Append::new(map_key(self.base), self.map.encode()))
    }

    /// What was to be made last is there, as it was to be.
    pub fn map_made(&mut self) {
        match self.marking {
            // The first map lets no record go.
            Marking::NotNeeded if self.waste.covered() > 0 => {
                self.marking = Marking::Due;
                return;
            }
            Marking::Due => self.marking = Marking::Done,
            Marking::NotNeeded | Marking::Done => {}
        }
        self.waste.map_made();
    }

    /// Records since the last map: as many are read at the next start.
    pub fn log_records(&self) -> u64 {
        self.map.number() - self.base
    }

    /// About the bytes of objects that this writer's commits have made useless, and that have not
    /// been removed.
    pub fn dead_bytes(&self) -> u64 {
        let inline_bytes = self.inline_bytes();
        let of_records = self.waste.recorded_bytes().saturating_sub(inline_bytes);
        self.waste.chunks() * self.manifest.whole_object_bytes() + of_records
    }

    /// The bytes of both copies of the pages that lie in records.
    fn inline_bytes(&self) -> u64 {
        2 * self.map.inline_pages() as u64 * self.manifest.pages.record_bytes()
    }

    /// About the bytes of the objects that are needed.
    pub fn live_bytes(&self) -> u64 {
        let chunk_bytes = self.manifest.whole_object_bytes();
        self.map.chunk_count() as u64 * chunk_bytes + self.inline_bytes()
    }

    /// The keys of the objects that have been useless for longest, `most` at most, if such objects
    /// have more than `most_bytes`. They may go in any order, and before those that come after
    /// them: see [`Writer::removed`].
    pub fn removals(&self, most: usize, most_bytes: u64) -> Vec<String> {
        if self.is_fenced {
            return Vec::new();
        }
        self.waste
            .oldest(most, self.dead_bytes().saturating_sub(most_bytes))
    }

    /// The first `count` of [`Writer::removals`] are gone.
    pub fn removed(&mut self, count: usize) {
        self.waste.removed(count);
    }

    fn pages_of(&self, chunk: u64) -> std::ops::Range<u64> {
        self.manifest.pages_of(chunk)
    }

    fn inline_in(&self, chunk: u64) -> usize {
        self.map.pages_in(self.pages_of(chunk)).count()
    }
}
