//! The names of snapshots, and the keys that have them.

use crate::name::{SNAPSHOT_PREFIX, Twin};
use std::fmt;

/// The most bytes of a name.
pub(crate) const NAME_BYTES: usize = 64;
/// What the names of the snapshots of clones begin with.
const CLONE_PREFIX: &str = "clone-";

/// The name of a snapshot: up to 64 letters, digits, `-`, `_` and `.`, the first of them a letter
/// or a digit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// Zeros after its end.
    bytes: [u8; NAME_BYTES],
}

impl SnapshotName {
    /// The name `text`, if that is one.
    pub(crate) fn new(text: &str) -> Option<SnapshotName> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins_well = text.bytes().next()?.is_ascii_alphanumeric();
        let mut bytes = [0; NAME_BYTES];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        (begins_well && text.bytes().all(is_known)).then_some(SnapshotName { bytes })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let length = self.bytes.iter().position(|&byte| byte == 0);
        let name = &self.bytes[..length.unwrap_or(NAME_BYTES)];
        str::from_utf8(name).expect("a name is ASCII")
    }

    /// That of the snapshot which holds for the clone with this number what it shares with its
    /// parent.
    pub fn of_clone(number: u128) -> SnapshotName {
        let name = format!("{CLONE_PREFIX}{number:032x}");
        SnapshotName::new(&name).expect("it has letters, digits and a dash")
    }

    /// Whether the snapshot is there for a clone.
    ///
    /// ```
    /// use forebay_volume::SnapshotName;
    /// assert!(SnapshotName::of_clone(7).is_of_clone());
    /// assert!(!"clone-monday".parse::<SnapshotName>()?.is_of_clone());
    /// # Ok::<(), forebay_volume::VolumeFault>(())
    /// ```
    pub fn is_of_clone(&self) -> bool {
        let digits = self.as_str().strip_prefix(CLONE_PREFIX);
        let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        number.is_some_and(|number| SnapshotName::of_clone(number) == *self)
    }

    /// The key of this copy of the snapshot.
    ///
    /// ```
    /// use forebay_volume::{SnapshotName, Twin};
    /// let name: SnapshotName = "monday".parse()?;
    /// assert_eq!(name.key(Twin::First), "snap/monday/map");
    /// assert_eq!(SnapshotName::of_key("snap/monday/twin"), Some(name));
    /// # Ok::<(), forebay_volume::VolumeFault>(())
    /// ```
    pub fn key(&self, twin: Twin) -> String {
        let copy = match twin {
            Twin::First => "map",
            Twin::Second => "twin",
        };
        format!("{SNAPSHOT_PREFIX}{self}/{copy}")
    }

    /// The name of the snapshot of which `key` is a copy.
    pub fn of_key(key: &str) -> Option<SnapshotName> {
        let (name, _) = key.strip_prefix(SNAPSHOT_PREFIX)?.split_once('/')?;
        let name = SnapshotName::new(name)?;
        let is_copy = |twin| name.key(twin) == key;
        Twin::BOTH.into_iter().any(is_copy).then_some(name)
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
