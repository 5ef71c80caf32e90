//! What happens to the results of `forebay-lab` if nobody reads them.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

/// A short run that writes its results to `json`.
fn run(json: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-lab"));
    command
        .args(["run", "simple-wb", "--set", "scale=16"])
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

/// The trace of a run of `scenario`, as text.
fn trace_of(scenario: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace.json");
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-lab"));
    command.args(["run"]).arg(scenarios.join(scenario));
    let output = command
        .arg("--trace")
        .arg(&file)
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    fs::read_to_string(file).expect("it was written")
}

#[test]
fn a_trace_has_the_waits_of_a_run_in_its_time() {
    let text = trace_of("blame-stuck-commit.toml");
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let commits = events.iter().filter(|it| it["name"] == "sync: commit");
    let commits: Vec<(u64, u64)> = commits
        .map(|it| {
            assert_eq!(it["ph"], "X");
            assert_eq!(it["args"]["caller"], "journal");
            (it["ts"].as_u64().unwrap(), it["dur"].as_u64().unwrap())
        })
        .collect();
    // From 10 s on each commit takes 3 s; a sync may begin shortly before.
    let slow = commits.iter().filter(|(_, took_us)| *took_us >= 3_000_000);
    let began: Vec<u64> = slow.map(|(began_us, _)| *began_us).collect();
    assert!(began.len() >= 3, "{commits:?}");
    assert!(
        began.iter().all(|us| (9_900_000..30_000_000).contains(us)),
        "{began:?}"
    );
    assert!(began.is_sorted());
    // A run of the same seed has the same trace.
    assert_eq!(trace_of("blame-stuck-commit.toml"), text);
}

#[test]
fn a_trace_marks_when_knobs_were_turned() {
    let text = trace_of("blame-lower-limit.toml");
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let marks: Vec<_> = events.iter().filter(|it| it["ph"] == "i").collect();
    let [mark] = &marks[..] else {
        panic!("one turn in {marks:?}");
    };
    let name = mark["name"].as_str().unwrap();
    assert!(name.contains("dirty_bytes: 0 -> 1048576"), "{name}");
    assert_eq!(mark["ts"], 15_000_000);
}

#[test]
fn the_old_name_of_reproduce_keeps_working() {
    let refused = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-lab"));
        let output = command.args([name, "--json", "one", "--html", "one"]);
        let output = output.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused("reproduce");
    assert!(said.contains("give two files"), "{said}");
    assert_eq!(refused("seeds"), said);
}
