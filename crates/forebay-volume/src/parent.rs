//! Where the parent of a clone is, in lines that a person can read.
//!
//! The manifest of a clone says which objects lie with its parent ([`crate::Shared`]). This object
//! says where that is. A snapshot of the parent holds them there.

use crate::checksum::crc32c;
use crate::fault::VolumeFault;
use crate::name::PARENT_KEY;
use crate::snapshot_name::SnapshotName;

const HEAD: &[u8] = b"forebay parent 1\n";

/// See above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The way from the folder of the clone to that of the parent, with `..` and `/`.
    pub path: Vec<u8>,
    /// The snapshot of the parent.
    pub snapshot: SnapshotName,
}

impl Parent {
    /// As an object.
    ///
    /// ```
    /// use forebay_volume::Parent;
    /// let parent = Parent { path: b"../base".into(), snapshot: "clone-1".parse()? };
    /// assert_eq!(Parent::decode(&parent.encode())?, parent);
    /// # Ok::<(), forebay_volume::VolumeFault>(())
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let snapshot = format!("snapshot {}\npath ", self.snapshot);
        let mut bytes = [HEAD, snapshot.as_bytes(), &self.path, b"\n"].concat();
        let checksum = format!("crc32c {:08x}\n", crc32c(&bytes));
        bytes.extend(checksum.as_bytes());
        bytes
    }

    /// The parent that `bytes` name.
    ///
    /// # Errors
    /// [`VolumeFault::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Parent, VolumeFault> {
        let fields = || {
            let body = bytes.strip_prefix(HEAD)?.strip_prefix(b"snapshot ")?;
            let end = body.iter().position(|&byte| byte == b'\n')?;
            let (name, rest) = body.split_at(end);
            let rest = rest.strip_prefix(b"\npath ")?;
            // A path may have any byte; what follows it has one length.
            let path = rest.get(..rest.len().checked_sub("\ncrc32c 00000000\n".len())?)?;
            let snapshot = str::from_utf8(name).ok()?.parse().ok()?;
            let path = path.to_vec();
            Some(Parent { path, snapshot })
        };
        // One parent has one text, so a changed byte is noticed.
        let parent = fields().filter(|it| it.encode() == bytes);
        parent.ok_or_else(|| VolumeFault::Damaged {
            key: PARENT_KEY.to_owned(),
            what: "its text or its checksum",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_comes_back_and_a_changed_byte_is_noticed() {
        for path in [
            &b"../base"[..],
            b"..",
            b"../a\nb\ncrc32c 0",
            b"../\xff",
            b"",
        ] {
            let snapshot = "clone-1".parse().expect("it is a name");
            let path = path.to_vec();
            let bytes = Parent { path, snapshot }.encode();
            assert_eq!(Parent::decode(&bytes).expect("it is whole").encode(), bytes);
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(Parent::decode(&changed).is_err(), "byte {at}");
                assert!(Parent::decode(&bytes[..at]).is_err(), "{at} bytes");
            }
        }
    }
}
