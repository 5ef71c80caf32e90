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
    serve::settings_of(arguments).map(drop)
}

/// Mounts and serves until the end, here or in the background.
pub(crate) fn run(arguments: &MountArguments) -> Result<(), CommandError> {
    if arguments.foreground || background::is_child() {
        limits::survive_file_size_limit()?;
        return serve::run(arguments);
    }
    check(arguments)?;
    background::start()
}
