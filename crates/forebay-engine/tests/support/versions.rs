//! Pages that say which page they are and which version, so that a page that is torn, misplaced,
//! stale or lost is noticed.

use super::PAGE;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const WORDS: usize = PAGE / 8;

/// What each page of a file may hold: between the last version whose write has returned and the
/// last one whose write has begun.
pub(crate) struct Versions {
    begun: Vec<AtomicU64>,
    returned: Vec<AtomicU64>,
}

impl Versions {
    pub(crate) fn new(pages: u64) -> Versions {
        let zeros = || (0..pages).map(|_| AtomicU64::new(0)).collect();
        Versions {
            begun: zeros(),
            returned: zeros(),
        }
    }

    /// The version that the one writer of `page` is about to write.
    pub(crate) fn begin(&self, page: u64) -> u64 {
        self.begun[page as usize].fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The write of that version has returned.
    pub(crate) fn note_returned(&self, page: u64, version: u64) {
        self.returned[page as usize].store(version, Ordering::Release);
    }

    pub(crate) fn returned(&self, page: u64) -> u64 {
        self.returned[page as usize].load(Ordering::Acquire)
    }

    pub(crate) fn begun(&self, page: u64) -> u64 {
        self.begun[page as usize].load(Ordering::Acquire)
    }
}

pub(crate) fn stamped(page: u64, version: u64) -> Vec<u8> {
    (page << 40 | version).to_le_bytes().repeat(WORDS)
}

pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("a word has 8 bytes"));
    bytes.chunks_exact(8).map(word)
}

/// The version of a word, which has to be of this page.
pub(crate) fn version_of_word(page: u64, word: u64) -> u64 {
    assert!(
        word == 0 || word >> 40 == page,
        "this is not page {page}: {word:#x}"
    );
    word & ((1 << 40) - 1)
}

/// The version of a whole page, which has to be this page and not torn.
pub(crate) fn version_of(page: u64, bytes: &[u8]) -> u64 {
    let first = words(bytes).next().expect("a page has words");
    assert!(
        words(bytes).all(|word| word == first),
        "page {page} is torn"
    );
    version_of_word(page, first)
}
