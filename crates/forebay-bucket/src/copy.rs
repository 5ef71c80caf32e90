//! A copy of a volume in another place, and the removal of a volume.

use crate::abreast::abreast;
use crate::bucket::Bucket;
use crate::check::Item;
use crate::error::BucketError;
use crate::retrying_client::RetryingClient;
use crate::upkeep::{batches_of, sum_of};
use crate::volume_client::VolumeClient;
use forebay_base::sync::Mutex;
use forebay_rt::fresh_number;
use forebay_volume::{
    Access, Append, Appended, Collected, DETACHED_KEY, LOG_PREFIX, MANIFEST_KEY, MAP_PREFIX,
    MAPPED, MAPPED_KEY, Manifest, Map, Opened, PARENT_KEY, PREFIXES, Record, SnapshotName,
    TWIN_PREFIX, Twin, VolumeFault, Writer, Writing, check_wrapped, map_key, number_of,
    wrapped_key,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of the object [`DETACHED_KEY`].
pub(crate) const DETACHED: &[u8] = b"all of it lies here\n";

/// How far a copy or a removal is: objects that are done, and all of them.
pub type Progress = dyn Fn(u64, u64) + Send + Sync + 'static;

/// Why a state was not copied.
pub(crate) enum Uncopied {
    /// The object with this key is not there any more.
    Missing(String),
    Failed(BucketError),
}

impl Uncopied {
    pub(crate) fn error(self) -> BucketError {
        match self {
            Uncopied::Missing(key) => VolumeFault::Missing { key }.into(),
            Uncopied::Failed(error) => error,
        }
    }
}

impl<E: Into<BucketError>> From<E> for Uncopied {
    fn from(error: E) -> Uncopied {
        Uncopied::Failed(error.into())
    }
}

/// Copies the volume in `from`, as of its last record, to `to`, where none may be. Its writer may
/// go on meanwhile. The copy counts as closed, and its manifest is made last: what was interrupted
/// is no volume, and can be begun again.
///
/// # Errors
/// [`BucketError::Occupied`] if there is a volume already, or objects of another one.
pub fn copy(
    from: Arc<dyn Bucket>,
    to: Arc<dyn Bucket>,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let (from, to) = (VolumeClient::of_task(from), VolumeClient::of_task(to));
    if to.client.object(MANIFEST_KEY)?.is_some() {
        return Err(BucketError::Occupied);
    }
    let mut before = None;
    let (copied, state) = loop {
        let opened = from.open(Access::Read)?;
        let state = (opened.map.number(), opened.map.checksum());
        match copy_state(&from, &to, opened, progress) {
            Ok(copied) => break (copied, state),
            // A collector has passed. What was copied stays useful, for objects never change.
            Err(Uncopied::Missing(_)) if before != Some(state) => before = Some(state),
            Err(uncopied) => return Err(uncopied.error()),
        }
    };
    let found = to.open(Access::Read)?.map;
    if (found.number(), found.checksum()) != state {
        return Err(BucketError::Occupied);
    }
    let writing = writing("a copy", true)?;
    to.leave(&Mutex::new(Writer::new(to.open(writing)?)))?;
    Ok(copied)
}

/// Removes the volume in `bucket` and everything of it. Unless it `is_forced`, a volume that
/// another writer has, that has clones, or that cannot be opened, stays.
///
/// # Errors
/// [`BucketError`]. What was removed until then is gone.
pub fn remove(
    bucket: Arc<dyn Bucket>,
    is_forced: bool,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let volume = VolumeClient::of_task(bucket);
    let parent = match volume.client.parent() {
        Err(_) if is_forced => None,
        found => found?,
    };
    let clone = volume
        .snapshot_names()?
        .into_iter()
        .find(SnapshotName::is_of_clone);
    if let Some(snapshot) = clone.filter(|_| !is_forced) {
        return Err(BucketError::HasClone { snapshot });
    }
    // A server that still runs is to end.
    let opened = volume.open(writing("a removal", is_forced)?);
    if !is_forced {
        opened?;
    }
    let mut keys = Vec::new();
    for prefix in PREFIXES {
        keys.extend(volume.client.list(prefix)?);
    }
    let mut removed = sum_of(&keys);
    let (left, all) = (volume.clone(), removed.objects);
    let (done, progress) = (AtomicU64::new(0), progress.clone());
    abreast(batches_of(&keys), move |keys| {
        left.client.remove_batch(&keys)?;
        let count = keys.len() as u64;
        progress(done.fetch_add(count, Ordering::Relaxed) + count, all);
        Ok::<(), BucketError>(())
    })?;
    // A removal that was interrupted goes on for as long as this one is there.
    for key in [MAPPED_KEY, MANIFEST_KEY, DETACHED_KEY] {
        removed.objects += u64::from(volume.client.object(key)?.is_some());
        volume.client.remove_batch(&[key.to_owned()])?;
    }
    match parent {
        Some(parent) => volume.leave_parent(&parent.bucket, parent.named.snapshot)?,
        None => volume.client.remove_batch(&[PARENT_KEY.to_owned()])?,
    }
    Ok(removed)
}

pub(crate) fn writing(who: &str, take_over: bool) -> Result<Access, BucketError> {
    Ok(Access::Write(Writing {
        writer: fresh_number()?,
        who: who.to_owned(),
        create: None,
        take_over,
    }))
}

/// Copies all that `opened` consists of, and the manifest at the end.
fn copy_state(
    from: &Arc<VolumeClient>,
    to: &Arc<VolumeClient>,
    opened: Opened,
    progress: &Arc<Progress>,
) -> Result<Collected, Uncopied> {
    let items = from.items(&opened)?;
    let key_numbers = key_numbers_of(&items);
    let last = opened.map.number();
    let has_all_records = records_of(&items).eq(1..=last);
    let manifest = opened.manifest;
    drop(opened);
    // No volume is created where record 1 exists, and every volume that was written has it.
    if last > 0 {
        from.copy_item(to, &manifest, &Item::Record(1, 0))?;
    }
    let mut sum = copy_items(from, to, &manifest, items, progress)?;
    // What is left of another copy would be taken for what comes after this one.
    for prefix in [MAP_PREFIX, LOG_PREFIX, TWIN_PREFIX] {
        let keys = to.client.list(prefix)?;
        if keys
            .iter()
            .any(|(key, _)| number_of(key, prefix) > Some(last))
        {
            return Err(BucketError::Occupied.into());
        }
    }
    // Nor must a key open the copy that does not open the volume any more.
    for number in to.key_numbers(manifest.id)?.difference(&key_numbers) {
        to.client
            .remove_batch(&Twin::BOTH.map(|twin| wrapped_key(manifest.id, twin, *number)))?;
    }
    if !has_all_records {
        to.make(MAPPED_KEY.to_owned(), MAPPED.to_vec())?;
        sum.objects += 1;
    }
    if manifest.shared.is_some() {
        // A copy of a clone has no parent.
        to.make(DETACHED_KEY.to_owned(), DETACHED.to_vec())?;
        sum.objects += 1;
    }
    to.make(MANIFEST_KEY.to_owned(), manifest.encode())?;
    sum.objects += 1;
    Ok(sum)
}

/// Copies `items` of the volume with `manifest`, many at a time.
pub(crate) fn copy_items(
    from: &Arc<VolumeClient>,
    to: &Arc<VolumeClient>,
    manifest: &Manifest,
    items: Vec<Item>,
    progress: &Arc<Progress>,
) -> Result<Collected, Uncopied> {
    let (all, done) = (items.len() as u64, AtomicU64::new(0));
    let (from, to, manifest, progress) = (from.clone(), to.clone(), *manifest, progress.clone());
    let copied = abreast(items, move |item| {
        let copied = from.copy_item(&to, &manifest, &item)?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        Ok::<Collected, Uncopied>(copied)
    })?;
    let mut sum = Collected::default();
    for one in copied {
        sum.objects += one.objects;
        sum.bytes += one.bytes;
    }
    Ok(sum)
}

fn key_numbers_of(items: &[Item]) -> BTreeSet<u64> {
    let numbers = items.iter().filter_map(|item| match item {
        Item::Key(number) => Some(*number),
        _ => None,
    });
    numbers.collect()
}

/// The records of `items`, which has them in order.
fn records_of(items: &[Item]) -> impl Iterator<Item = u64> + '_ {
    items.iter().filter_map(|item| match item {
        Item::Record(number, _) => Some(*number),
        _ => None,
    })
}

