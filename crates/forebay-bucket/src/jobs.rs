//! What the threads of a store do: one job is one or a few calls to the bucket, one after the
//! other.

use crate::bucket::CallError;
use crate::error::BucketError;
use crate::retrying_client::{RetryingClient, Tries};
use forebay_base::sync::{Mutex, lock};
use forebay_rt::say;
use forebay_store::{Failure, Io};
use forebay_volume::{
    Append, Appended, Body, Call, InlinePage, Manifest, PAGE_BYTES, PageCodec, Progress, Record,
    Reply, Twin, VolumeFault, Writer, crc32c,
};
use forebay_volume_jobs::{Piece, ReadJob, Removed, UploadJob};

const PAGE: usize = PAGE_BYTES as usize;

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

/// How a read ended.
pub(crate) enum ReadEnd {
    Done(Box<ReadJob>),
    /// The object with this key is not there.
    Missing(Box<ReadJob>, String),
    Failed(Io, Failure),
}

impl RetryingClient {
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
        ReadEnd::Done(job)
    }

    /// The pages of `piece`, checked as far as can be; none if its object is not there. If it
    /// `must_be`, it is asked for again before that.
    fn fetch(
        &self,
        codec: &PageCodec,
        piece: &Piece,
        must_be: bool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let range = piece.range(codec);
        let calls = piece.keys().into_iter().map(|key| Call::Get {
            key,
            range: Some(range.clone()),
        });
        let calls: Vec<Call> = calls.collect();
        let open = |stored: Vec<u8>| piece.open(codec, stored);
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
                    self.record_good(key);
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
            self.record_bad(key);
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
        if let Some(key) = job.base() {
            let call = Call::Get {
                key: key.clone(),
                range: None,
            };
            let open = |stored: Vec<u8>| job.open_base(codec, stored);
            match self.get_right(&key, &[call], must_be, open)? {
                Some(found) => job.take_base(&found),
                None => return Err(Unmade::Missing(key)),
            }
        }
        for piece in job.inline() {
            match self.fetch(codec, &piece, must_be)? {
                Some(found) => job.take_inline(&piece, &found),
                None => return Err(Unmade::Missing(piece.key())),
            }
        }
        Ok(())
    }

    /// Makes the object of a chunk that is put together. Returns as [`RetryingClient::upload`]
    /// does.
    ///
    /// # Errors
    /// Why it could not be made.
    pub(crate) fn make_chunk(
        &self,
        codec: &PageCodec,
        job: &mut UploadJob,
    ) -> Result<Option<u32>, Failure> {
        if job.is_zeros() {
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
                (Ok(Progress::More), Some(CallError { failure, .. })) => return Err(failure),
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
            made.map_err(|failure| CallError::lasting("a record cannot be made", failure))?;
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
        self.fetch(codec, &Piece::in_record(page, from), false)
            .ok()?
    }

    /// Removes objects that the writer of the volume with `manifest` does not need, but for those
    /// that snapshots hold: they stay until `gc` finds them free.
    pub(crate) fn remove(&self, manifest: &Manifest, keys: &[String]) -> Removed {
        let held = match self.held(manifest, keys) {
            Ok(held) => held,
            Err(BucketError::Volume(VolumeFault::Pinned)) => return Removed::NotNow,
            Err(BucketError::Bucket(trouble)) => return self.not_removed(&trouble),
            Err(error) => {
                return self.not_removed(&CallError::lasting(error.to_string(), Failure::Gone));
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

    fn not_removed(&self, trouble: &CallError) -> Removed {
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
