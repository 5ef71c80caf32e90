//! Opens volumes: carries out what [`Opening`] asks, and reads records ahead.

use crate::abreast::abreast;
use crate::error::BucketError;
use crate::retrying_client::Tries;
use crate::volume_client::VolumeClient;
use forebay_volume::{Access, Call, MANIFEST_KEY, Manifest, Opened, Opening, Progress, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records that are read at the same time when a volume is opened; the largest have 2 MiB.
const RECORDS_AHEAD: u64 = 8;

impl VolumeClient {
    /// Opens the volume.
    pub(crate) fn open(self: &Arc<VolumeClient>, access: Access) -> Result<Opened, BucketError> {
        self.open_if(access, |_| Ok(()))
    }

    /// Opens the volume. Its last writer is ended only if `admit` takes what was found.
    pub(crate) fn open_if(
        self: &Arc<VolumeClient>,
        access: Access,
        admit: impl FnMut(&Manifest) -> Result<(), BucketError>,
    ) -> Result<Opened, BucketError> {
        self.finish(Opening::new(access), admit)
    }

    /// Carries `opening` out, as [`VolumeClient::open_if`] does.
    pub(crate) fn finish(
        self: &Arc<VolumeClient>,
        mut opening: Opening,
        mut admit: impl FnMut(&Manifest) -> Result<(), BucketError>,
    ) -> Result<Opened, BucketError> {
        let mut tries = Tries::begin();
        let mut ahead = BTreeMap::new();
        loop {
            if let Some(manifest) = opening.candidate() {
                admit(manifest)?;
            }
            let call = opening.next();
            let known = match &call {
                Call::Get { key, range: None } => ahead.remove(key),
                _ => None,
            };
            let reply = if let Some(bytes) = known {
                Reply::Bytes(bytes)
            } else {
                ahead = self.read_ahead(opening.ahead(RECORDS_AHEAD))?;
                self.client.ask(&call, &mut tries)?
            };
            if let Progress::Done(opened) = opening.answer(reply)? {
                return Ok(opened);
            }
        }
    }

    /// Those of the objects `keys` that are there.
    fn read_ahead(
        self: &Arc<VolumeClient>,
        keys: Vec<String>,
    ) -> Result<BTreeMap<String, Vec<u8>>, BucketError> {
        let volume = self.clone();
        let read = abreast(keys, move |key: String| {
            let call = Call::Get {
                key: key.clone(),
                range: None,
            };
            // What is in trouble is asked for in its turn.
            Ok::<_, BucketError>(match volume.client.ask(&call, &mut Tries::begin()) {
                Ok(Reply::Bytes(bytes)) => Some((key, bytes)),
                _ => None,
            })
        })?;
        Ok(read.into_iter().flatten().collect())
    }

    /// What never changes of the volume that is there (true), or is to be made (false).
    pub(crate) fn manifest(
        &self,
        access: &Access,
    ) -> Result<Option<(Manifest, bool)>, BucketError> {
        Ok(match (self.client.object(MANIFEST_KEY)?, access) {
            (Some(bytes), _) => Some((Manifest::decode(&bytes)?, true)),
            (None, Access::Write(writing)) => writing.create.map(|it| (it, false)),
            (None, Access::Read) => None,
        })
    }
}
