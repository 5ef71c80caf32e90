//! Nothing is left unfinished: no placeholder, no note to self, no test that is switched off.

use super::Finding;
use crate::rust_text::words;
use crate::source::Source;

const UNFINISHED: &[(&str, &str)] = &[
    ("todo!", "a placeholder: write it"),
    ("unimplemented!", "a placeholder: write it"),
    (
        "#[ignore",
        "an ignored test proves nothing: mend it or remove it",
    ),
];
const NOTES: &[&str] = &["FIXME", "TODO", "XXX"];

/// The placeholders, notes and ignored tests of the Rust files, and the notes of all others.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let notes = source
            .rust
            .as_ref()
            .map_or(&source.text, |rust| &rust.comments);
        for (line, word) in words(notes) {
            if NOTES.contains(&word) {
                findings.push(Finding::new(source, line, format!("{word}: finish it")));
            }
        }
        let code = source.rust.iter().flat_map(|rust| rust.code.lines());
        for (index, line) in code.enumerate() {
            let unfinished = UNFINISHED.iter().filter(|(mark, _)| line.contains(mark));
            let found = |(_, message): &(_, &str)| Finding::new(source, index + 1, *message);
            findings.extend(unfinished.map(found));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn placeholders_and_ignored_tests_are_found() {
        for code in [
            "fn a() { todo!() }",
            "fn a() { unimplemented!(\"b\") }",
            "#[ignore]",
            "#[ignore = \"slow\"]",
        ] {
            assert_eq!(found(check, &[("a.rs", code)]).len(), 1, "{code}");
        }
    }

    #[test]
    fn notes_are_found_in_comments_pages_and_scripts() {
        for note in NOTES {
            let text = format!("// {note}: later\n");
            for path in ["a.rs", "a.md", "test", "a.toml"] {
                assert_eq!(found(check, &[(path, &text)]).len(), 1, "{path} {note}");
            }
        }
    }

    #[test]
    fn strings_and_longer_words_are_left_alone() {
        let code = "let a = \"todo!() FIXME\"; // nameXXXXXX\n";
        assert_eq!(found(check, &[("a.rs", code)]), [""; 0]);
    }
}
