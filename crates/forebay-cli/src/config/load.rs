//! A file, checked key by key, and what it means for a server.

use super::keys::{EXPORT, FRONTS, Flag, Front, Keys, export_key, plain_path, store_number};
use super::nearest::nearest;
use super::text::{Entry, Given, Wrong, entries};
use super::tuning::Tuning;
use clap::{ArgMatches, Command, parser::ValueSource};
use forebay::settings::BackingSettings;
use forebay::{BuildError, Settings};
use forebay_control::knobs;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A flag that the file gives.
#[derive(Clone, Debug)]
struct GivenFlag {
    flag: Flag,
    value: String,
    line: usize,
}

/// An image of the block server.
#[derive(Clone, Debug, Default)]
struct GivenExport {
    path: Option<String>,
    name: Option<String>,
    line: usize,
    /// The line of its name, if it has one.
    name_line: Option<usize>,
}

/// What a file says.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded {
    flags: Vec<GivenFlag>,
    exports: Vec<GivenExport>,
    pub(super) tuning: Tuning,
}

impl Loaded {
    /// Reads `text` for the servers of `command`.
    pub(super) fn read(text: &str, command: &Command) -> Result<Loaded, Wrong> {
        let keys = Keys::of(command);
        let mut loaded = Loaded::default();
        for entry in entries(text)? {
            let problem = loaded.take(&keys, &entry).err();
            if let Some(problem) = problem {
                let line = entry.line;
                return Err(Wrong { line, problem });
            }
        }
        loaded.check_exports()?;
        for front in FRONTS {
            loaded.check_conflicts(front, front.command(command))?;
        }
        Ok(loaded)
    }

    fn take(&mut self, keys: &Keys, entry: &Entry) -> Result<(), String> {
        let Entry { key, given, .. } = entry;
        if *given == Given::Section {
            if let Some(bdi) = store_number(key) {
                self.tuning.record_store(bdi, entry.line);
            }
            if key == EXPORT {
                self.exports.push(GivenExport {
                    line: entry.line,
                    ..GivenExport::default()
                });
            }
            return if Keys::is_section(key) {
                Ok(())
            } else {
                Err(unknown(keys, key))
            };
        }
        if let Some(flag) = keys.flag(key) {
            return self.take_flag(flag, entry);
        }
        if let Some((EXPORT, last @ ("path" | "name"))) = key.rsplit_once('.') {
            return self.take_export(last, entry);
        }
        if key == EXPORT {
            return Err(format!(
                "{EXPORT} is a list: write [[{EXPORT}]] for each image"
            ));
        }
        let name = unnumbered(key);
        if keys.knobs().iter().any(|(known, _)| *known == name) {
            return self.take_knob(entry);
        }
        Err(unknown(keys, key))
    }

    fn take_flag(&mut self, flag: &Flag, entry: &Entry) -> Result<(), String> {
        let value = match &entry.given {
            Given::Flag(value) if flag.is_switch() => value.to_string(),
            _ if flag.is_switch() => return Err(refused(entry, "true or false")),
            Given::Text(text) => text.clone(),
            Given::Count(count) => count.to_string(),
            _ => return Err(refused(entry, "write it as a text, in quotes")),
        };
        flag.check(&value)
            .map_err(|reason| refused(entry, &reason))?;
        self.flags.push(GivenFlag {
            flag: flag.clone(),
            value,
            line: entry.line,
        });
        Ok(())
    }

    fn take_export(&mut self, last: &str, entry: &Entry) -> Result<(), String> {
        let Given::Text(text) = &entry.given else {
            return Err(refused(entry, "write it as a text, in quotes"));
        };
        let export = self.exports.last_mut();
        let export = export.expect("the section of a key comes before it");
        let place = if last == "path" {
            &mut export.path
        } else {
            export.name_line = Some(entry.line);
            &mut export.name
        };
        if text.is_empty() && last == "path" {
            return Err(refused(entry, "the path of an image"));
        }
        *place = Some(text.clone());
        Ok(())
    }

    fn take_knob(&mut self, entry: &Entry) -> Result<(), String> {
        let value = match &entry.given {
            Given::Text(text) => Value::from(text.clone()),
            Given::Count(count) => Value::from(*count),
            Given::Flag(flag) => Value::from(*flag),
            Given::Other | Given::Section => Value::Null,
        };
        let bad = |error: &BuildError| match error {
            BuildError::BadSetting { setting, .. } if *setting == "max_ratio_percent" => refused(
                entry,
                "min_ratio is at most max_ratio, and that at most 100",
            ),
            BuildError::BadSetting { allowed, .. } => refused(entry, allowed),
            other => other.to_string(),
        };
        let changes = &mut self.tuning.changes;
        let (is_understood, allowed) = knobs::set_one(changes, &entry.key, &value);
        if !is_understood {
            return Err(refused(entry, &allowed));
        }
        Settings::default()
            .changed(changes)
            .map_err(|error| bad(&error))?;
        for store in &changes.stores {
            let changed = BackingSettings::default().changed(store);
            changed.map_err(|error| bad(&error))?;
        }
        if changes
            .stores
            .iter()
            .filter_map(|it| it.min_ratio_percent)
            .sum::<u64>()
            >= 100
        {
            return Err(refused(entry, "less than 100 over all stores together"));
        }
        Ok(())
    }

