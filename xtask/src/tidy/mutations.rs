//! The mutations still fit the code: each text that one of them changes is there exactly once.

use super::Finding;
use crate::mutations::{BLIND_PATH, Mutation, PATH, parse};
use crate::source::Source;

/// The mutations that cannot be made, that change nothing, or that share a name.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let is_list = |source: &&Source| [PATH, BLIND_PATH].contains(&source.path.as_str());
    let lists = sources.iter().filter(is_list);
    lists.flat_map(|list| check_list(sources, list)).collect()
}

fn check_list(sources: &[Source], list: &Source) -> Vec<Finding> {
    let mutations = match parse(&list.text) {
        Ok(mutations) => mutations,
        Err(message) => return vec![Finding::new(list, 1, message)],
    };
    let mut findings = Vec::new();
    for (at, mutation) in mutations.iter().enumerate() {
        let is_twice = mutations[..at].iter().any(|of| of.name == mutation.name);
        let wrong = if is_twice {
            Some("another mutation has this name".to_owned())
        } else {
            what_is_wrong(sources, mutation)
        };
        let name = format!("name = \"{}\"", mutation.name);
        let line = list.text.lines().position(|line| line == name);
        findings.extend(wrong.map(|wrong| {
            let message = format!("{}: {wrong}", mutation.name);
            Finding::new(list, line.map_or(1, |index| index + 1), message)
        }));
    }
    findings
}

fn what_is_wrong(sources: &[Source], mutation: &Mutation) -> Option<String> {
    let Mutation { file, .. } = mutation;
    let Some(source) = sources.iter().find(|source| source.path == *file) else {
        return Some(format!("there is no {file}"));
    };
    match mutation.apply(&source.text) {
        None => Some(format!("its text is not exactly once in {file}")),
        Some(changed) if changed == source.text => Some("it changes nothing".to_owned()),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn list(changes: &[(&str, &str, &str)]) -> String {
        let one = |(name, before, after): &(&str, &str, &str)| {
            format!(
                "[[mutation]]\nname = \"{name}\"\nfile = \"a.rs\"\nbreaks = \"b\"\n\
                 before = '{before}'\nafter = '{after}'\n"
            )
        };
        changes.iter().map(one).collect()
    }

    fn messages(changes: &[(&str, &str, &str)]) -> Vec<String> {
        found(check, &[(PATH, &list(changes)), ("a.rs", "fn a() { b() }")])
    }

    #[test]
    fn a_mutation_that_fits_is_left_alone() {
        assert_eq!(messages(&[("one", "b()", "c()")]), [""; 0]);
    }

    #[test]
    fn what_does_not_fit_is_found_where_it_is_named() {
        let wrong = [("gone", "c()", ""), ("twice", "()", ""), ("same", "b", "b")];
        for change in wrong {
            let found = messages(&[("one", "b()", "c()"), change]);
            let [message] = &found[..] else {
                panic!("{change:?}: {found:?}");
            };
            assert!(
                message.starts_with(&format!("{PATH}:8: {}", change.0)),
                "{message}"
            );
        }
        assert_eq!(messages(&[("one", "b", "c"), ("one", "b", "d")]).len(), 1);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_found() {
        assert_eq!(found(check, &[(PATH, "[[mutation]]\nname = 1\n")]).len(), 1);
    }
}
