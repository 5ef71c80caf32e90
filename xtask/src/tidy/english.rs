//! Pages for users are plain English: phrases of translated prose do not come back where they are
//! gone, and do not grow in number where they are not.

use super::{Finding, pages};
use crate::source::Source;

/// What not to write, each word with its alternatives, and what to write.
const PHRASES: &[(&str, &str)] = &[
    ("whoever|anybody|nobody|somebody", "name the actor"),
    (
        "beside",
        "compared with, next to, during, or in addition to",
    ),
    ("anew|shall|mend|mended|dear", "again, must, fix, expensive"),
    ("for ever", "forever, always"),
    ("by turns|turn", "alternately"),
    ("in vain", "without result"),
    (
        "mib|kib|gib|mb|gb|bytes|pages|requests|writes|reads|times|us a second|minute|call|page",
        "per",
    ),
    ("and not durable", "data that is not yet durable"),
    ("dirty of a|each|every|its", "dirty data of"),
    (
        "program|programs|server|cache|store|mount|kernel know|knows|hear|hears|believe|believes",
        "programs have, are told, or assume",
    ),
    ("what is|was dirty|needed|left|written", "name the thing"),
];

/// Pages for users, and how many of these phrases they may have. Lower a number that is not 0 when
/// you can: what remains are texts that programs print, and manuals.
const PLACES: &[(&str, usize)] = &[
    ("README.md", 0),
    ("docs/README.md", 0),
    ("docs/start/", 0),
    ("docs/guides/", 0),
    ("docs/explanation/", 0),
    ("docs/numbers/", 0),
    ("docs/changes/", 0),
    ("docs/demos/", 0),
    ("docs/reference/", 4),
    ("docs/man/", 6),
];

/// The phrases of the pages that have more than they may.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for &(place, most) in PLACES {
        let is_page = |it: &&Source| it.is_markdown() || it.path.ends_with(".1");
        let pages = sources.iter().filter(is_page);
        let pages = pages.filter(|it| it.path.starts_with(place));
        let found: Vec<Finding> = pages.flat_map(phrases).collect();
        if found.len() > most {
            findings.extend(found);
        }
    }
    findings
}

fn phrases(page: &Source) -> Vec<Finding> {
    let words: Vec<(usize, String)> = text(page)
        .iter()
        .flat_map(|(line, text)| {
            // Every other part is code.
            let prose = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
            let words = prose.to_lowercase();
            let words = words.split(|c: char| !c.is_alphanumeric() && c != '\'');
            let words: Vec<String> = words.filter(|it| !it.is_empty()).map(Into::into).collect();
            words.into_iter().map(|word| (*line, word))
        })
        .collect();
    let mut findings = Vec::new();
    for (phrase, instead) in PHRASES {
        let wanted: Vec<Vec<&str>> = phrase
            .split(' ')
            .map(|it| it.split('|').collect())
            .collect();
        for found in words.windows(wanted.len()) {
            let mut pairs = found.iter().zip(&wanted);
            if pairs.all(|((_, word), any)| any.contains(&word.as_str())) {
                let words: Vec<&str> = found.iter().map(|(_, word)| word.as_str()).collect();
                let message = format!("`{}`: write {instead}", words.join(" "));
                findings.push(Finding::new(page, found[0].0, message));
            }
        }
    }
    findings
}

/// The lines of prose of a page, or of a manual, whose macros begin with a dot.
fn text(page: &Source) -> Vec<(usize, &str)> {
    if page.is_markdown() {
        return pages::prose(page).collect();
    }
    let lines = page.text.lines().enumerate();
    let prose = lines.filter(|(_, line)| !line.starts_with('.'));
    prose.map(|(index, line)| (index + 1, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn a_phrase_is_found_in_any_form_and_over_the_end_of_a_line() {
        let page = "# A\nIt writes 30 MB a\nsecond. Whoever waits.\n";
        assert_eq!(
            found(check, &[("docs/guides/a.md", page)]),
            [
                "docs/guides/a.md:3: `whoever`: write name the actor",
                "docs/guides/a.md:2: `mb a second`: write per",
            ]
        );
        assert_eq!(found(check, &[("docs/decisions/a.md", page)]), [""; 0]);
    }

    #[test]
    fn code_and_macros_are_no_prose() {
        let page = "# A\n`beside`\n```text\nbeside\n```\n";
        assert_eq!(found(check, &[("docs/start/a.md", page)]), [""; 0]);
        let manual = ".It beside\nbeside\n";
        assert_eq!(found(check, &[("docs/start/a.1", manual)]).len(), 1);
    }

    #[test]
    fn older_pages_may_keep_what_they_have_and_get_no_more() {
        let (_, most) = PLACES[PLACES.len() - 1];
        let manual = |count: usize| "beside\n".repeat(count);
        assert_eq!(found(check, &[("docs/man/a.1", &manual(most))]), [""; 0]);
        assert_eq!(
            found(check, &[("docs/man/a.1", &manual(most + 1))]).len(),
            most + 1
        );
    }
}
