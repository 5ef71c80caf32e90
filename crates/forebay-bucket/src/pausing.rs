//! An interruptible wait.

use forebay_base::Span;
use forebay_rt::thread::{Stopwatch, pause_current};

/// How long it takes at most until the end is noticed.
const LOOK: Span = Span::from_millis(100);

/// Waits for `longest`, as long as it `goes_on`, which is asked first and ten times a second.
pub(crate) fn pause_while(longest: Span, mut goes_on: impl FnMut() -> bool) {
    let clock = Stopwatch::start();
    while goes_on() {
        let left = longest.saturating_sub(clock.elapsed());
        if left == Span::ZERO {
            return;
        }
        pause_current(left.min(LOOK));
    }
}
