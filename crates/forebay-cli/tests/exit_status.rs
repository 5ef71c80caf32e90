//! What a caller of the command gets: an exit status, one line for an error, and nothing left
//! behind.

use std::path::Path;
use std::process::{Command, Output};

fn forebay(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(words)
        .output()
        .expect("the program starts")
}

fn demo_in(folder: &Path) -> Output {
    // Tests run side by side, and each demo looks whether its page can be written.
    let pages = tempfile::tempdir().expect("a folder");
    let page = pages.path().join("demo.html");
    let [folder, page] = [folder, &*page].map(|path| path.to_str().expect("a path in UTF-8"));
    let words = [
        "demo",
        "--plain",
        "--seconds",
        "1",
        "--html",
        page,
        "--dir",
        folder,
    ];
    forebay(&words)
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
        &["demo", "--fast"][..],
        &["demo", "--seconds", "0"],
        &["lab", "run", "many-dd"],
        &["polish"],
        &[],
    ] {
        assert_eq!(forebay(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_bad_call_that_parses_is_answered_with_the_usage_of_its_own_command() {
    let calls: [(&[&str], &str); 2] = [
        (&["mount", "/", "/tmp", "--memory", "64M"], "mount"),
        (
            &[
                "serve", "nbd", "a/disk", "b/disk", "--socket", "s", "--memory", "64M",
            ],
            "serve nbd",
        ),
    ];
    for (words, command) in calls {
        let output = forebay(words);
        let reported = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{reported}");
        let usage = format!("Usage: forebay {command} [OPTIONS]");
        assert!(reported.contains(&usage), "{reported}");
    }
}

#[test]
fn help_is_no_failure_and_names_the_flags() {
    let output = forebay(&["demo", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for flag in ["--seconds", "--dir", "--html", "--svg"] {
        assert!(text.contains(flag), "{text}");
    }
}

#[test]
fn a_missing_folder_is_reported_in_one_line() {
    let error = assert_failed_in_one_line(&demo_in(Path::new("/nowhere/at/all")));
    assert!(
        error.contains("/nowhere/at/all") && error.contains("--dir"),
        "{error}"
    );
}

#[test]
fn a_file_in_the_place_of_the_folder_is_reported_in_one_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = assert_failed_in_one_line(&demo_in(file.path()));
    assert!(error.contains(file.path().to_str().unwrap()), "{error}");
}

#[test]
fn a_folder_that_takes_no_files_is_reported_in_one_line() {
    // Permissions do not stop root; the process file system accepts no folder from anybody.
    let error = assert_failed_in_one_line(&demo_in(Path::new("/proc/self")));
    assert!(error.contains("make the scratch folder"), "{error}");
}
