//! What the threads of a store do: one job is one or a few calls to the bucket, one after the
//! other.

use crate::asker::{Asker, Tries};
use crate::bucket::Trouble;
use forebay_rt::say;
use forebay_store::{Failure, Io};
use forebay_volume::{
    Append, Appended, Body, Call, ChunkName, ChunkObject, InlinePage, PAGE_BYTES, Progress, Record,
    Reply, Source, Twin, VolumeFault, crc32c,
};
use std::ops::Range;

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
}

/// Some pages of one object, of a request's from `first` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) first: usize,
    pub(crate) key: String,
    /// The other copy of the object, if it has one.
    pub(crate) other: Option<String>,
    pub(crate) bytes: Range<u64>,
    /// The checksum of these bytes, if there is one.
    pub(crate) crc: Option<u32>,
}

/// A chunk that becomes an object.
#[derive(Debug)]
pub(crate) struct UploadJob {
    pub(crate) chunk: u64,
    pub(crate) name: ChunkName,
    /// What is known of its bytes; afterwards the memory, if nobody shares it any more.
    pub(crate) bytes: Vec<u8>,
    /// The object that it replaces, and the pages that are taken over from there.
    pub(crate) base: Option<(ChunkObject, Vec<usize>)>,
    /// Pages that are taken over from records: page, key, byte, checksum.
    pub(crate) inline: Vec<(usize, Piece)>,
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
    pub(crate) fn read(&self, job: Box<ReadJob>) -> ReadEnd {
        let mut job = job;
        for piece in &job.pieces {
            match self.fetch(piece, job.is_repeated) {
                Ok(Some(bytes)) => {
                    for (index, page) in bytes.chunks(PAGE).enumerate() {
                        job.io.fill_page(piece.first + index, 0, page);
                    }
                }
                Ok(None) => {
                    let key = piece.key.clone();
                    return ReadEnd::Missing(job, key);
                }
                Err(failure) => return ReadEnd::Failed(job.io, failure),
            }
        }
        ReadEnd::Done(job.io)
    }

    /// The bytes of `piece`, checked as far as can be; none if its object is not there. If it
    /// `must_be`, it is asked for again before that.
    fn fetch(&self, piece: &Piece, must_be: bool) -> Result<Option<Vec<u8>>, Failure> {
        let keys = [Some(piece.key.clone()), piece.other.clone()];
        let calls = keys.into_iter().flatten().map(|key| Call::Get {
            key,
            range: Some(piece.bytes.clone()),
        });
        let calls: Vec<Call> = calls.collect();
        let length_bytes = piece.bytes.end - piece.bytes.start;
        let is_right = |bytes: &[u8]| {
            bytes.len() as u64 == length_bytes && piece.crc.is_none_or(|crc| crc == crc32c(bytes))
        };
        self.get_right(&piece.key, &calls, must_be, is_right)
    }

    /// An answer that cannot be right, or that says that an object of the volume is not there, may
    /// be one of a server or a line in trouble: it is asked for again for as long as any other
    /// answer is waited for, and once more if the object was bad before. `calls` ask for its
    /// copies.
    fn get_right(
        &self,
        key: &str,
        calls: &[Call],
        must_be: bool,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let mut tries = Tries::begin();
        loop {
            let is_last = self.is_last_of_bad(key, &tries);
            let mut found = None;
            for call in calls {
                let bytes = self.get(call).map_err(|trouble| trouble.failure)?;
                found = bytes.or(found);
                if found.as_ref().is_some_and(|bytes| is_right(bytes)) {
                    break;
                }
            }
            match found {
                Some(bytes) if is_right(&bytes) => {
                    self.note_good(key);
                    return Ok(Some(bytes));
                }
                None if !must_be => return Ok(None),
                found if is_last => {
                    self.note_bad(key);
                    if found.is_none() {
                        return Ok(None);
                    }
                    self.say_damaged(key);
                    return Err(Failure::Device(5));
                }
                _ => self.wait_for_better(&mut tries),
            }
        }
    }

