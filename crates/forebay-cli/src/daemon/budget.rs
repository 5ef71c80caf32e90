//! The memory that a server may be given.

use forebay_base::units::{parse_size, show_bytes};

/// With less memory a cache has hardly a page for each request under way.
const LEAST_BYTES: u64 = 8 << 20;
const MOST_BYTES: u64 = 1 << 44;

/// Reads the budget of a server's cache, in bytes.
pub(crate) fn memory_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < LEAST_BYTES {
        let least = show_bytes(LEAST_BYTES);
        return Err(format!("the cache of a server needs at least {least}"));
    }
    if bytes > MOST_BYTES {
        return Err("no machine has that much: write the size as 512M or 4G".into());
    }
    Ok(bytes)
}
