//! What the threads of a store do: one job is one or a few calls to the bucket, one after the
//! other.

use crate::bucket::CallError;
use crate::error::BucketError;
use crate::retrying_client::Tries;
use crate::volume_client::VolumeClient;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::say;
use forebay_store::{Failure, Io};
use forebay_volume::{
    Append, Appended, Body, Call, InlinePage, Manifest, PAGE_BYTES, PageCodec, Progress, Record,
    Reply, Twin, VolumeFault, Writer, crc32c,
};
use forebay_volume_jobs::{Piece, ReadJob, Removed, UploadJob};
use std::collections::BTreeSet;
use std::sync::Arc;

const PAGE: usize = PAGE_BYTES as usize;
/// Bad objects that are remembered.
const BAD_LIMIT: usize = 1_000;

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

/// Reads and makes the pages of a volume.
pub(crate) struct PageClient {
    pub(crate) volume: Arc<VolumeClient>,
    codec: PageCodec,
    /// Objects that were missing or damaged for as long as anything is waited for.
    bad: Mutex<BTreeSet<String>>,
}

impl VolumeClient {
    /// Makes a copy of a record. `next` and `answer` are those of the writer for this copy.
    pub(crate) fn record(
        &self,
        next: impl Fn() -> Option<Call>,
        answer: impl Fn(Reply) -> Result<Progress<()>, VolumeFault>,
    ) -> Result<(), Failure> {
        let mut tries = Tries::begin();
        while let Some(call) = next() {
            let (reply, gave_up) = match self.client.ask(&call, &mut tries) {
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

    /// What the writer says of itself that made record `number`.
    pub(crate) fn writer_of(&self, number: u64) -> Option<String> {
        Twin::BOTH.into_iter().find_map(|twin| {
            let call = Call::Get {
                key: twin.key(number),
                range: None,
            };
            let bytes = self.client.get(&call).ok()??;
            match Record::decode(number, &bytes).ok()?.0.body {
                Body::Open { who } => Some(who),
                _ => None,
            }
        })
    }
}

impl PageClient {
    /// For pages that `codec` puts into the objects of `volume`.
    pub(crate) fn new(volume: Arc<VolumeClient>, codec: PageCodec) -> PageClient {
        PageClient {
            volume,
            codec,
            bad: Mutex::default(),
        }
    }

    /// What puts pages into the objects.
    pub(crate) fn codec(&self) -> &PageCodec {
        &self.codec
    }

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
    fn fetch(&self, piece: &Piece, must_be: bool) -> Result<Option<Vec<u8>>, Failure> {
        let range = piece.range(&self.codec);
        let calls = piece.keys().into_iter().map(|key| Call::Get {
            key,
            range: Some(range.clone()),
        });
        let calls: Vec<Call> = calls.collect();
        let open = |stored: Vec<u8>| piece.open(&self.codec, stored);
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
            let was_bad = lock(&self.bad).contains(key);
            let is_last = self.volume.client.is_last_of_bad(was_bad, &tries);
            let mut is_there = false;
            for call in calls {
                let found = self
                    .volume
                    .client
                    .get(call)
                    .map_err(|trouble| trouble.failure)?;
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
                self.volume.client.wait_for_better(&mut tries);
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
    pub(crate) fn upload(&self, job: &mut UploadJob, must_be: bool) -> Result<Option<u32>, Unmade> {
        self.assemble(job, must_be)?;
        Ok(self.make_chunk(job)?)
    }

    /// Fetches what the object of a chunk takes over.
    ///
    /// # Errors
    /// [`Unmade`].
    pub(crate) fn assemble(&self, job: &mut UploadJob, must_be: bool) -> Result<(), Unmade> {
        if let Some(key) = job.base() {
            let call = Call::Get {
                key: key.clone(),
                range: None,
            };
            let open = |stored: Vec<u8>| job.open_base(&self.codec, stored);
            match self.get_right(&key, &[call], must_be, open)? {
                Some(found) => job.take_base(&found),
                None => return Err(Unmade::Missing(key)),
            }
        }
        for piece in job.inline() {
            match self.fetch(&piece, must_be)? {
                Some(found) => job.take_inline(&piece, &found),
                None => return Err(Unmade::Missing(piece.key())),
            }
        }
        Ok(())
    }

    /// Makes the object of a chunk that is put together. Returns as [`PageClient::upload`]
    /// does.
    ///
    /// # Errors
    /// Why it could not be made.
    pub(crate) fn make_chunk(&self, job: &mut UploadJob) -> Result<Option<u32>, Failure> {
        if job.is_zeros() {
            return Ok(None);
        }
        let bytes = job.object(&self.codec);
        let crc = crc32c(&bytes);
        let mut append = Append::new(job.name.to_string(), bytes);
        let appended = self.volume.client.append(&mut append);
        if job.bytes.is_empty() {
            job.bytes = append.into_bytes().unwrap_or_default();
        }
        match appended {
            Ok(Appended::Ours) => Ok(Some(crc)),
            Ok(Appended::Theirs) => {
                // Another writer has the same epoch, which the log makes impossible.
                say(format_args!(
                    "{}: {} is there with other bytes; nothing is written over it",
                    self.volume.client.name(),
                    job.name
                ));
                Err(Failure::Device(5))
            }
            Err(trouble) => Err(trouble.failure),
        }
    }

    /// The bytes of a page that lies in a record; none if they cannot be had now.
    pub(crate) fn page_of_record(&self, page: u64, from: InlinePage) -> Option<Vec<u8>> {
        self.fetch(&Piece::in_record(page, from), false).ok()?
    }

    /// Removes objects that the writer of the volume with `manifest` does not need, but for those
    /// that snapshots hold: they stay until `gc` finds them free.
    pub(crate) fn remove(&self, manifest: &Manifest, keys: &[String]) -> Removed {
        let held = match self.volume.held(manifest, keys) {
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
        match self.volume.client.remove_batch(&free) {
            Ok(()) => Removed::Done,
            Err(trouble) => self.not_removed(&trouble),
        }
    }

    fn not_removed(&self, trouble: &CallError) -> Removed {
        if !trouble.is_lasting {
            return Removed::NotNow;
        }
        say(format_args!(
            "{}: objects that are no longer needed cannot be removed and stay: {trouble}; forebay \
             volume gc removes them",
            self.volume.client.name()
        ));
        Removed::Refused
    }

    pub(crate) fn missing(&self, key: &str) -> Failure {
        say(format_args!(
            "{}: {key} is missing; what lies there cannot be read: restore it from a copy",
            self.volume.client.name()
        ));
        Failure::Device(5)
    }

    fn say_damaged(&self, key: &str) {
        say(format_args!(
            "{}: {key} is damaged; what lies there cannot be read: restore it from a copy",
            self.volume.client.name()
        ));
    }

    fn record_good(&self, key: &str) {
        lock(&self.bad).remove(key);
    }

    fn record_bad(&self, key: &str) {
        let mut bad = lock(&self.bad);
        // A volume with more of them is past saving; those that are forgotten are waited for again.
        if bad.len() < BAD_LIMIT {
            bad.insert(key.to_owned());
        }
    }
}
