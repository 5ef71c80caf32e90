//! A cache before files, as both servers have it.

use crate::error::CommandError;
use forebay::{AttachedStore, Cache, Parts, Settings};
use forebay_base::sync::Arc;
use forebay_rt::Rt;
use forebay_store::{FileStore, FileStoreSettings};

/// A cache of `settings`, the store that opens files for it, and that store as it knows it.
pub(crate) fn cache_with(
    settings: Settings,
    rt: &Rt,
) -> Result<(Cache, Arc<FileStore>, AttachedStore), CommandError> {
    let failed =
        |action: &'static str| move |reason: String| CommandError::Cache { action, reason };
    let parts = Parts {
        rt: rt.clone(),
        ..Parts::default()
    };
    let cache =
        Cache::with_parts(settings, parts).map_err(|error| failed("start")(error.to_string()))?;
    let files = FileStore::new(FileStoreSettings::default())
        .map_err(|error| failed("start its store")(error.to_string()))?;
    let store = cache
        .attach(files.clone())
        .map_err(|error| failed("take its store")(error.to_string()))?;
    Ok((cache, files, store))
}
