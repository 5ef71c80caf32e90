//! What can be wrong with a machine, and where.

use std::fmt;

/// Why there is no such machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// No machine has this name.
    #[error("there is no machine '{name}'; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names of those that ship, separated by commas.
        known: String,
    },
    /// The text is not a machine.
    #[error("{place}: {problem}")]
    Text {
        /// Where in the text.
        place: SourceLine,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// A size or a setting that this machine cannot have.
    #[error("machine '{machine}': {problem}")]
    Impossible {
        /// Its name.
        machine: String,
        /// What is wrong and what is allowed.
        problem: String,
    },
}

/// A line of a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The line.
    pub line: usize,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)
    }
}

impl SourceLine {
    /// The line in which byte `offset_bytes` of `text` is.
    pub fn of_offset(text: &str, offset_bytes: usize) -> SourceLine {
        let before = text.get(..offset_bytes).unwrap_or(text);
        SourceLine {
            line: 1 + before.matches('\n').count(),
        }
    }

    /// The line of `field` in the table of `text` that starts at `offset_bytes`; the table's own
    /// if it does not name the field.
    pub fn of_field(text: &str, offset_bytes: usize, field: &str) -> SourceLine {
        let start = offset_bytes.min(text.len());
        let names_it = |line: &str| {
            let line = line.trim_start();
            line.strip_prefix(field)
                .is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let table = text[start..].split_inclusive('\n').enumerate();
        let in_table = table.take_while(|(at, line)| *at == 0 || !line.starts_with('['));
        let mut offset = start;
        for (_, line) in in_table {
            if names_it(line) {
                return SourceLine::of_offset(text, offset);
            }
            offset += line.len();
        }
        SourceLine::of_offset(text, start)
    }
}

/// The same for the value at byte `offset_bytes` of `text`, with the name of its field in front: a
/// line may have several.
pub(crate) fn explained_in(text: &str, offset_bytes: usize, message: &str) -> String {
    let explained = explained(message);
    match field_at(text, offset_bytes) {
        Some(field) => format!("'{field}': {explained}"),
        None => explained,
    }
}

/// The key whose value is at byte `offset_bytes`.
fn field_at(text: &str, offset_bytes: usize) -> Option<&str> {
    let before = text.get(..offset_bytes)?.trim_end();
    let key = before.strip_suffix('=')?.trim_end();
    let is_of_key = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let start = key.trim_end_matches(is_of_key).len();
    let key = &key[start..];
    (!key.is_empty()).then_some(key)
}

/// The message of the TOML reader, with what is allowed instead of a type of this program.
pub(crate) fn explained(message: &str) -> String {
    const TYPES: [(&str, &str); 4] = [
        ("u64", "a whole number from 0 on"),
        ("usize", "a whole number from 0 on"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("f64", "a number"),
    ];
    let known = TYPES.iter().find_map(|(name, allowed)| {
        let said = message.strip_suffix(name)?.strip_suffix("expected ")?;
        Some(format!("{said}expected {allowed}"))
    });
    known.unwrap_or_else(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_reported_as_what_is_allowed() {
        let reported = explained("invalid value: integer `-80`, expected u64");
        assert_eq!(
            reported,
            "invalid value: integer `-80`, expected a whole number from 0 on"
        );
        assert_eq!(explained("missing field `name`"), "missing field `name`");
    }

    #[test]
    fn a_value_is_reported_with_the_name_of_its_field() {
        let text = "a = 1\nqueue = { requests = 0, batch = true }\n[[zones]]\n";
        let at = |what: &str| text.find(what).expect("it is there");
        let named = |offset| explained_in(text, offset, "expected u64");
        assert_eq!(
            named(at("0,")),
            "'requests': expected a whole number from 0 on"
        );
        assert!(named(at("true")).starts_with("'batch': "));
        assert!(named(at("{ req")).starts_with("'queue': "));
        // A key, and a table of its own, is no value.
        assert_eq!(named(at("batch")), "expected a whole number from 0 on");
        assert_eq!(named(at("[[")), "expected a whole number from 0 on");
        assert_eq!(named(usize::MAX), "expected a whole number from 0 on");
    }

    #[test]
    fn a_field_is_found_in_its_table_alone() {
        let text = "name = 1\n[[a]]\nsize = 2\n[[b]]\nsize = 3\nrate = 4\n";
        let b = text.find("[[b]]").expect("it is there");
        assert_eq!(SourceLine::of_field(text, b, "size").line, 5);
        assert_eq!(SourceLine::of_field(text, b, "rate").line, 6);
        let a = text.find("[[a]]").expect("it is there");
        assert_eq!(SourceLine::of_field(text, a, "rate").line, 2);
        assert_eq!(SourceLine::of_offset(text, 0).line, 1);
    }
}
