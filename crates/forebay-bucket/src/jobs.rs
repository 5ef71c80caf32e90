//! What the threads of a store do: one job is one or a few calls to the bucket, one after the
//! other.

use crate::asker::{Asker, Tries};
use crate::bucket::Trouble;
use crate::store::BucketError;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::say;
use forebay_store::{Failure, Io};
use forebay_volume::{
    Append, Appended, Body, Call, ChunkName, ChunkObject, Holder, InlinePage, Manifest, PAGE_BYTES,
    PageCodec, PageFormat, Progress, Record, Reply, Scope, Source, Twin, VolumeFault, Writer,
    crc32c,
};

const PAGE: usize = PAGE_BYTES as usize;

/// A job for a thread.
#[derive(Debug)]
pub(crate) enum Job {
    Read(Box<ReadJob>),
    Upload(UploadJob),
    /// A copy of the record of a commit, or of the last one: see [`forebay_volume::Writer::next`].
    Record(Twin),
    /// Pages that lie in a record of which little is needed: see
    /// [`forebay_volume::Writer::sparse_pages`].
    Move(Vec<(u64, InlinePage)>),
    /// A map, which shortens the next start.
    Map(Append),
    /// The removal of objects that nobody needs.
    Remove(Vec<String>),
}

/// Pages of a read that lie in the bucket.
#[derive(Debug)]
pub(crate) struct ReadJob {
    pub(crate) io: Io,
    pub(crate) pieces: Vec<Piece>,
    /// Whether an object was missing before, and the map was asked again.
    pub(crate) is_repeated: bool,
    /// The record of the state that it reads.
    pub(crate) number: u64,
}

/// Some pages of one object, of a request's from `first` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) first: usize,
    /// The number of the first of them in the volume, and how many they are.
    page: u64,
    count: usize,
    holder: Holder,
    /// Where they begin in the object.
    at: u64,
    /// The checksum of what is stored there, if the map has one.
    crc: Option<u32>,
}

/// A chunk that becomes an object.
#[derive(Debug)]
pub(crate) struct UploadJob {
    pub(crate) chunk: u64,
    pub(crate) name: ChunkName,
    /// The number of its first page in the volume.
    pub(crate) first_page: u64,
    /// The number of the writer that makes it.
    pub(crate) writer: u128,
    /// What is known of its pages; afterwards the memory, if nobody shares it any more.
    pub(crate) bytes: Vec<u8>,
    /// The object that it replaces, and the pages that are taken over from there, by their places.
    pub(crate) base: Option<(ChunkObject, Vec<usize>)>,
    /// Pages that are taken over from records.
    pub(crate) inline: Vec<Piece>,
    /// How many uploads had failed when this one began.
    pub(crate) failures_before: u64,
}

/// Why the object of a chunk was not made.
pub(crate) enum Unmade {
    /// The object with this key, of which it takes something over, is not there.
    Missing(String),
    Failed(Failure),
}

impl From<Failure> for Unmade {
    fn from(failure: Failure) -> Unmade {
        Unmade::Failed(failure)
    }
}

/// How a removal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    Done,
    /// There was no answer.
    NotNow,
    /// It is of no use to ask again.
    Refused,
}

/// How a read ended.
pub(crate) enum ReadEnd {
    Done(Io),
    /// The object with this key is not there.
    Missing(Box<ReadJob>, String),
    Failed(Io, Failure),
}

impl Asker {
    /// Fills the pages of a read.
    pub(crate) fn read(&self, codec: &PageCodec, job: Box<ReadJob>) -> ReadEnd {
        let mut job = job;
        for piece in &job.pieces {
            match self.fetch(codec, piece, job.is_repeated) {
                Ok(Some(bytes)) => {
                    for (index, page) in bytes.chunks(PAGE).enumerate() {
                        job.io.fill_page(piece.first + index, 0, page);
                    }
                }
                Ok(None) => {
                    let key = piece.key();
                    return ReadEnd::Missing(job, key);
                }
                Err(failure) => return ReadEnd::Failed(job.io, failure),
            }
        }
        ReadEnd::Done(job.io)
    }