    /// Makes the object of a chunk. Returns its checksum, or none if it would be zeros: no object
    /// is made then. What it takes over `must_be` there, or is asked for once.
    ///
    /// # Errors
    /// [`Unmade`].
    pub(crate) fn upload(&self, job: &mut UploadJob, must_be: bool) -> Result<Option<u32>, Unmade> {
        if let Some((object, pages)) = &job.base {
            let key = object.name.to_string();
            let call = Call::Get {
                key: key.clone(),
                range: None,
            };
            let length = job.bytes.len();
            let is_right = |bytes: &[u8]| bytes.len() == length && crc32c(bytes) == object.crc;
            let Some(found) = self.get_right(&key, &[call], must_be, is_right)? else {
                return Err(Unmade::Missing(key));
            };
            for &page in pages {
                let at = page * PAGE..(page + 1) * PAGE;
                job.bytes[at.clone()].copy_from_slice(&found[at]);
            }
        }
        for (page, piece) in &job.inline {
            let Some(found) = self.fetch(piece, must_be)? else {
                return Err(Unmade::Missing(piece.key.clone()));
            };
            job.bytes[page * PAGE..(page + 1) * PAGE].copy_from_slice(&found);
        }
        if is_zeros(&job.bytes) {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut job.bytes);
        let crc = crc32c(&bytes);
        let mut append = Append::new(job.name.to_string(), bytes);
        let appended = self.append(&mut append);
        job.bytes = append.into_bytes().unwrap_or_default();
        match appended {
            Ok(Appended::Ours) => Ok(Some(crc)),
            Ok(Appended::Theirs) => {
                // Another writer has the same epoch, which the log makes impossible.
                say(format_args!(
                    "{}: {} is there with other bytes; nothing is written over it",
                    self.name(),
                    job.name
                ));
                Err(Failure::Device(5).into())
            }
            Err(trouble) => Err(trouble.failure.into()),
        }
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

    /// The bytes of a page that lies in a record; none if they cannot be had now.
    pub(crate) fn page_of_record(&self, from: InlinePage) -> Option<Vec<u8>> {
        let [key, other] = Twin::BOTH.map(|twin| twin.key(from.record));
        let piece = Piece {
            first: 0,
            key,
            other: Some(other),
            bytes: from.at..from.at + PAGE_BYTES,
            crc: Some(from.crc),
        };
        self.fetch(&piece, false).ok()?
    }

    /// Removes objects that nobody needs.
    pub(crate) fn remove(&self, keys: &[String]) -> Removed {
        let mut tries = Tries::begin();
        loop {
            match self.remove_all(keys, &mut tries) {
                Ok(Reply::Unknown) => {}
                Ok(_) => return Removed::Done,
                Err(Trouble { is_lasting, .. }) if !is_lasting => return Removed::NotNow,
                Err(trouble) => {
                    say(format_args!(
                        "{}: objects that nobody needs cannot be removed and stay: {trouble}; \
                         forebay volume gc removes them",
                        self.name()
                    ));
                    return Removed::Refused;
                }
            }
        }
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

impl Piece {
    pub(crate) fn goes_on_with(&self, next: &Piece) -> bool {
        let pages = (self.bytes.end - self.bytes.start) / PAGE_BYTES;
        self.key == next.key
            && self.bytes.end == next.bytes.start
            && self.first + pages as usize == next.first
            && self.crc.is_none()
    }
}

/// Page `index` of a request, which lies in the bucket.
pub(crate) fn piece_of(first: usize, source: Source<'_>) -> Piece {
    let (key, other, at, crc) = match source {
        Source::Chunk(object, at) => (object.name.to_string(), None, at, None),
        Source::Record { record, at, crc } => {
            let [key, other] = Twin::BOTH.map(|twin| twin.key(record));
            (key, Some(other), at, Some(crc))
        }
        Source::Zeros | Source::Memory(_) => unreachable!("it lies in the bucket"),
    };
    Piece {
        first,
        key,
        other,
        bytes: at..at + PAGE_BYTES,
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
