//! Which keys a file may have: the flags of both servers, as the command line knows them, and the
//! knobs. What both servers have lies outside any section.

use clap::{Arg, Command};
use forebay_control::knobs;

/// A server that reads files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Front {
    /// The section of its own keys.
    pub(super) section: &'static str,
    /// The words that call it.
    pub(super) words: &'static [&'static str],
}

pub(super) const FRONTS: [Front; 2] = [
    Front {
        section: "nbd",
        words: &["serve", "nbd"],
    },
    Front {
        section: "mount",
        words: &["mount"],
    },
];

impl Front {
    /// Its part of the command line.
    pub(super) fn command(self, whole: &Command) -> &Command {
        self.words.iter().fold(whole, |command, word| {
            let found = command.find_subcommand(word);
            found.expect("a server is a command")
        })
    }
}

/// The list of images, each with its name: `PATH` and `--export` of the block server.
pub(super) const EXPORT: &str = "nbd.export";
/// The name of the image number `at` of the list, for a refusal that says where it is.
pub(crate) fn export_key(at: usize) -> String {
    format!("{EXPORT}.{at}")
}

/// The number in the name of a store's section.
pub(super) fn store_number(section: &str) -> Option<usize> {
    section.strip_prefix("store.")?.parse().ok()
}

/// Arguments without a key of their own: the file itself, and what [`EXPORT`] says.
const WITHOUT_KEY: [&str; 3] = ["config", "paths", "names"];

/// A flag, or a word without one, and its key.
#[derive(Clone, Debug)]
pub(super) struct Flag {
    pub(super) key: String,
    pub(super) arg: Arg,
    pub(super) fronts: Vec<Front>,
}

impl Flag {
    /// Whether it is on or off.
    pub(super) fn is_switch(&self) -> bool {
        let values = self.arg.get_possible_values();
        values.iter().any(|value| value.get_name() == "true")
    }

    /// The word that sets it on the command line.
    pub(super) fn word(&self, value: &str) -> String {
        match self.arg.get_long() {
            Some(long) => format!("--{long}={value}"),
            None => plain_path(value),
        }
    }

    /// Refuses a value as the command line would, with its reason.
    pub(super) fn check(&self, value: &str) -> Result<(), String> {
        let arg = Arg::new("value")
            .long("value")
            .allow_hyphen_values(true)
            .value_parser(self.arg.get_value_parser().clone());
        let alone = Command::new("value").no_binary_name(true).arg(arg);
        let Err(error) = alone.try_get_matches_from([format!("--value={value}")]) else {
            return Ok(());
        };
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        Err(reason.unwrap_or_else(|| "it is empty".into()))
    }

    pub(super) fn is_of(&self, front: Front) -> bool {
        self.fronts.contains(&front)
    }
}

/// A path that is not taken for a flag, which would begin with a dash.
pub(super) fn plain_path(path: &str) -> String {
    let here = if path.starts_with('-') { "./" } else { "" };
    format!("{here}{path}")
}

/// All keys.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) flags: Vec<Flag>,
}

impl Keys {
    /// The keys for a command line.
    pub(super) fn of(command: &Command) -> Keys {
        let mut flags: Vec<Flag> = Vec::new();
        for front in FRONTS {
            for arg in front.command(command).get_arguments() {
                if WITHOUT_KEY.contains(&arg.get_id().as_str()) {
                    continue;
                }
                let id = arg.get_id().as_str();
                let key = arg.get_long().unwrap_or(id).replace('-', "_");
                let known = flags.iter_mut().find(|flag| flag.key == key);
                if let Some(flag) = known {
                    flag.fronts.push(front);
                } else {
                    let (arg, fronts) = (arg.clone(), vec![front]);
                    flags.push(Flag { key, arg, fronts });
                }
            }
        }
        for flag in &mut flags {
            if let [only] = flag.fronts[..] {
                flag.key = format!("{}.{}", only.section, flag.key);
            }
        }
        Keys { flags }
    }

    pub(super) fn flag(&self, key: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.key == key)
    }

    /// The knobs that are not flags too, each with what it does. What the cache gets at the start
    /// follows from `memory`.
    pub(super) fn knobs(&self) -> Vec<(String, String)> {
        let mut described = knobs::described();
        described.retain(|(name, _)| name != knobs::CACHE_MEMORY && self.flag(name).is_none());
        described
    }

    /// Every key; `number` stands for the number of a store.
    pub(super) fn names(&self, number: &str) -> Vec<String> {
        let flags = self.flags.iter().map(|flag| flag.key.clone());
        let knobs = self.knobs().into_iter().map(|(name, _)| name);
        let exports = ["path", "name"].map(|last| format!("{EXPORT}.{last}"));
        let all = flags.chain(knobs).chain(exports);
        all.map(|name| name.replace("store.N.", &format!("store.{number}.")))
            .collect()
    }

    /// Whether a section may have this name.
    pub(super) fn is_section(name: &str) -> bool {
        name == EXPORT
            || name == "store"
            || store_number(name).is_some()
            || FRONTS.iter().any(|front| front.section == name)
    }
}
