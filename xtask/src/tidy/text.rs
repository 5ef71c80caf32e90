//! Every character is ASCII, no line of Rust is too long, and no path of one machine is kept.

use super::Finding;
use crate::source::Source;

/// The width to which rustfmt formats; it leaves strings and comments alone, and we do not.
const COLUMNS: usize = 100;

/// Top folders that a path of somebody's machine starts with. A path that users have, such as
/// one under /dev, /proc or /sys, is not meant.
const MACHINE_FOLDERS: &[&str] = &["farm", "home", "root", "work"];

/// The lines that are not ASCII, too long, or name a machine.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        for (index, line) in source.text.lines().enumerate() {
            let messages = [
                outside_ascii(line),
                source.rust.as_ref().and_then(|_| too_long(line)),
                machine_path(line),
            ];
            for message in messages.into_iter().flatten() {
                findings.push(Finding::new(source, index + 1, message));
            }
        }
    }
    findings
}

fn outside_ascii(line: &str) -> Option<String> {
    let character = line.chars().find(|c| !c.is_ascii())?;
    Some(format!("U+{:04X} is not ASCII", character as u32))
}

fn too_long(line: &str) -> Option<String> {
    let columns = line.chars().count();
    (columns > COLUMNS).then(|| format!("{columns} columns; at most {COLUMNS}"))
}

fn machine_path(line: &str) -> Option<String> {
    MACHINE_FOLDERS.iter().find_map(|folder| {
        let path = format!("/{folder}/");
        let starts_path = |at: usize| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        };
        line.match_indices(&path)
            .any(|(at, _)| starts_path(at))
            .then(|| format!("a path of one machine: {path}"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn characters_outside_ascii_are_found_in_every_file() {
        for path in ["a.rs", "a.md", "a.toml", "test"] {
            assert_eq!(
                found(check, &[(path, "fine\na\u{2014}b\n")]),
                [format!("{path}:2: U+2014 is not ASCII")]
            );
        }
    }

    #[test]
    fn long_lines_are_found_in_rust_only() {
        let longest = "x".repeat(COLUMNS);
        let longer = "x".repeat(COLUMNS + 1);
        assert_eq!(
            found(check, &[("a.rs", &longest), ("a.md", &longer)]).len(),
            0
        );
        assert_eq!(
            found(check, &[("a.rs", &longer)]),
            ["a.rs:1: 101 columns; at most 100"]
        );
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for folder in MACHINE_FOLDERS {
            let path = format!("/{folder}/me");
            for text in [path.clone(), format!("\"{path}\""), format!("cd {path}")] {
                assert_eq!(found(check, &[("test", &text)]).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn folders_of_the_repository_are_no_paths_of_a_machine() {
        for prefix in ["docs", "..", "a_b"] {
            let text = format!("{prefix}/{}/page", "work");
            assert_eq!(found(check, &[("a.md", &text)]).len(), 0, "{text}");
        }
    }
}
