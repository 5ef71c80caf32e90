//! A sample of mutants, and what it says of all of them.

/// The indices of `wanted` of `all` things, chosen by `seed`, in the order of the choice.
pub(super) fn choose(all: usize, wanted: usize, seed: u64) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..all).collect();
    let mut state = seed;
    for place in 0..wanted.min(all) {
        let left = (all - place) as u64;
        let chosen = place + (mixed(&mut state) % left) as usize;
        indices.swap(place, chosen);
    }
    indices.truncate(wanted);
    indices
}

/// The next number of the sequence "splitmix64".
fn mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Where the part of all lies, in per cent, if `hits` of `tried` that were chosen by chance are
/// known: Wilson's interval, which holds it in 95 of 100 samples.
pub(super) fn interval(hits: usize, tried: usize) -> (f64, f64) {
    const Z: f64 = 1.96;
    if tried == 0 {
        return (0.0, 100.0);
    }
    let (hits, tried) = (hits as f64, tried as f64);
    let part = hits / tried;
    let middle = part + Z * Z / (2.0 * tried);
    let spread = Z * (part * (1.0 - part) / tried + Z * Z / (4.0 * tried * tried)).sqrt();
    let whole = 1.0 + Z * Z / tried;
    (
        (middle - spread) / whole * 100.0,
        (middle + spread) / whole * 100.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_sample_has_each_thing_once_and_follows_its_seed() {
        let sample = choose(100, 30, 1);
        assert_eq!(sample.iter().collect::<BTreeSet<_>>().len(), 30);
        assert!(sample.iter().all(|&index| index < 100));
        assert_eq!(sample, choose(100, 30, 1));
        assert_ne!(sample, choose(100, 30, 2));
        assert_eq!(choose(3, 9, 1).len(), 3);
    }

    #[test]
    fn the_interval_is_wilsons() {
        let (low, high) = interval(90, 100);
        assert!(
            (low - 82.56).abs() < 0.01 && (high - 94.48).abs() < 0.01,
            "{low} {high}"
        );
        assert_eq!(interval(0, 0), (0.0, 100.0));
    }
}
