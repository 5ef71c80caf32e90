//! Serving in the background: a second process of this program does it, in its own session. The
//! first process ends when the mount answers.

use crate::error::CommandError;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Set in the environment of the background process, to the number of the one that starts it.
const MARK: &str = "FOREBAY_MOUNT_IN_BACKGROUND";

/// Whether this is the background process.
pub(super) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts the background process and returns when its mount answers.
pub(super) fn start() -> Result<(), CommandError> {
    let failed = || CommandError::system("start a process in the background");
    let program = std::env::current_exe().map_err(failed())?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(MARK, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed())?;
    let reported = child.stdout.take().expect("it was asked for");
    let mut line = String::new();
    BufReader::new(reported)
        .read_line(&mut line)
        .map_err(failed())?;
    if !line.is_empty() {
        return Ok(());
    }
    // It has reported the reason on standard error, which it shares with us.
    let status = child.wait().map_err(failed())?;
    let reason = match status.signal() {
        Some(signal) => format!("not mounted: the process in the background got signal {signal}"),
        None => "not mounted".to_owned(),
    };
    Err(CommandError::Served(reason))
}

/// Until it is mounted the process in the background ends with the one that started it: a caller
/// that gives up a start wants no mount later.
pub(super) fn end_with_starter() -> Result<(), CommandError> {
    let failed = |errno: rustix::io::Errno| {
        CommandError::system("watch the process that started it")(errno.into())
    };
    let starter = rustix::process::getppid();
    let signal = Some(rustix::process::Signal::TERM);
    rustix::process::set_parent_process_death_signal(signal).map_err(failed)?;
    // It may have ended before, and nobody says that any more.
    let told = std::env::var(MARK).unwrap_or_default();
    if starter.map(|pid| pid.as_raw_nonzero().to_string()) != Some(told) {
        return Err(CommandError::Served("the start was given up".to_owned()));
    }
    Ok(())
}

/// It answers, and goes on alone.
pub(super) fn outlive_starter() -> Result<(), CommandError> {
    rustix::process::set_parent_process_death_signal(None)
        .map_err(|errno| CommandError::system("go on alone")(errno.into()))
}

/// Leaves the session of the process that started us. The background process does this first.
pub(super) fn leave_session() -> Result<(), CommandError> {
    rustix::process::setsid()
        .map(|_session| ())
        .map_err(|errno| CommandError::system("leave the session")(errno.into()))
}

/// Closes the terminal and pipes once the mount answers: nobody reads them any more, and a process
/// that waits for the end of a pipe would wait for the end of the mount. If a stream is a file, it
/// stays open for messages.
pub(super) fn let_go_of_streams() -> Result<(), CommandError> {
    let failed = |errno: rustix::io::Errno| CommandError::system("close a stream")(errno.into());
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let nothing =
        rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()).map_err(failed)?;
    rustix::stdio::dup2_stdout(&nothing).map_err(failed)?;
    let stat = rustix::fs::fstat(rustix::stdio::stderr()).map_err(failed)?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        rustix::stdio::dup2_stderr(&nothing).map_err(failed)?;
    }
    Ok(())
}