impl VolumeClient {
    fn copy_item(
        &self,
        to: &VolumeClient,
        manifest: &Manifest,
        item: &Item,
    ) -> Result<Collected, Uncopied> {
        let keys = match item {
            Item::Chunk(object, _) => vec![object.name.to_string()],
            Item::Record(number, _) => Twin::BOTH.map(|twin| twin.key(*number)).to_vec(),
            Item::Map(number) => vec![map_key(*number)],
            Item::Mapped | Item::Snapshot(_) => Vec::new(),
            Item::Key(number) => Twin::BOTH
                .map(|twin| wrapped_key(manifest.id, twin, *number))
                .to_vec(),
        };
        let (mut copied, mut missing) = (Collected::default(), None);
        for key in keys {
            let Some(bytes) = self.client.object(&key)? else {
                missing = Some(key);
                continue;
            };
            match item {
                Item::Chunk(object, length_bytes) => object.check(&bytes, *length_bytes)?,
                Item::Record(number, _) => drop(Record::decode(*number, &bytes)?),
                Item::Map(number) => drop(Map::decode(manifest, *number, &bytes)?),
                Item::Mapped | Item::Snapshot(_) => {}
                Item::Key(number) => check_wrapped(manifest.id, *number, &key, &bytes)?,
            }
            copied.objects += 1;
            copied.bytes += bytes.len() as u64;
            to.make(key, bytes)?;
        }
        // Records of older programs have one copy, and so may the last one.
        match missing {
            Some(key) if copied.objects == 0 => Err(Uncopied::Missing(key)),
            _ => Ok(copied),
        }
    }

    pub(crate) fn make(&self, key: String, bytes: Vec<u8>) -> Result<(), BucketError> {
        match self.client.append(&mut Append::new(key, bytes))? {
            Appended::Ours => Ok(()),
            Appended::Theirs => Err(BucketError::Occupied),
        }
    }

    /// This clone needs nothing of `parent` any more.
    pub(crate) fn leave_parent(
        &self,
        parent: &Arc<dyn Bucket>,
        snapshot: SnapshotName,
    ) -> Result<(), BucketError> {
        let parent = RetryingClient::of_task(parent.clone());
        parent.remove_batch(&Twin::BOTH.map(|twin| snapshot.key(twin)))?;
        Ok(self.client.remove_batch(&[PARENT_KEY.to_owned()])?)
    }
}
