//! The key of an encrypted volume, which lies in the bucket itself, encrypted with the key of its
//! owner: the owner's key can be changed without a byte of data being written again.
//!
//! ```text
//! key/<volume>-<number>        the volume's key, wrapped
//! key/twin/<volume>-<number>   the same once more
//! ```
//!
//! A change makes both copies with the next number and removes those before it. So for a moment two
//! numbers are there, and the owner's old key opens the volume as well as the new one. The next
//! number is made by put-if-absent, and only with a key that opens the newest: of two changes at
//! once one fails.

use crate::fault::VolumeFault;
use crate::fields::{Fields, close};
use crate::name::{KEY_PREFIX, KEY_TWIN_PREFIX, Twin};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use std::fmt;

const MAGIC: [u8; 6] = *b"FBVKEY";
const FORMAT: u16 = 1;
const KEY_BYTES: usize = 32;

/// What the pages of a volume are encrypted with. It leaves the process only wrapped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VolumeKey([u8; KEY_BYTES]);

impl VolumeKey {
    /// The key with these bytes, which have to be random.
    pub fn new(bytes: [u8; KEY_BYTES]) -> VolumeKey {
        VolumeKey(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The key of a volume's owner, which wraps the volume's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnerKey([u8; KEY_BYTES]);

impl OwnerKey {
    /// The key in `text`: 64 hexadecimal digits, with white space around them or not, or 32 bytes
    /// as they are. None if it is neither, or if the bytes can all be typed: a phrase is no key.
    ///
    /// ```
    /// use forebay_volume::OwnerKey;
    /// let digits = "00112233445566778899aabbccddeeff".repeat(2);
    /// assert!(OwnerKey::parse(digits.as_bytes()).is_some());
    /// assert!(OwnerKey::parse(b"a passphrase").is_none());
    /// ```
    pub fn parse(text: &[u8]) -> Option<OwnerKey> {
        let digits = text.trim_ascii();
        if digits.len() == 2 * KEY_BYTES && digits.iter().all(u8::is_ascii_hexdigit) {
            let mut bytes = [0; KEY_BYTES];
            for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
                let pair = str::from_utf8(pair).ok()?;
                *byte = u8::from_str_radix(pair, 16).ok()?;
            }
            return Some(OwnerKey(bytes));
        }
        let is_phrase = text
            .iter()
            .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        text.try_into().ok().filter(|_| !is_phrase).map(OwnerKey)
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &self.0);
        LessSafeKey::new(key.expect("AES-256 has keys of 32 bytes"))
    }

    /// Wraps `key` of the volume `id` as the object number `number`. `nonce` has to be random.
    pub fn wrap(&self, id: u128, number: u64, key: &VolumeKey, nonce: u128) -> Vec<u8> {
        let mut bytes = head(id, number);
        let nonce = *nonce
            .to_le_bytes()
            .first_chunk::<NONCE_LEN>()
            .expect("16 bytes are more than 12");
        let mut wrapped = key.0;
        let tag = self.cipher().seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(&bytes),
            &mut wrapped,
        );
        let tag = tag.expect("a key is short enough for GCM");
        bytes.extend(nonce);
        bytes.extend(wrapped);
        bytes.extend(tag.as_ref());
        close(&mut bytes);
        bytes
    }

    /// The key of the volume `id` that object `key` has in `bytes`, whose number is `number`.
    ///
    /// # Errors
    /// [`VolumeFault::WrongKey`], [`VolumeFault::Damaged`], [`VolumeFault::Newer`].
    pub fn unwrap(
        &self,
        id: u128,
        number: u64,
        key: &str,
        bytes: &[u8],
    ) -> Result<VolumeKey, VolumeFault> {
        let (nonce, mut wrapped) = parts(id, number, key, bytes)?;
        let opened = self.cipher().open_in_place(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(head(id, number)),
            &mut wrapped,
        );
        let opened = opened.map_err(|_| VolumeFault::WrongKey)?;
        let opened = opened.first_chunk().ok_or(VolumeFault::WrongKey)?;
        Ok(VolumeKey(*opened))
    }
}