    /// Each image has a path.
    fn check_exports(&self) -> Result<(), Wrong> {
        let without = self.exports.iter().find(|export| export.path.is_none());
        without.map_or(Ok(()), |export| {
            Err(Wrong {
                line: export.line,
                problem: format!("{EXPORT} needs a path"),
            })
        })
    }

    /// No two flags exclude each other.
    fn check_conflicts(&self, front: Front, command: &Command) -> Result<(), Wrong> {
        let given: Vec<&GivenFlag> = self.of(front).collect();
        for (at, second) in given.iter().enumerate() {
            let excluded = |first: &&&GivenFlag| exclude(command, &first.flag, &second.flag);
            if let Some(first) = given[..at].iter().find(excluded) {
                return Err(Wrong {
                    line: second.line,
                    problem: format!(
                        "{} cannot be used with {} in line {}",
                        second.flag.key, first.flag.key, first.line
                    ),
                });
            }
        }
        Ok(())
    }

    /// The flags of a server that are not off.
    fn of(&self, front: Front) -> impl Iterator<Item = &GivenFlag> {
        let is_off = |given: &GivenFlag| given.flag.is_switch() && given.value == "false";
        let flags = self.flags.iter();
        flags.filter(move |given| given.flag.is_of(front) && !is_off(given))
    }

    /// What the file adds to the words that were typed for a server, and the line of each key that
    /// it adds. It says nothing about what was typed, nor about what that excludes.
    pub(super) fn words(
        &self,
        front: Front,
        command: &Command,
        typed: &ArgMatches,
    ) -> (Vec<String>, BTreeMap<String, usize>) {
        let is_typed = |id: &str| typed.value_source(id) == Some(ValueSource::CommandLine);
        let typed_ids: BTreeSet<&str> = typed.ids().map(clap::Id::as_str).collect();
        let typed_args = command.get_arguments().filter(|arg| {
            let id = arg.get_id().as_str();
            typed_ids.contains(id) && is_typed(id)
        });
        let typed_args: Vec<_> = typed_args.collect();
        let gives_way = |given: &&GivenFlag| {
            let arg = &given.flag.arg;
            typed_args.iter().any(|typed| {
                let are_both_places = typed.is_positional() && arg.is_positional();
                are_both_places
                    || typed.get_id() == arg.get_id()
                    || args_exclude(command, typed, arg)
            })
        };
        let flags: Vec<_> = self.of(front).filter(|given| !gives_way(given)).collect();
        let mut words: Vec<String> = flags.iter().map(|it| it.flag.word(&it.value)).collect();
        let line = |given: &&GivenFlag| (given.flag.key.clone(), given.line);
        let mut lines: BTreeMap<_, _> = flags.iter().map(line).collect();
        let has = |id| typed_args.iter().any(|arg| arg.get_id() == id);
        if front == FRONTS[0] && !has("paths") {
            words.extend(self.export_words(has("names")));
            // Names that were typed are not the file's.
            let named = self.exports.iter().enumerate().filter(|_| !has("names"));
            for (at, export) in named {
                let line = export.name_line.unwrap_or(export.line);
                lines.insert(export_key(at), line);
            }
        }
        (words, lines)
    }

    fn export_words(&self, has_names: bool) -> Vec<String> {
        let paths = self
            .exports
            .iter()
            .filter_map(|export| export.path.as_deref());
        let mut words: Vec<String> = paths.clone().map(plain_path).collect();
        let are_named = self.exports.iter().any(|export| export.name.is_some());
        if are_named && !has_names {
            let named = self.exports.iter().zip(paths).map(|(export, path)| {
                let last = path.rsplit('/').next().unwrap_or(path);
                export.name.as_deref().unwrap_or(last)
            });
            words.extend(named.map(|name| format!("--export={name}")));
        }
        words
    }
}

fn exclude(command: &Command, one: &Flag, other: &Flag) -> bool {
    let own = |flag: &Flag| {
        let mut args = command.get_arguments();
        args.find(|arg| arg.get_id() == flag.arg.get_id()).cloned()
    };
    let (Some(one), Some(other)) = (own(one), own(other)) else {
        return false;
    };
    args_exclude(command, &one, &other)
}

fn args_exclude(command: &Command, one: &clap::Arg, other: &clap::Arg) -> bool {
    let names = |one: &clap::Arg, other: &clap::Arg| {
        let excluded = command.get_arg_conflicts_with(one);
        excluded.iter().any(|arg| arg.get_id() == other.get_id())
    };
    names(one, other) || names(other, one)
}

fn refused(entry: &Entry, allowed: &str) -> String {
    format!("{} cannot be {}: {allowed}", entry.key, entry.typed)
}

/// The name of a knob of a store without its number, as the table of knobs has it.
fn unnumbered(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    match parts[..] {
        ["store", number, name] if number.parse::<usize>().is_ok() => format!("store.N.{name}"),
        _ => key.to_owned(),
    }
}

fn unknown(keys: &Keys, key: &str) -> String {
    let number = key
        .strip_prefix("store.")
        .and_then(|rest| rest.split('.').next());
    let number = number.filter(|number| number.parse::<usize>().is_ok());
    let names = keys.names(number.unwrap_or("0"));
    let meant = nearest(key, &names);
    let hint = meant.map_or_else(
        || "forebay config print --defaults shows all keys".to_owned(),
        |name| format!("did you mean {name}?"),
    );
    format!("unknown key {key}; {hint}")
}
