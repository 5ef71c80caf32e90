//! How a server ends: in order, with everything written, or given up, with a report of what was
//! lost.

use crate::daemon::left::Left;
use crate::daemon::say::say;
use crate::daemon::status::{self, show_pages};
use crate::error::CommandError;
use forebay::{Cache, SyncError};
use forebay_base::Span;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_rt::Rt;
use forebay_rt::wait::Gate;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXCPU};
use signal_hook::iterator::Signals;
use std::pin::pin;
use std::process;

/// The pause between two progress lines.
const PROGRESS_INTERVAL: Span = Span::from_secs(1);
/// The pause before a failed write-back is tried again.
pub(crate) const RETRY_AFTER: Span = Span::from_secs(2);

/// Waits for a signal that ends the server.
pub(crate) struct Ending {
    asked: Arc<Gate>,
}

/// What is left to do at a second interrupt.
struct Rest<F> {
    cache: Cache,
    before_exit: F,
    /// Set once everything is written, so that the end is not reported as a loss.
    is_written: Arc<Mutex<bool>>,
}

impl Ending {
    /// Listens for SIGTERM, SIGINT, SIGHUP, and SIGXCPU, the soft limit of RLIMIT_CPU. The first of
    /// them starts an end in order. A second SIGINT ends the program with status 1 and reports what
    /// of `cache` was not written. If SIGHUP was ignored when the program started, as with nohup,
    /// it stays ignored. `before_exit` is called before the program is ended. SIGUSR1 asks for a
    /// status and ends nothing.
    pub(crate) fn listen(
        cache: &Cache,
        is_written: Arc<Mutex<bool>>,
        before_exit: impl Fn() + Send + 'static,
    ) -> Result<Ending, CommandError> {
        let failed = || CommandError::system("listen for signals");
        // If the system does not show which signals are ignored, all are listened for.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let wanted = [SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR1];
        let heard = wanted
            .iter()
            .filter(|&&it| it != SIGHUP || !ignores(&status, it));
        let mut signals = Signals::new(heard).map_err(failed())?;
        let asked = Arc::new(Gate::new(false));
        let gate = asked.clone();
        let rest = Rest {
            cache: cache.clone(),
            before_exit,
            is_written,
        };
        let listener = forebay_rt::thread::spawn_small("signals", move || {
            let mut interrupts = 0;
            for signal in signals.forever() {
                if signal == SIGUSR1 {
                    status::lines(&rest.cache.statistics()).iter().for_each(say);
                    continue;
                }
                interrupts += u32::from(signal == SIGINT);
                if interrupts >= 2 {
                    rest.give_up();
                }
                gate.open();
                if interrupts == 1 && signal == SIGINT {
                    say("ending; interrupt again to give up what is not written");
                }
            }
        })
        .map_err(failed())?;
        // It listens until the program ends.
        drop(listener);
        Ok(Ending { asked })
    }

    /// What begins the end as a signal does.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        self.asked.clone()
    }

    /// Returns once the first signal has come.
    pub(crate) async fn asked(&self) {
        self.asked.wait().await;
    }
}

/// Whether a process ignores `signal`, by the text of its /proc/PID/status.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

impl<F: Fn()> Rest<F> {
    fn give_up(&self) {
        // This lock is held until the exit, so the main thread cannot report success in between.
        let is_written = lock(&self.is_written);
        if *is_written {
            (self.before_exit)();
            process::exit(0);
        }
        let statistics = self.cache.statistics();
        say(format_args!(
            "given up; {} were not written and are lost ({} dirty, {} under writeback)",
            show_pages(statistics.dirty()),
            show_pages(statistics.nr_dirty),
            show_pages(statistics.nr_writeback),
        ));
        (self.before_exit)();
        process::exit(1);
    }
}

/// Writes everything that is dirty and closes the cache. A store that fails is tried again until it
/// takes the pages or the user gives up: nothing dirty is dropped without an order. `give_up` is
/// called before each further try, for data that no try can make durable.
pub(crate) async fn write_all(cache: &Cache, rt: &Rt, left: &mut Left, give_up: impl AsyncFn()) {
    if cache.statistics().dirty() > 0 {
        say(left.show());
    }
    loop {
        match reporting(rt, cache.close(), || say(left.show())).await {
            Ok(()) => return,
            // A slow store that still writes has not failed; the progress lines show it.
            Err(SyncError::NotAnswering { .. }) => {}
            Err(error) => {
                say(format_args!(
                    "{error}; trying again, interrupt twice to give up"
                ));
                rt.sleep(RETRY_AFTER).await;
                give_up().await;
            }
        }
    }
}

/// Waits for `wait`, and calls `report` every second meanwhile.
pub(crate) async fn reporting<T>(
    rt: &Rt,
    wait: impl Future<Output = T>,
    mut report: impl FnMut(),
) -> T {
    let mut wait = pin!(wait);
    loop {
        match rt.timeout(PROGRESS_INTERVAL, wait.as_mut()).await {
            Ok(result) => return result,
            Err(_) => report(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_found_in_the_text_of_the_system() {
        let status = "SigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(ignores(status, SIGHUP));
        assert!(ignores(status, 13));
        assert!(!ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP));
    }
}
