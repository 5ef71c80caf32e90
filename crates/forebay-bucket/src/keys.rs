//! The key of an encrypted volume: made with the volume, found when it is opened, wrapped again
//! when its owner's key changes.

use crate::bucket::Bucket;
use crate::error::BucketError;
use crate::volume_client::VolumeClient;
use forebay_rt::fresh_number;
use forebay_volume::{
    Append, Appended, KEY_PREFIX, Manifest, OwnerKey, PageCodec, PageFormat, Twin, VolumeFault,
    VolumeKey, wrapped_key, wrapped_number,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Wraps the key of the encrypted volume in `bucket`, which `old` opens, with `new`: from then on
/// that one opens it, and `old` does not. No data is written again, and a server may go on
/// meanwhile. A change that was interrupted is completed by the same call.
///
/// ```
/// use forebay_bucket::{FolderBucket, OwnerKey, change_key};
/// let folder = tempfile::tempdir()?;
/// let bucket = FolderBucket::open(folder.path(), false)?;
/// let [old, new] = [[1; 32], [2; 32]].map(|key| OwnerKey::parse(&key).expect("32 bytes"));
/// let refused = change_key(std::sync::Arc::new(bucket), &old, &new).unwrap_err();
/// assert!(refused.to_string().contains("there is no volume"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// [`BucketError`]; [`BucketError::KeyChanged`] if another change came between.
pub fn change_key(
    bucket: Arc<dyn Bucket>,
    old: &OwnerKey,
    new: &OwnerKey,
) -> Result<(), BucketError> {
    let volume = VolumeClient::of_task(bucket);
    let id = match volume.known_manifest()? {
        manifest if manifest.pages == PageFormat::Encrypted => manifest.id,
        _ => return Err(VolumeFault::NotEncrypted.into()),
    };
    let numbers = volume.key_numbers(id)?;
    let newest = numbers.last().copied().unwrap_or(0);
    let made = match volume.wrapped(id, newest, new)? {
        Unwrapped::Key(_, bytes) => Some((newest, bytes)),
        Unwrapped::WrongKey | Unwrapped::Missing => None,
    };
    let (number, bytes) = match (made, volume.wrapped(id, newest, old)?) {
        (Some(made), _) => made,
        (None, Unwrapped::Key(key, _)) => {
            (newest + 1, new.wrap(id, newest + 1, &key, fresh_number()?))
        }
        (None, Unwrapped::WrongKey) => return Err(VolumeFault::WrongKey.into()),
        (None, Unwrapped::Missing) => return Err(missing(id, newest).into()),
    };
    volume.make_wrapped(id, number, &bytes)?;
    // Listed again: other changes may have made and removed keys meanwhile, this one's among them,
    // of which the second copy was then made after that.
    let numbers = volume.key_numbers(id)?;
    let newest = numbers.last().copied().unwrap_or(number);
    for older in numbers.range(..newest) {
        volume
            .client
            .remove_batch(&Twin::BOTH.map(|twin| wrapped_key(id, twin, *older)))?;
    }
    if newest > number {
        return Err(BucketError::KeyChanged);
    }
    Ok(())
}

/// What came of unwrapping a key.
enum Unwrapped {
    /// The volume's key, and the object in which it was found.
    Key(VolumeKey, Vec<u8>),
    WrongKey,
    /// No whole copy of it is there.
    Missing,
}

fn missing(id: u128, number: u64) -> VolumeFault {
    let key = wrapped_key(id, Twin::First, number.max(1));
    VolumeFault::Missing { key }
}

impl VolumeClient {
    /// Makes the key of the volume that is about to be made with `manifest`. It comes before the
    /// manifest, so that no volume is without one. What an interrupted creation leaves behind has
    /// another volume's number, so it disturbs no other creation.
    pub(crate) fn make_key(
        &self,
        manifest: &Manifest,
        owner: Option<&OwnerKey>,
    ) -> Result<(), BucketError> {
        let owner = match (manifest.pages, owner) {
            (PageFormat::Encrypted, Some(owner)) => owner,
            (PageFormat::Encrypted, None) => return Err(VolumeFault::KeyNeeded.into()),
            (PageFormat::Plain | PageFormat::Checksum, None) => return Ok(()),
            (PageFormat::Plain | PageFormat::Checksum, Some(_)) => {
                return Err(VolumeFault::NotEncrypted.into());
            }
        };
        let mut key = [0; 32];
        for half in key.chunks_mut(16) {
            half.copy_from_slice(&fresh_number()?.to_le_bytes());
        }
        let bytes = owner.wrap(manifest.id, 1, &VolumeKey::new(key), fresh_number()?);
        self.make_wrapped(manifest.id, 1, &bytes)
    }

    /// What puts pages into the objects of the volume with `manifest`, which `owner` opens.
    pub(crate) fn unlock(
        &self,
        manifest: &Manifest,
        owner: Option<&OwnerKey>,
    ) -> Result<PageCodec, BucketError> {
        if manifest.pages != PageFormat::Encrypted {
            if owner.is_some() {
                return Err(VolumeFault::NotEncrypted.into());
            }
            return Ok(PageCodec::new(manifest, None)?);
        }
        let owner = owner.ok_or(VolumeFault::KeyNeeded)?;
        // While its owner's key is changed, what was listed goes and something newer is there.
        let first = self.find_key(manifest.id, owner)?;
        let found = match first {
            Unwrapped::Missing => self.find_key(manifest.id, owner)?,
            found => found,
        };
        match found {
            Unwrapped::Key(key, _) => Ok(PageCodec::new(manifest, Some(&key))?),
            Unwrapped::WrongKey => Err(VolumeFault::WrongKey.into()),
            Unwrapped::Missing => Err(missing(manifest.id, 1).into()),
        }
    }

    /// The newest of the wrapped keys that `owner` opens: in the middle of a change there are two.
    fn find_key(&self, id: u128, owner: &OwnerKey) -> Result<Unwrapped, BucketError> {
        let mut found = Unwrapped::Missing;
        for number in self.key_numbers(id)?.into_iter().rev() {
            match self.wrapped(id, number, owner)? {
                key @ Unwrapped::Key(..) => return Ok(key),
                Unwrapped::WrongKey => found = Unwrapped::WrongKey,
                Unwrapped::Missing => {}
            }
        }
        Ok(found)
    }

    /// The numbers of the wrapped keys of the volume `id`.
    pub(crate) fn key_numbers(&self, id: u128) -> Result<BTreeSet<u64>, BucketError> {
        let keys = self.client.list(KEY_PREFIX)?;
        let numbers = keys.iter().filter_map(|(key, _)| wrapped_number(id, key));
        Ok(numbers.collect())
    }

    /// Number `number` of them, as `owner` opens it.
    fn wrapped(&self, id: u128, number: u64, owner: &OwnerKey) -> Result<Unwrapped, BucketError> {
        for twin in Twin::BOTH {
            let key = wrapped_key(id, twin, number);
            let Some(bytes) = self.client.object(&key)? else {
                continue;
            };
            match owner.unwrap(id, number, &key, &bytes) {
                Ok(key) => return Ok(Unwrapped::Key(key, bytes)),
                Err(VolumeFault::WrongKey) => return Ok(Unwrapped::WrongKey),
                // The other copy may be whole.
                Err(VolumeFault::Damaged { .. }) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(Unwrapped::Missing)
    }

    /// Makes both copies. The first one decides between two changes at once.
    fn make_wrapped(&self, id: u128, number: u64, bytes: &[u8]) -> Result<(), BucketError> {
        for twin in Twin::BOTH {
            let key = wrapped_key(id, twin, number);
            let appended = self.client.append(&mut Append::new(key, bytes.to_vec()))?;
            if appended == Appended::Theirs {
                return Err(BucketError::KeyChanged);
            }
        }
        Ok(())
    }
}
