//! Whether the files of a scenario fit where they lie.

use super::script::{Action, FilePlace, Group};
use crate::machine::Storage;
use forebay_base::units::{byte_of, pages_for, show_bytes};
use std::collections::BTreeMap;

/// What is left of each file system that has an end.
pub(super) struct Room {
    left_bytes: BTreeMap<String, u64>,
}

impl Room {
    /// All of it, before there is any file.
    pub(super) fn of(storage: &Storage) -> Room {
        let plans = storage.file_systems.iter();
        let left_bytes = plans
            .filter_map(|plan| Some((plan.name.clone(), storage.room_bytes_of(plan)?)))
            .collect();
        Room { left_bytes }
    }

    /// Takes room for `count` files; says what is wrong if there is too little.
    pub(super) fn take(
        &mut self,
        file_system: &str,
        count: u64,
        length_bytes: u64,
    ) -> Result<(), String> {
        let Some(left_bytes) = self.left_bytes.get_mut(file_system) else {
            return Ok(());
        };
        let each_bytes = byte_of(pages_for(length_bytes));
        let all_bytes = each_bytes.checked_mul(count);
        if let Some(left) = all_bytes.and_then(|all| left_bytes.checked_sub(all)) {
            *left_bytes = left;
            return Ok(());
        }
        let each = if count == 1 { "" } else { " for each" };
        Err(format!(
            "{}{each} is more than the {} that file system '{file_system}' has left for {count}; \
             less, or a larger device, is allowed",
            show_bytes(length_bytes),
            show_bytes(*left_bytes),
        ))
    }
}

impl Group {
    /// Where the files are that its processes have of their own, and how long each is from the
    /// start; none if they have none, or files that grow.
    pub(super) fn own_files(&self) -> Option<(&str, u64)> {
        match &self.action {
            Action::Access(access) => match &access.place {
                FilePlace::Own {
                    file_system,
                    length_bytes,
                } => length_bytes.map(|length| (file_system.as_str(), length)),
                FilePlace::Shared(_) => None,
            },
            Action::Pin {
                length_bytes,
                file_system,
            } => Some((file_system, *length_bytes)),
            Action::Hog { .. } | Action::Map { .. } => None,
        }
    }

    /// The field of its text that says what it does.
    pub(super) fn field(&self) -> &'static str {
        match &self.action {
            Action::Access(access) => match (access.writes, access.at_random) {
                (true, false) => "writes",
                (true, true) => "writes_randomly",
                (false, false) => "reads",
                (false, true) => "reads_randomly",
            },
            Action::Hog { .. } => "hogs",
            Action::Pin { .. } => "pins",
            Action::Map { .. } => "maps",
        }
    }
}
