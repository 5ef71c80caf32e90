//! A cache and its stores, as both servers use them.

use crate::config::Tuning;
use crate::daemon::say::say;
use crate::daemon::starting;
use crate::error::CommandError;
use forebay::event::EventSink;
use forebay::settings::BackingSettings;
use forebay::{AttachedStore, BuildError, Cache, Parts, Settings};
use forebay_base::sync::Arc;
use forebay_base::units::show_bytes;
use forebay_host::StepError;
use forebay_rt::Rt;
use forebay_store::{FileStore, FileStoreSettings, Store};

/// `settings` with the knobs in `tuning`, if a cache can have them on this machine. The server uses
/// another `beside_bytes` of memory.
pub(crate) fn usable(
    settings: &Settings,
    beside_bytes: u64,
    tuning: &Tuning,
) -> Result<Settings, CommandError> {
    let refused = |error: BuildError| match error {
        BuildError::FloorTooSmall { needed_bytes, .. } => {
            let least = show_bytes((needed_bytes + beside_bytes).next_multiple_of(1 << 20));
            let text = format!(
                "the FLOOR of --memory is too small: with what the server needs in addition to its \
                 cache, it has to be at least {least}"
            );
            CommandError::setting("memory", &text)
        }
        BuildError::BudgetTooSmall { .. } | BuildError::TooMuchMemory { .. } => {
            CommandError::setting("memory", &error)
        }
        BuildError::BadSetting { setting, .. } => CommandError::setting(setting, &error),
        error => failed("start", &error),
    };
    let settings = tuning.applied(settings).map_err(refused)?;
    settings.check().map_err(refused)?;
    Ok(settings)
}

/// A cache with `settings`, whose events go to `sink`.
pub(crate) fn cache_of(
    settings: Settings,
    rt: &Rt,
    sink: Arc<dyn EventSink>,
) -> Result<Cache, CommandError> {
    let parts = Parts {
        rt: rt.clone(),
        sink: Some(sink),
    };
    let memory_bytes = settings.memory_bytes;
    let cache = starting::said(memory_bytes, || Cache::with_parts(settings, parts));
    cache.map_err(|error| failed("start", &error))
}

/// The store that opens files.
pub(crate) fn file_store() -> Result<Arc<FileStore>, CommandError> {
    let files = FileStore::new(FileStoreSettings::default());
    let files = files.map_err(|error| failed("start its store", &error))?;
    if let Some(refusal) = files.uring_refusal() {
        say(format_args!("{}", without_uring(refusal)));
    }
    Ok(files)
}

/// What a server says of a system that refused io_uring for the reason `refusal`.
fn without_uring(refusal: &str) -> String {
    format!("io_uring cannot be used ({refusal}): requests go through threads, one for each")
}

/// Attaches `store` to `cache`, with `settings`.
pub(crate) fn taken(
    cache: &Cache,
    store: Arc<dyn Store>,
    settings: BackingSettings,
) -> Result<AttachedStore, CommandError> {
    let memory_bytes = cache.statistics().memory_bytes;
    let attached = starting::said(memory_bytes, || cache.attach_with(store, settings));
    attached.map_err(|error| failed("take its store", &error))
}

/// A cache with `settings` over files, the store that opens them, and that store as attached.
pub(crate) fn cache_with_files(
    settings: Settings,
    of_store: BackingSettings,
    rt: &Rt,
    sink: Arc<dyn EventSink>,
) -> Result<(Cache, Arc<FileStore>, AttachedStore), CommandError> {
    let (cache, files) = (cache_of(settings, rt, sink)?, file_store()?);
    let store = taken(&cache, files.clone(), of_store)?;
    Ok((cache, files, store))
}

fn failed(action: &'static str, error: &dyn std::error::Error) -> CommandError {
    StepError::cache(action, error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_ring_is_told_with_its_reason_and_what_is_used_instead() {
        let said = without_uring("Operation not permitted (os error 1)");
        assert!(
            said.starts_with("io_uring cannot be used (Operation not permitted"),
            "{said}"
        );
        assert!(
            said.ends_with("requests go through threads, one for each"),
            "{said}"
        );
    }
}
