//! What a bench is asked.

use std::path::PathBuf;

/// What a bench measures, with how much memory, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchArguments {
    /// Budget of each cache, a multiple of 2 MiB.
    pub memory_bytes: u64,
    /// Folder in which the scratch folder is made.
    pub parent_folder: PathBuf,
    /// One short round only.
    pub quick: bool,
    /// The block server and the mount, not the library.
    pub fronts: bool,
    /// Where the rows go, if anywhere.
    pub json_file: Option<PathBuf>,
}