    /// The pages of `piece`, checked as far as can be; none if its object is not there. If it
    /// `must_be`, it is asked for again before that.
    fn fetch(
        &self,
        codec: &PageCodec,
        piece: &Piece,
        must_be: bool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let pages = codec.pages_of(piece.holder);
        let stored_bytes = pages.stored_bytes();
        let length_bytes = piece.count as u64 * stored_bytes;
        let calls = piece.keys().into_iter().map(|key| Call::Get {
            key,
            range: Some(piece.at..piece.at + length_bytes),
        });
        let calls: Vec<Call> = calls.collect();
        let open = |stored: Vec<u8>| {
            let is_right = stored.len() as u64 == length_bytes
                && piece.crc.is_none_or(|crc| crc == crc32c(&stored));
            if !is_right {
                return None;
            }
            pages.open_all(piece.page, stored)
        };
        self.get_right(&piece.key(), &calls, must_be, open)
    }

    /// An answer that cannot be right, or that says that an object of the volume is not there, may
    /// be one of a server or a line in trouble: it is asked for again for as long as any other
    /// answer is waited for, and once more if the object was bad before. `calls` ask for its
    /// copies, and `open` returns none for what cannot be right.
    fn get_right(
        &self,
        key: &str,
        calls: &[Call],
        must_be: bool,
        open: impl Fn(Vec<u8>) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let mut tries = Tries::begin();
        loop {
            let is_last = self.is_last_of_bad(key, &tries);
            let mut is_there = false;
            for call in calls {
                let found = self.get(call).map_err(|trouble| trouble.failure)?;
                is_there |= found.is_some();
                if let Some(bytes) = found.and_then(&open) {
                    self.note_good(key);
                    return Ok(Some(bytes));
                }
            }
            if !is_there && !must_be {
                return Ok(None);
            }
            if !is_last {
                self.wait_for_better(&mut tries);
                continue;
            }
            self.note_bad(key);
            if !is_there {
                return Ok(None);
            }
            self.say_damaged(key);
            return Err(Failure::Device(5));
        }
    }

    /// Makes the object of a chunk. Returns its checksum, or none if it would be zeros: no object
    /// is made then. What it takes over `must_be` there, or is asked for once.
    ///
    /// # Errors
    /// [`Unmade`].
    pub(crate) fn upload(
        &self,
        codec: &PageCodec,
        job: &mut UploadJob,
        must_be: bool,
    ) -> Result<Option<u32>, Unmade> {
        self.assemble(codec, job, must_be)?;
        Ok(self.make_chunk(codec, job)?)
    }

    /// Fetches what the object of a chunk takes over.
    ///
    /// # Errors
    /// [`Unmade`].
    pub(crate) fn assemble(
        &self,
        codec: &PageCodec,
        job: &mut UploadJob,
        must_be: bool,
    ) -> Result<(), Unmade> {
        if let Some((object, places)) = &job.base {
            let found = self.base(codec, job, *object, must_be)?;
            for &place in places {
                let at = place * PAGE..(place + 1) * PAGE;
                job.bytes[at.clone()].copy_from_slice(&found[at]);
            }
        }
        for piece in &job.inline {
            let Some(found) = self.fetch(codec, piece, must_be)? else {
                return Err(Unmade::Missing(piece.key()));
            };
            let at = piece.first * PAGE;
            job.bytes[at..at + PAGE].copy_from_slice(&found);
        }
        Ok(())
    }

