//! What a caller of the command gets: an exit status, one line for an error, and nothing left
//! behind.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

fn forebay_lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay-lab"))
        .args(words)
        .output()
        .expect("the program starts")
}

fn assert_failed_in_one_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let errors: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("forebay: "))
        .collect();
    assert_eq!(errors.len(), 1, "{text}");
    errors[0].to_owned()
}

#[test]
fn a_bad_call_exits_with_2() {
    for words in [
        &["bench", "--fast"][..],
        &["bench", "--memory", "lots"],
        &["bench", "--memory", "1M"],
        &["polish"],
        &[],
    ] {
        assert_eq!(forebay_lab(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_workload_larger_than_its_disk_is_a_bad_call() {
    let output = forebay_lab(&["run", "fs-mark", "--set", "file_bytes=900T"]);
    let reported = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{reported}");
    assert!(reported.contains("take a larger device"), "{reported}");
}

#[test]
fn a_call_that_is_refused_learns_how_run_is_used() {
    for words in [&["many-dd", "--set", "writers=0"][..], &["tetris"]] {
        let output = forebay_lab(&[&["run"], words].concat());
        let reported = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{reported}");
        assert!(reported.contains("Usage: forebay-lab run"), "{reported}");
    }
}

#[test]
fn a_scenario_in_the_place_of_a_machine_is_refused_with_the_right_call() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/two-nodes.toml"
    );
    let output = forebay_lab(&["run", "simple-wb", "--machine", scenario]);
    let reported = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{reported}");
    let call = format!("forebay-lab run {scenario}");
    assert!(
        reported.contains("is a scenario") && reported.contains(&call),
        "{reported}"
    );
}

#[test]
fn rows_that_cannot_be_written_are_reported_before_the_bench_runs() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let output = forebay_lab(&["bench", "--dir", dir, "--json", "/nowhere/rows"]);
    let error = assert_failed_in_one_line(&output);
    assert!(error.contains("/nowhere/rows"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_bench_ends_by_the_signal_and_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Command::new(env!("CARGO_BIN_EXE_forebay-lab"))
            .args(["bench", "--memory", "16M", "--dir"])
            .arg(folder.path())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines();
        // The first line is written when the scratch folder is there; a later one when
        // contenders run.
        let preparing = lines
            .by_ref()
            .find(|line| line.as_ref().unwrap().contains("preparing"));
        assert!(preparing.is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        kill_process(Pid::from_child(&bench), signal).unwrap();
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        let status = bench.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status} {rest:?}");
        assert!(
            rest.last().unwrap().starts_with("forebay: interrupted"),
            "{rest:?}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
