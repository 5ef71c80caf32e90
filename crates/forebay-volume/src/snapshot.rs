//! A snapshot: the map as of one record, kept under a name.
//!
//! ```text
//! snap/<name>/map      the map, and when it was taken
//! snap/<name>/twin     the same once more
//! pin/<number>         one is being taken, or was to be
//! pin/<number>-no      that pin holds nothing any more
//! ```
//!
//! The last two have a second copy each, `pin/<number>-twin` and `pin/<number>-no-twin`.
//!
//! What a snapshot names stays where it is, so it costs a map, and later what is written above it.
//! [`crate::Snapshotting`] says why nothing of it is removed.

use crate::fault::VolumeFault;
use crate::fields::{Fields, close};
use crate::manifest::Manifest;
use crate::map::Map;
use crate::name::{PIN_PREFIX, Twin};
use crate::snapshot_name::{NAME_BYTES, SnapshotName};
use std::str::FromStr;

const MAGIC: [u8; 6] = *b"FBVSNP";
const FORMAT: u16 = 1;

impl FromStr for SnapshotName {
    type Err = VolumeFault;

    fn from_str(text: &str) -> Result<SnapshotName, VolumeFault> {
        SnapshotName::new(text).ok_or_else(|| VolumeFault::OutOfRange {
            what: format!(
                "the name of a snapshot has up to {NAME_BYTES} letters, digits, '-', '_' and '.', \
                 and begins with a letter or a digit"
            ),
        })
    }
}

/// The state of a volume as of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When it was taken, in milliseconds since 1970, by the clock of the machine that took it.
    pub taken_ms: u64,
    /// Where everything was.
    pub map: Map,
}

impl Snapshot {
    /// The snapshot as an object.
    ///
    /// ```
    /// use forebay_volume::{Manifest, Map, Snapshot};
    /// let manifest = Manifest::new(1, 2 << 30, 1 << 20)?;
    /// let snapshot = Snapshot { taken_ms: 1_795_867_200_000, map: Map::new(&manifest) };
    /// let bytes = snapshot.encode();
    /// assert_eq!(Snapshot::decode(&manifest, "snap/monday/map", &bytes)?, snapshot);
    /// # Ok::<(), forebay_volume::VolumeFault>(())
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let map = self.map.encode();
        let mut bytes = Vec::with_capacity(map.len() + 40);
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.taken_ms.to_le_bytes());
        bytes.extend(self.map.number().to_le_bytes());
        bytes.extend((map.len() as u64).to_le_bytes());
        bytes.extend(map);
        close(&mut bytes);
        bytes
    }

    /// The snapshot of the volume with `manifest` in `bytes`, the object `key`.
    ///
    /// # Errors
    /// [`VolumeFault::Newer`], [`VolumeFault::Damaged`].
    pub fn decode(manifest: &Manifest, key: &str, bytes: &[u8]) -> Result<Snapshot, VolumeFault> {
        let mut fields = Fields::open(key, bytes, MAGIC, FORMAT)?;
        let (taken_ms, number) = (fields.u64()?, fields.u64()?);
        let length = fields.count(1)?;
        let map = fields.bytes(length)?;
        let map = Map::decode(manifest, number, map).map_err(|fault| match fault {
            VolumeFault::Damaged { what, .. } => fields.damaged(what),
            other => other,
        })?;
        fields.end()?;
        Ok(Snapshot { taken_ms, map })
    }
}

/// What is said of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// Nothing is to be removed.
    Set,
    /// It holds nothing any more. A pin is not removed for that, because a late try of its owner
    /// would set it again.
    Dropped,
}

impl Pin {
    /// Both.
    pub(crate) const BOTH: [Pin; 2] = [Pin::Set, Pin::Dropped];

    /// The key of the copy that says it of the pin `number`.
    pub(crate) fn key(self, number: u128, twin: Twin) -> String {
        let suffix = match (self, twin) {
            (Pin::Set, Twin::First) => "",
            (Pin::Set, Twin::Second) => "-twin",
            (Pin::Dropped, Twin::First) => "-no",
            (Pin::Dropped, Twin::Second) => "-no-twin",
        };
        format!("{PIN_PREFIX}{number:032x}{suffix}")
    }

    /// All keys that say something of the pin `number`.
    pub(crate) fn keys(number: u128) -> Vec<String> {
        let of = |pin: Pin| Twin::BOTH.map(|twin| pin.key(number, twin));
        Pin::BOTH.into_iter().flat_map(of).collect()
    }

    /// What `key` says, and of which pin.
    pub(crate) fn of_key(key: &str) -> Option<(Pin, u128)> {
        let digits = key.strip_prefix(PIN_PREFIX)?.get(..32)?;
        let number = u128::from_str_radix(digits, 16).ok()?;
        let says = |pin: &Pin| {
            Twin::BOTH
                .into_iter()
                .any(|twin| pin.key(number, twin) == key)
        };
        Some((Pin::BOTH.into_iter().find(says)?, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_every_bucket_and_every_shell_takes() {
        let longest = "x".repeat(64);
        for good in ["a", "0", "2026-11-28_10.00", longest.as_str()] {
            let name: SnapshotName = good.parse().expect("it is a name");
            assert_eq!(name.to_string(), good);
            for twin in Twin::BOTH {
                assert_eq!(SnapshotName::of_key(&name.key(twin)), Some(name));
            }
        }
        let too_long = "x".repeat(65);
        for bad in [
            "", ".", "..", "-a", "a/b", "a b", "m\u{fc}", "a\0", &too_long,
        ] {
            assert!(bad.parse::<SnapshotName>().is_err(), "{bad}");
        }
        for key in [
            "snap/a",
            "snap/a/other",
            "snap//map",
            "map/a/map",
            "snap/a/map/b",
        ] {
            assert_eq!(SnapshotName::of_key(key), None, "{key}");
        }
    }

    #[test]
    fn pins_are_known_by_their_keys() {
        for pin in Pin::BOTH {
            for twin in Twin::BOTH {
                let key = pin.key(0xf00, twin);
                assert_eq!(Pin::of_key(&key), Some((pin, 0xf00)), "{key}");
            }
        }
        let digits = "00000000000000000000000000000f00";
        for key in [
            "pin/",
            "pin/f00",
            &format!("probe/{digits}"),
            &format!("pin/{digits}-on"),
        ] {
            assert_eq!(Pin::of_key(key), None, "{key}");
        }
    }

    #[test]
    fn a_changed_byte_or_another_volume_is_noticed() {
        let manifest = Manifest::new(1, 1 << 20, 64 << 10).expect("it is possible");
        let map = Map::new(&manifest);
        let bytes = Snapshot { taken_ms: 5, map }.encode();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(
                Snapshot::decode(&manifest, "snap/a/map", &changed).is_err(),
                "byte {at}"
            );
            let cut = Snapshot::decode(&manifest, "snap/a/map", &bytes[..at]);
            assert!(cut.is_err(), "{at} bytes");
        }
        let other = Manifest::new(2, 1 << 20, 64 << 10).expect("it is possible");
        let refused = Snapshot::decode(&other, "snap/a/map", &bytes);
        assert!(matches!(refused, Err(VolumeFault::Damaged { key, .. }) if key == "snap/a/map"));
    }
}
