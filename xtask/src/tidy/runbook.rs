//! The runbook has an entry for every message that a server can print, and no other.
//!
//! A message is a string of at least four words, outside tests, in the files that make the lines
//! and errors of `serve nbd` and `mount`. No messages are the texts of assertions, of help and of
//! metrics, and what other programs say.

use super::Finding;
use crate::rust_text::line_at;
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

const RUNBOOK: &str = "docs/guides/runbook.md";

/// The folders and files with messages, without `.rs`.
const PLACES: &[(&str, &[&str])] = &[
    ("crates/forebay-cli/src/", &["daemon/", "serve/", "mount/"]),
    (
        "crates/forebay-bucket/src/",
        &[
            "addresses",
            "answers",
            "error",
            "folder",
            "following",
            "jobs",
            "linked",
            "opener",
            "places",
            "remote",
            "retrying_client",
            "services",
            "silence",
            "snapshots",
            "store",
        ],
    ),
    (
        "crates/forebay-engine/src/",
        &["trouble", "flow/submit", "flow/watched"],
    ),
    (
        "crates/forebay-fuse/src/",
        &["allocation", "losses", "mount", "settings"],
    ),
    ("crates/forebay-host/src/", &["step_error"]),
    (
        "crates/forebay-nbd/src/",
        &[
            "connection",
            "handshake",
            "opening",
            "pipeline",
            "private_socket",
            "server",
            "tls",
            "client/address",
            "client/conversation",
            "client/dialing",
            "client/greeting",
            "client/refusal",
            "client/trust",
            "client/worker",
        ],
    ),
    (
        "crates/forebay-store/src/",
        &["claims", "error", "files", "volume", "volume/files"],
    ),
    ("crates/forebay-volume/src/", &["fault"]),
];

/// Answers to requests, which the client shows.
const ANSWERS: &[&str] = &[
    "daemon/metrics",
    "daemon/control/answers",
    "daemon/control/request",
    "daemon/page",
];

/// What stands before a string that is no message.
const NO_MESSAGE: &[&str] = &[
    "expect(",
    "unreachable!(",
    "panic!(",
    "assert",
    "reason =",
    "after_help =",
    "Figure::new(",
];

/// What other programs say, which is looked for in their answers.
const FOREIGN: &[&str] = &[
    "416 Range Not Satisfiable",
    "Wanted range starting at",
    "not valid in the specified time frame",
];

/// The messages without an entry, and the entries without a message.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(runbook) = sources.iter().find(|source| source.path == RUNBOOK) else {
        return Vec::new();
    };
    let entries = entries(runbook);
    let mut findings = Vec::new();
    let mut known = BTreeSet::new();
    for source in sources.iter().filter(|source| has_messages(&source.path)) {
        for (line, message) in messages(source) {
            if !entries.contains_key(&message) {
                let text = format!("{RUNBOOK} has no entry for: {message}");
                findings.push(Finding::new(source, line, text));
            }
            known.insert(message);
        }
    }
    for (entry, line) in entries {
        if !known.contains(&entry) {
            let text = format!("no server prints this any more: {entry}");
            findings.push(Finding::new(runbook, line, text));
        }
    }
    findings
}

fn has_messages(path: &str) -> bool {
    let is_in = |folder: &str, parts: &[&str]| {
        let rest = path
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_suffix(".rs"));
        rest.is_some_and(|rest| {
            let is_part =
                |part: &&str| rest == *part || part.ends_with('/') && rest.starts_with(*part);
            parts.iter().any(is_part) && !ANSWERS.contains(&rest)
        })
    };
    PLACES.iter().any(|(folder, parts)| is_in(folder, parts))
}

/// The messages of a file, each with its line.
fn messages(source: &Source) -> Vec<(usize, String)> {
    let Some(rust) = &source.rust else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (start, string) in &rust.strings {
        let line = line_at(&source.text, *start);
        let message = plain(string);
        let is_long = message.split(' ').count() >= 4 && !FOREIGN.contains(&&*message);
        if is_long && !rust.is_test(line) && !explains_itself(&rust.code[..*start]) {
            found.push((line, message));
        }
    }
    found
}

/// Whether the string after `code` is no message.
fn explains_itself(code: &str) -> bool {
    let statement = code.rfind([';', '{', '}']).map_or(code, |at| &code[at..]);
    let is_open = |mark: &&str| {
        let after = statement.rfind(mark).map(|at| &statement[at..]);
        after.is_some_and(|after| {
            mark.ends_with('=') || after.matches('(').count() > after.matches(')').count()
        })
    };
    NO_MESSAGE.iter().any(is_open)
}

/// A string as a reader sees it, with three dots for what is filled in.
fn plain(string: &str) -> String {
    let mut text = String::new();
    let mut rest = string.replace("\\n", " ").replace("\\\"", "\"");
    // A line that ends with a backslash goes on after the blanks of the next one.
    while let Some((before, after)) = rest.split_once("\\\n") {
        rest = format!("{before}{}", after.trim_start());
    }
    let mut rest = &rest[..];
    while let Some((before, after)) = rest.split_once('{') {
        let Some((_, behind)) = after.split_once('}') else {
            break;
        };
        text.push_str(before);
        text.push_str("...");
        rest = behind;
    }
    text.push_str(rest);
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .join(" ")
        .trim_matches([' ', ';', ',', ':'])
        .to_owned()
}

/// The code in the first cell of each row of a table, with its line.
fn entries(page: &Source) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (index, line) in page.text.lines().enumerate() {
        let Some(row) = line.strip_prefix('|') else {
            continue;
        };
        let cell = row.split(" | ").next().unwrap_or_default();
        for entry in cell.split('`').skip(1).step_by(2) {
            found.insert(entry.to_owned(), index + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const CODE: &str = "fn a() {\n    say(format_args!(\n        \"{path}: no room is left \\\n\
                        \x20        there\"\n    ));\n    b.expect(\"it was made before\");\n    \
                        c(\"too short\");\n}\n#[cfg(test)]\nmod tests { const A: &str = \"not seen \
                        by a user\"; }\n";
    const FILE: &str = "crates/forebay-cli/src/daemon/say.rs";

    #[test]
    fn a_message_without_an_entry_is_found_and_an_entry_without_a_message() {
        let with = |page: &str| found(check, &[(RUNBOOK, page), (FILE, CODE)]);
        assert_eq!(
            with("| `...: no room is left there` | full | x |\n"),
            [""; 0]
        );
        let missing = with("# Runbook\n");
        let message = "docs/guides/runbook.md has no entry for: ...: no room is left there";
        assert_eq!(missing, [format!("{FILE}:3: {message}")]);
        let stale = with("| `...: no room is left there`<br>`it is gone` | `x y` | z |\n");
        assert_eq!(
            stale,
            [format!(
                "{RUNBOOK}:1: no server prints this any more: it is gone"
            )]
        );
    }

    #[test]
    fn other_files_and_answers_to_clients_have_no_messages() {
        for path in [
            "crates/forebay-cli/src/ask/why.rs",
            "crates/forebay-cli/src/daemon/metrics.rs",
        ] {
            assert_eq!(found(check, &[(RUNBOOK, "# R\n"), (path, CODE)]), [""; 0]);
        }
        assert!(has_messages("crates/forebay-nbd/src/client/worker.rs"));
        assert!(!has_messages(
            "crates/forebay-nbd/src/client/worker_tests.rs"
        ));
    }
}
