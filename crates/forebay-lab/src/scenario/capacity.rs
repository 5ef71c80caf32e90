//! Whether a machine has room for a scenario: for its files where they lie, and for its memory.

use super::Scenario;
use super::script::{Action, FilePlace, Group, Hog, SharedFile};
use crate::machine::{Machine, Storage};
use crate::world::WorldError;
use forebay_base::PAGE_BYTES;
use forebay_base::units::{byte_of, show_bytes};
use std::collections::BTreeMap;

/// What does not fit: a file or a group of processes, by its number.
pub(super) enum Unfit {
    File(usize),
    Group(usize),
}

/// Refuses the first file or group that does not fit on `machine`, and says why. Every file that
/// exists from the start needs room on its file system; hogs and maps need swap, and pins need
/// memory.
pub(super) fn expect_room(
    machine: &Machine,
    files: &[SharedFile],
    groups: &[Group],
) -> Result<(), (Unfit, String)> {
    for (number, group) in groups.iter().enumerate() {
        let fits = group.expect_memory(machine);
        fits.map_err(|problem| (Unfit::Group(number), problem))?;
    }
    let mut room = Room::of(&machine.storage);
    for (number, file) in files.iter().enumerate() {
        let taken = room.take(&file.file_system, 1, file.length_bytes);
        taken.map_err(|problem| (Unfit::File(number), problem))?;
    }
    for (number, group) in groups.iter().enumerate() {
        let Some((file_system, length_bytes)) = group.own_files() else {
            continue;
        };
        let taken = room.take(file_system, group.count, length_bytes);
        taken.map_err(|problem| (Unfit::Group(number), problem))?;
    }
    Ok(())
}

impl Scenario {
    /// Refuses a machine without room for the scenario: the machine of its text fits, but knobs of
    /// the run may have changed that.
    ///
    /// # Errors
    /// [`WorldError::Impossible`].
    pub(crate) fn expect_room(&self, machine: &Machine) -> Result<(), WorldError> {
        expect_room(machine, &self.files, &self.groups).map_err(|(unfit, problem)| {
            let what = match unfit {
                Unfit::File(number) => format!("file '{}'", self.files[number].name),
                Unfit::Group(number) => format!("process '{}'", self.groups[number].name),
            };
            WorldError::Impossible(format!("{what}: {problem}"))
        })
    }
}

/// What is left of each file system that has an end.
struct Room {
    left_bytes: BTreeMap<String, u64>,
}

impl Room {
    /// All room, before there is any file.
    fn of(storage: &Storage) -> Room {
        let plans = storage.file_systems.iter();
        let left_bytes = plans
            .filter_map(|plan| Some((plan.name.clone(), storage.room_bytes_of(plan)?)))
            .collect();
        Room { left_bytes }
    }

    /// Takes room for `count` files; returns the problem if there is too little.
    fn take(&mut self, file_system: &str, count: u64, length_bytes: u64) -> Result<(), String> {
        let Some(left_bytes) = self.left_bytes.get_mut(file_system) else {
            return Ok(());
        };
        // The pages of the longest length would overflow a number of bytes.
        let each_bytes = length_bytes.checked_next_multiple_of(PAGE_BYTES as u64);
        let all_bytes = each_bytes.and_then(|each| each.checked_mul(count));
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
    /// Returns the problem if `machine` has too little memory or swap for all its processes
    /// together.
    fn expect_memory(&self, machine: &Machine) -> Result<(), String> {
        let (length_bytes, room_bytes, of) = match &self.action {
            Action::Access(_) => return Ok(()),
            Action::Pin { length_bytes, .. } if self.is_bound => {
                let pages = machine.memory.managed_pages_of(self.node);
                (*length_bytes, byte_of(pages), "memory of its node")
            }
            Action::Pin { length_bytes, .. } => {
                let pages = machine.memory.all_managed_pages();
                (*length_bytes, byte_of(pages), "memory")
            }
            Action::Hog(Hog { length_bytes, .. }) | Action::Map { length_bytes, .. } => {
                let swap_bytes = machine.storage.swap.map_or(0, |swap| swap.bytes);
                (*length_bytes, swap_bytes, "swap")
            }
        };
        if length_bytes.saturating_mul(self.count) <= room_bytes {
            return Ok(());
        }
        Err(format!(
            "size is {length_bytes} bytes for each of {}; all together, up to the machine's \
             {room_bytes} bytes of {of} are allowed",
            self.count
        ))
    }

    /// Where the files are that its processes have of their own, and how long each is from the
    /// start; none if they have none, or files that grow.
    fn own_files(&self) -> Option<(&str, u64)> {
        match self.action.place()? {
            FilePlace::Own {
                file_system,
                length_bytes,
            } => length_bytes.map(|length| (file_system.as_str(), length)),
            FilePlace::Shared(_) => None,
        }
    }

    /// The field of its text with its action.
    pub(super) fn field(&self) -> &'static str {
        match &self.action {
            Action::Access(access) => match (access.writes, access.at_random) {
                (true, false) => "writes",
                (true, true) => "writes_randomly",
                (false, false) => "reads",
                (false, true) => "reads_randomly",
            },
            Action::Hog(_) => "hogs",
            Action::Pin { .. } => "pins",
            Action::Map { .. } => "maps",
        }
    }
}
