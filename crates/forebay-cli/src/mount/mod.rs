//! `forebay mount`: a folder seen through a cache.

mod arguments;
mod background;
mod serve;
mod waiting;

pub(crate) use arguments::{MountArguments, TypedMount};

use crate::daemon::limits;
use crate::error::CommandError;

/// Refuses what a start would refuse before it takes anything.
pub(crate) fn check(arguments: &MountArguments) -> Result<(), CommandError> {
    let settings = serve::settings_of(arguments);
    settings
        .map(drop)
        .map_err(|error| arguments.tuning.located(error))
}

/// Mounts and serves until the end, here or in the background.
pub(crate) fn run(arguments: &MountArguments) -> Result<(), CommandError> {
    check(arguments)?;
    if arguments.foreground || background::is_child() {
        limits::survive_file_size_limit()?;
        return serve::run(arguments);
    }
    background::start()
}
