//! Servers of other projects, started for a test: `nbdkit` and `qemu-nbd`.

#![allow(dead_code, reason = "each test file uses a part")]

use forebay_base::Span;
use forebay_nbd::client::{Address, ClientSettings, NbdStore};
use forebay_rt::thread;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;

/// Arguments of an nbdkit that keeps writes in memory until they are flushed.
pub(crate) const LOSSY: [&str; 7] = [
    "-f",
    "-U",
    "SOCK",
    "--filter=cache",
    "file",
    "IMG",
    "cache=writeback",
];

/// A server that is killed when this is dropped. Before that it can be killed and started anew.
pub(crate) struct Far {
    pub(crate) folder: TempDir,
    program: &'static str,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Far {
    /// `program` with `arguments`, in which SOCK and IMG stand for paths in a folder of its own.
    /// IMG has `length_bytes` bytes, all of them zeros. None if the program is not installed.
    pub(crate) fn start(
        program: &'static str,
        arguments: &[&str],
        length_bytes: u64,
    ) -> Option<Far> {
        let has_it = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if has_it.is_err() {
            eprintln!("skipped: {program} is not installed");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mut far = Far {
            folder,
            program,
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
            child: None,
        };
        far.make_image(length_bytes);
        far.begin();
        Some(far)
    }

    /// A server that keeps writes in memory until they are flushed, and forgets them when it is
    /// killed.
    pub(crate) fn lossy(length_bytes: u64) -> Option<Far> {
        Far::start("nbdkit", &LOSSY, length_bytes)
    }

    pub(crate) fn make_image(&self, length_bytes: u64) {
        let image = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.image());
        let sized = image.and_then(|image| image.set_len(length_bytes));
        sized.expect("the image is made");
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("far.sock")
    }

    /// The path of a shell script for the plugin `sh` of nbdkit.
    pub(crate) fn script(&self, text: &str) -> String {
        let script = self.folder.path().join("script.sh");
        std::fs::write(&script, format!("#!/bin/sh\n{text}\n")).expect("a script");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&script, mode).expect("it may be run");
        script.to_str().expect("a path of text").to_owned()
    }

    /// Starts it with other arguments from now on.
    pub(crate) fn change(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|&text| text.to_owned()).collect();
    }

    /// Starts it, and returns when it answers.
    pub(crate) fn begin(&mut self) {
        // A server that was killed leaves its socket.
        let _ = std::fs::remove_file(self.socket());
        let path = |path: PathBuf| path.to_str().expect("a path of text").to_owned();
        let (socket, image) = (path(self.socket()), path(self.image()));
        let resolved = |text: &String| text.replace("SOCK", &socket).replace("IMG", &image);
        let child = Command::new(self.program)
            .args(self.arguments.iter().map(resolved))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("it was started a moment ago"));
        for _ in 0..1_000 {
            if is_there(&self.socket()) {
                return;
            }
            thread::pause_current(Span::from_millis(10));
        }
        panic!("{} does not start: {:?}", self.program, self.arguments);
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is ours");
            child.wait().expect("it was killed");
        }
    }

    /// Kills it, and puts a server in its place that accepts nobody and whose queue is full.
    pub(crate) fn hang(&mut self) -> (UnixListener, Vec<OwnedFd>) {
        let socket = self.socket();
        let fresh = socket.with_extension("full");
        let listener = UnixListener::bind(&fresh).expect("a socket in a folder of its own");
        rustix::net::listen(&listener, 0).expect("it listens already");
        let mut waiting = Vec::new();
        let address = SocketAddrUnix::new(&fresh).expect("a short path");
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
                .expect("a socket");
            match connect(&client, &address) {
                Ok(()) => waiting.push(client),
                Err(errno) => {
                    assert_eq!(errno, Errno::AGAIN);
                    break;
                }
            }
        }
        std::fs::rename(&fresh, &socket).expect("it takes the place of the other one");
        self.kill();
        (listener, waiting)
    }

    pub(crate) fn address(&self) -> Address {
        let text = format!("nbd+unix:///?socket={}", self.socket().display());
        text.parse().expect("the address of a socket")
    }

    pub(crate) fn open(&self) -> Arc<NbdStore> {
        let settings = ClientSettings {
            answer_timeout: Span::from_secs(60),
        };
        NbdStore::open(&self.address(), true, settings).expect("the server can be used")
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_there(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}
