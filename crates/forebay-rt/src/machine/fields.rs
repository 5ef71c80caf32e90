//! Sizes in the format of the kernel, as in `/proc/meminfo` and similar files.

/// The size, in bytes, of the line of `text` that begins with `name`: `MemTotal:  24684036 kB`.
///
/// # Examples
/// ```
/// use forebay_rt::machine::bytes_in;
///
/// assert_eq!(bytes_in("MemFree: 7 kB\nMemTotal:   16 kB\n", "MemTotal:"), Some(16_384));
/// assert_eq!(bytes_in("MemFree: 7 kB\n", "MemTotal:"), None);
/// ```
pub fn bytes_in(text: &str, name: &str) -> Option<u64> {
    let size = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = size.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_found_by_its_name_and_nothing_else_is_taken_for_one() {
        let text = "MemTotal:       24684036 kB\nMemAvailable:   16777216 kB\nPages: 7\n";
        assert_eq!(bytes_in(text, "MemTotal:"), Some(24_684_036 << 10));
        assert_eq!(bytes_in(text, "MemAvailable:"), Some(16 << 30));
        assert_eq!(bytes_in(text, "Pages:"), None);
        assert_eq!(bytes_in("MemFree: 7 kB\n", "MemTotal:"), None);
        assert_eq!(
            bytes_in("MemTotal: 99999999999999999999 kB", "MemTotal:"),
            None
        );
    }
}
