//! How the bytes of a page lie in an object: as they are, with a checksum, or encrypted.
//!
//! A chunk object is one stored page after the other, so that a page is read without the rest of
//! its chunk. What a page is checked against lies behind it:
//!
//! ```text
//! plain        4096 bytes
//! checksum     4096 bytes, masked CRC-32C of the page's number and these bytes
//! encrypted    4096 bytes of ciphertext, nonce (12 bytes), tag (16 bytes)
//! ```
//!
//! A record has a checksum for each of its pages anyway, so only encrypted pages have more there.
//!
//! Encryption is AES-256-GCM (NIST SP 800-38D), and each object has a key of its own, which
//! HKDF-SHA256 (RFC 5869) makes of the volume's key and the object's name. The number of the page
//! is authenticated with it.
//!
//! - invariant VB20: no two pages are encrypted with one key and one nonce. Within an object the
//!   nonces differ by the numbers of pages. Two objects of one name, as the writers of a volume and
//!   of its copy make them, have nonces of different writers, whose numbers are random.

use crate::checksum::crc32c_of;
use crate::fault::VolumeFault;
use crate::keys::VolumeKey;
use crate::manifest::Manifest;
use crate::name::ChunkName;
use crate::page_format::{CHECKSUM_BYTES, PAGE, PageFormat, SEAL_BYTES};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// In the object of a chunk.
    Chunk(ChunkName),
    /// In the record with this number.
    Record(u64),
}

/// Puts the pages of one volume into objects, and takes them out.
///
/// ```
/// use forebay_volume::{Holder, Manifest, PageCodec, PageFormat, VolumeKey};
/// let manifest = Manifest::new(7, 1 << 30, 1 << 20)?.with_pages(PageFormat::Encrypted);
/// let codec = PageCodec::new(&manifest, Some(&VolumeKey::new([9; 32])))?;
/// let pages = codec.pages_of(Holder::Record(3));
/// let mut object = Vec::new();
/// pages.seal(0xfeed, 17, &[7; 4096], &mut object);
/// assert_eq!(object.len() as u64, pages.stored_bytes());
/// assert_eq!(pages.open(17, &mut object), Some(&[7; 4096][..]));
/// # Ok::<(), forebay_volume::VolumeFault>(())
/// ```
#[derive(Clone, Debug)]
pub struct PageCodec {
    format: PageFormat,
    /// What the keys of objects are made of, if the volume is encrypted.
    secret: Option<Prk>,
}

impl PageCodec {
    /// The codec of the volume with `manifest`. An encrypted volume needs its `key`.
    ///
    /// # Errors
    /// [`VolumeFault::KeyNeeded`].
    pub fn new(manifest: &Manifest, key: Option<&VolumeKey>) -> Result<PageCodec, VolumeFault> {
        let secret = match (manifest.pages, key) {
            (PageFormat::Plain | PageFormat::Checksum, _) => None,
            (PageFormat::Encrypted, None) => return Err(VolumeFault::KeyNeeded),
            (PageFormat::Encrypted, Some(key)) => {
                let salt = Salt::new(HKDF_SHA256, &manifest.id.to_le_bytes());
                Some(salt.extract(key.bytes()))
            }
        };
        Ok(PageCodec {
            format: manifest.pages,
            secret,
        })
    }

    /// The codec of every volume with plain pages.
    pub fn plain() -> PageCodec {
        PageCodec {
            format: PageFormat::Plain,
            secret: None,
        }
    }

    /// What lies behind each page.
    pub fn format(&self) -> PageFormat {
        self.format
    }

    /// The pages of the object `holder`.
    pub fn pages_of(&self, holder: Holder) -> ObjectPages {
        let tail = match (&self.secret, self.format, holder) {
            (Some(secret), ..) => Tail::Seal(Box::new(key_of(secret, holder))),
            (None, PageFormat::Checksum, Holder::Chunk(_)) => Tail::Checksum,
            (None, ..) => Tail::Nothing,
        };
        ObjectPages { tail }
    }
}

/// The key of an object. `Prk::expand` fails only for keys of more than 255 blocks.
fn key_of(secret: &Prk, holder: Holder) -> LessSafeKey {
    let (kind, epoch, number) = match holder {
        Holder::Chunk(ChunkName { epoch, number }) => (b"chunk ", epoch, number),
        Holder::Record(number) => (b"record", 0, number),
    };
    let info: [&[u8]; 3] = [kind, &epoch.to_le_bytes(), &number.to_le_bytes()];
    let expanded = secret.expand(&info, &AES_256_GCM);
    LessSafeKey::new(UnboundKey::from(expanded.expect("one block of HKDF")))
}

/// What lies behind a page in an object.
#[derive(Debug)]
enum Tail {
    Nothing,
    Checksum,
    Seal(Box<LessSafeKey>),
}

