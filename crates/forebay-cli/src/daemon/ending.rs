//! How a server ends: in order, with everything written, or given up, with what was lost said.

use crate::daemon::say::say;
use crate::daemon::status::{self, show_pages};
use crate::error::CommandError;
use forebay::{Cache, Statistics, SyncError};
use forebay_base::Span;
use forebay_base::sync::{Arc, Mutex, lock};
use forebay_rt::Rt;
use forebay_rt::wait::Gate;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::pin::pin;
use std::process;

/// Between two lines that say how much is left.
const PROGRESS_INTERVAL: Span = Span::from_secs(1);
/// Before a write-back that failed is tried again.
const RETRY_AFTER: Span = Span::from_secs(2);

/// Waits for the signals that end a server.
pub(crate) struct Ending {
    asked: Arc<Gate>,
}

/// What a second interrupt leaves behind.
struct Rest<F> {
    cache: Cache,
    before_exit: F,
    /// Set once everything was written, so that the end is not called a loss.
    is_written: Arc<Mutex<bool>>,
}

impl Ending {
    /// Listens for SIGTERM, SIGINT and SIGHUP. The first of them opens the way to an end in order,
    /// a second SIGINT ends the program with status 1 and says what of `cache` was not written. A
    /// SIGHUP that whoever started us has ignored, as nohup does, stays ignored. `before_exit` is
    /// called before the program is ended. SIGUSR1 asks for a status and ends nothing.
    pub(crate) fn listen(
        cache: &Cache,
        is_written: Arc<Mutex<bool>>,
        before_exit: impl Fn() + Send + 'static,
    ) -> Result<Ending, CommandError> {
        let failed = || CommandError::system("listen for signals");
        // Where the system does not show it, every signal is listened for.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let wanted = [SIGINT, SIGTERM, SIGHUP, SIGUSR1];
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

    /// Returns when the first signal came.
    pub(crate) async fn asked(&self) {
        self.asked.wait().await;
    }
}

/// Whether a process ignores `signal`, by what the system says of it.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

impl<F: Fn()> Rest<F> {
    fn give_up(&self) {
        // Held to the end: the main thread cannot report success in between.
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

/// Writes everything that is dirty and closes the cache. A store that fails is tried again until
/// it takes the pages or somebody gives up: nothing dirty is dropped without being told to.
/// `give_up` is called before each further try, for what no try can make durable.
pub(crate) async fn write_all(cache: &Cache, rt: &Rt, give_up: impl Fn()) {
    let before = cache.statistics();
    if before.dirty() > 0 {
        say(show_left(&before));
    }
    loop {
        let tell = || say(show_left(&cache.statistics()));
        match telling(rt, cache.close(), tell).await {
            Ok(()) => return,
            // A slow store that writes on is no failure; the progress lines tell of it.
            Err(SyncError::NotAnswering { .. }) => {}
            Err(error) => {
                say(format_args!(
                    "{error}; trying again, interrupt twice to give up"
                ));
                rt.sleep(RETRY_AFTER).await;
                give_up();
            }
        }
    }
}

/// Waits for `wait` and calls `tell` every second meanwhile.
pub(crate) async fn telling<T>(rt: &Rt, wait: impl Future<Output = T>, tell: impl Fn()) -> T {
    let mut wait = pin!(wait);
    loop {
        match rt.timeout(PROGRESS_INTERVAL, wait.as_mut()).await {
            Ok(result) => return result,
            Err(_) => tell(),
        }
    }
}

/// How much is left, and how long it takes at the rate that was measured.
pub(crate) fn show_left(statistics: &Statistics) -> String {
    let left_pages = statistics.dirty();
    let rate_pages: u64 = statistics
        .backings
        .iter()
        .map(|backing| backing.write_bandwidth)
        .sum();
    if rate_pages == 0 {
        return format!("{} left to write", show_pages(left_pages));
    }
    format!(
        "{} left to write, about {} s at {}/s",
        show_pages(left_pages),
        left_pages.div_ceil(rate_pages),
        show_pages(rate_pages),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_found_in_the_systems_words() {
        let status = "SigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(ignores(status, SIGHUP));
        assert!(ignores(status, 13));
        assert!(!ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP));
    }
}
