//! Licences, duplicate crates and sources of the dependencies: cargo-deny with `deny.toml`.

use crate::error::TaskError;
use crate::source::repository;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that `deny.toml` is written for.
const VERSION: &str = "0.20.2";

/// Runs cargo-deny; true if it found nothing. If this version is not installed, it is built into
/// the target directory, which takes a minute once.
pub(crate) fn run() -> Result<bool, TaskError> {
    let root = repository()?;
    let tool = match installed() {
        Some(tool) => tool,
        None => build(&root)?,
    };
    let mut check = Command::new(tool);
    check
        .current_dir(&root)
        .args(["check", "licenses", "bans", "sources"]);
    succeeds(&mut check)
}

fn installed() -> Option<PathBuf> {
    let tool = PathBuf::from("cargo-deny");
    has_version(&tool).then_some(tool)
}

fn build(root: &Path) -> Result<PathBuf, TaskError> {
    let home = root.join("target/tools");
    let tool = home.join("bin/cargo-deny");
    if has_version(&tool) {
        return Ok(tool);
    }
    println!("cargo-deny {VERSION} is missing; building it in target/tools (once)");
    let mut install = Command::new("cargo");
    install
        .args(["install", "cargo-deny", "--version", VERSION])
        // Unoptimized: it runs for less than a second and is built in half the time.
        .args(["--locked", "--quiet", "--debug", "--force"])
        .arg("--root")
        .arg(&home)
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env_remove("RUSTFLAGS");
    if succeeds(&mut install)? {
        Ok(tool)
    } else {
        Err(TaskError::Failed {
            command: format!("cargo install cargo-deny --version {VERSION}"),
            message: "see above; it needs the crate registry".to_owned(),
        })
    }
}

fn has_version(tool: &Path) -> bool {
    let Ok(output) = Command::new(tool).arg("--version").output() else {
        return false;
    };
    String::from_utf8_lossy(&output.stdout).trim() == format!("cargo-deny {VERSION}")
}

fn succeeds(command: &mut Command) -> Result<bool, TaskError> {
    match command.status() {
        Ok(status) => Ok(status.success()),
        Err(cause) => Err(TaskError::Start {
            command: format!("{command:?}"),
            cause,
        }),
    }
}