/// Puts pages into one object, and takes them out.
#[derive(Debug)]
pub struct ObjectPages {
    tail: Tail,
}

impl ObjectPages {
    /// The bytes that a page takes.
    pub fn stored_bytes(&self) -> u64 {
        let tail = match self.tail {
            Tail::Nothing => 0,
            Tail::Checksum => CHECKSUM_BYTES,
            Tail::Seal(_) => SEAL_BYTES,
        };
        (PAGE + tail) as u64
    }

    /// Appends page `page` of the volume, which has these `bytes`, to `object`. `writer` is the
    /// number of the writer that makes the object.
    ///
    /// # Panics
    /// If the bytes are not those of a page.
    pub fn seal(&self, writer: u128, page: u64, bytes: &[u8], object: &mut Vec<u8>) {
        assert_eq!(bytes.len(), PAGE, "a whole page");
        let begin = object.len();
        object.extend(bytes);
        match &self.tail {
            Tail::Nothing => {}
            Tail::Checksum => object.extend(checksum(page, bytes).to_le_bytes()),
            Tail::Seal(key) => {
                let nonce = nonce(writer, page);
                let sealed = key.seal_in_place_separate_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(page.to_le_bytes()),
                    &mut object[begin..],
                );
                let tag = sealed.expect("a page is short enough for GCM");
                object.extend(nonce);
                object.extend(tag.as_ref());
            }
        }
    }

    /// The bytes of page `page` of the volume in `stored`, where they are decrypted; none if these
    /// are not what was stored for that page.
    pub fn open<'s>(&self, page: u64, stored: &'s mut [u8]) -> Option<&'s [u8]> {
        let (bytes, tail) = stored.split_at_mut_checked(PAGE)?;
        match &self.tail {
            Tail::Nothing if tail.is_empty() => Some(bytes),
            Tail::Checksum if *tail == checksum(page, bytes).to_le_bytes() => Some(bytes),
            Tail::Nothing | Tail::Checksum => None,
            Tail::Seal(key) => {
                let (nonce, tag) = tail.split_first_chunk::<NONCE_LEN>()?;
                let opened = key.open_in_place_separate_tag(
                    Nonce::assume_unique_for_key(*nonce),
                    Aad::from(page.to_le_bytes()),
                    ring::aead::Tag::try_from(tag).ok()?,
                    bytes,
                    0..,
                );
                opened.ok().map(|bytes| &*bytes)
            }
        }
    }
}

impl ObjectPages {
    /// The pages that are stored in `stored`, one after the other, from page `first` on; none if
    /// one of them is not what was stored for it. It needs no other memory than that.
    pub fn open_all(&self, first: u64, stored: Vec<u8>) -> Option<Vec<u8>> {
        if matches!(self.tail, Tail::Nothing) {
            return Some(stored);
        }
        let mut stored = stored;
        let (length, stored_bytes) = (stored.len(), self.stored_bytes() as usize);
        let mut end = 0;
        for (page, at) in (first..).zip((0..length).step_by(stored_bytes)) {
            self.open(page, &mut stored[at..length.min(at + stored_bytes)])?;
            stored.copy_within(at..at + PAGE, end);
            end += PAGE;
        }
        stored.truncate(end);
        Some(stored)
    }
}

/// See invariant VB20.
fn nonce(writer: u128, page: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    let number = writer ^ u128::from(page);
    nonce.copy_from_slice(&number.to_le_bytes()[..NONCE_LEN]);
    nonce
}

