//! Reports a store that has not answered for some time, and one that answers again.
//!
//! A disk that pauses makes its users wait, so the servers wait too, unless `--answer-timeout` sets
//! a limit.

use crate::daemon::looks::INTERVAL;
use crate::daemon::say::say;
use forebay::{Counter, Statistics};
use forebay_base::Span;

/// So long that nothing times out before the user ends the server.
const FOR_EVER: Span = Span::from_secs(10 * 365 * 24 * 3_600);
const LONGEST_SECONDS: u64 = 24 * 3_600;

/// How long a call waits for a store; `typed` if it was given.
pub(crate) fn answer_timeout(typed: Option<Span>) -> Span {
    typed.unwrap_or(FOR_EVER)
}

/// Reads a limit in seconds or minutes: `30`, `30s`, `5m`.
pub(crate) fn parse_seconds(text: &str) -> Result<Span, String> {
    let (digits, each) = match text.strip_suffix('m') {
        Some(digits) => (digits, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let refused = || "write a time from 1s to 24h in seconds or minutes, as 30s or 5m".to_owned();
    let count: u64 = digits.parse().map_err(|_| refused())?;
    match count.checked_mul(each) {
        Some(seconds @ 1..=LONGEST_SECONDS) => Ok(Span::from_secs(seconds)),
        _ => Err(refused()),
    }
}

/// What one look shows of a store's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    /// Requests at the store.
    waiting: u64,
    /// Pages read and written so far.
    pages: u64,
    /// How long it has answered no write and no commit.
    silent: bool,
}

impl Look {
    fn at(statistics: &Statistics) -> Look {
        let silent_us = |backing: &forebay::statistics::BackingStatistics| backing.silent_us;
        let longest_us = statistics.backings.iter().map(silent_us).max();
        let longest_us = longest_us.unwrap_or(0);
        Look {
            waiting: statistics.reads_in_flight + u64::from(longest_us > 0),
            pages: statistics.get(Counter::Pgpgin) + statistics.get(Counter::Pgpgout),
            silent: longest_us == 0 || longest_us >= INTERVAL.as_micros(),
        }
    }

    /// Whether the store had work since `before` and has answered nothing.
    fn is_silence(self, before: Look) -> bool {
        self.waiting > 0 && before.waiting > 0 && self.pages == before.pages && self.silent
    }
}

/// Reports when a store falls silent, and when it answers again. One that has answered nothing
/// between two looks counts as silent.
pub(crate) fn report_silence() -> impl FnMut(&Statistics) -> bool {
    let mut before = Look::default();
    let mut looks_silent = 0_u64;
    move |statistics| {
        let look = Look::at(statistics);
        if look.is_silence(before) {
            looks_silent += 1;
            if looks_silent == 1 {
                say("the storage has not answered for 5 s; requests that need it wait");
            }
        } else if looks_silent > 0 {
            let seconds = (looks_silent + 1) * INTERVAL.as_millis() / 1_000;
            say(format_args!(
                "the storage answers again, after about {seconds} s"
            ));
            looks_silent = 0;
        }
        before = look;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_minutes_are_read_and_all_else_is_refused() {
        assert_eq!(parse_seconds("30"), Ok(Span::from_secs(30)));
        assert_eq!(parse_seconds("1s"), Ok(Span::from_secs(1)));
        assert_eq!(parse_seconds("5m"), Ok(Span::from_secs(300)));
        for refused in [
            "",
            "0",
            "0s",
            "-1",
            "1h",
            "s",
            "1.5s",
            "1441m",
            "999999999999m",
        ] {
            assert!(parse_seconds(refused).is_err(), "{refused}");
        }
        assert!(answer_timeout(None) > Span::from_secs(LONGEST_SECONDS));
    }

    #[test]
    fn silence_is_when_something_waits_and_nothing_is_answered() {
        let busy = Look {
            waiting: 3,
            pages: 10,
            silent: true,
        };
        let more = Look { pages: 11, ..busy };
        let idle = Look { waiting: 0, ..busy };
        let commits = Look {
            silent: false,
            ..busy
        };
        assert!(busy.is_silence(busy));
        assert!(!more.is_silence(busy), "pages have come");
        assert!(!idle.is_silence(busy), "nobody waits any more");
        assert!(!busy.is_silence(idle), "nobody waited at the last look");
        assert!(!commits.is_silence(busy), "commits end");
    }
}