    /// Makes the object of a chunk that is put together. Returns as [`Asker::upload`] does.
    ///
    /// # Errors
    /// Why it could not be made.
    pub(crate) fn make_chunk(
        &self,
        codec: &PageCodec,
        job: &mut UploadJob,
    ) -> Result<Option<u32>, Failure> {
        if is_zeros(&job.bytes) {
            return Ok(None);
        }
        let bytes = job.object(codec);
        let crc = crc32c(&bytes);
        let mut append = Append::new(job.name.to_string(), bytes);
        let appended = self.append(&mut append);
        if job.bytes.is_empty() {
            job.bytes = append.into_bytes().unwrap_or_default();
        }
        match appended {
            Ok(Appended::Ours) => Ok(Some(crc)),
            Ok(Appended::Theirs) => {
                // Another writer has the same epoch, which the log makes impossible.
                say(format_args!(
                    "{}: {} is there with other bytes; nothing is written over it",
                    self.name(),
                    job.name
                ));
                Err(Failure::Device(5))
            }
            Err(trouble) => Err(trouble.failure),
        }
    }

    /// The pages of the object that `job` replaces.
    fn base(
        &self,
        codec: &PageCodec,
        job: &UploadJob,
        object: ChunkObject,
        must_be: bool,
    ) -> Result<Vec<u8>, Unmade> {
        let pages = codec.pages_of(Holder::Chunk(object.name));
        let length = job.bytes.len() / PAGE * pages.stored_bytes() as usize;
        let key = object.name.to_string();
        let call = Call::Get {
            key: key.clone(),
            range: None,
        };
        let open = |stored: Vec<u8>| {
            let is_right = stored.len() == length && crc32c(&stored) == object.crc;
            is_right.then(|| pages.open_all(job.first_page, stored))?
        };
        let found = self.get_right(&key, &[call], must_be, open)?;
        found.ok_or(Unmade::Missing(key))
    }

    /// Makes a copy of a record. `next` and `answer` are those of the writer for this copy.
    pub(crate) fn record(
        &self,
        next: impl Fn() -> Option<Call>,
        answer: impl Fn(Reply) -> Result<Progress<()>, VolumeFault>,
    ) -> Result<(), Failure> {
        let mut tries = Tries::begin();
        while let Some(call) = next() {
            let (reply, gave_up) = match self.ask(&call, &mut tries) {
                Ok(reply) => (reply, None),
                // It may have been made: the writer has to know of that.
                Err(trouble) => (Reply::Unknown, Some(trouble)),
            };
            match (answer(reply), gave_up) {
                (Ok(Progress::Done(())), _) => return Ok(()),
                (Ok(Progress::More), None) => {}
                (Ok(Progress::More), Some(Trouble { failure, .. })) => return Err(failure),
                (Err(_), _) => return Err(Failure::Fenced),
            }
        }
        Ok(())
    }

    /// Leaves a volume to others.
    pub(crate) fn leave(&self, writer: &Mutex<Writer>) -> Result<(), BucketError> {
        lock(writer).close();
        self.make_record(writer)
    }

    /// Makes both copies of the record that `writer` has begun.
    pub(crate) fn make_record(&self, writer: &Mutex<Writer>) -> Result<(), BucketError> {
        for twin in Twin::BOTH {
            let answer = |reply| lock(writer).answer(twin, reply);
            let made = self.record(|| lock(writer).next(twin), answer);
            made.map_err(|failure| Trouble::lasting("a record cannot be made", failure))?;
        }
        Ok(())
    }

    /// The bytes of a page that lies in a record; none if they cannot be had now.
    pub(crate) fn page_of_record(
        &self,
        codec: &PageCodec,
        page: u64,
        from: InlinePage,
    ) -> Option<Vec<u8>> {
        let InlinePage { record, at, crc } = from;
        let piece = piece_of(0, page, Source::Record { record, at, crc });
        self.fetch(codec, &piece, false).ok()?
    }

