//! The only generator of chance: seeded, small, the same on every machine.
//!
//! A run has one root seed. Whoever needs chance takes a child stream by name, so that a new user
//! of chance does not disturb the numbers that the others draw.

use crate::hash::mix;

/// A stream of pseudo-random numbers (xoshiro256++ seeded by splitmix64). Not for secrets.
///
/// ```
/// use forebay_base::Prng;
/// let mut a = Prng::from_seed(7).child("disk");
/// let mut b = Prng::from_seed(7).child("disk");
/// assert_eq!(a.next_u64(), b.next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The stream that belongs to `seed`.
    pub fn from_seed(seed: u64) -> Prng {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(counter)
        });
        Prng { state }
    }

    /// The child stream called `name`. It depends on this stream's seed and on the name alone if
    /// it is taken before any number is drawn.
    #[must_use]
    pub fn child(&self, name: &str) -> Prng {
        let mut seed = self.state[0] ^ self.state[2].rotate_left(17);
        for byte in name.bytes() {
            seed = mix(seed ^ u64::from(byte));
        }
        Prng::from_seed(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number from 0 up to and without `bound`, each equally likely but for one part in 2^64.
    ///
    /// # Panics
    /// If `bound` is 0: there is no such number.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a bound of 0 leaves nothing to draw");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `numerator` times out of `denominator`.
    ///
    /// # Panics
    /// If `denominator` is 0.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// A fraction from 0 up to and without 1, for devices and reports; no law uses it.
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut prng = Prng::from_seed(1);
        let drawn: Vec<u64> = (0..3).map(|_| prng.next_u64()).collect();
        let mut again = Prng::from_seed(1);
        assert_eq!(drawn, (0..3).map(|_| again.next_u64()).collect::<Vec<_>>());
        assert_ne!(drawn[0], Prng::from_seed(2).next_u64());
    }

    #[test]
    fn children_are_told_apart_by_name() {
        let root = Prng::from_seed(1);
        assert_ne!(root.child("a").next_u64(), root.child("b").next_u64());
    }

    #[test]
    fn bounds_hold_and_every_value_comes() {
        let mut prng = Prng::from_seed(3);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[prng.below(7) as usize] += 1;
        }
        assert!(
            seen.iter().all(|&count| (800..1_200).contains(&count)),
            "{seen:?}"
        );
    }
}
