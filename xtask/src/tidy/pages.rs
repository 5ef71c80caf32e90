//! Every page has one title, no link leads nowhere, the first page stays short, and the code map
//! names every crate.

use super::Finding;
use crate::source::Source;
use std::collections::BTreeSet;

/// The page that a newcomer reads first, and the words that it may have.
const FIRST_PAGE: (&str, usize) = ("README.md", 700);

/// The page that names every crate.
const CODE_MAP: &str = "ARCHITECTURE.md";

/// The contents of the site, in which each part has a title.
const CONTENTS: &str = "docs/SUMMARY.md";

/// The pages with no title or several, and the relative links to files that are not there.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut places = BTreeSet::new();
    for source in sources {
        let mut place = source.path.as_str();
        places.insert(place);
        while let Some((folder, _)) = place.rsplit_once('/') {
            places.insert(folder);
            place = folder;
        }
    }
    let mut findings = Vec::new();
    for page in sources.iter().filter(|source| source.is_markdown()) {
        if page.path != CONTENTS {
            findings.extend(check_titles(page));
        }
        findings.extend(check_length(page));
        findings.extend(check_links(page, &places));
        if page.path == CODE_MAP {
            findings.extend(check_code_map(page, sources));
        }
    }
    findings
}

fn check_titles(page: &Source) -> Option<Finding> {
    let is_title = |(_, line): &(usize, &str)| line.starts_with("# ");
    let titles: Vec<usize> = prose(page).filter(is_title).map(|(line, _)| line).collect();
    match titles.as_slice() {
        [] => Some(Finding::new(page, 1, "a page has a title")),
        [_] => None,
        [_, second, ..] => Some(Finding::new(page, *second, "a page has one title only")),
    }
}

fn check_length(page: &Source) -> Option<Finding> {
    let (path, most) = FIRST_PAGE;
    let words = page.text.split_whitespace().count();
    (page.path == path && words > most).then(|| {
        let message = format!("{words} words; a newcomer reads at most {most}");
        Finding::new(page, 1, message)
    })
}

fn check_links(page: &Source, places: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in prose(page) {
        for target in targets(text) {
            let file = target.split('#').next().unwrap_or_default();
            let is_elsewhere = file.contains("://") || file.starts_with("mailto:");
            if file.is_empty() || is_elsewhere {
                continue;
            }
            let found = resolve(&page.path, file).is_some_and(|p| places.contains(p.as_str()));
            if !found {
                findings.push(Finding::new(page, line, format!("{file} is not there")));
            }
        }
    }
    findings
}

/// The crates that the code map does not name; a longer name that starts with theirs is another.
fn check_code_map(map: &Source, sources: &[Source]) -> Vec<Finding> {
    let named: BTreeSet<&str> = map
        .text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .collect();
    let crates = sources.iter().filter_map(|source| {
        let path = source.path.strip_suffix("/Cargo.toml")?;
        path.rsplit('/').next()
    });
    crates
        .filter(|name| !named.contains(name))
        .map(|name| Finding::new(map, 1, format!("the code map does not name {name}")))
        .collect()
}

/// The lines of a page outside its code blocks, counted from 1.
pub(super) fn prose(page: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    page.text
        .lines()
        .enumerate()
        .filter_map(move |(index, line)| {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            (!in_code && !is_fence).then_some((index + 1, line))
        })
}

/// Where the links and pictures of a line lead, inline ones and definitions alike.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next());
    let is_definition = line.starts_with('[') && !line.starts_with("[^");
    let definition = line.split_once("]: ").filter(|_| is_definition);
    let defined = definition.and_then(|(_, rest)| rest.split_whitespace().next());
    inline.chain(defined)
}

/// The path from the root of the repository that `link` on `page` means.
fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn a_page_has_one_title() {
        let none = "text\n## part\n";
        let two = "# a\n\n# b\n";
        assert_eq!(
            found(check, &[("a.md", none)]),
            ["a.md:1: a page has a title"]
        );
        assert_eq!(
            found(check, &[("a.md", two)]),
            ["a.md:3: a page has one title only"]
        );
        assert_eq!(found(check, &[(CONTENTS, two)]), [""; 0]);
    }

    #[test]
    fn a_comment_in_a_code_block_is_no_title() {
        let page = "# a\n```sh\n# install\n[x](gone.md)\n```\n";
        assert_eq!(found(check, &[("a.md", page)]), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = "# a\n[x](gone.md), [y](../up.md#z)\n\n[z]: lost/\n";
        assert_eq!(
            found(check, &[("docs/a.md", page)]),
            [
                "docs/a.md:2: gone.md is not there",
                "docs/a.md:2: ../up.md is not there",
                "docs/a.md:4: lost/ is not there",
            ]
        );
    }

    #[test]
    fn links_to_files_folders_parts_and_other_places_hold() {
        let page = "# a\n[x](b.md) [y](../crates/) [z](#part) [w](https://example.org/q)\n";
        let files = [
            ("docs/a.md", page),
            ("docs/b.md", "# b\n"),
            ("crates/c/src/lib.rs", ""),
        ];
        assert_eq!(found(check, &files), [""; 0]);
    }

    #[test]
    fn a_first_page_that_is_too_long_is_found() {
        let page = |words: usize| format!("# a\n{}\n", "word ".repeat(words - 2));
        let (fits, long) = (page(700), page(701));
        assert_eq!(found(check, &[("README.md", &fits)]), [""; 0]);
        assert_eq!(
            found(check, &[("README.md", &long)]),
            ["README.md:1: 701 words; a newcomer reads at most 700"]
        );
        assert_eq!(found(check, &[("docs/README.md", &long)]), [""; 0]);
    }

    #[test]
    fn a_crate_that_the_code_map_does_not_name_is_found() {
        let with_map = |map: &str| {
            let crates = ["crates/forebay/Cargo.toml", "crates/forebay-rt/Cargo.toml"];
            found(check, &[(crates[0], ""), (crates[1], ""), (CODE_MAP, map)])
        };
        assert_eq!(
            with_map("# Map\n`forebay-rt`\n"),
            ["ARCHITECTURE.md:1: the code map does not name forebay"]
        );
        assert_eq!(with_map("# Map\n`forebay-rt`, `forebay`\n"), [""; 0]);
    }
}
