//! Building the swarm with a mutation and running it.

use super::list::SeenBy;
use super::{Mutation, Verdict, schedules};
use crate::error::TaskError;
use crate::tree_copy::TreeCopy;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Each mutation has to be noticed by one of this many seeds.
const SEEDS: u64 = 2_000;

/// A copy of the tree, the folder in which it is built, and the swarm without mutations.
pub(super) struct Workshop {
    tree: TreeCopy,
    target: PathBuf,
    clean: PathBuf,
}

impl Workshop {
    /// Copies the tree below `root`, and builds its swarm if that is needed.
    pub(super) fn open(root: &Path, needs_swarm: bool) -> Result<Workshop, TaskError> {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), PathBuf::from)
            .join("mutations");
        let workshop = Workshop {
            tree: TreeCopy::make(root, target.join("tree"))?,
            clean: target.join("swarm"),
            target,
        };
        if !needs_swarm {
            return Ok(workshop);
        }
        if !workshop.builds()? {
            return Err(TaskError::Failed {
                command: "build the swarm without mutations".to_owned(),
                message: "see above".to_owned(),
            });
        }
        copy(&workshop.built(), &workshop.clean)?;
        Ok(workshop)
    }

    /// Makes the change, checks whether it is noticed, and takes it back.
    pub(super) fn try_out(&self, mutation: &Mutation) -> Result<Verdict, TaskError> {
        let text = self.tree.text(&mutation.file)?;
        let Some(changed) = mutation.apply(&text) else {
            return Err(TaskError::Failed {
                command: format!("apply {}", mutation.name),
                message: format!("its text must be in {} exactly once", mutation.file),
            });
        };
        self.tree.put(&mutation.file, changed.as_bytes())?;
        if mutation.seen_by == SeenBy::Schedules {
            let verdict = schedules::run(self.tree.path(), &self.target, None);
            self.tree.put(&mutation.file, text.as_bytes())?;
            return self.unless_without(verdict?);
        }
        let is_built = self.builds();
        self.tree.put(&mutation.file, text.as_bytes())?;
        if !is_built? {
            return Ok(Verdict::NotBuilt);
        }
        let verdict = run(&self.built(), 0, SEEDS)?;
        if let Verdict::Caught { seed, .. } = verdict
            && run(&self.clean, seed, seed + 1)? != Verdict::Missed
        {
            return Ok(Verdict::AlsoWithout { seed });
        }
        Ok(verdict)
    }

    /// The verdict of the tests of schedules, unless they find the same without the mutation.
    fn unless_without(&self, verdict: Verdict) -> Result<Verdict, TaskError> {
        if let Verdict::Caught { seed, .. } = verdict
            && schedules::run(self.tree.path(), &self.target, Some(seed))? != Verdict::Missed
        {
            return Ok(Verdict::AlsoWithout { seed });
        }
        Ok(verdict)
    }

    fn built(&self) -> PathBuf {
        self.target.join("build/release/examples/swarm")
    }

    fn builds(&self) -> Result<bool, TaskError> {
        let mut build = Command::new("cargo");
        build
            .args(["build", "--release", "--quiet", "--locked"])
            .args(["--package", "forebay-lab", "--example", "swarm"])
            .current_dir(self.tree.path())
            .env("CARGO_TARGET_DIR", self.target.join("build"))
            // With these a build takes seconds, and the seeds take hardly longer.
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        let status = build.status().map_err(|cause| TaskError::Start {
            command: "cargo build".to_owned(),
            cause,
        })?;
        Ok(status.success())
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), TaskError> {
    let copied = fs::copy(from, to);
    copied.map(|_| ()).map_err(|cause| TaskError::Write {
        path: to.to_owned(),
        cause,
    })
}

/// Runs the seeds `first..end` of `swarm` until one finds something.
fn run(swarm: &Path, first: u64, end: u64) -> Result<Verdict, TaskError> {
    let output = Command::new(swarm)
        .args([first.to_string(), end.to_string()])
        // A mutation that panics says so thousands of times.
        .stderr(Stdio::null())
        .output();
    let output = output.map_err(|cause| TaskError::Start {
        command: swarm.display().to_string(),
        cause,
    })?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(match said.lines().filter_map(found).min() {
        Some((seed, oracle)) => Verdict::Caught { oracle, seed },
        None if output.status.success() => Verdict::Missed,
        None => Verdict::Died,
    })
}

/// The seed and the oracle of a line `seed 12 bytes: what`.
fn found(line: &str) -> Option<(u64, String)> {
    let (seed, rest) = line.strip_prefix("seed ")?.split_once(' ')?;
    let (oracle, _) = rest.split_once(':')?;
    Some((seed.parse().ok()?, oracle.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_swarm_prints_is_understood() {
        let line = "seed 12 bytes: a read of 4096 bytes at 0 has another byte: 7";
        assert_eq!(found(line), Some((12, "bytes".to_owned())));
        assert_eq!(found("2000 seeds, 8.7 a second"), None);
    }
}
