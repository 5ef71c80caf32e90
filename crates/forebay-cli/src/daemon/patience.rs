//! How long calls wait for a store that is silent.
//!
//! A disk that pauses makes its users wait, so the servers wait too, unless `--answer-timeout` sets
//! a limit.

use forebay_base::Span;
use forebay_control::time::parse_time_or_count;

/// So long that nothing times out before the user ends the server.
const FOR_EVER: Span = Span::from_secs(10 * 365 * 24 * 3_600);
const SHORTEST: Span = Span::from_secs(1);
const LONGEST: Span = Span::from_secs(24 * 3_600);

/// How long a call waits for a store; `typed` if it was given.
pub(crate) fn answer_timeout(typed: Option<Span>) -> Span {
    typed.unwrap_or(FOR_EVER)
}

/// Reads a limit: a time. A number alone is seconds.
pub(crate) fn answer_time(text: &str) -> Result<Span, String> {
    let time = parse_time_or_count(text, Span::from_secs(1)).ok();
    let time = time.filter(|time| (SHORTEST..=LONGEST).contains(time));
    time.ok_or_else(|| "write a time from 1s to 24h, such as 30s or 5min".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_plain_seconds_are_read_and_all_else_is_refused() {
        assert_eq!(answer_time("30"), Ok(Span::from_secs(30)));
        assert_eq!(answer_time("1s"), Ok(Span::from_secs(1)));
        assert_eq!(answer_time("1500ms"), Ok(Span::from_millis(1_500)));
        for five_minutes in ["5m", "5min", "300s"] {
            assert_eq!(answer_time(five_minutes), Ok(Span::from_secs(300)));
        }
        assert_eq!(answer_time("24h"), Ok(LONGEST));
        for refused in [
            "",
            "0",
            "0s",
            "-1",
            "999ms",
            "25h",
            "s",
            "1.5s",
            "1441m",
            "999999999999m",
        ] {
            assert!(answer_time(refused).is_err(), "{refused}");
        }
        assert!(answer_timeout(None) > LONGEST);
    }
}
