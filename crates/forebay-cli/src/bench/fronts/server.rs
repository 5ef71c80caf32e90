//! A server as a process of its own: Forebay's or one to compare with.

use super::results::Who;
use crate::bench::advice;
use crate::bench::interrupt::Interrupts;
use crate::error::CommandError;
use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, pause_current};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that takes longer to begin will not.
const START_PATIENCE: Span = Span::from_secs(20);
/// Between two looks whether it has begun.
const LOOK_INTERVAL: Span = Span::from_millis(20);

/// A running server, ended with its value.
pub(super) struct Server<'a> {
    child: Child,
    interrupts: &'a Interrupts,
}

/// What a server of an image needs.
pub(super) struct Image<'a> {
    pub(super) folder: &'a Path,
    pub(super) length_bytes: u64,
    /// Memory of a cache that is bounded.
    pub(super) memory_bytes: u64,
}

/// Why a contender cannot take part; nothing if it can.
pub(super) fn missing(who: Who) -> Option<String> {
    let program = match who {
        Who::Nbdkit => "nbdkit",
        Who::QemuNbd => "qemu-nbd",
        Who::Forebay | Who::Floor | Who::Device => return None,
    };
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match found {
        Ok(status) if status.success() => None,
        _ => Some(format!("{program} is not installed")),
    }
}

/// Starts the block server of `who` before an image of zeros, and returns it with its socket.
pub(super) fn serve<'a>(
    who: Who,
    image: &Image<'_>,
    interrupts: &'a Interrupts,
) -> Result<(Server<'a>, PathBuf), CommandError> {
    let name = who.name();
    let socket = image.folder.join(format!("{name}.sock"));
    let path = image.folder.join(format!("{name}.img"));
    let file = fs::File::create(&path).map_err(advice::at("make", &path))?;
    file.set_len(image.length_bytes)
        .map_err(advice::at("make", &path))?;
    let mut command = match who {
        Who::Forebay => {
            let mut command = ourselves()?;
            command.args(["serve", "nbd", "--memory"]);
            command.arg(image.memory_bytes.to_string());
            command.arg("--socket").arg(&socket).arg(&path);
            command
        }
        Who::Nbdkit => {
            let mut command = Command::new("nbdkit");
            command.args(["--foreground", "--unix"]).arg(&socket);
            command.args(["memory", &image.length_bytes.to_string()]);
            command
        }
        Who::QemuNbd => {
            let mut command = Command::new("qemu-nbd");
            command.args(["--persistent", "--shared=16", "--format=raw"]);
            command
                .arg("--cache=writeback")
                .arg("--socket")
                .arg(&socket);
            command.arg(&path);
            command
        }
        Who::Floor | Who::Device => unreachable!("neither serves blocks"),
    };
    let is_ready = || UnixStream::connect(&socket).is_ok();
    let server = Server::start(&mut command, interrupts, is_ready)?;
    Ok((server, socket))
}

/// This program, to be given a command.
pub(super) fn ourselves() -> Result<Command, CommandError> {
    let path = std::env::current_exe().map_err(CommandError::system("find this program"))?;
    Ok(Command::new(path))
}

impl<'a> Server<'a> {
    /// Starts `command` and waits until `is_ready`.
    pub(super) fn start(
        command: &mut Command,
        interrupts: &'a Interrupts,
        is_ready: impl Fn() -> bool,
    ) -> Result<Server<'a>, CommandError> {
        let program: OsString = command.get_program().to_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(CommandError::system("start a server"))?;
        let mut server = Server { child, interrupts };
        interrupts.add_child(server.pid());
        let watch = Stopwatch::start();
        while !is_ready() {
            interrupts.check()?;
            let has_ended = server.child.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || watch.elapsed() > START_PATIENCE {
                return Err(CommandError::Client {
                    reason: format!("{} did not begin to serve", program.display()),
                });
            }
            pause_current(LOOK_INTERVAL);
        }
        Ok(server)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Processor time that all its threads took so far, ns.
    pub(super) fn processor_ns(&self) -> Result<u64, CommandError> {
        let path = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        let failed = || advice::at("read", &path);
        let mut sum = 0;
        for thread in fs::read_dir(&path).map_err(failed())? {
            let file = thread.map_err(failed())?.path().join("schedstat");
            // A thread that ended in between takes no time any more.
            let text = fs::read_to_string(file).unwrap_or_default();
            let first = text.split_ascii_whitespace().next().map(str::parse::<u64>);
            sum += first.and_then(Result::ok).unwrap_or(0);
        }
        Ok(sum)
    }

    /// Ends it in order, so that a file system that it serves is unmounted.
    pub(super) fn end(mut self) -> Result<(), CommandError> {
        let failed = || CommandError::system("end a server");
        kill_process(self.pid(), Signal::TERM).map_err(|errno| failed()(errno.into()))?;
        self.child.wait().map_err(failed())?;
        Ok(())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.interrupts.remove_child(self.pid());
        // One that has ended cannot be killed; one that has not must not stay behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
