//! A volume gets another state all at once: that of a snapshot, to which it goes back, that of
//! another volume's snapshot, of which it becomes a copy, or its own with another length.
//!
//! What differs is written again, into objects of the new writer, and one record names all of them:
//! either the volume has the new state afterwards, or nothing has changed.

use crate::abreast::abreast;
use crate::asker::Asker;
use crate::bucket::{Bucket, Trouble};
use crate::copy::{Progress, writing};
use crate::jobs::{Unmade, UploadJob, piece_of};
use crate::store::BucketError;
use forebay_base::sync::Mutex;
use forebay_rt::fresh_number;
use forebay_store::Failure;
use forebay_volume::{
    Access, ChunkName, Collected, MANIFEST_KEY, Manifest, Map, Need, Opened, OwnerKey, PAGE_BYTES,
    PageCodec, Scope, SnapshotName, Source, VolumeFault, Writer, Writing,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives the volume in `bucket` the state that it had when the snapshot `name` was taken. `key`
/// opens it if it is encrypted. What lies in other snapshots stays there. Nobody may serve it; one
/// that a server did not close is changed if the caller `takes_over`. Returns what was written.
///
/// # Errors
/// [`BucketError`]; nothing has changed then.
pub fn roll_back(
    bucket: Arc<dyn Bucket>,
    name: SnapshotName,
    key: Option<&OwnerKey>,
    takes_over: bool,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let asker = Arc::new(Asker::of_task(bucket));
    // Whatever is wrong with it is found before another writer is ended.
    let state = State::of(&asker, name, key)?;
    let opened = asker.open(writing("a rollback", takes_over)?)?;
    let to = Destination::of(asker, &state.codec, opened);
    let manifest = state.manifest;
    rewrite(state, manifest, to, progress)
}

/// Gives the volume in `bucket` the length `length_bytes`. What is added is zeros; what lies past
/// the new end is gone, and so the caller has to say that the volume `may_shrink`. `key` opens it
/// if it is encrypted. Nobody may serve it; one that a server did not close is changed if the
/// caller `takes_over`.
///
/// # Errors
/// [`BucketError`]: [`BucketError::Shrinks`] if it may not. Nothing has changed then.
pub fn resize(
    bucket: Arc<dyn Bucket>,
    length_bytes: u64,
    may_shrink: bool,
    key: Option<&OwnerKey>,
    takes_over: bool,
) -> Result<(), BucketError> {
    let asker = Arc::new(Asker::of_task(bucket));
    let found = asker.open(Access::Read)?.manifest;
    // Whatever is wrong is found before another writer is ended.
    let new = found.with_length(length_bytes)?;
    if length_bytes < found.length_bytes && !may_shrink {
        return Err(BucketError::Shrinks {
            found_bytes: found.length_bytes,
            asked_bytes: length_bytes,
        });
    }
    let codec = asker.unlock(&found, key)?;
    let opened = asker.open(writing("a change of its length", takes_over)?)?;
    if opened.manifest != found {
        asker.leave(&Mutex::new(Writer::new(opened)))?;
        return Err(BucketError::Resized);
    }
    let state = State {
        asker: asker.clone(),
        codec: codec.clone(),
        manifest: found,
        map: opened.map.clone(),
    };
    let to = Destination::of(asker, &codec, opened);
    let quiet: Arc<Progress> = Arc::new(|_, _| {});
    rewrite(state, new, to, &quiet).map(drop)
}

/// Copies the snapshot `name` of the volume in `from` to `to`, where none may be: a new volume,
/// which shares nothing with the first. If it is encrypted, `key` opens it, and opens the copy. One
/// that was interrupted is a volume that nobody has closed: remove it, and copy again.
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
    let (from, to) = (Arc::new(Asker::of_task(from)), Arc::new(Asker::of_task(to)));
    let state = State::of(&from, name, key)?;
    if to.object(MANIFEST_KEY)?.is_some() {
        return Err(BucketError::Occupied);
    }
    let (length_bytes, chunk_bytes) = (state.manifest.length_bytes, state.manifest.chunk_bytes);
    let manifest = Manifest::new(fresh_number()?, length_bytes, chunk_bytes)?;
    let manifest = manifest.with_pages(state.manifest.pages);
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
    rewrite(
        state,
        manifest,
        Destination::of(to, &codec, opened),
        progress,
    )
}

/// A state that a volume had.
struct State {
    asker: Arc<Asker>,
    codec: PageCodec,
    manifest: Manifest,
    map: Map,
}

impl State {
    fn of(
        asker: &Arc<Asker>,
        name: SnapshotName,
        key: Option<&OwnerKey>,
    ) -> Result<State, BucketError> {
        let opened = asker.open_snapshot(name)?;
        Ok(State {
            asker: asker.clone(),
            codec: asker.unlock(&opened.manifest, key)?,
            manifest: opened.manifest,
            map: opened.map,
        })
    }

