//! Running the tests of explored schedules in the copy of the tree.

use super::Verdict;
use crate::error::TaskError;
use std::path::Path;
use std::process::Command;

/// Whole caches first, because they have to notice most; then the tests inside the engine.
const TESTS: [&[&str]; 2] = [&["--test", "schedules"], &["--lib", "schedules"]];

/// Runs the tests of the tree at `tree`, each under all its orders or under one alone.
pub(super) fn run(tree: &Path, target: &Path, order: Option<u64>) -> Result<Verdict, TaskError> {
    for tests in TESTS {
        let mut test = Command::new("cargo");
        test.args(["test", "--quiet", "--locked", "--package", "forebay"])
            .args(tests)
            .current_dir(tree)
            .env("CARGO_TARGET_DIR", target.join("shuttle"))
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("RUSTFLAGS", "--cfg shuttle");
        if let Some(order) = order {
            test.env("FOREBAY_FIRST_ORDER", order.to_string())
                .env("FOREBAY_ORDERS", "1");
        }
        let output = test.output().map_err(|cause| TaskError::Start {
            command: "cargo test".to_owned(),
            cause,
        })?;
        if output.status.success() {
            continue;
        }
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        return Ok(verdict(&said));
    }
    Ok(Verdict::Missed)
}

/// The meaning of the output of the tests.
fn verdict(said: &str) -> Verdict {
    let order = said.lines().find_map(|line| {
        let (_, rest) = line.split_once("it failed under order ")?;
        rest.split_once(';')?.0.parse().ok()
    });
    let failed = said.lines().rev().find(|line| {
        let name = line.strip_prefix("    ");
        name.is_some_and(|name| name.contains("::") && !name.contains(' '))
    });
    match (order, failed) {
        (Some(seed), Some(test)) => Verdict::Caught {
            oracle: test.trim().to_owned(),
            seed,
        },
        _ if said.contains("could not compile") => Verdict::NotBuilt,
        _ => Verdict::Died,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_say_is_understood() {
        let said = "test limits::a ... forebay: it failed under order 12; again: FOREBAY_..=12\n\
                    FAILED\n\nfailures:\n\n---- limits::a stdout ----\n  left: 1s\n\n\
                    failures:\n    limits::a\n\ntest result: FAILED.\n";
        let caught = Verdict::Caught {
            oracle: "limits::a".to_owned(),
            seed: 12,
        };
        assert_eq!(verdict(said), caught);
        let refused = "error: could not compile `forebay` (lib) due to 1 previous error";
        assert_eq!(verdict(refused), Verdict::NotBuilt);
        assert_eq!(verdict("signal: 6"), Verdict::Died);
    }
}
