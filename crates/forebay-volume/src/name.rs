//! Keys of a volume's objects, all below the volume's own prefix.

use std::fmt;

/// The key of the manifest.
pub const MANIFEST_KEY: &str = "volume";
/// What the keys of maps begin with.
pub const MAP_PREFIX: &str = "map/";
/// What the keys of records begin with.
pub const LOG_PREFIX: &str = "log/";
/// What the keys of chunks begin with.
pub const DATA_PREFIX: &str = "data/";

/// Number `number` of the log. Its numbers are dense and begin with 1.
pub fn log_key(number: u64) -> String {
    format!("{LOG_PREFIX}{number:020}")
}

/// The map as of record `number`.
pub fn map_key(number: u64) -> String {
    format!("{MAP_PREFIX}{number:020}")
}

/// The object by which the writer `writer` finds out whether the bucket has put-if-absent.
pub(crate) fn probe_key(writer: u128) -> String {
    format!("probe/{writer:032x}")
}

/// The number in a key that [`log_key`] or [`map_key`] made with `prefix`.
pub(crate) fn number_of(key: &str, prefix: &str) -> Option<u64> {
    let digits = key.strip_prefix(prefix)?;
    let are_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| digits.parse().ok())?
}

/// An object with the bytes of one chunk. It is made once, by one writer, and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkName {
    /// The epoch of the writer that made it.
    pub epoch: u64,
    /// Its number among those of the epoch.
    pub number: u64,
}

impl ChunkName {
    /// The name in `key`, if it is the key of a chunk.
    ///
    /// ```
    /// use forebay_volume::ChunkName;
    /// let name = ChunkName { epoch: 7, number: 0x1f2 };
    /// assert_eq!(name.to_string(), "data/f2/0000000000000007-00000000000001f2");
    /// assert_eq!(ChunkName::parse(&name.to_string()), Some(name));
    /// ```
    pub fn parse(key: &str) -> Option<ChunkName> {
        let (_, name) = key.strip_prefix(DATA_PREFIX)?.split_once('/')?;
        let (epoch, number) = name.split_once('-')?;
        let value = |digits| u64::from_str_radix(digits, 16).ok();
        let name = ChunkName {
            epoch: value(epoch)?,
            number: value(number)?,
        };
        (name.to_string() == key).then_some(name)
    }
}

/// Its key: 256 folders, so that none gets too long.
impl fmt::Display for ChunkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.number & 0xff;
        write!(
            f,
            "{DATA_PREFIX}{folder:02x}/{:016x}-{:016x}",
            self.epoch, self.number
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_things_are_not_taken_for_chunks_or_records() {
        for key in [
            "data/f2/7-1f2",
            "data/f3/0000000000000007-00000000000001f2",
            "data/f2/0000000000000007-00000000000001F2",
            "data/f2/0000000000000007",
            "data/",
            "log/00000000000000000001",
        ] {
            assert_eq!(ChunkName::parse(key), None, "{key}");
        }
        assert_eq!(number_of(&log_key(17), LOG_PREFIX), Some(17));
        for key in [
            "log/1",
            "map/00000000000000000001",
            "log/+0000000000000000001",
        ] {
            assert_eq!(number_of(key, LOG_PREFIX), None, "{key}");
        }
    }
}
