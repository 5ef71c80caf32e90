//! Numbers in little-endian bytes, and the checksum at the end of every object with fields.

use crate::checksum::crc32c;
use crate::fault::VolumeFault;

/// Bytes of the checksum at the end.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// Appends the checksum of `bytes` to them, and returns it.
pub(crate) fn close(bytes: &mut Vec<u8>) -> u32 {
    let checksum = crc32c(bytes);
    bytes.extend(checksum.to_le_bytes());
    checksum
}

/// The fields of one object, from the first to the last.
pub(crate) struct Fields<'b> {
    key: &'b str,
    rest: &'b [u8],
    checksum: u32,
    format: u16,
}

impl<'b> Fields<'b> {
    /// Checks that `bytes`, the object `key`, begin with `magic` and a format from 1 to `known`,
    /// and end with their checksum.
    pub(crate) fn open(
        key: &'b str,
        bytes: &'b [u8],
        magic: [u8; 6],
        known: u16,
    ) -> Result<Fields<'b>, VolumeFault> {
        let damaged = |what| VolumeFault::Damaged {
            key: key.to_owned(),
            what,
        };
        let body = bytes.strip_prefix(&magic).ok_or(damaged("its beginning"))?;
        let (format, _) = body.split_first_chunk().ok_or(damaged("it is cut"))?;
        let found = u16::from_le_bytes(*format);
        let (summed, checksum) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or(damaged("it is cut"))?;
        let checksum = u32::from_le_bytes(*checksum);
        // A flipped bit must not pass for a later format.
        if crc32c(summed) != checksum {
            return Err(damaged("its checksum"));
        }
        if !(1..=known).contains(&found) {
            return Err(VolumeFault::Newer {
                key: key.to_owned(),
                found: found.into(),
                known: known.into(),
            });
        }
        Ok(Fields {
            key,
            rest: summed.get(magic.len() + 2..).ok_or(damaged("it is cut"))?,
            checksum,
            format: found,
        })
    }

    /// Its format.
    pub(crate) fn format(&self) -> u16 {
        self.format
    }

    /// The checksum of the whole.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum
    }

    /// The bytes that were not taken yet.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn damaged(&self, what: &'static str) -> VolumeFault {
        VolumeFault::Damaged {
            key: self.key.to_owned(),
            what,
        }
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'b [u8], VolumeFault> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(self.damaged("it is cut"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], VolumeFault> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(self.damaged("it is cut"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, VolumeFault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, VolumeFault> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, VolumeFault> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// A count of things that take at least `least_bytes` each: never more than can follow.
    pub(crate) fn count(&mut self, least_bytes: usize) -> Result<usize, VolumeFault> {
        let count = self.u64()?;
        let fits = (self.rest.len() / least_bytes) as u64;
        if count > fits {
            return Err(self.damaged("a count"));
        }
        Ok(count as usize)
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), VolumeFault> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.damaged("its length"))
    }
}
