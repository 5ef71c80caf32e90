//! A server as a separate process: Forebay's, or one to compare with.

use crate::contender::Who;
use crate::error::BenchError;
use crate::measure::processor_ns_of;
use forebay_base::Span;
use forebay_host::{Interrupts, Process};
use forebay_rt::thread::{Stopwatch, pause_current};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server that takes longer than this to start will not start.
const START_PATIENCE: Span = Span::from_secs(20);
/// The pause between two checks whether it has started.
const LOOK_INTERVAL: Span = Span::from_millis(20);

/// A running server. It ends when this value is dropped.
pub(super) struct Server(Process);

/// What a server of an image needs.
pub(super) struct Image<'a> {
    pub(super) folder: &'a Path,
    pub(super) length_bytes: u64,
    /// Memory of a cache with a limit.
    pub(super) memory_bytes: u64,
    /// Whether nbdkit serves the file, too, instead of memory.
    pub(super) is_file: bool,
}

/// Why a contender cannot take part; `None` if it can.
pub(super) fn missing(who: Who) -> Option<String> {
    let program = match who {
        Who::Nbdkit => "nbdkit",
        Who::QemuNbd => "qemu-nbd",
        Who::Bindfs => "bindfs",
        _ => return None,
    };
    (!is_installed(program)).then(|| format!("{program} is not installed"))
}

/// The program of Forebay's servers, which lies beside this one.
///
/// # Errors
/// A program error with the way to build it.
pub(super) fn servers() -> Result<Command, BenchError> {
    let ourselves = std::env::current_exe().map_err(BenchError::system("find this program"))?;
    let program = ourselves.with_file_name("forebay");
    if program.is_file() {
        return Ok(Command::new(program));
    }
    Err(BenchError::program(format!(
        "{} is missing, and the fronts are its servers: build it with cargo build --release -p \
         forebay-cli",
        program.display()
    )))
}

/// Whether there is a `program` that says its version.
pub(super) fn is_installed(program: &str) -> bool {
    let said = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    said.is_ok_and(|status| status.success())
}

/// A folder, and where it is shown.
pub(super) struct Places {
    pub(super) source: PathBuf,
    pub(super) mount_point: PathBuf,
}

/// Shows the source of `places` at their mount point by `who`, and waits until the name `seen` is
/// there.
pub(super) fn mount(
    who: Who,
    places: &Places,
    memory_bytes: u64,
    seen: &str,
    interrupts: &Interrupts,
) -> Result<Server, BenchError> {
    let mut command = if who == Who::Bindfs {
        let mut command = Command::new("bindfs");
        command.arg("-f");
        command
    } else {
        let mut command = servers()?;
        command.args(["mount", "--foreground", "--memory"]);
        command.arg(memory_bytes.to_string());
        command
    };
    command.arg(&places.source).arg(&places.mount_point);
    let seen = places.mount_point.join(seen);
    Server::start(who, &mut command, interrupts, || seen.exists())
}

/// Starts the block server of `who` over an image of zeros, and returns it with its socket.
pub(super) fn serve(
    who: Who,
    image: &Image<'_>,
    interrupts: &Interrupts,
) -> Result<(Server, PathBuf), BenchError> {
    let name = who.name();
    let socket = image.folder.join(format!("{name}.sock"));
    // What a server left that served before; nbdkit does not remove its own.
    let _ = fs::remove_file(&socket);
    let path = image.folder.join(format!("{name}.img"));
    let file = fs::File::create(&path).map_err(BenchError::in_scratch("make", &path))?;
    file.set_len(image.length_bytes)
        .map_err(BenchError::in_scratch("make", &path))?;
    let mut command = match who {
        Who::Forebay => {
            let mut command = servers()?;
            command.args(["serve", "nbd", "--memory"]);
            command.arg(image.memory_bytes.to_string());
            command.arg("--socket").arg(&socket).arg(&path);
            command
        }
        Who::Nbdkit => {
            let mut command = Command::new("nbdkit");
            command.args(["--foreground", "--unix"]).arg(&socket);
            if image.is_file {
                command.arg("file").arg(&path);
            } else {
                command.args(["memory", &image.length_bytes.to_string()]);
            }
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
        _ => unreachable!("{name} serves no blocks"),
    };
    let is_ready = || UnixStream::connect(&socket).is_ok();
    let server = Server::start(who, &mut command, interrupts, is_ready)?;
    Ok((server, socket))
}

impl Server {
    /// Starts `command` and waits until `is_ready`.
    pub(super) fn start(
        who: Who,
        command: &mut Command,
        interrupts: &Interrupts,
        is_ready: impl Fn() -> bool,
    ) -> Result<Server, BenchError> {
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(who.name(), command, interrupts)?;
        let watch = Stopwatch::start();
        while !is_ready() {
            interrupts.check()?;
            if process.has_ended()? || watch.elapsed() > START_PATIENCE {
                let text = format!("{} did not begin to serve", who.name());
                return Err(BenchError::program(text));
            }
            pause_current(LOOK_INTERVAL);
        }
        Ok(Server(process))
    }

    /// Processor time that all its threads have used so far, in ns.
    pub(super) fn processor_ns(&self) -> Result<u64, BenchError> {
        processor_ns_of(&self.0.id().to_string())
    }

    /// Ends it in order, so that a file system that it serves is unmounted.
    pub(super) fn end(self) -> Result<(), BenchError> {
        Ok(self.0.end_in_order()?)
    }
}
