//! A start that takes long says so: tens of gigabytes are not touched in a second.

use crate::daemon::say::say;
use forebay_base::Span;
use forebay_base::sync::Arc;
use forebay_base::sync::atomic::{AtomicBool, Ordering};
use forebay_base::units::show_bytes;
use forebay_rt::thread::{Stopwatch, pause_current, spawn_small};

/// A start that is over sooner says nothing.
const SAID_AFTER: Span = Span::from_secs(1);
const SAID_EVERY: Span = Span::from_secs(5);
const LOOK: Span = Span::from_millis(50);

/// Does `work`, which takes memory up to `memory_bytes`, and says how far it is.
pub(crate) fn said<T>(memory_bytes: u64, work: impl FnOnce() -> T) -> T {
    let is_over = Arc::new(AtomicBool::new(false));
    let seen = is_over.clone();
    let speaker = spawn_small("starting", move || speak_until(&seen, memory_bytes));
    let done = work();
    is_over.store(true, Ordering::Release);
    // It ends by itself, and the start does not wait for that. Without it nothing is said.
    drop(speaker);
    done
}

fn speak_until(is_over: &AtomicBool, memory_bytes: u64) {
    let (clock, mut next) = (Stopwatch::start(), SAID_AFTER);
    while !is_over.load(Ordering::Acquire) {
        if clock.elapsed() >= next {
            next = clock.elapsed() + SAID_EVERY;
            let taken = resident_bytes().map_or_else(|| "a part".to_owned(), show_bytes);
            let wanted = show_bytes(memory_bytes);
            say(format_args!(
                "starting: {taken} of {wanted} of memory allocated"
            ));
        }
        pause_current(LOOK);
    }
}

/// Memory of this process that is there.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_done_however_long_it_takes() {
        assert_eq!(said(1 << 30, || 7), 7);
        assert!(resident_bytes().is_some_and(|bytes| bytes > 0));
    }
}
