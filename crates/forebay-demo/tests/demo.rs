//! The demo as a user runs it: lines, a page, and nothing left behind, also after SIGINT.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn demo(folder: &Path, seconds: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-demo"));
    command
        .args(["demo", "--plain", "--seconds", seconds])
        .current_dir(folder);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it can be listed");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.expect("it can be read").file_name();
        name.into_string().expect("ours are ASCII")
    };
    let names = entries.map(name);
    names.collect()
}

#[test]
fn it_ends_with_a_line_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let run = demo(folder.path(), "1").output().unwrap();
    let (said, shown) = (
        String::from_utf8(run.stdout).unwrap(),
        String::from_utf8(run.stderr).unwrap(),
    );
    assert!(run.status.success(), "{shown}");
    assert!(shown.contains("\n     1 s "), "{shown}");
    for name in ["Forebay ", "stops at limit ", "direct I/O "] {
        let line = said.lines().find(|line| line.starts_with(name));
        assert!(line.is_some_and(|line| line.ends_with(" MB/s")), "{said}");
    }
    // The kernel's part needs things that not every machine has; without them the reason is shown.
    assert!(
        said.contains("\nkernel ") || shown.contains("the kernel's page cache takes no part: "),
        "{said}{shown}"
    );
    assert_eq!(names(folder.path()), ["forebay-demo.html"]);
    let page = std::fs::read_to_string(folder.path().join("forebay-demo.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let run = demo(folder.path(), "1")
        .args(["--html", "nowhere/page.html"])
        .output()
        .unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(!run.status.success());
    assert!(said.contains("cannot write nowhere/page.html"), "{said}");
    assert!(!said.contains("a disk of"), "{said}");
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = demo(folder.path(), "600")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let shown = BufReader::new(running.stderr.take().unwrap());
    let is_running = |line: &String| line.starts_with("     1 s ");
    let mut lines = shown.lines().map(Result::unwrap);
    assert!(lines.any(|line| is_running(&line)), "it shows what it does");
    assert!(
        !names(folder.path()).is_empty(),
        "the scratch folder is there"
    );
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let ended = running.wait().unwrap();
    assert_eq!(ended.signal(), Some(Signal::INT.as_raw()));
    assert_eq!(names(folder.path()), [""; 0]);
}

/// The loop devices whose file is in `folder`, as their folders in /sys/block.
fn loop_devices(folder: &Path) -> Vec<PathBuf> {
    let devices = std::fs::read_dir("/sys/block").expect("it can be listed");
    let devices = devices.map(|device| device.expect("it can be read").path());
    devices
        .filter(|device| {
            let file = std::fs::read_to_string(device.join("loop/backing_file"));
            file.is_ok_and(|file| Path::new(file.trim()).starts_with(folder))
        })
        .collect()
}

/// Whether the block layer still limits `device` to a rate, though nobody uses it.
fn keeps_its_throttle(device: &Path) -> bool {
    let number = std::fs::read_to_string(device.join("dev")).expect("it has a number");
    let is_held = || {
        let rules = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";
        let rules = std::fs::read_to_string(rules).unwrap_or_default();
        let of_device = format!("{} ", number.trim());
        rules.lines().any(|rule| rule.starts_with(&of_device))
    };
    // Another demo may have the device by now, or may have had it during the check.
    is_held() && !device.join("loop/backing_file").exists() && is_held()
}

#[test]
fn an_interrupt_of_the_kernel_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = demo(folder.path(), "3")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let shown = BufReader::new(running.stderr.take().unwrap());
    let mut lines = shown.lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains(" kernel") || line.contains("kernel's"));
    let line = line.expect("the kernel's part comes, or why there is none");
    let disks = loop_devices(folder.path());
    let is_running = !line.contains("takes no part: ");
    if is_running {
        assert_eq!(disks.len(), 1, "its disk is there");
        kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    }
    // Its last messages must have somewhere to go.
    lines.for_each(drop);
    let ended = running.wait().unwrap();
    if is_running {
        assert_eq!(ended.signal(), Some(Signal::INT.as_raw()));
        assert_eq!(names(folder.path()), [""; 0]);
    }
    assert_eq!(loop_devices(folder.path()), Vec::<PathBuf>::new());
    assert!(!disks.iter().any(|disk| keeps_its_throttle(disk)));
}

#[test]
fn the_word_of_the_command_is_taken_and_every_other_one_is_told_where_to_go() {
    let program = env!("CARGO_BIN_EXE_forebay-demo");
    let of_word = |word: &str| Command::new(program).args([word, "--help"]).output();
    assert!(of_word("demo").unwrap().status.success());
    let run = Command::new(program).arg("serve").output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("-p forebay-cli -- serve"), "{said}");
}
