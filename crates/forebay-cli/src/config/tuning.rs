//! The knobs that a file sets from the start.

use crate::error::CommandError;
use forebay::settings::BackingSettings;
use forebay::{BuildError, Changes, Settings};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The knobs that a file sets, which were checked one by one, and where everything else is that it
/// sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tuning {
    pub(super) file: PathBuf,
    pub(super) changes: Changes,
    /// The line that first names each store.
    stores: BTreeMap<usize, usize>,
    /// The line of each key that counts for the call: one that was typed wins.
    pub(super) lines: BTreeMap<String, usize>,
}

impl Tuning {
    /// The store `bdi` has a section that begins in `line`, or a key there.
    pub(super) fn record_store(&mut self, bdi: usize, line: usize) {
        self.stores.entry(bdi).or_insert(line);
    }

    /// `error` with the file and the line of the setting that it refuses, if the file has it.
    pub(crate) fn located(&self, error: CommandError) -> CommandError {
        self.in_file(&error).unwrap_or(error)
    }

    /// The same; none if the file does not have the setting.
    pub(crate) fn in_file(&self, error: &CommandError) -> Option<CommandError> {
        let CommandError::Setting { key, text } = error else {
            return None;
        };
        let line = self.lines.get(key)?;
        Some(self.refused_in(*line, text))
    }

    fn refused_in(&self, line: usize, text: &str) -> CommandError {
        CommandError::BadCall(format!("{}:{line}: {text}", self.file.display()))
    }

    /// `settings` with these knobs.
    pub(crate) fn applied(&self, settings: &Settings) -> Result<Settings, BuildError> {
        settings.changed(&self.changes)
    }

    /// The settings of the store that gets the number `bdi`, from those of all stores.
    ///
    /// # Errors
    /// A bad call, if those of all stores are not allowed.
    pub(crate) fn of_store(
        &self,
        bdi: usize,
        all: BackingSettings,
    ) -> Result<BackingSettings, CommandError> {
        let mut stores = self.changes.stores.iter();
        // Each store has one entry.
        let found = stores.find(|of| of.store.number() == bdi);
        let changed = found.map_or(Ok(all), |store| all.changed(store));
        changed.map_err(|error| CommandError::BadCall(error.to_string()))
    }

    /// Takes back the promises of single stores: one for all of them was typed.
    pub(super) fn forget_promises(&mut self) {
        for store in &mut self.changes.stores {
            store.drain = None;
        }
    }

    /// Refuses knobs of stores beyond the `count` that the server has.
    pub(crate) fn expect_stores(&self, count: usize) -> Result<(), CommandError> {
        let beyond = self.stores.range(count..).min_by_key(|(_, line)| **line);
        beyond.map_or(Ok(()), |(bdi, &line)| {
            let last = count - 1;
            let text = format!("there is no store {bdi}; stores: 0 to {last}");
            Err(self.refused_in(line, &text))
        })
    }
}
