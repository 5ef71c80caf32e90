//! A volume and, if it is a clone, its parent: whatever the two share is read there.

use crate::bucket::{Bucket, CallError, ParentVolume};
use crate::places::{followed, place_at};
use forebay_store::Failure;
use forebay_volume::{
    Call, DETACHED_KEY, MANIFEST_KEY, Manifest, PARENT_KEY, Parent, Reply, Shared, Twin,
    VolumeFault,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, OnceLock};

/// Clones of clones of clones. More means that one is its own parent.
const DEPTH_LIMIT: u32 = 64;

/// The bucket of the volume at an address. That the volume is a clone is found out when its
/// manifest is read, which every opening does first.
pub(crate) struct LinkedBucket {
    own: Arc<dyn Bucket>,
    address: OsString,
    depth: u32,
    link: OnceLock<(Shared, Arc<dyn Bucket>)>,
}

/// Finds the place that `address` names, and, when the volume there is opened and is a clone, that
/// of its parent. If `creates`, it may be made.
///
/// # Errors
/// What is wrong with the address, or what the system says.
pub fn bucket_at(address: &OsStr, creates: bool) -> io::Result<Arc<dyn Bucket>> {
    linked_at(address, creates, 0)
}

/// As [`bucket_at`], for a parent that was found after so many clones.
fn linked_at(address: &OsStr, creates: bool, depth: u32) -> io::Result<Arc<dyn Bucket>> {
    Ok(Arc::new(LinkedBucket {
        own: place_at(address, creates)?,
        address: address.to_owned(),
        depth,
        link: OnceLock::new(),
    }))
}

impl LinkedBucket {
    fn own_object(&self, key: &str) -> Result<Option<Vec<u8>>, CallError> {
        object(&*self.own, key, None)
    }

    /// Finds the parent, if `bytes` are the manifest of a clone that has one.
    fn follow(&self, bytes: &[u8]) -> Result<(), CallError> {
        if self.link.get().is_some() {
            return Ok(());
        }
        // A manifest that is damaged is refused by its reader.
        let Ok(manifest) = Manifest::decode(bytes) else {
            return Ok(());
        };
        let Some(shared) = manifest.shared else {
            return Ok(());
        };
        if self.own_object(DETACHED_KEY)?.is_some() {
            return Ok(());
        }
        let parent = self.parent()?.ok_or_else(|| {
            let key = PARENT_KEY.to_owned();
            lasting(&VolumeFault::Missing { key })
        })?;
        parent.check(&manifest)?;
        // Another thread may have been faster, with the same.
        let _ = self.link.set((shared, parent.bucket));
        Ok(())
    }
}

impl ParentVolume {
    /// Refuses a parent of `clone` that does not keep what that needs.
    fn check(&self, clone: &Manifest) -> Result<(), CallError> {
        let (address, snapshot) = (self.address.display(), self.named.snapshot);
        let refused = |what: String| {
            let text = format!("it is a clone, and its parent {address} {what}");
            Err(CallError::lasting(text, Failure::Gone))
        };
        match object(&*self.bucket, MANIFEST_KEY, None)? {
            None => return refused("is not there".to_owned()),
            Some(bytes) => match Manifest::decode(&bytes) {
                Ok(manifest) if manifest.id == clone.id => {}
                Ok(_) => return refused("is another volume now".to_owned()),
                Err(fault) => return refused(format!("cannot be read: {fault}")),
            },
        }
        for twin in Twin::BOTH {
            if object(&*self.bucket, &snapshot.key(twin), Some(0..1))?.is_some() {
                return Ok(());
            }
        }
        refused(format!(
            "no longer has the snapshot {snapshot}, which holds the data of both"
        ))
    }
}

impl Bucket for LinkedBucket {
    fn ask(&self, call: &Call) -> Result<Reply, CallError> {
        let Call::Get { key, .. } = call else {
            return self.own.ask(call);
        };
        if let Some((shared, parent)) = self.link.get()
            && shared.has(key)
        {
            return parent.ask(call);
        }
        let reply = self.own.ask(call)?;
        if key == MANIFEST_KEY
            && let Reply::Bytes(bytes) = &reply
        {
            self.follow(bytes)?;
        }
        Ok(reply)
    }

    fn uploads_at_once(&self, object_bytes: u64) -> usize {
        self.own.uploads_at_once(object_bytes)
    }

    fn remove_all(&self, keys: &[String]) -> Result<(), CallError> {
        self.own.remove_all(keys)
    }

    fn sweep(&self) {
        self.own.sweep();
    }

    fn parent(&self) -> Result<Option<ParentVolume>, CallError> {
        let Some(bytes) = self.own_object(PARENT_KEY)? else {
            return Ok(None);
        };
        let named = Parent::decode(&bytes).map_err(|fault| lasting(&fault))?;
        let failed = |error: io::Error| {
            let text = format!("its parent cannot be reached: {error}");
            CallError::lasting(text, Failure::Gone)
        };
        if self.depth == DEPTH_LIMIT {
            let text = format!("it is a clone of a clone, more than {DEPTH_LIMIT} times");
            return Err(CallError::lasting(text, Failure::Gone));
        }
        let address = followed(&self.address, &named.path).map_err(failed)?;
        let bucket = linked_at(&address, false, self.depth + 1).map_err(failed)?;
        Ok(Some(ParentVolume {
            address,
            named,
            bucket,
        }))
    }
}

fn lasting(fault: &VolumeFault) -> CallError {
    CallError::lasting(fault.to_string(), Failure::Gone)
}

fn object(
    bucket: &dyn Bucket,
    key: &str,
    range: Option<std::ops::Range<u64>>,
) -> Result<Option<Vec<u8>>, CallError> {
    let key = key.to_owned();
    Ok(match bucket.ask(&Call::Get { key, range })? {
        Reply::Bytes(bytes) => Some(bytes),
        _ => None,
    })
}
