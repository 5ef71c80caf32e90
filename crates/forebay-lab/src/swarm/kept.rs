//! Kept seeds: seeds that found something once, so that they can be run again.

/// A seed and what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSeed {
    /// The seed.
    pub seed: u64,
    /// What it found, in a few words.
    pub found: &'static str,
}

/// Every seed that is kept.
///
/// # Panics
/// If the list, which is part of the program, cannot be read.
pub fn kept_seeds() -> Vec<KeptSeed> {
    let lines = include_str!("kept.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let (seed, found) = row.split_once(' ').expect("a row is a seed and words");
        KeptSeed {
            seed: seed.parse().expect("a seed is a number"),
            found: found.trim(),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_seeds_are_in_order_and_say_what_they_found() {
        let kept = kept_seeds();
        assert!(!kept.is_empty());
        assert!(kept.windows(2).all(|pair| pair[0].seed < pair[1].seed));
        assert!(kept.iter().all(|kept| kept.found.len() > 5));
    }
}
