//! What happens to the results of `forebay lab` if nobody reads them.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

/// A short run that writes its results to `json`.
fn run(json: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args(["lab", "run", "simple-wb", "--set", "scale=16"])
        .args(["--set", "iterations=1", "--json"])
        .arg(json)
        .stderr(Stdio::piped());
    command
}

#[test]
fn a_reader_that_has_gone_ends_the_run_quietly_and_its_file_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("runs.json");
    let mut child = run(&json).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(fs::read_to_string(&json).unwrap().starts_with('{'));
}

#[test]
fn messages_that_nobody_reads_end_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("runs.json");
    let mut child = run(&json).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(fs::read_to_string(&json).unwrap().starts_with('{'));
}

#[test]
fn output_that_cannot_be_written_is_reported_and_the_file_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("runs.json");
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = run(&json).stdout(full).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("standard output"), "{errors}");
    assert!(json.exists());
}

#[test]
fn a_file_that_cannot_be_written_is_reported_before_anything_runs() {
    let output = run(Path::new("/nowhere/runs.json")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("/nowhere/runs.json"), "{errors}");
    assert!(!errors.contains("1/1"), "nothing was run: {errors}");
}

#[test]
fn the_old_name_of_reproduce_keeps_working() {
    let refused = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        let output = command.args(["lab", name, "--json", "one", "--html", "one"]);
        let output = output.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused("reproduce");
    assert!(said.contains("give two files"), "{said}");
    assert_eq!(refused("seeds"), said);
}
