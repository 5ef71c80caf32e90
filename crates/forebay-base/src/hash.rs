//! Hashes that are the same on every machine and in every run.

/// Mixes the bits of `value` (the finaliser of splitmix64): a bijection in which every input bit
/// moves about half of the output bits.
///
/// ```
/// assert_ne!(forebay_base::hash::mix(1), forebay_base::hash::mix(2));
/// ```
pub const fn mix(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A running hash of what happened, in order: two runs that did the same end with the same value.
///
/// ```
/// use forebay_base::hash::TraceHash;
/// let mut first = TraceHash::default();
/// first.note(1);
/// first.note(2);
/// let mut second = TraceHash::default();
/// second.note(2);
/// second.note(1);
/// assert_ne!(first.value(), second.value());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceHash(u64);

impl TraceHash {
    /// Adds one number to the history.
    pub fn note(&mut self, value: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ value.wrapping_add(0x9e37_79b9_7f4a_7c15));
    }

    /// The hash of all that was noted so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_moves_about_half_of_the_bits() {
        for bit in 0..64 {
            let moved = (mix(0x3039) ^ mix(0x3039 ^ (1 << bit))).count_ones();
            assert!((16..=48).contains(&moved), "bit {bit} moved {moved}");
        }
    }
}