    /// What the object `name` of `chunk` is put together of.
    fn job(&self, chunk: u64, name: ChunkName, writer: u128) -> UploadJob {
        let pages = self.manifest.pages_of(chunk);
        let count = (pages.end - pages.start) as usize;
        let above = self.map.pages_in(pages.clone());
        let inline = above.map(|(page, it)| {
            let (record, at, crc) = (it.record, it.at, it.crc);
            let first = (page - pages.start) as usize;
            (
                first,
                piece_of(first, page, Source::Record { record, at, crc }),
            )
        });
        let (places, inline): (BTreeSet<usize>, Vec<_>) = inline.unzip();
        let base = self.map.chunk(chunk).map(|object| {
            let below = (0..count).filter(|place| !places.contains(place));
            (object, below.collect())
        });
        UploadJob {
            chunk,
            name,
            first_page: pages.start,
            writer,
            bytes: vec![0; count * PAGE_BYTES as usize],
            base,
            inline,
            failures_before: 0,
        }
    }

    /// The chunks that `map` does not have as this state has them.
    fn differing(&self, map: &Map) -> Vec<u64> {
        let chunk_pages = self.manifest.chunk_pages();
        let chunks = [&self.map, map].into_iter().flat_map(|map| {
            let of_pages = map.pages().map(move |(page, _)| page / chunk_pages);
            map.chunks().map(|(chunk, _)| chunk).chain(of_pages)
        });
        let chunks: BTreeSet<u64> = chunks.filter(|&it| it < self.manifest.chunks()).collect();
        let differs = |chunk: &u64| {
            let pages = self.manifest.pages_of(*chunk);
            self.map.chunk(*chunk) != map.chunk(*chunk)
                || !self.map.pages_in(pages.clone()).eq(map.pages_in(pages))
        };
        chunks.into_iter().filter(differs).collect()
    }
}

/// Where it is written.
struct Destination {
    asker: Arc<Asker>,
    codec: PageCodec,
    writer: Writer,
}

impl Destination {
    fn of(asker: Arc<Asker>, codec: &PageCodec, opened: Opened) -> Destination {
        Destination {
            asker,
            codec: codec.clone(),
            writer: Writer::with_codec(opened, codec.clone()),
        }
    }
}

impl State {
    /// Makes an object of a chunk at `to`; none if it is zeros.
    /// It has `count` pages there.
    fn make(
        &self,
        to: &Asker,
        codec: &PageCodec,
        mut job: UploadJob,
        count: u64,
    ) -> Result<Option<u32>, BucketError> {
        let assembled = self.asker.assemble(&self.codec, &mut job, true);
        assembled.map_err(|unmade| match unmade {
            Unmade::Missing(key) => VolumeFault::Missing { key }.into(),
            Unmade::Failed(failure) => failed("an object cannot be read", failure),
        })?;
        job.bytes.resize((count * PAGE_BYTES) as usize, 0);
        let made = to.make_chunk(codec, &mut job);
        made.map_err(|failure| failed("an object cannot be made", failure))
    }
}

fn failed(what: &str, failure: Failure) -> BucketError {
    Trouble::lasting(what, failure).into()
}

/// Makes the volume at `to` what `state` is, with the length of `new`, and closes it.
fn rewrite(
    state: State,
    new: Manifest,
    to: Destination,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let Destination {
        asker,
        codec,
        mut writer,
    } = to;
    let (before, id_before) = (*writer.manifest(), state.manifest.id);
    let mut chunks: BTreeSet<u64> = state.differing(writer.map()).into_iter().collect();
    if before.length_bytes != new.length_bytes {
        writer.resize(new.length_bytes)?;
        chunks.extend(before.reshaped(&new));
    }
    let mut jobs = Vec::new();
    for chunk in chunks {
        if state.map.is_hole(&state.manifest, chunk) {
            // Also if it is a hole up to its new end, and has pages past that.
            let name = writer.name(Scope::All);
            writer.made_zeros(chunk, name);
        } else {
            jobs.push((chunk, writer.name(Scope::All)));
        }
    }
    let (id, all, done) = (writer.map().writer(), jobs.len() as u64, AtomicU64::new(0));
    let (maker, progress) = (asker.clone(), progress.clone());
    let chunk_bytes = new.whole_object_bytes();
    let made = abreast(jobs, move |(chunk, name)| {
        let (job, pages) = (state.job(chunk, name, id), new.pages_of(chunk));
        let crc = state.make(&maker, &codec, job, pages.end - pages.start)?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        Ok::<_, BucketError>((chunk, name, crc))
    });
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            // No record names what was made. A new copy stays open, so that nobody takes it for one
            // that is complete. If another volume cannot be left to others, the next writer has to
            // take it over.
            if before.id == id_before {
                let _ = asker.leave(&Mutex::new(writer));
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
                written.bytes += chunk_bytes;
            }
            None => writer.made_zeros(chunk, name),
        }
    }
    if writer.need() == Need::Record {
        writer.seal();
    }
    let writer = Mutex::new(writer);
    asker.make_record(&writer)?;
    asker.leave(&writer)?;
    Ok(written)
}
