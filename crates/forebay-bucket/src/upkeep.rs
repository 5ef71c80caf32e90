//! Tasks on a volume other than serving it: inspection, checks, removal of unused objects.

use crate::abreast::abreast;
use crate::bucket::Bucket;
use crate::check::Checked;
use crate::error::BucketError;
use crate::retrying_client::Tries;
use crate::volume_client::VolumeClient;
use forebay_volume::{
    Access, Collected, Collecting, DETACHED_KEY, Held, Manifest, Map, PIN_PREFIX, PREFIXES,
    PROBE_PREFIX, Progress, SnapshotName, VolumeFault, unneeded,
};
use forebay_volume_jobs::REMOVED_AT_ONCE;
use std::ffi::OsString;
use std::sync::Arc;

/// What can be said of a volume without reading its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// What never changes.
    pub manifest: Manifest,
    /// Everything as of the last record.
    pub map: Map,
    /// Records since the newest map, which a start reads.
    pub log_records: u64,
    /// Objects, and their bytes.
    pub objects: u64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// What [`collect`] would free now: nothing, if a snapshot cannot be read.
    pub unneeded: Collected,
    /// Its snapshots by name, with the time of each in milliseconds since 1970, or why it cannot be
    /// read.
    pub snapshots: Vec<(SnapshotName, Result<u64, VolumeFault>)>,
    /// What snapshots alone hold.
    pub held: Collected,
    /// The address of its parent and the snapshot that this keeps for it, if it is a clone.
    pub parent: Option<(OsString, SnapshotName)>,
}

/// Looks at the volume in `bucket`. A writer may go on meanwhile.
///
/// ```
/// use forebay_bucket::{FolderBucket, info};
/// let folder = tempfile::tempdir()?;
/// let bucket = FolderBucket::open(folder.path(), false)?;
/// let refused = info(std::sync::Arc::new(bucket)).unwrap_err();
/// assert!(refused.to_string().contains("there is no volume"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// [`BucketError`].
pub fn info(bucket: Arc<dyn Bucket>) -> Result<VolumeInfo, BucketError> {
    let volume = VolumeClient::of_task(bucket);
    let opened = volume.open(Access::Read)?;
    let mut keys = Vec::new();
    // Pins and probes are there for a moment and hold nothing of the volume.
    let passing = [PIN_PREFIX, PROBE_PREFIX];
    for prefix in PREFIXES.into_iter().filter(|it| !passing.contains(it)) {
        keys.extend(volume.client.list(prefix)?);
    }
    let all = sum_of(&keys);
    let (mut held, mut snapshots) = (Held::default(), Vec::new());
    for name in volume.snapshot_names()? {
        match volume.snapshot(&opened.manifest, name) {
            Ok(snapshot) => {
                held.add(&snapshot.map);
                snapshots.push((name, Ok(snapshot.taken_ms)));
            }
            // It was removed since it was listed.
            Err(BucketError::Volume(VolumeFault::NoSnapshot { .. })) => {}
            Err(BucketError::Volume(fault)) => snapshots.push((name, Err(fault))),
            Err(error) => return Err(error),
        }
    }
    let replaced = unneeded(&opened.map, opened.stays(), &Held::default(), keys);
    let (held, mut unneeded): (Vec<_>, Vec<_>) =
        replaced.into_iter().partition(|(key, _)| held.holds(key));
    if snapshots.iter().any(|(_, taken)| taken.is_err()) {
        unneeded.clear();
    }
    let mut parent = None;
    if opened.manifest.shared.is_some() && volume.client.object(DETACHED_KEY)?.is_none() {
        let found = volume.client.parent()?;
        parent = found.map(|it| (it.address, it.named.snapshot));
    }
    Ok(VolumeInfo {
        parent,
        manifest: opened.manifest,
        log_records: opened.map.number() - opened.base,
        map: opened.map,
        objects: all.objects,
        bytes: all.bytes,
        unneeded: sum_of(&unneeded),
        snapshots,
        held: sum_of(&held),
    })
}

/// How many they are, and their bytes.
pub(crate) fn sum_of(keys: &[(String, u64)]) -> Collected {
    Collected {
        objects: keys.len() as u64,
        bytes: keys.iter().map(|(_, bytes)| bytes).sum(),
    }
}

/// Removes what neither the state as of the last record nor a snapshot needs. A writer may go on
/// meanwhile, and so may readers that opened the volume after the last commit. A snapshot that is
/// being taken is waited for.
///
/// # Errors
/// [`BucketError`].
pub fn collect(bucket: Arc<dyn Bucket>) -> Result<Collected, BucketError> {
    let volume = VolumeClient::of_task(bucket);
    loop {
        match volume.collect() {
            Err(BucketError::Volume(VolumeFault::Pinned)) => volume.wait_for_pins(),
            collected => return collected,
        }
    }
}

/// Reads everything that the volume in `bucket` consists of, and compares checksums. What a writer
/// replaces meanwhile, and `gc` removes, is looked for again in the newer state, until two states
/// have the same faults.
///
/// # Errors
/// [`BucketError`] if the volume cannot be opened at all.
pub fn check(bucket: Arc<dyn Bucket>) -> Result<Checked, BucketError> {
    let volume = VolumeClient::of_task(bucket);
    let mut before: Option<(u64, Vec<String>)> = None;
    loop {
        let opened = volume.open(Access::Read)?;
        let number = opened.map.number();
        let checked = volume.check(&opened)?;
        let is_whole = checked.faults.is_empty() && checked.notes.is_empty();
        let is_known =
            |(same, faults): &(u64, Vec<String>)| *same == number || *faults == checked.faults;
        if is_whole || before.as_ref().is_some_and(is_known) {
            return Ok(checked);
        }
        before = Some((number, checked.faults));
    }
}

/// The keys of listed objects, as many at a time as one request removes.
pub(crate) fn batches_of(listed: &[(String, u64)]) -> Vec<Vec<String>> {
    let batches = listed.chunks(REMOVED_AT_ONCE);
    let keys_of = |batch: &[(String, u64)]| batch.iter().map(|(key, _)| key.clone()).collect();
    batches.map(keys_of).collect()
}

impl VolumeClient {
    fn collect(self: &Arc<VolumeClient>) -> Result<Collected, BucketError> {
        let mut collecting = Collecting::new(self.pins());
        let mut tries = Tries::begin();
        loop {
            if let Some(doomed) = collecting.doomed() {
                return self.remove_doomed(&doomed);
            }
            let reply = self.client.ask(&collecting.next(), &mut tries)?;
            if let Progress::Done(collected) = collecting.answer(reply)? {
                return Ok(collected);
            }
        }
    }

    /// Removes `doomed`, those of one kind before those of the next.
    fn remove_doomed(
        self: &Arc<VolumeClient>,
        doomed: &[(String, u64)],
    ) -> Result<Collected, BucketError> {
        let mut collected = Collected::default();
        let kind = |(key, _): &(String, u64)| key.find('/').map(|at| key[..at].to_owned());
        for of_kind in doomed.chunk_by(|a, b| kind(a) == kind(b)) {
            let volume = self.clone();
            abreast(batches_of(of_kind), move |keys| {
                Ok::<(), BucketError>(volume.client.remove_batch(&keys)?)
            })?;
            let removed = sum_of(of_kind);
            collected.objects += removed.objects;
            collected.bytes += removed.bytes;
        }
        Ok(collected)
    }
}
