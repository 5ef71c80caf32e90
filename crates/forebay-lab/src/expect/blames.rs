//! The expectation that a process waited, and that a planted culprit is named.

use crate::outcome::Waited;
use crate::scenario::ScenarioError;
use forebay_engine::why::Suspect;
use serde::Deserialize;
use std::fmt;

/// Who or what is to blame for the waits of a process.
#[derive(Clone, Debug)]
pub(super) struct Blames {
    victim: String,
    cause: Suspect,
    /// The other process that is to blame, or the file system for which the victim waited.
    culprit: Option<String>,
}

/// Its form in a scenario's text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlamesText {
    victim: String,
    cause: String,
    culprit: Option<String>,
}

impl BlamesText {
    /// The expectation of this text. `name` refuses names that are not known, by what they name.
    pub(super) fn check(
        &self,
        processes: &[String],
        stores: &[String],
        name: impl Fn(&str, &str, &[String]) -> Result<String, ScenarioError>,
    ) -> Result<Blames, ScenarioError> {
        let causes = Suspect::ALL.map(|suspect| suspect.name().to_owned());
        let cause = name("cause", &self.cause, &causes)?;
        let cause = Suspect::ALL.into_iter().find(|it| it.name() == cause);
        let culprits = [processes, stores].concat();
        let culprit = self.culprit.as_ref();
        let culprit = culprit.map(|it| name("culprit", it, &culprits));
        Ok(Blames {
            victim: name("process", &self.victim, processes)?,
            cause: cause.expect("the name was found among theirs"),
            culprit: culprit.transpose()?,
        })
    }
}

impl fmt::Display for Blames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (victim, cause) = (&self.victim, self.cause.name());
        write!(f, "'{cause}' is to blame for the waits of {victim}")?;
        match &self.culprit {
            Some(culprit) => write!(f, ", and {culprit} is named"),
            None => Ok(()),
        }
    }
}

impl Blames {
    /// Whether the victim's line blames the cause and the culprit, and the first line names the
    /// culprit; and what was found.
    pub(super) fn verdict(&self, waited: &[Waited]) -> (bool, String) {
        let Some(first) = waited.first() else {
            return (false, "nobody waited".into());
        };
        // A caller has a line for each store; the one with the longest wait comes first.
        let line = waited.iter().find(|line| line.caller == self.victim);
        let Some(line) = line else {
            return (false, format!("{} did not wait; {first}", self.victim));
        };
        let names = |line: &Waited| match &self.culprit {
            None => line.caller == self.victim,
            Some(culprit) => [
                Some(&line.caller),
                line.store.as_ref(),
                line.culprit.as_ref(),
            ]
            .into_iter()
            .flatten()
            .any(|name| name == culprit),
        };
        let is_blamed = line.is_clear && line.cause == self.cause.name();
        let found = if line == first {
            line.to_string()
        } else {
            format!("{line}; first {first}")
        };
        (is_blamed && names(line) && names(first), found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(caller: &str, cause: Suspect, culprit: Option<&str>) -> Waited {
        Waited {
            caller: caller.into(),
            store: Some("data".into()),
            waited_ms: 5.0,
            cause: cause.name().into(),
            is_clear: true,
            culprit: culprit.map(Into::into),
        }
    }

    fn blames(culprit: Option<&str>) -> Blames {
        Blames {
            victim: "log".into(),
            cause: Suspect::OthersDirty,
            culprit: culprit.map(Into::into),
        }
    }

    #[test]
    fn the_victim_s_line_blames_and_the_first_one_names_the_culprit() {
        let light = line("log", Suspect::OthersDirty, Some("backup"));
        let heavy = line("backup", Suspect::OwnRate, None);
        let both = [heavy.clone(), light.clone()];
        assert!(blames(Some("backup")).verdict(&both).0);
        assert!(
            blames(Some("backup"))
                .verdict(std::slice::from_ref(&light))
                .0
        );
        assert!(blames(Some("data")).verdict(&both).0);
        // The first line is about somebody else, or the victim's line blames another one.
        let stranger = line("reader", Suspect::StoreRead, None);
        let lines = [stranger, light.clone()];
        assert!(!blames(Some("backup")).verdict(&lines).0);
        assert!(!blames(None).verdict(&both).0);
        assert!(!blames(Some("reader")).verdict(&both).0);
        let wrong = [line("log", Suspect::OwnRate, Some("backup"))];
        assert!(!blames(Some("backup")).verdict(&wrong).0);
        let unclear = Waited {
            is_clear: false,
            ..light
        };
        assert!(!blames(None).verdict(&[unclear]).0);
        assert_eq!(blames(None).verdict(&[]), (false, "nobody waited".into()));
        let (held, found) = blames(None).verdict(&[heavy]);
        assert!(!held && found.contains("log did not wait"), "{found}");
    }
}
