//! How long a campaign lasts.

use forebay_base::Span;
use forebay_control::time::parse_time_or_count;

/// A week.
const LONGEST: Span = Span::from_secs(7 * 24 * 3_600);

/// Reads a time. A number alone is minutes.
pub(crate) fn campaign_time(text: &str) -> Result<Span, String> {
    let time = parse_time_or_count(text, Span::from_secs(60)).ok();
    let time = time.filter(|&time| time <= LONGEST);
    time.ok_or_else(|| "write a time up to 168h, such as 30s, 20min or 8h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_plain_minutes_are_read_and_all_else_is_refused() {
        for (text, seconds) in [("20min", 1_200), ("20", 1_200), ("8h", 28_800), ("30s", 30)] {
            assert_eq!(campaign_time(text), Ok(Span::from_secs(seconds)), "{text}");
        }
        for refused in ["", "-1", "169h", "99999999999999999999", "soon"] {
            assert!(campaign_time(refused).is_err(), "{refused}");
        }
    }
}
