//! Weaves many mutants of a file into one text: each is switched on by its number.
//!
//! `a + b` becomes `(match ((a), (b)) { (l, r) => if mutant_is(7) { l - r } else { l + r } })`, and
//! a function that returns 0 in a mutant begins with `if mutant_is(8) { return 0; }`. Lines stay
//! where they are. What follows is inserted around the text and never copies it, so mutants of an
//! expression and of its parts do not disturb each other.

use super::list::{Genre, Mutant, Place};
use super::sites::{self, Edit};
use std::collections::BTreeMap;
use std::ops::Range;

/// The text with the mutants in it.
#[derive(Debug)]
pub(super) struct Woven {
    pub(super) text: String,
    places: Vec<Owned>,
    /// The numbers of mutants that are not woven in.
    pub(super) left_out: Vec<usize>,
}

/// A stretch of the woven text, and the mutants on account of which it is as it is.
#[derive(Debug)]
struct Owned {
    range: Range<usize>,
    blame: Blame,
}

/// The mutants that make the compiler refuse a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// This one does not compile.
    Mutant(usize),
    /// One of these cannot be woven in.
    Site(Vec<usize>),
}

/// Weaves `mutants`, with their numbers, into `text`; the error says why `text` is no Rust.
pub(super) fn weave(text: &str, mutants: &[(usize, &Mutant)]) -> Result<Woven, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let lines = Lines::new(text);
    let mut edits = Vec::new();
    let mut wanted: BTreeMap<Place, Vec<(usize, &Mutant)>> = BTreeMap::new();
    let mut left_out = Vec::new();
    for &(number, mutant) in mutants {
        let of = mutant.function.as_ref().map(|of| of.return_type.as_str());
        match mutant.genre {
            // The type would be that of the mutant, and the function's own value another.
            Genre::FnValue if of.is_some_and(|of| of.contains("impl ")) => left_out.push(number),
            Genre::FnValue => {
                let at = lines.offset(mutant.span.start);
                edits.push(sites::early_return(at, number, &mutant.replacement));
            }
            _ => wanted
                .entry(mutant.span.start)
                .or_default()
                .push((number, mutant)),
        }
    }
    let found = sites::find(&file, text, &wanted);
    let is_found = |number: &usize| found.iter().any(|edit| edit.of.contains(number));
    let mut wanted = wanted.values().flatten().map(|&(number, _)| number);
    left_out.extend(wanted.by_ref().filter(|number| !is_found(number)));
    edits.extend(found);
    let (text, moved, mut places) = apply(text, edits);
    for &(number, mutant) in mutants {
        if let Some(function) = &mutant.function {
            let span = function.span;
            let range = moved.to(lines.offset(span.start))..moved.to(lines.offset(span.end));
            add(&mut places, range, number);
        }
    }
    Ok(Woven {
        text,
        places,
        left_out,
    })
}

/// Notes that `number` lies in the function at `range`.
fn add(places: &mut Vec<Owned>, range: Range<usize>, number: usize) {
    for place in places.iter_mut() {
        if let Blame::Site(of) = &mut place.blame
            && place.range == range
        {
            of.push(number);
            return;
        }
    }
    let blame = Blame::Site(vec![number]);
    places.push(Owned { range, blame });
}

impl Woven {
    /// The mutants to blame for an error of the compiler in `range`: those of the smallest stretch
    /// around it. None if no mutant is near.
    pub(super) fn blame(&self, range: &Range<usize>) -> Option<&Blame> {
        let holds = |of: &&Owned| of.range.start <= range.start && range.end <= of.range.end;
        let around = self.places.iter().filter(holds);
        let smallest = around.min_by_key(|of| of.range.len());
        smallest.map(|of| &of.blame)
    }
}

/// The beginning of each line.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl Lines<'_> {
    fn new(text: &str) -> Lines<'_> {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(starts).collect();
        Lines { text, starts }
    }

    /// The bytes before `place`.
    fn offset(&self, place: Place) -> usize {
        let start = self.starts.get(place.line.saturating_sub(1));
        let start = *start.unwrap_or(&self.text.len());
        let within = self.text[start..].char_indices();
        let mut within = within.map(|(at, _)| start + at);
        let column = place.column.saturating_sub(1);
        within.nth(column).unwrap_or(self.text.len())
    }
}

