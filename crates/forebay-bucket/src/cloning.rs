//! Clones: new volumes that share with another one what it had when they were made.

use crate::bucket::Bucket;
use crate::check::Item;
use crate::copy::{DETACHED, Progress, Uncopied, copy_items, writing};
use crate::error::BucketError;
use crate::volume_client::VolumeClient;
use forebay_base::sync::{Mutex, lock};
use forebay_rt::fresh_number;
use forebay_volume::{
    Collected, DETACHED_KEY, MANIFEST_KEY, MAPPED, MAPPED_KEY, Manifest, Map, Opened, PARENT_KEY,
    PageFormat, Parent, Shared, SnapshotName, Twin, VolumeFault, Writer, map_key, wrapped_key,
};
use std::sync::Arc;

/// Makes a clone of the volume in `parent`, as of its last record or as of its snapshot `of`, in
/// `clone`, where no volume may be, and from where `path` leads to the parent. No data is copied: a
/// snapshot of the parent holds what both share. Each is written without the other. What opens the
/// parent opens the clone.
///
/// ```
/// use forebay_bucket::{bucket_at, clone_volume, parent_path};
/// use std::ffi::OsString;
/// let folder = tempfile::tempdir()?;
/// let base = OsString::from(format!("folder://{}", folder.path().display()));
/// let clone = OsString::from(format!("{}/clone", base.display()));
/// let (from, to) = (bucket_at(&base, false)?, bucket_at(&clone, true)?);
/// let path = parent_path(&clone, &base)?;
/// let refused = clone_volume(from, to, path, None).unwrap_err();
/// assert!(refused.to_string().contains("there is no volume"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// [`BucketError::Occupied`] if there is a volume already, or what an interrupted clone has left:
/// remove that first.
pub fn clone_volume(
    parent: Arc<dyn Bucket>,
    clone: Arc<dyn Bucket>,
    path: Vec<u8>,
    of: Option<SnapshotName>,
) -> Result<(), BucketError> {
    let (from, to) = (VolumeClient::of_task(parent), VolumeClient::of_task(clone));
    let manifest = from.known_manifest()?;
    let source = match of {
        Some(name) => Some((name, from.snapshot(&manifest, name)?)),
        None => None,
    };
    if to.client.object(MANIFEST_KEY)?.is_some() {
        return Err(BucketError::Occupied);
    }
    let snapshot = SnapshotName::of_clone(fresh_number()?);
    // This object is the first one, so that the removal of an incomplete clone finds the snapshot.
    to.make(PARENT_KEY.to_owned(), Parent { path, snapshot }.encode())?;
    let kept = if let Some((name, kept)) = source {
        from.keep_snapshot(&manifest, name, &kept, snapshot)?;
        kept
    } else {
        from.take_snapshot(snapshot)?;
        from.snapshot(&manifest, snapshot)?
    };
    from.make_clone(&to, &manifest, kept.map)?;
    // The first map is alone, so another one is made.
    let writer = Mutex::new(Writer::new(to.open(writing("a clone", false)?)?));
    to.leave(&writer)?;
    let map = lock(&writer).map_after(1);
    if let Some(mut map) = map {
        to.client.append(&mut map)?;
    }
    Ok(())
}

/// Copies what the clone in `bucket` shares with its parent, after which it has none. A clone that
/// is open for writing is refused, unless the caller `takes_over`. Readers of the clone and of its
/// snapshots have to open it again afterwards. What was interrupted goes on where it was. Returns
/// what was copied.
///
/// # Errors
/// [`BucketError::NoClone`] if it has no parent.
pub fn flatten(
    bucket: Arc<dyn Bucket>,
    takes_over: bool,
    progress: &Arc<Progress>,
) -> Result<Collected, BucketError> {
    let volume = VolumeClient::of_task(bucket);
    let shared = volume.known_manifest()?.shared;
    let (Some(shared), Some(parent)) = (shared, volume.client.parent()?) else {
        return Err(BucketError::NoClone);
    };
    let mut copied = Collected::default();
    if volume.client.object(DETACHED_KEY)?.is_none() {
        let opened = volume.open(writing("a copy of what it shares", takes_over)?)?;
        let done = volume.copy_shared(&opened, &shared, progress);
        let left = volume.leave(&Mutex::new(Writer::new(opened)));
        copied = done?;
        left?;
    }
    volume.leave_parent(&parent.bucket, parent.named.snapshot)?;
    Ok(copied)
}

impl Item {
    fn is_shared(&self, shared: &Shared) -> bool {
        match self {
            Item::Chunk(object, _) => shared.has(&object.name.to_string()),
            Item::Record(number, _) => shared.has(&Twin::First.key(*number)),
            Item::Map(_) | Item::Mapped | Item::Key(_) | Item::Snapshot(_) => false,
        }
    }
}

impl VolumeClient {
    /// Copies what `opened` and its snapshots share with its parent.
    fn copy_shared(
        self: &Arc<VolumeClient>,
        opened: &Opened,
        shared: &Shared,
        progress: &Arc<Progress>,
    ) -> Result<Collected, BucketError> {
        let mut items = self.items(opened)?;
        items.extend(self.snapshot_items(opened)?);
        items.retain(|item| item.is_shared(shared));
        let copied = copy_items(self, self, &opened.manifest, items, progress);
        let copied = copied.map_err(Uncopied::error)?;
        self.make(DETACHED_KEY.to_owned(), DETACHED.to_vec())?;
        Ok(copied)
    }

    /// Makes at `to` the clone of this volume that has the state `map`.
    fn make_clone(
        &self,
        to: &VolumeClient,
        manifest: &Manifest,
        map: Map,
    ) -> Result<(), BucketError> {
        let shared = Shared {
            epoch: map.epoch(),
            record: map.number(),
        };
        if shared.record == 0 {
            let what = "it was never opened for writing, so there is nothing to share".into();
            return Err(VolumeFault::OutOfRange { what }.into());
        }
        let clone = map.manifest(manifest).cloned(shared);
        // No volume is created where record 1 is, so a manifest that is lost is noticed.
        let mut keys = Twin::BOTH.map(|twin| twin.key(1)).to_vec();
        if clone.pages == PageFormat::Encrypted {
            for number in self.key_numbers(clone.id)? {
                keys.extend(Twin::BOTH.map(|twin| wrapped_key(clone.id, twin, number)));
            }
        }
        for key in keys {
            if let Some(bytes) = self.client.object(&key)? {
                to.make(key, bytes)?;
            }
        }
        let map = map.of_clone(&clone);
        to.make(map_key(shared.record), map.encode())?;
        to.make(MAPPED_KEY.to_owned(), MAPPED.to_vec())?;
        to.make(MANIFEST_KEY.to_owned(), clone.encode())
    }
}
