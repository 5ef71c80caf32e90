//! `forebay serve nbd` as a separate process.

#![allow(dead_code, reason = "each test program uses a part of it")]

use super::client::Client;
use super::lifetime::{end_late, find_line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::DirEntry;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

pub(crate) struct Served {
    child: Child,
    pub(crate) socket: PathBuf,
}

/// The command that serves `image` with `more` flags and a cache of about 16 MiB.
pub(crate) fn command(image: &Path, socket: &Path, more: &[&str]) -> Command {
    command_without_memory(image, socket, &[&["--memory", "32M"], more].concat())
}

/// The command that serves `image` with `more` flags, which include `--memory`.
pub(crate) fn command_without_memory(image: &Path, socket: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args(["serve", "nbd", "--socket"])
        .arg(socket)
        .args(more)
        .arg(image)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// `call`, started by `program` with the arguments `first`.
pub(crate) fn through(program: &str, first: &[&str], call: &Command) -> Command {
    let mut command = Command::new(program);
    command
        .args(first)
        .arg(call.get_program())
        .args(call.get_args())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Served {
    /// Starts a server and waits until clients may come.
    pub(crate) fn start(folder: &Path, more: &[&str]) -> Served {
        let socket = folder.join("nbd.sock");
        let call = command(&folder.join("disk.img"), &socket, more);
        // The tests may run with SIGHUP ignored, as under nohup; the server would then ignore it,
        // too.
        let heeding = through("env", &["--default-signal=HUP"], &call);
        Served::started(heeding, socket)
    }

    /// The same for a command that serves at `socket`.
    pub(crate) fn started(mut command: Command, socket: PathBuf) -> Served {
        let mut child = command.spawn().expect("the program starts");
        end_late(&child);
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it is a pipe");
        if line.is_empty() {
            let mut text = String::new();
            let stderr = child.stderr.as_mut().expect("it is piped");
            stderr.read_to_string(&mut text).expect("it is a pipe");
            panic!("the server did not start: {text}");
        }
        assert!(line.starts_with("nbd+unix:///?socket="), "{line}");
        Served { child, socket }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket, "").expect("the server lets a client in")
    }

    /// The server's process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server runs");
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> Output {
        let read = |pipe: Option<&mut dyn Read>| {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                pipe.read_to_end(&mut bytes).expect("it is a pipe");
            }
            bytes
        };
        let stdout = read(self.child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
        let stderr = read(self.child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
        let status = self.child.wait().expect("the server ends");
        Output {
            status,
            stdout,
            stderr,
        }
    }

    /// Asks for the end and expects `status`. Returns the server's messages.
    pub(crate) fn end(self, status: i32) -> String {
        self.signal(Signal::TERM);
        let output = self.wait();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{text}");
        text
    }

    /// From now on nobody reads the server's standard error.
    pub(crate) fn close_stderr(&mut self) {
        drop(self.child.stderr.take().expect("it is taken once"));
    }

    /// Waits for the end of a server whose messages nobody reads; if it hangs, the test fails.
    pub(crate) fn wait_unheard(mut self) -> ExitStatus {
        let pid = Pid::from_child(&self.child);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("the server is ours");
        let patience = Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        let ended = poll(&mut fds, Some(&patience)).expect("the server is ours");
        assert_eq!(ended, 1, "the server hangs:\n{}", threads_of(pid));
        self.child.wait().expect("the server ends")
    }

    /// Reads the server's standard error until a line contains `text`.
    pub(crate) fn read_until(&mut self, text: &str) {
        find_line(&mut self.child, text, |line| {
            line.contains(text).then_some(())
        });
    }

    /// Reads the server's standard error until it says where metrics are.
    pub(crate) fn metrics_address(&mut self) -> String {
        find_line(&mut self.child, "where metrics are", |line| {
            let (_, rest) = line.split_once("metrics at http://")?;
            Some(rest.split_once('/')?.0.to_owned())
        })
    }

    /// The most memory that was ever resident.
    pub(crate) fn most_resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("the server runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
        let kib = kib.and_then(|kib| kib.trim().parse::<u64>().ok());
        kib.expect("the kernel's format") << 10
    }

    /// Resident memory now.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = std::fs::read_to_string(path).expect("the server runs");
        let resident = text.split(' ').nth(1).map(str::parse::<u64>);
        let pages = resident.and_then(Result::ok).expect("the kernel's format");
        pages * rustix::param::page_size() as u64
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A server that has ended cannot be killed; one whose test failed must not stay.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What each thread of a process waits for, for a test that waited in vain.
fn threads_of(process: Pid) -> String {
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).into_iter().flatten().flatten();
    let reported = |task: DirEntry| {
        let read = |what| std::fs::read_to_string(task.path().join(what)).unwrap_or_default();
        let (name, call, stack) = (read("comm"), read("syscall"), read("stack"));
        format!("{} in call {}\n{stack}", name.trim(), call.trim())
    };
    tasks.map(reported).collect()
}
