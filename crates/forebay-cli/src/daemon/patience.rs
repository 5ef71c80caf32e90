//! How long calls wait for a store that is silent.
//!
//! A disk that pauses makes its users wait, so the servers wait too, unless `--answer-timeout` sets
//! a limit.

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
}