/// A page at the place of another one is noticed, too. It is masked as in LevelDB: bytes that are
/// followed by their own CRC add nothing to the CRC of the whole object, so that one would be the
/// same whatever the pages are.
fn checksum(page: u64, bytes: &[u8]) -> u32 {
    let crc = crc32c_of(&[&page.to_le_bytes(), bytes]);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: ChunkName = ChunkName {
        epoch: 3,
        number: 9,
    };

    fn codec(format: PageFormat, key: u8) -> PageCodec {
        let manifest = Manifest::new(7, 1 << 20, 64 << 10).expect("it is possible");
        let manifest = manifest.with_pages(format);
        let key = VolumeKey::new([key; 32]);
        PageCodec::new(&manifest, Some(&key)).expect("it has a key")
    }

    fn page_of(byte: u8) -> Vec<u8> {
        (0..PAGE).map(|at| byte ^ (at % 251) as u8).collect()
    }

    #[test]
    fn a_page_comes_back_from_every_holder_in_every_format() {
        for format in PageFormat::ALL {
            assert_eq!(PageFormat::named(format.name()), Some(format));
            let codec = codec(format, 1);
            for holder in [Holder::Chunk(NAME), Holder::Record(9)] {
                let pages = codec.pages_of(holder);
                let mut object = vec![];
                for page in [4, 5] {
                    pages.seal(77, page, &page_of(page as u8), &mut object);
                }
                let stored_bytes = match holder {
                    Holder::Chunk(_) => format.stored_bytes(),
                    Holder::Record(_) => format.record_bytes(),
                };
                assert_eq!(pages.stored_bytes(), stored_bytes);
                assert_eq!(object.len() as u64, 2 * stored_bytes, "{holder:?}");
                let (first, second) = object.split_at_mut(stored_bytes as usize);
                assert_eq!(pages.open(4, first), Some(&*page_of(4)));
                assert_eq!(pages.open(5, second), Some(&*page_of(5)));
            }
        }
    }

    #[test]
    fn any_changed_byte_and_any_other_place_is_noticed() {
        for format in [PageFormat::Checksum, PageFormat::Encrypted] {
            let codec = codec(format, 1);
            let pages = codec.pages_of(Holder::Chunk(NAME));
            let mut object = vec![];
            pages.seal(77, 4, &page_of(4), &mut object);
            for at in [0, 1, PAGE - 1, PAGE, object.len() - 1] {
                let mut changed = object.clone();
                changed[at] ^= 1;
                assert_eq!(pages.open(4, &mut changed), None, "{format:?} {at}");
            }
            assert_eq!(pages.open(5, &mut object.clone()), None, "another page");
            let cut = object.len() - 1;
            assert_eq!(pages.open(4, &mut object[..cut]), None, "a cut page");
            assert_eq!(pages.open(4, &mut object[..PAGE - 1]), None, "half a page");
        }
    }

    #[test]
    fn an_encrypted_page_is_of_one_key_and_one_object() {
        let pages = codec(PageFormat::Encrypted, 1).pages_of(Holder::Chunk(NAME));
        let mut object = vec![];
        pages.seal(77, 4, &page_of(4), &mut object);
        assert!(
            !object
                .windows(16)
                .any(|it| page_of(4).windows(16).any(|plain| plain == it))
        );
        let other_key = codec(PageFormat::Encrypted, 2).pages_of(Holder::Chunk(NAME));
        assert_eq!(other_key.open(4, &mut object.clone()), None);
        for holder in [
            Holder::Record(NAME.number),
            Holder::Chunk(ChunkName { epoch: 4, ..NAME }),
        ] {
            let other = codec(PageFormat::Encrypted, 1).pages_of(holder);
            assert_eq!(other.open(4, &mut object.clone()), None, "{holder:?}");
        }
        assert_eq!(pages.open(4, &mut object), Some(&*page_of(4)));
    }

    #[test]
    fn pages_are_opened_where_they_lie() {
        for format in PageFormat::ALL {
            let pages = codec(format, 1).pages_of(Holder::Chunk(NAME));
            let mut object = vec![];
            for page in 4..9 {
                pages.seal(77, page, &page_of(page as u8), &mut object);
            }
            let cut = object[..object.len() - 1].to_vec();
            let mut swapped = object.clone();
            swapped.rotate_left(pages.stored_bytes() as usize);
            let memory = object.as_ptr();
            let opened = pages.open_all(4, object).expect("it is what was stored");
            assert_eq!(opened.as_ptr(), memory, "{format:?}");
            assert_eq!(opened, (4..9).flat_map(page_of).collect::<Vec<u8>>());
            assert_eq!(pages.open_all(4, vec![]), Some(vec![]));
            if format != PageFormat::Plain {
                assert_eq!(pages.open_all(4, cut), None);
                assert_eq!(pages.open_all(4, swapped), None);
            }
        }
    }

    /// The checksum of an object tells whole pages of another version from its own.
    #[test]
    fn the_checksum_of_an_object_depends_on_its_pages() {
        for format in PageFormat::ALL {
            let pages = codec(format, 1).pages_of(Holder::Chunk(NAME));
            let object_of = |byte: u8| {
                let mut object = vec![];
                for page in 0..16 {
                    pages.seal(77, page, &page_of(byte), &mut object);
                }
                crate::crc32c(&object)
            };
            let checksums: std::collections::BTreeSet<u32> = (0..8).map(object_of).collect();
            assert_eq!(checksums.len(), 8, "{format:?}");
        }
    }

    /// Invariant VB20.
    #[test]
    fn nonces_differ_between_pages_and_between_writers() {
        let pages = codec(PageFormat::Encrypted, 1).pages_of(Holder::Chunk(NAME));
        let mut nonces = std::collections::BTreeSet::new();
        for writer in [77_u128 << 64, 78 << 64, 99 << 70] {
            for page in 0..32 {
                let mut object = vec![];
                pages.seal(writer, page, &page_of(0), &mut object);
                assert!(nonces.insert(object[PAGE..PAGE + NONCE_LEN].to_vec()));
            }
        }
        assert_eq!(nonces.len(), 96);
    }
}
