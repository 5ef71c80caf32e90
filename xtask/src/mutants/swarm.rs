//! The swarm, with the mutants woven in: it plays those that the tests have missed.

use crate::error::TaskError;
use crate::tree_copy::TreeCopy;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds for all seeds, some ten times of what they take: most such mutants never end.
const WALL_SECONDS: &str = "400";
/// More than a mutant in the tests may have: caches of a GiB are mapped here, and hardly touched.
const MEMORY_BYTES: &str = "68719476736";

/// The built program, and the number of seeds that it plays.
pub(super) struct Swarm {
    program: PathBuf,
    seeds: u64,
}

impl Swarm {
    /// Builds the swarm in `tree`, which has the mutants already.
    pub(super) fn build(tree: &TreeCopy, target: &Path, seeds: u64) -> Result<Swarm, TaskError> {
        let mut build = Command::new("cargo");
        build
            .args(["build", "--release", "--quiet", "--locked"])
            .args(["--package", "forebay-lab", "--example", "swarm"])
            .current_dir(tree.path())
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .env("RUSTFLAGS", "--cap-lints=allow");
        if status(&mut build)? {
            let program = target.join("release/examples/swarm");
            return Ok(Swarm { program, seeds });
        }
        Err(TaskError::Failed {
            command: "build the swarm with the mutants".to_owned(),
            message: "see above".to_owned(),
        })
    }

    /// Whether the seeds find nothing with mutant `number` switched on.
    pub(super) fn passes(&self, number: usize) -> Result<bool, TaskError> {
        let mut run = Command::new("timeout");
        run.args(["--signal=KILL", WALL_SECONDS, "prlimit", "--core=0"])
            .arg(format!("--as={MEMORY_BYTES}"))
            .arg(&self.program)
            .args(["0".to_owned(), self.seeds.to_string()])
            .env("FOREBAY_MUTANT", number.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        status(&mut run)
    }
}

fn status(command: &mut Command) -> Result<bool, TaskError> {
    let status = command.status().map_err(|cause| TaskError::Start {
        command: command.get_program().to_string_lossy().into_owned(),
        cause,
    })?;
    Ok(status.success())
}
