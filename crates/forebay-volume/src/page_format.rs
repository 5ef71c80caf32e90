//! What a page takes, and what lies behind it.

use ring::aead::{MAX_TAG_LEN, NONCE_LEN};

/// Bytes of a page, the smallest part of a volume that is written.
pub const PAGE_BYTES: u64 = 4096;
/// The bytes of a page, as an index into buffers.
pub(crate) const PAGE: usize = PAGE_BYTES as usize;

pub(crate) const CHECKSUM_BYTES: usize = 4;
pub(crate) const SEAL_BYTES: usize = NONCE_LEN + MAX_TAG_LEN;

/// What lies behind each page of a volume's chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageFormat {
    /// Nothing: a page is believed when it is read alone.
    #[default]
    Plain,
    /// A checksum, so that a page is checked whenever it is read.
    Checksum,
    /// What decrypts and authenticates it.
    Encrypted,
}

impl PageFormat {
    /// Every format.
    pub const ALL: [PageFormat; 3] = [
        PageFormat::Plain,
        PageFormat::Checksum,
        PageFormat::Encrypted,
    ];

    /// Its name in a manifest, and for people.
    pub fn name(self) -> &'static str {
        match self {
            PageFormat::Plain => "plain",
            PageFormat::Checksum => "checksum",
            PageFormat::Encrypted => "encrypted",
        }
    }

    /// The format with this name.
    pub fn named(name: &str) -> Option<PageFormat> {
        PageFormat::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The bytes that a page takes in the object of a chunk.
    ///
    /// ```
    /// use forebay_volume::PageFormat;
    /// assert_eq!(PageFormat::Checksum.stored_bytes(), 4100);
    /// ```
    pub fn stored_bytes(self) -> u64 {
        (PAGE + self.tail_bytes()) as u64
    }

    /// The bytes that a page takes in a record.
    pub fn record_bytes(self) -> u64 {
        match self {
            PageFormat::Plain | PageFormat::Checksum => PAGE_BYTES,
            PageFormat::Encrypted => self.stored_bytes(),
        }
    }

    fn tail_bytes(self) -> usize {
        match self {
            PageFormat::Plain => 0,
            PageFormat::Checksum => CHECKSUM_BYTES,
            PageFormat::Encrypted => SEAL_BYTES,
        }
    }
}
