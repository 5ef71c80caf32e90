//! Bytes and pages, and the conversions between them.
//!
//! A count of pages, a page's index in its file and a count of bytes are all `u64` and are told
//! apart by their names (`dirty_pages`, `page_index`, `length_bytes`), units last.

/// Bytes of one page. Every formula of the specification is in pages of this size.
pub const PAGE_BYTES: usize = 4096;

/// Base-two logarithm of [`PAGE_BYTES`].
pub const PAGE_SHIFT: u32 = 12;

const _: () = assert!(PAGE_BYTES == 1 << PAGE_SHIFT);

/// Pages that `bytes` occupy, the last one possibly in part.
///
/// ```
/// assert_eq!(forebay_base::units::pages_for(0), 0);
/// assert_eq!(forebay_base::units::pages_for(4097), 2);
/// ```
pub const fn pages_for(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES as u64)
}

/// Index of the page that holds the byte at `offset_bytes`.
///
/// ```
/// assert_eq!(forebay_base::units::page_of(8191), 1);
/// ```
pub const fn page_of(offset_bytes: u64) -> u64 {
    offset_bytes >> PAGE_SHIFT
}

/// First byte of the page `page_index`.
///
/// ```
/// assert_eq!(forebay_base::units::byte_of(2), 8192);
/// ```
pub const fn byte_of(page_index: u64) -> u64 {
    page_index << PAGE_SHIFT
}

/// A size that a person wrote: a number and an optional `K`, `M`, `G` or `T` (powers of 1024,
/// with or without a trailing `B` or `iB`), in bytes.
///
/// # Errors
/// Says in one sentence what was expected if `text` is not such a size or does not fit in 64 bits.
///
/// ```
/// use forebay_base::units::parse_size;
/// assert_eq!(parse_size("512M"), Ok(512 << 20));
/// assert_eq!(parse_size("4GiB"), Ok(4 << 30));
/// assert!(parse_size("fast").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is not a size: write a whole number and K, M, G or T, as 512M");
    let trimmed = text.trim();
    let digits = trimmed.len()
        - trimmed
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    let number: u64 = trimmed[..digits].parse().map_err(|_| wrong())?;
    let shift = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' does not fit in 64 bits"))
}

/// `bytes` as a person reads it: in the largest binary unit of which there is at least one, with
/// one decimal unless it is whole.
///
/// ```
/// use forebay_base::units::show_bytes;
/// assert_eq!(show_bytes(256 << 20), "256 MiB");
/// assert_eq!(show_bytes(1536), "1.5 KiB");
/// ```
pub fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len())
        .rev()
        .find(|unit| bytes >> (10 * unit) > 0)
        .unwrap_or(0);
    let divisor = 1_u64 << (10 * unit);
    if bytes.is_multiple_of(divisor) {
        return format!("{} {}", bytes / divisor, UNITS[unit]);
    }
    let tenths = u128::from(bytes) * 10 / u128::from(divisor);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_every_spelling() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("1k", 1024),
            ("2 MiB", 2 << 20),
            ("3G", 3 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_a_sentence() {
        for text in ["", "M", "-1", "1.5G", "12X", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_sizes_use_the_largest_unit() {
        assert_eq!(show_bytes(0), "0 B");
        assert_eq!(show_bytes(4096), "4 KiB");
        assert_eq!(show_bytes(9_999), "9.7 KiB");
        assert_eq!(show_bytes(1 << 30), "1 GiB");
        assert_eq!(show_bytes(u64::MAX), "16777215.9 TiB");
    }
}
