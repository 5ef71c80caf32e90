//! Refuses figures of a settings file that no device can have, as they are read.

use forebay_base::units::parse_size;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use std::fmt;

/// A number of at least 1.
pub(crate) fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = i64::deserialize(from)?;
    u64::try_from(number)
        .ok()
        .filter(|&number| number > 0)
        .ok_or_else(|| {
            Error::invalid_value(Unexpected::Signed(number), &"a whole number of at least 1")
        })
}

/// A count of at least 1.
pub(crate) fn positive_count<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = positive(from)?;
    u32::try_from(number).map_err(|_| {
        Error::invalid_value(Unexpected::Unsigned(number), &"a count below 4294967296")
    })
}

/// A count of at least 1, where there may be none.
pub(crate) fn some_positive_count<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<u32>, D::Error> {
    positive_count(from).map(Some)
}

/// A size of at least one byte.
pub(crate) fn positive_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let size = from.deserialize_any(SizeVisitor)?;
    if size == 0 {
        return Err(Error::invalid_value(
            Unexpected::Unsigned(0),
            &"a size of at least 1 byte",
        ));
    }
    Ok(size)
}

/// A size, possibly nothing.
pub(crate) fn whole_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    from.deserialize_any(SizeVisitor)
}

/// A slope that leaves a rate above zero everywhere.
pub(crate) fn slope<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let percent = i64::deserialize(from)?;
    u64::try_from(percent)
        .ok()
        .filter(|&percent| percent < 100)
        .ok_or_else(|| Error::invalid_value(Unexpected::Signed(percent), &"0 to 99 percent"))
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size: bytes as a whole number, or a text as \"512M\"")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| Error::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse_size(text).map_err(Error::custom)
    }
}
