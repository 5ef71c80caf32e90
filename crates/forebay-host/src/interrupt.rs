//! Interrupts: the first SIGINT or SIGTERM ends the program in order, a second one immediately.

use crate::error::HostError;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

/// Whether a signal has come, and the processes that a signal ends.
///
/// # Examples
/// ```
/// // A program listens once, at its start: `Interrupts::listen()?`.
/// let interrupts = forebay_host::Interrupts::none();
/// for _round in 0..3 {
///     interrupts.check()?; // the first signal ends the rounds
/// }
/// # Ok::<(), forebay_host::HostError>(())
/// ```
#[derive(Clone, Default)]
pub struct Interrupts {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The signal that came; 0 if none has.
    signal: AtomicI32,
    children: Mutex<Vec<Pid>>,
}

impl Interrupts {
    /// Begins to listen. The first signal is recorded and ends the children, which wakes the
    /// threads that wait for one of them. The second signal ends the program.
    ///
    /// # Errors
    /// [`HostError::Step`] if the system does not allow listening for signals.
    pub fn listen() -> Result<Interrupts, HostError> {
        let interrupts = Interrupts::none();
        let failed = || HostError::system("listen for signals");
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal must not find `came` already true.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&came))
                .map_err(failed())?;
            signal_hook::flag::register(signal, Arc::clone(&came)).map_err(failed())?;
        }
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed())?;
        let noted = interrupts.clone();
        let listener = forebay_rt::thread::spawn("signals", move || {
            for signal in signals.forever() {
                noted.note(signal);
            }
        })
        .map_err(failed())?;
        // It listens until the program ends.
        drop(listener);
        Ok(interrupts)
    }

    /// An instance that receives no signals.
    pub fn none() -> Interrupts {
        Interrupts::default()
    }

    /// Fails if a signal has come.
    ///
    /// # Errors
    /// [`HostError::Interrupted`].
    pub fn check(&self) -> Result<(), HostError> {
        match self.shared.signal.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(HostError::Interrupted { signal }),
        }
    }

    /// Adds a process that a signal ends.
    pub(crate) fn add_child(&self, child: Pid) {
        self.children().push(child);
        // Without this check, a signal that came just before would miss the process.
        if self.check().is_err() {
            self.end_children();
        }
    }

    /// Forgets a process, before its number can be given to another one.
    pub(crate) fn remove_child(&self, child: Pid) {
        self.children().retain(|&other| other != child);
    }

    fn note(&self, signal: i32) {
        self.shared.signal.store(signal, Ordering::SeqCst);
        self.end_children();
    }

    fn end_children(&self) {
        for &child in self.children().iter() {
            if let Err(refused) = kill_process(child, Signal::KILL) {
                eprintln!("forebay: cannot end process {child}: {refused}");
            }
        }
    }

    fn children(&self) -> std::sync::MutexGuard<'_, Vec<Pid>> {
        self.shared
            .children
            .lock()
            .expect("nothing panics while it holds this")
    }

    /// Does what the arrival of `signal` does, for tests.
    pub fn simulate(&self, signal: i32) {
        self.note(signal);
    }
}
