//! Keys of a volume's objects, all below the volume's own prefix.

use std::fmt;

/// The key of the manifest.
pub const MANIFEST_KEY: &str = "volume";
/// What the keys of maps begin with.
pub const MAP_PREFIX: &str = "map/";
/// What the keys of records begin with.
pub const LOG_PREFIX: &str = "log/";
/// What the keys of the second copies of records begin with.
pub const TWIN_PREFIX: &str = "twin/";
/// The key of the object that is made before the first record is removed: without it, all of them
/// are there.
pub const MAPPED_KEY: &str = "mapped";
/// The key of the object of a clone that says where its parent is: see [`crate::Parent`].
pub const PARENT_KEY: &str = "parent";
/// The key of the object that says that a clone has all of it, and no parent any more.
pub const DETACHED_KEY: &str = "detached";
/// What the keys of probes begin with.
pub const PROBE_PREFIX: &str = "probe/";
/// What the keys of the volume's wrapped key begin with.
pub const KEY_PREFIX: &str = "key/";
/// What the keys of its second copies begin with.
pub(crate) const KEY_TWIN_PREFIX: &str = "key/twin/";
/// What the keys of chunks begin with.
pub const DATA_PREFIX: &str = "data/";
/// What the keys of pins begin with.
pub const PIN_PREFIX: &str = "pin/";
/// What the keys of snapshots begin with.
pub const SNAPSHOT_PREFIX: &str = "snap/";
/// All of these, in the order in which the objects of a volume are removed.
pub const PREFIXES: [&str; 8] = [
    PIN_PREFIX,
    SNAPSHOT_PREFIX,
    DATA_PREFIX,
    MAP_PREFIX,
    TWIN_PREFIX,
    LOG_PREFIX,
    PROBE_PREFIX,
    KEY_PREFIX,
];

/// Number `number` of the log. Its numbers are dense and begin with 1.
pub fn log_key(number: u64) -> String {
    format!("{LOG_PREFIX}{number:020}")
}

/// One of the two copies of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// The one below [`LOG_PREFIX`]. A writer that opens the volume makes it first.
    First,
    /// The one below [`TWIN_PREFIX`]. If the copies differ, this one is the record.
    Second,
}

impl Twin {
    /// Both.
    pub const BOTH: [Twin; 2] = [Twin::First, Twin::Second];

    /// The key of this copy of record `number`.
    ///
    /// ```
    /// use forebay_volume::{Twin, log_key};
    /// assert_eq!(Twin::First.key(7), log_key(7));
    /// assert_eq!(Twin::Second.key(7), "twin/00000000000000000007");
    /// ```
    pub fn key(self, number: u64) -> String {
        match self {
            Twin::First => log_key(number),
            Twin::Second => format!("{TWIN_PREFIX}{number:020}"),
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Twin {
        match self {
            Twin::First => Twin::Second,
            Twin::Second => Twin::First,
        }
    }
}

/// The map as of record `number`.
pub fn map_key(number: u64) -> String {
    format!("{MAP_PREFIX}{number:020}")
}

/// The object by which the writer `writer` finds out whether the bucket has put-if-absent.
pub(crate) fn probe_key(writer: u128) -> String {
    format!("{PROBE_PREFIX}{writer:032x}")
}

/// The number in a key of a record or a map that begins with `prefix`.
///
/// ```
/// use forebay_volume::{LOG_PREFIX, log_key, number_of};
/// assert_eq!(number_of(&log_key(7), LOG_PREFIX), Some(7));
/// assert_eq!(number_of("log/7", LOG_PREFIX), None);
/// ```
pub fn number_of(key: &str, prefix: &str) -> Option<u64> {
    let digits = key.strip_prefix(prefix)?;
    let are_digits = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| digits.parse().ok())?
}

/// The number of the record of which `key` is a copy.
pub(crate) fn record_of(key: &str) -> Option<u64> {
    number_of(key, LOG_PREFIX).or(number_of(key, TWIN_PREFIX))
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
    use std::collections::BTreeSet;

    #[test]
    fn the_list_of_prefixes_has_each_of_them() {
        let source = include_str!("name.rs").lines();
        let declared = source.filter_map(|line| {
            let (name, value) = line.strip_prefix("pub const ")?.split_once(": &str = ")?;
            let value = value.strip_prefix('"')?.strip_suffix("\";")?;
            name.ends_with("_PREFIX").then_some(value)
        });
        assert_eq!(BTreeSet::from(PREFIXES), declared.collect());
    }

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
