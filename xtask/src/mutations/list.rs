//! The lists of mutations: `mutations.toml`, and `mutations-blind.toml`, which was written without
//! reading the oracles.

use serde::Deserialize;

/// Where the list is, from the root of the repository.
pub(crate) const PATH: &str = "mutations.toml";
/// Where the list is that was written without reading the oracles.
pub(crate) const BLIND_PATH: &str = "mutations-blind.toml";

/// One small wrong change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutation {
    pub(crate) name: String,
    /// The file that it changes, from the root of the repository.
    pub(crate) file: String,
    /// What no longer holds.
    pub(crate) breaks: String,
    /// Text that occurs once in the file, and what it becomes.
    pub(crate) before: String,
    pub(crate) after: String,
    /// What has to notice it.
    #[serde(default)]
    pub(crate) seen_by: SeenBy,
}

/// What has to notice a mutation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SeenBy {
    /// A seed of the swarm.
    #[default]
    Swarm,
    /// An order of the explored schedules: the mutation shows only between two steps of two
    /// threads, or only until a bound ends a wait.
    Schedules,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    mutation: Vec<Mutation>,
}

/// The mutations of the list `text`, or why it cannot be read.
pub(crate) fn parse(text: &str) -> Result<Vec<Mutation>, String> {
    let list: List = toml::from_str(text).map_err(|error| error.to_string())?;
    Ok(list.mutation)
}

impl Mutation {
    /// `text`, the content of its file, with the change made. None unless the text to be changed
    /// occurs exactly once.
    pub(crate) fn apply(&self, text: &str) -> Option<String> {
        let mut found = text.match_indices(&self.before);
        let (at, _) = found.next()?;
        let is_once = found.next().is_none() && !self.before.is_empty();
        is_once.then(|| {
            let rest = &text[at + self.before.len()..];
            format!("{}{}{rest}", &text[..at], self.after)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutation(before: &str, after: &str) -> Mutation {
        Mutation {
            name: "a".into(),
            file: "a.rs".into(),
            breaks: "b".into(),
            before: before.into(),
            after: after.into(),
            seen_by: SeenBy::Swarm,
        }
    }

    #[test]
    fn what_is_there_once_is_replaced() {
        let changed = mutation("b", "xy").apply("abc");
        assert_eq!(changed.as_deref(), Some("axyc"));
    }

    #[test]
    fn what_is_not_there_once_is_left_alone() {
        for before in ["d", "a", ""] {
            assert_eq!(mutation(before, "x").apply("aba"), None, "{before:?}");
        }
    }

    #[test]
    fn a_list_is_read_and_a_field_that_it_does_not_know_is_reported() {
        let text = "[[mutation]]\nname = \"a\"\nfile = \"a.rs\"\nbreaks = \"b\"\n\
                    before = '''\nc\n'''\nafter = ''\n";
        assert_eq!(parse(text), Ok(vec![mutation("c\n", "")]));
        let unknown = format!("{text}befor = ''\n");
        assert!(parse(&unknown).is_err_and(|message| message.contains("befor")));
    }
}
