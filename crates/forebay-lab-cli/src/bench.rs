//! `forebay-lab bench`: its flags.

use crate::error::CommandError;
use forebay_base::units::{parse_size, show_bytes};
use forebay_bench::{BenchArguments, PHASES};
use std::path::PathBuf;

/// The smallest budget for the bench. Below it the working sets are a few hundred pages, and the
/// figures mean nothing.
const LEAST_MEMORY_BYTES: u64 = 16 << 20;

/// The words that were typed.
#[derive(clap::Args)]
pub(crate) struct TypedBench {
    /// Memory of each cache; the data is four times that size
    #[arg(long, alias = "memory", value_name = "SIZE", default_value = "256M",
          value_parser = memory_size)]
    cache_memory: u64,
    /// Directory in which the scratch directory is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Measure one short round of everything, within 30 seconds
    #[arg(long)]
    quick: bool,
    /// Rounds of each load, in which the contenders take turns; medians and spread are over the
    /// rounds [default: 3, and 5 for cached pages and for the fronts]
    #[arg(long, value_name = "N", value_parser = bench_rounds(), conflicts_with = "quick")]
    rounds: Option<u32>,
    /// Measure only this phase; repeat the flag for more
    #[arg(long = "phase", value_name = "NAME", value_parser = PHASES, conflicts_with = "fronts")]
    phases: Vec<String>,
    /// Largest cache of the phase growth, which measures 64M, 1G and 8G up to this size
    #[arg(long = "growth", value_name = "SIZE", default_value = "64M", value_parser = memory_size)]
    growth: u64,
    /// Measure the block server and the mount with fio instead, compared with nbdkit and qemu-nbd
    #[arg(long)]
    fronts: bool,
    /// Also write every figure to FILE, one JSON object per line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl From<TypedBench> for BenchArguments {
    fn from(typed: TypedBench) -> BenchArguments {
        BenchArguments {
            memory_bytes: typed.cache_memory,
            parent_folder: typed.dir,
            quick: typed.quick,
            rounds: typed.rounds,
            phases: typed.phases,
            growth_bytes: typed.growth,
            fronts: typed.fronts,
            json_file: typed.json,
        }
    }
}

/// Runs the bench.
pub(crate) fn run(arguments: &BenchArguments) -> Result<(), CommandError> {
    Ok(forebay_bench::run(arguments)?)
}

/// Enough for a stable median, and no longer than a night.
fn bench_rounds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100)
}

/// A budget: a size of at least [`LEAST_MEMORY_BYTES`], rounded down to whole huge pages.
fn memory_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < LEAST_MEMORY_BYTES {
        return Err(format!(
            "the bench needs at least {}",
            show_bytes(LEAST_MEMORY_BYTES)
        ));
    }
    if bytes > 1 << 44 {
        return Err("no machine has that much: write the budget of one cache, as 256M".into());
    }
    Ok(bytes >> 21 << 21)
}
