//! What is cited of the specification is there: spec/reclaim.md 2.9 is a heading of that page.

use super::Finding;
use crate::rust_text::line_at;
use crate::source::Source;
use std::collections::BTreeMap;

/// Where the specification is.
const FOLDER: &str = "docs/spec/";
/// What a citation starts with, the case of its first letter aside.
const START: &str = "spec/";
/// The bytes after the name of a page in which its sections are looked for.
const REACH: usize = 200;

/// The citations that lead nowhere.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let pages: BTreeMap<&str, &str> = sources
        .iter()
        .filter_map(|source| Some((source.path.strip_prefix(FOLDER)?, source.text.as_str())))
        .collect();
    let mut findings = Vec::new();
    for source in sources {
        for (at, cited) in citations(&source.text) {
            let mut find = |what: String| {
                let line = line_at(&source.text, at);
                findings.push(Finding::new(source, line, what));
            };
            let Some(page) = pages.get(cited.page) else {
                find(format!("{START}{} is not in {FOLDER}", cited.page));
                continue;
            };
            for place in cited.places.iter().filter(|place| !has(page, place)) {
                find(format!("{START}{} has no {place}", cited.page));
            }
        }
    }
    findings
}

/// A page, and the sections and rows of it that are cited.
struct Citation<'a> {
    page: &'a str,
    places: Vec<&'a str>,
}

/// The citations in `text` and where each begins.
fn citations(text: &str) -> impl Iterator<Item = (usize, Citation<'_>)> {
    let starts = text.match_indices(&START[1..]);
    starts.filter_map(|(after_first, _)| {
        let at = after_first.checked_sub(1)?;
        let is_start = matches!(text.as_bytes()[at], b's' | b'S');
        // A longer path is a link, which is checked as one.
        let is_longer = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
        if !is_start || is_longer {
            return None;
        }
        let rest = &text[at + START.len()..];
        let end = rest.find(".md")? + ".md".len();
        let page = &rest[..end];
        let is_name = page.bytes().all(|b| b.is_ascii_lowercase() || b == b'.');
        let places = places(rest.get(end..)?);
        is_name.then_some((at, Citation { page, places }))
    })
}

/// The sections and rows at the start of `rest`, the text after the name of a page.
fn places(rest: &str) -> Vec<&str> {
    let rest = &rest[..rest.floor_char_boundary(REACH)];
    let mut found = Vec::new();
    for word in rest.split_whitespace() {
        let place = word.trim_start_matches('(');
        let length = place.bytes().take_while(|&b| is_of_place(b)).count();
        let place = place[..length].trim_end_matches('.');
        match word {
            // What stands between two places, or begins a line of a comment.
            "," | "and" | "to" | "or" | "of" | "section" | "sections" | "rows" | "//!" | "///"
            | "//" | "#" => {}
            _ if is_place(place) => found.push(place),
            _ => break,
        }
        if word.ends_with(['.', ')', ':', ';']) {
            break;
        }
    }
    found
}

fn is_of_place(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'.'
}

/// Whether this is a number, such as 2.9, or a letter and a number, such as T7.
fn is_place(word: &str) -> bool {
    let number = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
    word.len() - number.len() <= 1
        && !number.is_empty()
        && number.split('.').all(|part| {
            !part.is_empty() && part.len() <= 2 && part.bytes().all(|b| b.is_ascii_digit())
        })
}

/// Whether `page` has a heading of this number, or anywhere a row of this name.
fn has(page: &str, place: &str) -> bool {
    let named = |line: &str| {
        let number = line.split_whitespace().nth(1);
        number.is_some_and(|number| number.trim_end_matches('.') == place)
    };
    if place.starts_with(|c: char| c.is_ascii_digit()) {
        return page
            .lines()
            .any(|line| line.starts_with('#') && named(line));
    }
    page.split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .any(|word| word.trim_end_matches('.') == place)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const PAGE: (&str, &str) = (
        "docs/spec/law.md",
        "# Law\n\n## 1. Lists\n\n### 1.2 Scan\n\n| T7 | text of 9.9 |\n\n### W3. Copy\n",
    );

    fn of(citation: &str) -> Vec<String> {
        let text = format!("// See.\n// {citation}\n").replace("S!", START);
        let found = found(check, &[PAGE, ("a.rs", &text)]);
        // So that this file cites nothing itself.
        found
            .iter()
            .map(|message| message.replace(START, "S!"))
            .collect()
    }

    #[test]
    fn a_section_that_is_not_there_is_found() {
        for citation in [
            "S!law.md 9.9",
            "(S!law.md 9.9).",
            "S!law.md section 9.9",
            "S!law.md\n/// 9.9, and more",
            "S!law.md 1.2 and 9.9",
            "S!law.md 1 to 9.9",
            "S!law.md 1.2, T7, 9.9",
            "S!law.md 9.9. The rest is ours",
        ] {
            let expected = ["a.rs:2: S!law.md has no 9.9"];
            assert_eq!(of(citation), expected, "{citation}");
            assert_eq!(of(&citation.replace("S!", "Spec/")), expected, "{citation}");
        }
    }

    #[test]
    fn a_page_or_a_row_that_is_not_there_is_found() {
        assert_eq!(of("S!none.md 1.2"), ["a.rs:2: S!none.md is not in docs/S!"]);
        assert_eq!(of("S!law.md 1.2, T8"), ["a.rs:2: S!law.md has no T8"]);
        assert_eq!(of("S!law.md W4"), ["a.rs:2: S!law.md has no W4"]);
    }

    #[test]
    fn what_is_there_passes() {
        for citation in [
            "S!law.md",
            "S!law.md 1",
            "S!law.md 1.2.",
            "(S!law.md 1 and 1.2): 77 pages",
            "S!law.md 1.2, T7 and W3",
            "S!law.md, rows T7",
            "S!law.md 1.2: 40 pages",
            "S!law.md 1.2 h, 9.9",
            "[law](../docs/S!other.md) 9.9",
            "the linux-S!law 9.9",
        ] {
            assert_eq!(of(citation), [""; 0], "{citation}");
        }
    }
}
