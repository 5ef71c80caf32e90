//! `forebay mount` as a separate process.

#![allow(dead_code, reason = "each test program uses a part of it")]

#[path = "../../../forebay-fuse/tests/support/left_out.rs"]
mod left_out;

pub(crate) use left_out::is_left_out;

use super::lifetime::{end_late, find_line};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A mounted folder, the folder below it, and the server.
pub(crate) struct Mounted {
    folder: TempDir,
    child: Child,
}

impl Mounted {
    /// Mounts an empty folder through a cache of `memory_bytes`.
    pub(crate) fn start(memory_bytes: u64) -> Mounted {
        let folder = Mounted::folders();
        let [source, mount] = ["source", "mount"].map(|name| folder.path().join(name));
        let mut call = Command::new(env!("CARGO_BIN_EXE_forebay"));
        call.args(["mount", "--foreground", "--memory"])
            .arg(memory_bytes.to_string())
            .args([&source, &mount]);
        Mounted::started(folder, call)
    }

    /// A folder with the folders `source` and `mount`.
    pub(crate) fn folders() -> TempDir {
        let folder = tempfile::tempdir().expect("a folder for the test");
        for name in ["source", "mount"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        folder
    }

    /// The mount that `call` makes of the folders in `folder`.
    pub(crate) fn started(folder: TempDir, mut call: Command) -> Mounted {
        let mut child = call
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        end_late(&child);
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        let reported = BufReader::new(stdout).read_line(&mut line);
        reported.expect("it is a pipe");
        let mounted = Mounted { folder, child };
        assert!(!line.is_empty(), "it did not mount");
        mounted
    }

    /// The number of the server's process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The path of a name in the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mount").join(name)
    }

    /// The path of a name in the folder below.
    pub(crate) fn behind(&self, name: &str) -> PathBuf {
        self.folder.path().join("source").join(name)
    }

    /// Reads the server's standard error until a line contains `text`.
    pub(crate) fn read_until(&mut self, text: &str) {
        find_line(&mut self.child, text, |line| {
            line.contains(text).then_some(())
        });
    }

    /// Ends the server, which unmounts and writes everything.
    pub(crate) fn end(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the server runs");
        let mut said = String::new();
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut said).expect("it is a pipe");
        let status = self.child.wait().expect("the server ends");
        assert!(status.success(), "{said}");
        assert!(said.contains("everything is written"), "{said}");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A server that has ended cannot be killed; one whose test failed must not stay.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // If the server ended in order, nothing is mounted any more.
        let _ = unmount(self.path(""), UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}
