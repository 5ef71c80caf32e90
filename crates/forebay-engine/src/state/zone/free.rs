//! Which frames of a zone are free: a bit for each, and where the next one is taken.
//!
//! invariant Z5: a bit of the upper row is set exactly where a word of the lower row is not zero.
//!
//! Frames are taken in the order of their addresses, round and round the zone. Pages that are
//! evicted one after the other lie in a row, or nearly: two reclaimers take turns, and pages in use
//! stay. Taken in order, their frames are a row again, into which a store reads a row of pages in
//! one piece.

/// Frames of one word.
const WORD_BITS: u32 = u64::BITS;

/// The free frames of a zone, counted from its first.
#[derive(Debug)]
pub(super) struct FreeFrames {
    words: Box<[u64]>,
    /// Which words are not zero.
    upper: Box<[u64]>,
    /// Where the search for the next one begins.
    next: u32,
}

/// Bytes of both rows for `frames` frames.
pub(super) fn bytes(frames: u32) -> usize {
    let words = frames.div_ceil(WORD_BITS);
    (words + words.div_ceil(WORD_BITS)) as usize * size_of::<u64>()
}

impl FreeFrames {
    /// As many frames as `frames` says, all of them free.
    pub(super) fn all(frames: u32) -> FreeFrames {
        let words = frames.div_ceil(WORD_BITS);
        let row = |words: u32| (0..words.div_ceil(WORD_BITS)).map(|_| 0).collect();
        let mut free = FreeFrames {
            words: row(frames),
            upper: row(words),
            next: 0,
        };
        (0..frames).for_each(|place| free.put(place));
        free
    }

    /// Takes the next one out.
    pub(super) fn take(&mut self) -> Option<u32> {
        let place = self.first_from(self.next).or_else(|| self.first_from(0))?;
        let (at, bit) = place_of(place);
        self.words[at] &= !bit;
        if self.words[at] == 0 {
            let (above, bit) = place_of(at as u32);
            self.upper[above] &= !bit;
        }
        self.next = place + 1;
        Some(place)
    }

    /// Puts one in.
    pub(super) fn put(&mut self, place: u32) {
        let (at, bit) = place_of(place);
        self.words[at] |= bit;
        let (above, bit) = place_of(at as u32);
        self.upper[above] |= bit;
    }

    /// Has the next one taken at `place`, or after it.
    pub(super) fn go_on_at(&mut self, place: u32) {
        self.next = place;
    }

    /// All of them, in order.
    pub(super) fn members(&self) -> impl Iterator<Item = u32> {
        let mut from = Some(0);
        std::iter::from_fn(move || {
            let place = self.first_from(from?)?;
            from = place.checked_add(1);
            Some(place)
        })
    }

    fn first_from(&self, place: u32) -> Option<u32> {
        let (at, bit) = place_of(place);
        let rest = self.words.get(at)? & !(bit - 1);
        if rest != 0 {
            return Some(at as u32 * WORD_BITS + rest.trailing_zeros());
        }
        let word = self.word_after(at as u32)?;
        Some(word * WORD_BITS + self.words[word as usize].trailing_zeros())
    }

    /// The first word after that numbered `word` that is not zero.
    fn word_after(&self, word: u32) -> Option<u32> {
        let (first, bit) = place_of(word + 1);
        let rest = self.upper.get(first)? & !(bit - 1);
        let others = self.upper.iter().copied().enumerate().skip(first + 1);
        let mut rows = std::iter::once((first, rest)).chain(others);
        let (above, found) = rows.find(|&(_, bits)| bits != 0)?;
        Some(above as u32 * WORD_BITS + found.trailing_zeros())
    }
}

/// The word of a place, and its bit there.
fn place_of(place: u32) -> (usize, u64) {
    ((place / WORD_BITS) as usize, 1 << (place % WORD_BITS))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_base::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn invariant_z5_it_takes_what_a_sorted_set_would_give() {
        // One word, one more than a word, and enough for several words of the upper row.
        for frames in [1, 64, 65, 200, 9_000] {
            let mut free = FreeFrames::all(frames);
            let mut twin: BTreeSet<u32> = (0..frames).collect();
            let (mut used, mut next) = (Vec::new(), 0);
            let mut chance = Prng::from_seed(5);
            for turn in 0..30_000 {
                // First nearly empty, then nearly full, and so on.
                let takes = chance.below(8) < if turn / 10_000 == 1 { 1 } else { 7 };
                if takes {
                    let expected = twin.range(next..).next().or(twin.first()).copied();
                    assert_eq!(free.take(), expected);
                    if let Some(place) = expected {
                        twin.remove(&place);
                        next = place + 1;
                        used.push(place);
                    }
                } else if !used.is_empty() {
                    let place = used.swap_remove(chance.below(used.len() as u64) as usize);
                    free.put(place);
                    twin.insert(place);
                    if chance.chance(1, 4) {
                        free.go_on_at(place);
                        next = place;
                    }
                }
                for (at, word) in free.words.iter().enumerate() {
                    let (above, bit) = place_of(at as u32);
                    assert_eq!(free.upper[above] & bit != 0, *word != 0);
                }
            }
            assert!(free.members().eq(twin));
        }
    }

    #[test]
    fn an_empty_zone_gives_nothing() {
        let mut free = FreeFrames::all(0);
        assert_eq!((free.take(), free.members().next()), (None, None));
    }

    #[test]
    fn what_two_reclaimers_freed_by_turns_is_taken_in_order() {
        let mut free = FreeFrames::all(256);
        while free.take().is_some() {}
        for first in [16, 48, 0, 32] {
            (first..first + 16).for_each(|place| free.put(place));
        }
        free.go_on_at(0);
        let taken: Vec<u32> = std::iter::from_fn(|| free.take()).collect();
        assert!(taken.iter().copied().eq(0..64), "{taken:?}");
    }
}
