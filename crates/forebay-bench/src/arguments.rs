//! The arguments of a bench.

use std::path::PathBuf;

/// The names of the phases of the library.
///
/// # Examples
/// ```
/// assert!(forebay_bench::PHASES.contains(&"miss"));
/// ```
pub const PHASES: [&str; 11] = [
    "hit", "dirty", "miss", "stream", "slow", "mix", "memory", "order", "mixed", "commit", "growth",
];

/// What a bench measures, with how much memory, and where.
///
/// # Examples
/// ```no_run
/// let arguments = forebay_bench::BenchArguments {
///     memory_bytes: 256 << 20,
///     parent_folder: "/var/tmp".into(),
///     quick: false,
///     rounds: Some(5),
///     phases: vec!["miss".into()],
///     growth_bytes: 64 << 20,
///     fronts: false,
///     json_file: Some("rows.json".into()),
/// };
/// forebay_bench::run(&arguments)?;
/// # Ok::<(), forebay_bench::BenchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchArguments {
    /// Budget of each cache, a multiple of 2 MiB.
    pub memory_bytes: u64,
    /// Folder in which the scratch folder is made.
    pub parent_folder: PathBuf,
    /// One short round only.
    pub quick: bool,
    /// Rounds of each load; `None` means the usual number of each phase.
    pub rounds: Option<u32>,
    /// The phases of the library that are measured, by their names in [`PHASES`]; all if empty.
    pub phases: Vec<String>,
    /// The largest cache of the phase growth.
    pub growth_bytes: u64,
    /// The block server and the mount, not the library.
    pub fronts: bool,
    /// Where the rows go, if anywhere.
    pub json_file: Option<PathBuf>,
}
