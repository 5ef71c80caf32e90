//! Snapshots of a volume: taken, read, removed, and asked for before objects are removed.

use crate::bucket::Bucket;
use crate::error::BucketError;
use crate::retrying_client::Tries;
use crate::volume_client::VolumeClient;
use forebay_base::Span;
use forebay_base::sync::lock;
use forebay_rt::thread::{Stopwatch, pause_current};
use forebay_rt::{fresh_number, say, unix_time_ms};
use forebay_volume::{
    Append, Appended, Held, Holding, MANIFEST_KEY, Manifest, Opened, Pins, Progress,
    SNAPSHOT_PREFIX, Snapshot, SnapshotName, Snapshotting, Twin, VolumeFault,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long removers wait for a snapshot that is being taken. It is begun again if it takes longer.
const PIN_TIME: Span = Span::from_secs(60);
const PIN_LOOK: Span = Span::from_secs(1);
/// A snapshot is begun so often.
const ATTEMPTS: u32 = 3;

/// Keeps the state of the volume in `bucket`, as of its last record, under `name`. No data is
/// copied. Its writer may go on meanwhile, and so may [`crate::collect`].
///
/// ```
/// use forebay_bucket::{FolderBucket, take_snapshot};
/// let folder = tempfile::tempdir()?;
/// let bucket = FolderBucket::open(folder.path(), false)?;
/// let refused = take_snapshot(std::sync::Arc::new(bucket), "monday".parse()?).unwrap_err();
/// assert!(refused.to_string().contains("there is no volume"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`BucketError`]: [`VolumeFault::SnapshotExists`] if that name is taken.
pub fn take_snapshot(bucket: Arc<dyn Bucket>, name: SnapshotName) -> Result<(), BucketError> {
    let volume = VolumeClient::of_task(bucket);
    // Nothing is put where no volume is.
    volume.known_manifest()?;
    volume.take_snapshot(name)
}

/// Removes the snapshot `name` of the volume in `bucket`. What it alone holds is removed by the
/// next [`crate::collect`]. Unless it `is_forced`, one that a clone needs stays.
///
/// # Errors
/// [`BucketError`]: [`VolumeFault::NoSnapshot`] if it is not there; [`BucketError::HasClone`].
pub fn remove_snapshot(
    bucket: Arc<dyn Bucket>,
    name: SnapshotName,
    is_forced: bool,
) -> Result<(), BucketError> {
    if name.is_of_clone() && !is_forced {
        return Err(BucketError::HasClone { snapshot: name });
    }
    let volume = VolumeClient::of_task(bucket);
    if !volume.snapshot_names()?.contains(&name) {
        return Err(VolumeFault::NoSnapshot { name }.into());
    }
    Ok(volume
        .client
        .remove_batch(&Twin::BOTH.map(|twin| name.key(twin)))?)
}

impl VolumeClient {
    pub(crate) fn take_snapshot(&self, name: SnapshotName) -> Result<(), BucketError> {
        for _ in 1..ATTEMPTS {
            match self.try_snapshot(name) {
                Err(BucketError::Volume(VolumeFault::PinDropped)) => {}
                taken => return taken,
            }
        }
        self.try_snapshot(name)
    }

    /// Keeps the snapshot `source`, which was read as `kept`, under the name `name` too. See
    /// invariant VB25.
    pub(crate) fn keep_snapshot(
        &self,
        manifest: &Manifest,
        source: SnapshotName,
        kept: &Snapshot,
        name: SnapshotName,
    ) -> Result<(), BucketError> {
        for twin in Twin::BOTH {
            let mut copy = Append::new(name.key(twin), kept.encode());
            if self.client.append(&mut copy)? == Appended::Theirs {
                return Err(VolumeFault::SnapshotExists { name }.into());
            }
        }
        match self.snapshot(manifest, source) {
            Ok(still) if still == *kept => Ok(()),
            // What it names may have been removed meanwhile.
            gone => {
                self.client
                    .remove_batch(&Twin::BOTH.map(|twin| name.key(twin)))?;
                gone?;
                Err(VolumeFault::NoSnapshot { name: source }.into())
            }
        }
    }

    fn try_snapshot(&self, name: SnapshotName) -> Result<(), BucketError> {
        let mut taking = Snapshotting::new(name, unix_time_ms(), fresh_number()?);
        let mut tries = Tries::begin();
        loop {
            let reply = self.client.ask(&taking.next(), &mut tries)?;
            if let Progress::Done(()) = taking.answer(reply)? {
                return Ok(());
            }
        }
    }

    /// What never changes of the volume.
    pub(crate) fn known_manifest(&self) -> Result<Manifest, BucketError> {
        let bytes = self
            .client
            .object(MANIFEST_KEY)?
            .ok_or(VolumeFault::NotThere)?;
        Ok(Manifest::decode(&bytes)?)
    }

    pub(crate) fn snapshot_names(&self) -> Result<BTreeSet<SnapshotName>, BucketError> {
        let keys = self.client.list(SNAPSHOT_PREFIX)?;
        let names = keys.iter().filter_map(|(key, _)| SnapshotName::of_key(key));
        Ok(names.collect())
    }

    /// The snapshot `name`, from either copy.
    pub(crate) fn snapshot(
        &self,
        manifest: &Manifest,
        name: SnapshotName,
    ) -> Result<Snapshot, BucketError> {
        let mut fault = VolumeFault::NoSnapshot { name };
        for twin in Twin::BOTH {
            let key = name.key(twin);
            let Some(bytes) = self.client.object(&key)? else {
                continue;
            };
            match Snapshot::decode(manifest, &key, &bytes) {
                Ok(snapshot) => return Ok(snapshot),
                Err(damage) => fault = damage,
            }
        }
        Err(fault.into())
    }

    /// The volume as it was when the snapshot `name` was taken.
    pub(crate) fn open_snapshot(&self, name: SnapshotName) -> Result<Opened, BucketError> {
        let manifest = self.known_manifest()?;
        let snapshot = self.snapshot(&manifest, name)?;
        Ok(Opened::of_snapshot(manifest, snapshot.map))
    }

    /// What snapshots hold of the objects `keys`, which are to be removed.
    pub(crate) fn held(&self, manifest: &Manifest, keys: &[String]) -> Result<Held, BucketError> {
        let mut holding = Holding::new(*manifest, self.pins(), Held::among(keys));
        let mut tries = Tries::begin();
        loop {
            let reply = self.client.ask(&holding.next(), &mut tries)?;
            match holding.answer(reply) {
                Ok(Progress::More) => {}
                Ok(Progress::Done(held)) => {
                    self.record_pinned(false);
                    return Ok(held);
                }
                Err(fault) => {
                    self.record_pinned(fault == VolumeFault::Pinned);
                    return Err(fault.into());
                }
            }
        }
    }

    /// What to do with pins now: they have their time from the first look that met one.
    pub(crate) fn pins(&self) -> Pins {
        let since = lock(&self.pinned);
        let is_over = since
            .as_ref()
            .is_some_and(|since| since.elapsed() >= PIN_TIME);
        if is_over { Pins::Drop } else { Pins::Respect }
    }

    /// Whether somebody is taking a snapshot at the moment.
    fn record_pinned(&self, is_pinned: bool) {
        let mut since = lock(&self.pinned);
        if is_pinned && since.is_none() {
            say(format_args!(
                "{}: a snapshot is being taken; nothing is removed until that is done, for up to \
                 {PIN_TIME}",
                self.client.name()
            ));
        }
        *since = since
            .take()
            .or(is_pinned.then(Stopwatch::start))
            .filter(|_| is_pinned);
    }

    /// Waits before a pin is looked for again.
    pub(crate) fn wait_for_pins(&self) {
        self.record_pinned(true);
        pause_current(PIN_LOOK);
    }
}
