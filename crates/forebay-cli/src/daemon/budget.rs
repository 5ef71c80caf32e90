//! The memory that a server may be given.

use forebay_base::units::{parse_size, show_bytes};

/// With less memory a cache has hardly a page for each request under way.
const LEAST_BYTES: u64 = 8 << 20;
const MOST_BYTES: u64 = 1 << 44;

/// The memory of a server: all of it, and how little of it may be left if other programs need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryRange {
    pub(crate) most_bytes: u64,
    /// None if it is always the same.
    pub(crate) floor_bytes: Option<u64>,
}

/// Reads the budget of a server: `512M`, or `256M..4G`.
pub(crate) fn memory_range(text: &str) -> Result<MemoryRange, String> {
    let Some((floor, most)) = text.split_once("..") else {
        return Ok(MemoryRange {
            most_bytes: memory_size(text)?,
            floor_bytes: None,
        });
    };
    let (floor_bytes, most_bytes) = (memory_size(floor)?, memory_size(most)?);
    if floor_bytes > most_bytes {
        return Err(format!(
            "the floor {} is over the ceiling {}: write the smaller one first, such as 256M..4G",
            show_bytes(floor_bytes),
            show_bytes(most_bytes),
        ));
    }
    Ok(MemoryRange {
        most_bytes,
        // A floor at the ceiling is the budget of always.
        floor_bytes: Some(floor_bytes).filter(|&bytes| bytes < most_bytes),
    })
}

/// Reads a size, in bytes.
fn memory_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < LEAST_BYTES {
        let least = show_bytes(LEAST_BYTES);
        return Err(format!("the cache of a server needs at least {least}"));
    }
    if bytes > MOST_BYTES {
        return Err("no machine has that much: write a size such as 512M or 4G".into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_size_or_a_floor_and_a_ceiling() {
        let range = |most_bytes, floor_bytes| {
            Ok(MemoryRange {
                most_bytes,
                floor_bytes,
            })
        };
        assert_eq!(memory_range("64M"), range(64 << 20, None));
        assert_eq!(memory_range("16M..1G"), range(1 << 30, Some(16 << 20)));
        assert_eq!(memory_range("64M..64M"), range(64 << 20, None));
        for refused in [
            "1G..16M",
            "1M..1G",
            "..1G",
            "1G..",
            "8M..9M..10M",
            "8M...9M",
            "1G-2G",
        ] {
            assert!(memory_range(refused).is_err(), "{refused}");
        }
        let text = memory_range("1G..16M").unwrap_err();
        assert!(
            text.starts_with("the floor 1 GiB is over the ceiling 16 MiB"),
            "{text}"
        );
    }
}
