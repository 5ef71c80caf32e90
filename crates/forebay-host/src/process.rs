//! A process that a program starts: it ends with the program, which can see when it has ended.

use crate::error::HostError;
use crate::interrupt::Interrupts;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};

/// A child process. An interrupt ends it at once, and so does dropping the value.
///
/// # Examples
/// ```
/// use forebay_host::{Interrupts, Process};
/// use std::process::Command;
///
/// # fn main() -> Result<(), forebay_host::HostError> {
/// let interrupts = Interrupts::none();
/// let mut sleeper = Process::start("sleeper", Command::new("sleep").arg("600"), &interrupts)?;
/// assert!(!sleeper.has_ended()?);
/// drop(sleeper); // nobody waits ten minutes
/// # Ok(())
/// # }
/// ```
pub struct Process {
    name: &'static str,
    child: Child,
    interrupts: Interrupts,
}

impl Process {
    /// Starts `command`; messages call it `name`.
    ///
    /// # Errors
    /// [`HostError::Program`] if the system cannot start it.
    pub fn start(
        name: &'static str,
        command: &mut Command,
        interrupts: &Interrupts,
    ) -> Result<Process, HostError> {
        let child = command.spawn().map_err(|refused| {
            HostError::Program(format!("cannot start the process of {name}: {refused}"))
        })?;
        let process = Process {
            name,
            child,
            interrupts: interrupts.clone(),
        };
        process.interrupts.add_child(process.pid());
        Ok(process)
    }

    /// This program, ready to be started again with a command.
    ///
    /// # Examples
    /// ```
    /// let mut command = forebay_host::Process::ourselves()?;
    /// command.arg("--version");
    /// # Ok::<(), forebay_host::HostError>(())
    /// ```
    ///
    /// # Errors
    /// [`HostError::Step`] if the system does not report the program's path.
    pub fn ourselves() -> Result<Command, HostError> {
        std::env::current_exe()
            .map(Command::new)
            .map_err(HostError::system("find this program"))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, once, if the command asked for a pipe.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, once, if the command asked for a pipe.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Whether it has ended; does not wait.
    ///
    /// # Errors
    /// [`HostError::Step`] if the system does not report it.
    pub fn has_ended(&mut self) -> Result<bool, HostError> {
        let status = self.child.try_wait();
        let status = status.map_err(HostError::system("check a process"))?;
        Ok(status.is_some())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`HostError::Step`] if the system does not report it.
    pub fn wait(&mut self) -> Result<ExitStatus, HostError> {
        let status = self.child.wait();
        // From here on, the number may be given to another process.
        self.interrupts.remove_child(self.pid());
        status.map_err(HostError::system("wait for the end of a process"))
    }

    /// Asks it to end in order, and waits until it has ended.
    ///
    /// # Errors
    /// [`HostError::Step`] if the system refuses.
    pub fn end_in_order(mut self) -> Result<(), HostError> {
        kill_process(self.pid(), Signal::TERM)
            .map_err(|errno| HostError::system("end a process")(errno.into()))?;
        self.wait().map(drop)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.interrupts.remove_child(self.pid());
        // One that has ended and was waited for is no error.
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(refused) = ended {
            eprintln!("forebay: cannot end the {} process: {refused}", self.name);
        }
    }
}

/// Makes the system end this process when its parent ends: a program that is killed must not
/// leave others behind.
///
/// # Errors
/// [`HostError::Step`] if the system refuses.
///
/// # Examples
/// ```no_run
/// forebay_host::end_with_parent()?; // the first thing that a child does
/// # Ok::<(), forebay_host::HostError>(())
/// ```
pub fn end_with_parent() -> Result<(), HostError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| HostError::system("arrange to end with the parent")(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn sleeper(interrupts: &Interrupts) -> Process {
        let mut command = Command::new("sleep");
        Process::start("sleeper", command.arg("600"), interrupts).unwrap()
    }

    #[test]
    fn a_process_that_is_dropped_is_ended_and_waited_for() {
        let process = sleeper(&Interrupts::none());
        let pid = process.pid();
        drop(process);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[test]
    fn an_interrupt_ends_a_process_also_one_that_starts_after_it() {
        let interrupts = Interrupts::none();
        let mut before = sleeper(&interrupts);
        interrupts.simulate(15);
        let mut after = sleeper(&interrupts);
        for process in [&mut before, &mut after] {
            let status = process.wait().unwrap();
            assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
            assert!(process.has_ended().unwrap());
        }
    }

    #[test]
    fn a_process_that_is_asked_to_end_has_ended() {
        let process = sleeper(&Interrupts::none());
        let pid = process.pid();
        process.end_in_order().unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[test]
    fn a_program_that_is_missing_is_named_by_whose_process_it_was_to_be() {
        let mut command = Command::new("/nowhere/program");
        let Err(error) = Process::start("nbdkit", &mut command, &Interrupts::none()) else {
            panic!("there is no such program");
        };
        assert!(error.to_string().contains("process of nbdkit"), "{error}");
    }
}