    /// Removes objects that the writer of the volume with `manifest` does not need, but for those
    /// that snapshots hold: they stay until `gc` finds them free.
    pub(crate) fn remove(&self, manifest: &Manifest, keys: &[String]) -> Removed {
        let held = match self.held(manifest, keys) {
            Ok(held) => held,
            Err(BucketError::Volume(VolumeFault::Pinned)) => return Removed::NotNow,
            Err(BucketError::Bucket(trouble)) => return self.not_removed(&trouble),
            Err(error) => {
                return self.not_removed(&Trouble::lasting(error.to_string(), Failure::Gone));
            }
        };
        let free: Vec<String> = keys
            .iter()
            .filter(|key| !held.holds(key))
            .cloned()
            .collect();
        match self.remove_batch(&free) {
            Ok(()) => Removed::Done,
            Err(trouble) => self.not_removed(&trouble),
        }
    }

    fn not_removed(&self, trouble: &Trouble) -> Removed {
        if !trouble.is_lasting {
            return Removed::NotNow;
        }
        say(format_args!(
            "{}: objects that nobody needs cannot be removed and stay: {trouble}; forebay volume \
             gc removes them",
            self.name()
        ));
        Removed::Refused
    }

    /// What the writer says of itself that made record `number`.
    pub(crate) fn writer_of(&self, number: u64) -> Option<String> {
        Twin::BOTH.into_iter().find_map(|twin| {
            let call = Call::Get {
                key: twin.key(number),
                range: None,
            };
            let bytes = self.get(&call).ok()??;
            match Record::decode(number, &bytes).ok()?.0.body {
                Body::Open { who } => Some(who),
                _ => None,
            }
        })
    }

    pub(crate) fn missing(&self, key: &str) -> Failure {
        say(format_args!(
            "{}: {key} is missing; what lies there cannot be read: restore it from a copy",
            self.name()
        ));
        Failure::Device(5)
    }

    fn say_damaged(&self, key: &str) {
        say(format_args!(
            "{}: {key} is damaged; what lies there cannot be read: restore it from a copy",
            self.name()
        ));
    }
}

/// Whether all of them are zeros. Eight are looked at together, because a chunk has many.
fn is_zeros(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|&word| u64::from_ne_bytes(word) == 0) && rest.iter().all(|&byte| byte == 0)
}

impl UploadJob {
    /// The object `name` of `chunk`, put together of what `writer` has of `scope`, in the memory of
    /// `bytes`.
    pub(crate) fn new(
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
                Source::Record { .. } => inline.push(piece_of(index, page, source)),
                Source::Zeros => {}
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

    /// The object. Its memory is that of the pages, if they lie there as they are.
    fn object(&mut self, codec: &PageCodec) -> Vec<u8> {
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

impl Piece {
    /// The key of its object, and of the second copy if there is one.
    fn keys(&self) -> Vec<String> {
        match self.holder {
            Holder::Chunk(name) => vec![name.to_string()],
            Holder::Record(record) => Twin::BOTH.map(|twin| twin.key(record)).to_vec(),
        }
    }

    fn key(&self) -> String {
        match self.holder {
            Holder::Chunk(name) => name.to_string(),
            Holder::Record(record) => Twin::First.key(record),
        }
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

/// Page `page` of the volume, which lies in the bucket, as number `first` of a request.
pub(crate) fn piece_of(first: usize, page: u64, source: Source<'_>) -> Piece {
    let (holder, at, crc) = match source {
        Source::Chunk(object, at) => (Holder::Chunk(object.name), at, None),
        Source::Record { record, at, crc } => (Holder::Record(record), at, Some(crc)),
        Source::Zeros | Source::Memory(_) => unreachable!("it lies in the bucket"),
    };
    Piece {
        first,
        page,
        count: 1,
        holder,
        at,
        crc,
    }
}

/// What a read does not ask for of its last page is zeros.
pub(crate) fn zero_tail(io: &mut Io) {
    let used = (io.request().length_bytes % PAGE_BYTES) as usize;
    if used > 0 {
        let last = io.page_count() - 1;
        io.fill_page(last, used, &[0; PAGE][used..]);
    }
}