/// How far each place of the old text has moved.
struct Moved(Vec<(usize, usize)>);

impl Moved {
    /// Where the text at `at` is now.
    fn to(&self, at: usize) -> usize {
        let before = self.0.iter().rev().find(|(old, _)| *old <= at);
        before.map_or(at, |(old, new)| new + (at - old))
    }
}

/// Makes the edits. The result names the stretches that they own.
fn apply(text: &str, mut edits: Vec<Edit>) -> (String, Moved, Vec<Owned>) {
    edits.sort_by_key(|edit| (edit.range.start, edit.order));
    let mut woven = String::with_capacity(text.len() * 2);
    let mut moved = vec![(0, 0)];
    let mut places = Vec::new();
    let mut opened: BTreeMap<usize, usize> = BTreeMap::new();
    let mut done = 0;
    for edit in edits {
        woven.push_str(&text[done..edit.range.start]);
        let start = woven.len();
        for (piece, of) in &edit.pieces {
            let start = woven.len();
            woven.push_str(piece);
            if let &Some(number) = of {
                let (range, blame) = (start..woven.len(), Blame::Mutant(number));
                places.push(Owned { range, blame });
            }
        }
        done = edit.range.end;
        moved.push((done, woven.len()));
        let first = *opened.entry(edit.site).or_insert(start);
        if edit.is_last {
            let (range, blame) = (first..woven.len(), Blame::Site(edit.of));
            places.push(Owned { range, blame });
        }
    }
    woven.push_str(&text[done..]);
    (woven, Moved(moved), places)
}

#[cfg(test)]
mod tests {
    use super::super::list::example;
    use super::*;

    const TEXT: &str =
        "fn f(a: u64, b: u64) -> u64 {\n    if a < b && b == 2 { a + b * 2 } else { 0 }\n}\n";

    fn woven(mutants: &[Mutant]) -> Woven {
        let numbered: Vec<(usize, &Mutant)> = (1..).zip(mutants).collect();
        weave(TEXT, &numbered).unwrap()
    }

    #[test]
    fn an_operator_and_one_in_its_operand_are_both_woven_in() {
        let made = woven(&[
            example(Genre::BinaryOperator, 2, 28, "-"),
            example(Genre::BinaryOperator, 2, 32, "/"),
            example(Genre::BinaryOperator, 2, 14, "||"),
        ]);
        let product = "(match ((b ),( 2)) { (__l, __r) => \
                       if crate::mutant_is(2) { __l / __r } else { __l * __r } })";
        let sum = format!(
            "{{ (match ((a ),( {product})) {{ (__l, __r) => \
             if crate::mutant_is(1) {{ __l - __r }} else {{ __l + __r }} }}) }}"
        );
        assert!(made.text.contains(&sum), "{}", made.text);
        let both =
            "if (match (a < b ) { __l => if __l == crate::mutant_is(3) { __l } else { b == 2 } })";
        assert!(made.text.contains(both), "{}", made.text);
        assert_eq!(made.text.lines().count(), 3);
        assert!(made.left_out.is_empty());
    }

    #[test]
    fn a_value_is_returned_at_the_beginning_and_an_error_blames_the_smallest_stretch() {
        let made = woven(&[
            example(Genre::FnValue, 2, 5, "1"),
            example(Genre::BinaryOperator, 2, 10, ">"),
            example(Genre::BinaryOperator, 2, 90, ">"),
        ]);
        assert!(
            made.text
                .contains("    if crate::mutant_is(1) { return 1; } if ")
        );
        let at = |what: &str| {
            let start = made.text.find(what).unwrap();
            made.blame(&(start..start + what.len()))
        };
        assert_eq!(at("return 1"), Some(&Blame::Mutant(1)));
        assert_eq!(at("*__l > *__r"), Some(&Blame::Mutant(2)));
        assert_eq!(at("*__l < *__r"), Some(&Blame::Site(vec![2])));
        assert_eq!(at("fn f"), None);
        assert_eq!(made.left_out, [3]);
    }
}
