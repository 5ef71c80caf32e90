//! Times as people type them.

use forebay_base::Span;

/// Minutes have two spellings: `m` is the older one.
const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
];
/// What a time may look like.
pub const ALLOWED: &str = "a time with its unit, up to a year: 500us, 10ms, 30s, 5min or 1h";
const LONGEST_US: u64 = 365 * 24 * 3_600 * 1_000_000;

/// Reads a time with its unit; 0 needs none.
///
/// # Errors
/// What a time looks like.
pub fn parse_time(text: &str) -> Result<Span, String> {
    if text == "0" {
        return Ok(Span::ZERO);
    }
    let with_unit = |&(unit, each): &(&str, u64)| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        count.checked_mul(each)
    };
    // The text of the longer unit ends with that of the shorter one, but what is left is no number.
    let us = UNITS.iter().find_map(with_unit);
    let us = us.filter(|&us| us <= LONGEST_US);
    us.map(Span::from_micros).ok_or_else(|| ALLOWED.to_owned())
}

/// The same, but a number alone counts `unit`, as it did before times had one grammar.
///
/// # Errors
/// What a time looks like.
pub fn parse_time_or_count(text: &str, unit: Span) -> Result<Span, String> {
    let Ok(count) = text.parse::<u64>() else {
        return parse_time(text);
    };
    let us = count.checked_mul(unit.as_micros());
    let us = us.filter(|&us| us <= LONGEST_US);
    us.map(Span::from_micros).ok_or_else(|| ALLOWED.to_owned())
}

/// The same time as [`parse_time`] reads it.
pub fn show_time(time: Span) -> String {
    match time.as_micros() {
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1_000 == 0 => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_back_as_it_is_shown() {
        for text in ["0s", "10ms", "1500us", "30s", "90s"] {
            assert_eq!(show_time(parse_time(text).unwrap()), text);
        }
        for five_minutes in ["5m", "5min", "300s"] {
            assert_eq!(parse_time(five_minutes), Ok(Span::from_secs(300)));
        }
        assert_eq!(parse_time("2h"), Ok(Span::from_secs(7_200)));
        assert_eq!(parse_time("0"), Ok(Span::ZERO));
        for refused in [
            "",
            "5",
            "s",
            "-1s",
            "1d",
            "h",
            "1.5s",
            "5 min",
            "18446744073709551615m",
            "600000m",
        ] {
            assert_eq!(parse_time(refused), Err(ALLOWED.to_owned()), "{refused}");
        }
    }
}
