//! Every invariant that is cited is declared, once, and every declared one is cited by a test.
//!
//! Declared: a comment that says `invariant F1:`. Cited: `invariant F1` without the colon,
//! `invariants F1, L2 and L3`, or a function named `invariant_f1_...`.

use super::Finding;
use crate::source::Source;
use std::collections::BTreeMap;

/// Where invariants are declared and cited.
const FOLDERS: &[&str] = &["crates/", "docs/", "ARCHITECTURE.md"];

/// Duplicate declarations, citations of nothing, and declarations that no test cites.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut declared: BTreeMap<String, (Finding, bool)> = BTreeMap::new();
    let mut cited = Vec::new();
    for source in sources {
        if !FOLDERS.iter().any(|folder| source.path.starts_with(folder)) {
            continue;
        }
        for mention in mentions(source) {
            if !mention.declares {
                cited.push((source, mention));
                continue;
            }
            let message = format!("no test cites invariant {}", mention.name);
            let uncited = Finding::new(source, mention.line, message);
            if let Some((first, _)) = declared.insert(mention.name.clone(), (uncited, false)) {
                let place = format!("{}:{}", first.path, first.line);
                let message = format!("invariant {} is declared in {place} too", mention.name);
                findings.push(Finding::new(source, mention.line, message));
            }
        }
    }
    for (source, mention) in cited {
        let in_test = source
            .rust
            .as_ref()
            .is_some_and(|rust| rust.is_test(mention.line));
        if let Some((_, tested)) = declared.get_mut(&mention.name) {
            *tested |= in_test;
        } else {
            let message = format!("no comment declares invariant {}", mention.name);
            findings.push(Finding::new(source, mention.line, message));
        }
    }
    let untested = declared.into_values().filter(|(_, tested)| !tested);
    findings.extend(untested.map(|(uncited, _)| uncited));
    findings
}

struct Mention {
    name: String,
    line: usize,
    declares: bool,
}

fn mentions(source: &Source) -> Vec<Mention> {
    let mut mentions = Vec::new();
    let comments = source.rust.as_ref().map(|rust| rust.comments.lines());
    let mut comments = comments.into_iter().flatten();
    for (index, line) in source.text.lines().enumerate() {
        let comment = comments.next().unwrap_or_default();
        let lower = line.to_ascii_lowercase();
        for (at, word) in lower.match_indices("invariant") {
            let after = at + word.len();
            for (name, end) in names(&line[after..]) {
                let has_colon = line[after + end..].starts_with(':');
                let is_comment = comment.get(at..after).is_some_and(|c| !c.trim().is_empty());
                mentions.push(Mention {
                    name,
                    line: index + 1,
                    declares: has_colon && is_comment,
                });
            }
        }
    }
    mentions
}

/// The names after the word "invariant", with the place where each ends.
fn names(rest: &str) -> Vec<(String, usize)> {
    let mut at = usize::from(rest.starts_with('s'));
    let (separators, is_letter): (&[&str], fn(char) -> bool) = if rest[at..].starts_with('_') {
        (&["_"], |c| c.is_ascii_lowercase())
    } else {
        (&[" ", ", ", " and ", " or "], |c| c.is_ascii_uppercase())
    };
    let mut names = Vec::new();
    while let Some((from, to)) = separators.iter().find_map(|separator| {
        let name = rest[at..].strip_prefix(separator)?;
        let from = at + separator.len();
        Some((from, from + name_length(name, is_letter)?))
    }) {
        names.push((rest[from..to].to_ascii_uppercase(), to));
        at = to;
    }
    names
}

/// The length of the name at the start of `text`: letters, then digits, then no more of a word.
fn name_length(text: &str, is_letter: fn(char) -> bool) -> Option<usize> {
    let letters = text.find(|c| !is_letter(c)).unwrap_or(text.len());
    let tail = &text[letters..];
    let digits = tail
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(tail.len());
    let next = tail[digits..].chars().next();
    let ends = !next.is_some_and(char::is_alphanumeric);
    (letters > 0 && digits > 0 && ends).then_some(letters + digits)
}

#[cfg(test)]
#[path = "invariants_tests.rs"]
mod tests;
