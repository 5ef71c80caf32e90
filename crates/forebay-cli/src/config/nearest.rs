//! The known name that is most like one that was typed.

use strsim::levenshtein;

/// The candidate that is nearest to `given`, if one is near enough to be what was meant. A
/// candidate in a section is also compared by its last part: a key is often put in the wrong place.
pub(super) fn nearest<'c>(given: &str, candidates: &'c [String]) -> Option<&'c str> {
    let (_, last) = given.rsplit_once('.').unwrap_or(("", given));
    let distance = |name: &&String| {
        let (_, last_of_name) = name.rsplit_once('.').unwrap_or(("", name));
        let (whole, part) = (levenshtein(given, name), levenshtein(last, last_of_name));
        // The whole name decides between two places of the same part.
        (whole.min(part), whole)
    };
    let found = candidates.iter().min_by_key(distance)?;
    let is_near = distance(&found).0 <= last.chars().count().div_ceil(3);
    is_near.then_some(found.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_found_and_nonsense_is_not() {
        let known = ["dirty_ratio", "memory", "nbd.socket", "mount.source"].map(String::from);
        for (given, meant) in [
            ("dirty_rato", Some("dirty_ratio")),
            ("socket", Some("nbd.socket")),
            ("mount.socket", Some("nbd.socket")),
            ("nbd.sockte", Some("nbd.socket")),
            ("mount.memory", Some("memory")),
            ("speed", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, &known), meant, "{given}");
        }
        assert_eq!(nearest("a", &[]), None);
        assert_eq!(
            (levenshtein("kitten", "sitting"), levenshtein("", "ab")),
            (3, 2)
        );
    }
}
