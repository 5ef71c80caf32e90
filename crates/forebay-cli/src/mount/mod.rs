//! `forebay mount`: a folder seen through a cache.

mod arguments;
mod background;
mod serve;
mod waiting;

pub(crate) use arguments::{MountArguments, TypedMount};

use crate::daemon::{limits, machine};
use crate::error::CommandError;

/// Mounts and serves until the end, here or in the background.
pub(crate) fn run(arguments: &MountArguments) -> Result<(), CommandError> {
    machine::check_memory(arguments.memory_bytes, arguments.floor_bytes)?;
    // All files of the folder are in one store.
    arguments.tuning.expect_stores(1)?;
    if arguments.foreground || background::is_child() {
        limits::survive_file_size_limit()?;
        return serve::run(arguments);
    }
    background::start()
}
