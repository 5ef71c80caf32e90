//! CRC-32C (Castagnoli, reflected, as in iSCSI, RFC 3720 appendix B.4).

/// The CRC-32C of `bytes`. It notices every change within 32 neighbouring bits.
///
/// ```
/// assert_eq!(forebay_volume::crc32c(b"123456789"), 0xe306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The CRC-32C of `parts`, one after the other.
pub(crate) fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let joined = |crc, part: &&[u8]| crc32c::crc32c_append(crc, part);
    parts.iter().fold(0, joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of RFC 3720, B.4.
    #[test]
    fn the_examples_of_the_standard() {
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c_of(&[&rising[..5], &rising[5..]]), 0x46dd_794e);
    }
}
