//! The knobs that a file sets from the start.

use crate::error::CommandError;
use forebay::settings::BackingSettings;
use forebay::{BuildError, Changes, Settings};
use std::path::PathBuf;

/// The knobs that a file sets, which were checked one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tuning {
    pub(super) file: PathBuf,
    pub(super) changes: Changes,
    /// The line that first names each store of `changes`, in the same order.
    store_lines: Vec<usize>,
}

impl Tuning {
    /// A store that came into the changes was named in `line`.
    pub(super) fn note_stores(&mut self, line: usize) {
        self.store_lines.resize(self.changes.stores.len(), line);
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
        let found = stores.find(|store| store.bdi == bdi);
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
        let stores = self.changes.stores.iter().zip(&self.store_lines);
        let beyond = stores.clone().find(|(store, _)| store.bdi >= count);
        beyond.map_or(Ok(()), |(store, line)| {
            let (file, bdi) = (self.file.display(), store.bdi);
            let text = format!(
                "{file}:{line}: there is no store {bdi}; stores: 0 to {}",
                count - 1
            );
            Err(CommandError::BadCall(text))
        })
    }
}
