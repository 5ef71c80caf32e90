//! A volume gets another state all at once: that of a snapshot, to which it goes back, that of
//! another volume's snapshot, of which it becomes a copy, or its own with another length.
//!
//! What differs is written again, into objects of the new writer, and one record names all of them:
//! either the volume has the new state afterwards, or nothing has changed.

use crate::abreast::abreast;
use crate::bucket::{Bucket, CallError};
use crate::copy::{Progress, writing};
use crate::error::BucketError;
use crate::jobs::{PageClient, Unmade};
use crate::volume_client::VolumeClient;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::fresh_number;
use forebay_store::Failure;
use forebay_volume::{
    Access, Collected, MANIFEST_KEY, Manifest, Map, Need, Opened, OwnerKey, PAGE_BYTES, PageCodec,
    Scope, SnapshotName, VolumeFault, Writer, Writing,
};
use forebay_volume_jobs::UploadJob;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives the volume in `bucket` the state that it had when the snapshot `name` was taken. `key`
/// opens it if it is encrypted. Other snapshots are not touched. A volume that is open for writing
/// is refused, unless the caller `takes_over`. Returns what was written.
///
/// # Errors
/// [`BucketError`]. Nothing has changed then, unless a record failed, the last one of the rollback
/// or that of the end: the next writer completes it, or finds that it is not there.
pub fn roll_back(
    bucket: Arc<dyn Bucket>,
    name: SnapshotName,
    key: Option<&OwnerKey>,
    takes_over: bool,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let volume = VolumeClient::of_task(bucket);
    // Whatever is wrong with it is found before another writer is ended.
    let from = State::at_snapshot(&volume, name, key)?;
    let opened = volume.open(writing("a rollback", takes_over)?)?;
    let to = State::of(&volume, from.pages.codec(), opened);
    let length_bytes = from.writer.manifest().length_bytes;
    rewrite(from, to, length_bytes, progress)
}

/// Gives the volume in `bucket` the length `length_bytes`. What is added is zeros. What lies past
/// the new end is lost, so the caller has to say that the volume `may_shrink`. `key` opens it if it
/// is encrypted. A volume that is open for writing is refused, unless the caller `takes_over`.
///
/// # Errors
/// As [`roll_back`]; [`BucketError::Shrinks`] if it may not.
pub fn resize(
    bucket: Arc<dyn Bucket>,
    length_bytes: u64,
    may_shrink: bool,
    key: Option<&OwnerKey>,
    takes_over: bool,
) -> Result<(), BucketError> {
    let volume = VolumeClient::of_task(bucket);
    let found = volume.open(Access::Read)?.manifest;
    // Whatever is wrong is found before another writer is ended.
    found.with_length(length_bytes)?;
    if length_bytes < found.length_bytes && !may_shrink {
        return Err(BucketError::Shrinks {
            found_bytes: found.length_bytes,
            asked_bytes: length_bytes,
        });
    }
    let codec = volume.unlock(&found, key)?;
    let opened = volume.open(writing("a change of its length", takes_over)?)?;
    if opened.manifest != found {
        volume.leave(&Mutex::new(Writer::new(opened)))?;
        return Err(BucketError::Resized);
    }
    let from = State::of(&volume, &codec, opened.clone());
    let to = State::of(&volume, &codec, opened);
    let quiet: Arc<Progress> = Arc::new(|_, _| {});
    rewrite(from, to, length_bytes, &quiet).map(drop)
}

/// Copies the snapshot `name` of the volume in `from` to `to`, where none may be: a new volume,
/// which shares nothing with the first. If it is encrypted, `key` opens it, and opens the copy. An
/// interrupted copy stays open for writing, or has no writer yet and is empty: remove it, and copy
/// again.
///
/// # Errors
/// [`BucketError::Occupied`] if there is a volume already.
pub fn copy_snapshot(
    from: Arc<dyn Bucket>,
    name: SnapshotName,
    to: Arc<dyn Bucket>,
    key: Option<&OwnerKey>,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let (from, to) = (VolumeClient::of_task(from), VolumeClient::of_task(to));
    let from = State::at_snapshot(&from, name, key)?;
    if to.client.object(MANIFEST_KEY)?.is_some() {
        return Err(BucketError::Occupied);
    }
    let original = from.writer.manifest();
    let length_bytes = original.length_bytes;
    let manifest = Manifest::new(fresh_number()?, length_bytes, original.chunk_bytes)?;
    let manifest = manifest.with_pages(original.pages);
    to.make_key(&manifest, key)?;
    let opened = to.open(Access::Write(Writing {
        writer: fresh_number()?,
        who: "a copy that is not complete".to_owned(),
        create: Some(manifest),
        take_over: false,
    }))?;
    if opened.manifest != manifest {
        return Err(BucketError::Occupied);
    }
    let codec = to.unlock(&manifest, key)?;
    rewrite(from, State::of(&to, &codec, opened), length_bytes, progress)
}

