//! The text of a file as a list of keys with their values and lines.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Something is wrong in this line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) line: usize,
    pub(super) problem: String,
}

/// A value, as far as flags and knobs can have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Text(String),
    Count(u64),
    Flag(bool),
    /// A number that no flag and no knob can have, a list, a date.
    Other,
    /// A section begins, or an item of a list of sections.
    Section,
}

/// A key with its sections, as `store.0.max_ratio`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) given: Given,
    /// The value as it was typed.
    pub(super) typed: String,
    pub(super) line: usize,
}

/// The entries of `text`, in its order.
pub(super) fn entries(text: &str) -> Result<Vec<Entry>, Wrong> {
    let mut reader = Reader {
        text,
        entries: Vec::new(),
    };
    let table = DeTable::parse(text).map_err(|error| Wrong {
        line: reader.line_of(error.span().map_or(0, |span| span.start)),
        problem: error.message().trim().replace('\n', "; "),
    })?;
    reader.read("", table.get_ref())?;
    reader.entries.sort_by_key(|entry| entry.0);
    let entries = reader.entries.into_iter();
    Ok(entries.map(|(_, entry)| entry).collect())
}

struct Reader<'t> {
    text: &'t str,
    /// Each with the place at which it begins.
    entries: Vec<(usize, Entry)>,
}

impl Reader<'_> {
    fn line_of(&self, offset_bytes: usize) -> usize {
        let before = self.text.get(..offset_bytes).unwrap_or(self.text);
        1 + before.matches('\n').count()
    }

    fn read(&mut self, section: &str, table: &DeTable<'_>) -> Result<(), Wrong> {
        for (name, value) in table {
            let start = name.span().start;
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
            if name.get_ref().is_empty() || !name.get_ref().chars().all(is_plain) {
                return Err(Wrong {
                    line: self.line_of(start),
                    problem: format!("unknown key {:?}", name.get_ref()),
                });
            }
            let dot = if section.is_empty() { "" } else { "." };
            let key = format!("{section}{dot}{}", name.get_ref());
            self.read_value(&key, start, value)?;
        }
        Ok(())
    }

    fn read_value(
        &mut self,
        key: &str,
        start: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Wrong> {
        let sections = match value.get_ref() {
            DeValue::Table(table) => vec![(start, table)],
            DeValue::Array(items) => {
                let section = |item: &'_ Spanned<DeValue<'_>>| item.get_ref().is_table();
                if items.is_empty() || !items.iter().all(section) {
                    self.push(key, Given::Other, start, value);
                    return Ok(());
                }
                let tables = items.iter().filter_map(|item| {
                    let table = item.get_ref().as_table()?;
                    Some((item.span().start, table))
                });
                tables.collect()
            }
            plain => {
                let given = given(plain);
                self.push(key, given, start, value);
                return Ok(());
            }
        };
        for (start, table) in sections {
            self.push(key, Given::Section, start, value);
            self.read(key, table)?;
        }
        Ok(())
    }

    fn push(&mut self, key: &str, given: Given, start: usize, value: &Spanned<DeValue<'_>>) {
        let typed = self.text.get(value.span()).unwrap_or_default();
        let entry = Entry {
            key: key.to_owned(),
            given,
            typed: typed.lines().next().unwrap_or_default().to_owned(),
            line: self.line_of(start),
        };
        self.entries.push((start, entry));
    }
}

fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.to_string()),
        DeValue::Boolean(flag) => Given::Flag(*flag),
        DeValue::Integer(number) => {
            let count = u64::from_str_radix(number.as_str(), number.radix());
            count.map_or(Given::Other, Given::Count)
        }
        _ => Given::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<(String, Given, usize)> {
        let entries = entries(text).unwrap().into_iter();
        entries
            .map(|entry| (entry.key, entry.given, entry.line))
            .collect()
    }

    #[test]
    fn entries_come_in_their_order_with_their_lines() {
        let text = "z = 'last letter'\nb = 0x10\n\n[[nbd.export]]\npath = 'p'\n[[nbd.export]]\n\
                    store.0.strict_limit = true\n";
        let expected = [
            ("z", Given::Text("last letter".into()), 1),
            ("b", Given::Count(16), 2),
            ("nbd.export", Given::Section, 4),
            ("nbd.export.path", Given::Text("p".into()), 5),
            ("nbd.export", Given::Section, 6),
            ("nbd.export.store.0.strict_limit", Given::Flag(true), 7),
        ];
        let found = keys(text);
        let plain = found
            .iter()
            .filter(|(key, given, _)| *given != Given::Section || key == "nbd.export");
        let expected = expected.map(|(key, given, line)| (key.to_owned(), given, line));
        assert_eq!(plain.cloned().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_no_flag_can_be_is_kept_for_its_refusal() {
        for value in [
            "-1",
            "1.5",
            "18446744073709551616",
            "[]",
            "[1]",
            "1979-05-27",
        ] {
            let found = entries(&format!("a = {value}")).unwrap();
            assert_eq!((&found[0].given, &*found[0].typed), (&Given::Other, value));
        }
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        for (text, line) in [
            ("a = 1\na = 2\n", 2),
            ("a = 1\n\n[b\n", 3),
            ("a", 1),
            ("a = \"", 1),
            ("\n'x.y' = 1", 2),
            ("\"\" = 1", 1),
        ] {
            assert_eq!(entries(text).unwrap_err().line, line, "{text}");
        }
    }
}
