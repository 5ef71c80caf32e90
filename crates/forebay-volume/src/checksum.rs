//! CRC-32C (Castagnoli, reflected, as in iSCSI, RFC 3720 appendix B.4), eight bytes a step.

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]`: what byte `b` does to the remainder when `k` more bytes follow it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = (rest >> 1) ^ (POLYNOMIAL & (rest & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let rest = tables[table - 1][byte];
            tables[table][byte] = (rest >> 8) ^ tables[0][(rest & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The CRC-32C of `bytes`. It notices every change within 32 neighbouring bits.
///
/// ```
/// assert_eq!(forebay_volume::crc32c(b"123456789"), 0xe306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut rest = u32::MAX;
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(rest);
        // Written out: tests are built with few optimizations and spend their time here.
        rest = TABLES[7][(word & 0xff) as usize]
            ^ TABLES[6][(word >> 8 & 0xff) as usize]
            ^ TABLES[5][(word >> 16 & 0xff) as usize]
            ^ TABLES[4][(word >> 24 & 0xff) as usize]
            ^ TABLES[3][(word >> 32 & 0xff) as usize]
            ^ TABLES[2][(word >> 40 & 0xff) as usize]
            ^ TABLES[1][(word >> 48 & 0xff) as usize]
            ^ TABLES[0][(word >> 56) as usize];
    }
    for &byte in tail {
        rest = (rest >> 8) ^ TABLES[0][((rest ^ u32::from(byte)) & 0xff) as usize];
    }
    !rest
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
    }

    #[test]
    fn steps_of_eight_and_of_one_agree() {
        fn slowly(bytes: &[u8]) -> u32 {
            !bytes.iter().fold(u32::MAX, |rest, &byte| {
                (rest >> 8) ^ TABLES[0][((rest ^ u32::from(byte)) & 0xff) as usize]
            })
        }
        let bytes: Vec<u8> = (0..100_u32).map(|at| (at * at) as u8).collect();
        for end in 0..bytes.len() {
            assert_eq!(crc32c(&bytes[..end]), slowly(&bytes[..end]), "{end} bytes");
        }
    }
}