/// A state of a volume, with what it takes to read it, or to write from there on.
struct State {
    pages: PageClient,
    writer: Writer,
}

impl State {
    fn of(volume: &Arc<VolumeClient>, codec: &PageCodec, opened: Opened) -> State {
        State {
            pages: PageClient::new(volume.clone(), codec.clone()),
            writer: Writer::with_codec(opened, codec.clone()),
        }
    }

    fn at_snapshot(
        volume: &Arc<VolumeClient>,
        name: SnapshotName,
        key: Option<&OwnerKey>,
    ) -> Result<State, BucketError> {
        let opened = volume.open_snapshot(name)?;
        let codec = volume.unlock(&opened.manifest, key)?;
        Ok(State::of(volume, &codec, opened))
    }

    /// The chunks that `map` does not have as this state has them.
    fn differing(&self, map: &Map) -> BTreeSet<u64> {
        let manifest = self.writer.manifest();
        let mut chunks = self.writer.map().differing_chunks(map, manifest);
        // What lies past the end is not of this state.
        chunks.split_off(&manifest.chunks());
        chunks
    }

    /// Makes the object of `job` at `to`, with `count` pages; none if it is zeros.
    fn make(
        &self,
        to: &PageClient,
        mut job: UploadJob,
        count: u64,
    ) -> Result<Option<u32>, BucketError> {
        let assembled = self.pages.assemble(&mut job, true);
        assembled.map_err(|unmade| match unmade {
            Unmade::Missing(key) => VolumeFault::Missing { key }.into(),
            Unmade::Failed(failure) => failed("an object cannot be read", failure),
        })?;
        job.bytes.resize((count * PAGE_BYTES) as usize, 0);
        let made = to.make_chunk(&mut job);
        made.map_err(|failure| failed("an object cannot be made", failure))
    }
}

fn failed(what: &str, failure: Failure) -> BucketError {
    CallError::lasting(what, failure).into()
}

/// Gives the volume at `to` the state `from` with `length_bytes`, and closes it.
fn rewrite(
    from: State,
    to: State,
    length_bytes: u64,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let State { pages, mut writer } = to;
    let volume = pages.volume.clone();
    let before = *writer.manifest();
    let is_copy = before.id != from.writer.manifest().id;
    let mut chunks = from.differing(writer.map());
    if before.length_bytes != length_bytes {
        writer.resize(length_bytes)?;
        chunks.extend(before.reshaped(writer.manifest()));
    }
    let new = *writer.manifest();
    let mut jobs = Vec::new();
    for chunk in chunks {
        let name = writer.name(Scope::All);
        if from.writer.is_hole(chunk) {
            // Not `discard`: it may be a hole up to the new end, and have pages past that.
            writer.made_zeros(chunk, name);
        } else {
            jobs.push((chunk, name));
        }
    }
    let (id, all, done) = (writer.map().writer(), jobs.len() as u64, AtomicU64::new(0));
    let progress = progress.clone();
    let made = abreast(jobs, move |(chunk, name)| {
        let mut job = UploadJob::new(&from.writer, Scope::All, chunk, name, Vec::new());
        job.writer = id;
        let range = new.pages_of(chunk);
        let crc = from.make(&pages, job, range.end - range.start)?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        Ok::<_, BucketError>((chunk, name, crc))
    });
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            // An incomplete copy stays open, so that it is not taken for a whole volume. Any other
            // volume is as before; if it cannot be closed, the next writer has to take it over.
            if !is_copy {
                let _ = volume.leave(&Mutex::new(writer));
            }
            return Err(error);
        }
    };
    let mut written = Collected::default();
    for (chunk, name, crc) in made {
        match crc {
            Some(crc) => {
                writer.made_with(chunk, name, crc);
                written.objects += 1;
                written.bytes += new.whole_object_bytes();
            }
            None => writer.made_zeros(chunk, name),
        }
    }
    if writer.need() == Need::Record {
        writer.seal();
    }
    record(&volume, writer)?;
    Ok(written)
}

/// Makes the record that `writer` has begun, and leaves the volume to others.
fn record(volume: &VolumeClient, writer: Writer) -> Result<(), BucketError> {
    let writer = Mutex::new(writer);
    volume.make_record(&writer)?;
    // The record may be as large as a map: the next opener of the volume begins past it. If the
    // map cannot be made, the next writer makes one.
    let map = lock(&writer).map_after(1);
    if let Some(mut map) = map {
        let _ = volume.client.append(&mut map);
    }
    volume.leave(&writer)
}