/// Checks that `bytes`, the object `key`, are number `number` of the keys of the volume `id`, as
/// far as can be seen without the owner's key.
///
/// # Errors
/// As [`OwnerKey::unwrap`].
pub fn check_wrapped(id: u128, number: u64, key: &str, bytes: &[u8]) -> Result<(), VolumeFault> {
    parts(id, number, key, bytes).map(drop)
}

fn head(id: u128, number: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes
}

/// The nonce, and what is wrapped with its tag.
type Parts = ([u8; NONCE_LEN], [u8; KEY_BYTES + MAX_TAG_LEN]);

fn parts(id: u128, number: u64, key: &str, bytes: &[u8]) -> Result<Parts, VolumeFault> {
    let mut fields = Fields::open(key, bytes, MAGIC, FORMAT)?;
    if fields.u128()? != id {
        return Err(fields.damaged("it is of another volume"));
    }
    if fields.u64()? != number {
        return Err(fields.damaged("its number"));
    }
    let parts = (fields.array()?, fields.array()?);
    fields.end()?;
    Ok(parts)
}

/// The key of this copy of the wrapped key `number` of the volume `id`.
pub fn wrapped_key(id: u128, twin: Twin, number: u64) -> String {
    match twin {
        Twin::First => format!("{KEY_PREFIX}{id:032x}-{number:020}"),
        Twin::Second => format!("{KEY_TWIN_PREFIX}{id:032x}-{number:020}"),
    }
}

/// The number of the wrapped key of the volume `id` with this `key`.
///
/// ```
/// use forebay_volume::{Twin, wrapped_key, wrapped_number};
/// let key = wrapped_key(7, Twin::Second, 3);
/// assert_eq!(wrapped_number(7, &key), Some(3));
/// assert_eq!(wrapped_number(8, &key), None);
/// ```
pub fn wrapped_number(id: u128, key: &str) -> Option<u64> {
    let (_, number) = key.rsplit_once('-')?;
    let number = number.parse().ok()?;
    let is_one = |twin| wrapped_key(id, twin, number) == key;
    Twin::BOTH.into_iter().any(is_one).then_some(number)
}

/// No key is shown by accident.
impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey")
    }
}

impl fmt::Debug for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_unwrapped_by_its_owner_alone() {
        let owner = OwnerKey::parse(&[1; 32]).expect("32 bytes");
        let other = OwnerKey::parse(&[2; 32]).expect("32 bytes");
        let key = VolumeKey::new([9; 32]);
        let bytes = owner.wrap(7, 1, &key, 0x5eed);
        assert!(!bytes.windows(8).any(|it| it == [9; 8]));
        assert_eq!(owner.unwrap(7, 1, "key/1", &bytes), Ok(key));
        let refused = other.unwrap(7, 1, "key/1", &bytes);
        assert_eq!(refused, Err(VolumeFault::WrongKey));
        for (id, number) in [(8, 1), (7, 2)] {
            let refused = owner.unwrap(id, number, "key/1", &bytes);
            assert!(matches!(refused, Err(VolumeFault::Damaged { .. })));
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let noticed = check_wrapped(7, 1, "key/1", &changed);
            assert!(noticed.is_err(), "byte {at}");
        }
    }

    #[test]
    fn keys_are_32_bytes_or_64_digits() {
        let digits = "0f".repeat(32);
        let key = OwnerKey::parse(&[15; 32]);
        assert!(key.is_some());
        assert_eq!(OwnerKey::parse(digits.as_bytes()), key);
        assert_eq!(OwnerKey::parse(format!(" {digits}\n").as_bytes()), key);
        for wrong in [
            &digits[1..],
            "",
            &"0g".repeat(32),
            "correct horse battery staple, 32",
            "correct horse battery staple 31\n",
        ] {
            assert_eq!(OwnerKey::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "Some(OwnerKey)");
    }
}
