//! The survivors of mutation testing still fit the code: each line that the list names is there.

use super::Finding;
use crate::mutants::{PATH, Survivor, parse};
use crate::source::Source;

/// The survivors whose line is not in their file, and those that do not say why they may live.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(list) = sources.iter().find(|source| source.path == PATH) else {
        return Vec::new();
    };
    let survivors = match parse(&list.text) {
        Ok(survivors) => survivors,
        Err(message) => return vec![Finding::new(list, 1, message)],
    };
    let heads = list.text.lines().enumerate();
    let heads = heads.filter(|(_, line)| *line == "[[survivor]]");
    let placed = heads.zip(&survivors);
    let wrong = placed.filter_map(|((index, _), survivor)| {
        let wrong = what_is_wrong(sources, survivor)?;
        let message = format!("{}: {}: {wrong}", survivor.file, survivor.mutation);
        Some(Finding::new(list, index + 1, message))
    });
    wrong.collect()
}

fn what_is_wrong(sources: &[Source], survivor: &Survivor) -> Option<&'static str> {
    let mut files = sources.iter();
    let Some(source) = files.find(|source| source.path == survivor.file) else {
        return Some("there is no such file");
    };
    if survivor.why.trim().is_empty() {
        return Some("it does not say why it may live");
    }
    let mut lines = source.text.lines();
    let is_there = lines.any(|line| line.trim() == survivor.line);
    (!is_there).then_some("its line is not there: try the mutant again")
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn messages(file: &str, line: &str, why: &str) -> Vec<String> {
        let list = format!(
            "[[survivor]]\nfile = '{file}'\nmutation = 'm'\nline = '{line}'\n\
             reason = 'equivalent'\nwhy = '{why}'\n"
        );
        found(check, &[(PATH, &list), ("a.rs", "fn a() {\n    b()\n}")])
    }

    #[test]
    fn a_survivor_that_fits_is_left_alone_and_others_are_found() {
        assert_eq!(messages("a.rs", "b()", "c"), [""; 0]);
        for (file, line, why) in [
            ("b.rs", "b()", "c"),
            ("a.rs", "c()", "c"),
            ("a.rs", "b()", " "),
        ] {
            assert_eq!(messages(file, line, why).len(), 1, "{file} {line} {why}");
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_is_found() {
        assert_eq!(found(check, &[(PATH, "[[survivor]]\nfile = 1\n")]).len(), 1);
    }
}
