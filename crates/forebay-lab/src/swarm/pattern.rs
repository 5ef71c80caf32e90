//! Bytes that say where they belong and who wrote them.
//!
//! Every write of a run has a version of its own. A byte's value follows from the version and the
//! place, so a byte of another place, file or time differs from the right one.

use forebay_base::hash::mix;

const WORD: u64 = 8;

/// The version of bytes that nobody wrote, or whose write was given up: zeros.
pub(super) const ZEROS: u64 = 0;

fn word(version: u64, number: u64) -> [u8; 8] {
    if version == ZEROS {
        return [0; 8];
    }
    mix(version.rotate_left(32) ^ number).to_le_bytes()
}

/// The byte that `version` has at `offset_bytes`.
pub(super) fn byte_of_version(version: u64, offset_bytes: u64) -> u8 {
    word(version, offset_bytes / WORD)[(offset_bytes % WORD) as usize]
}

/// Whether `bytes`, which lie from `offset_bytes` on, are those of `version`.
pub(super) fn is_of_version(version: u64, offset_bytes: u64, bytes: &[u8]) -> bool {
    let first = offset_bytes.next_multiple_of(WORD);
    let (head, rest) = bytes.split_at(bytes.len().min((first - offset_bytes) as usize));
    let (whole, tail) = rest.as_chunks::<{ WORD as usize }>();
    let mut numbered = (first / WORD..).zip(whole);
    let past = first + whole.len() as u64 * WORD;
    let is_part = |place: u64, part: &[u8]| {
        let mut seen = (place..).zip(part);
        seen.all(|(place, &byte)| byte == byte_of_version(version, place))
    };
    numbered.all(|(number, found)| *found == word(version, number))
        && is_part(offset_bytes, head)
        && is_part(past, tail)
}

/// Fills `bytes`, which lie from `offset_bytes` on, with those of `version`.
pub(super) fn fill(version: u64, offset_bytes: u64, bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let place = offset_bytes + at as u64;
        let skipped = (place % WORD) as usize;
        let count = (WORD as usize - skipped).min(bytes.len() - at);
        let word = word(version, place / WORD);
        bytes[at..at + count].copy_from_slice(&word[skipped..skipped + count]);
        at += count;
    }
}

/// `length` bytes of `version` from `offset_bytes` on.
pub(super) fn bytes_of_version(version: u64, offset_bytes: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    fill(version, offset_bytes, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_the_same_however_it_is_asked_for() {
        let whole = bytes_of_version(7, 0, 100);
        for start in 0..50 {
            assert_eq!(
                bytes_of_version(7, start, 50),
                whole[start as usize..][..50]
            );
            assert_eq!(byte_of_version(7, start), whole[start as usize]);
            let mut piece = whole[start as usize..][..40].to_vec();
            assert!(is_of_version(7, start, &piece));
            assert!(!is_of_version(8, start, &piece));
            for at in [0, 20, 39] {
                piece[at] ^= 1;
                assert!(!is_of_version(7, start, &piece), "byte {at} is another one");
                piece[at] ^= 1;
            }
            let part = &piece[..start as usize % 9];
            assert!(is_of_version(7, start, part), "a part of a word");
        }
    }

    #[test]
    fn places_and_versions_differ() {
        let here = bytes_of_version(7, 0, 64);
        assert_ne!(here, bytes_of_version(7, 4096, 64));
        assert_ne!(here, bytes_of_version(8, 0, 64));
        assert_eq!(bytes_of_version(ZEROS, 5, 9), [0; 9]);
    }
}
