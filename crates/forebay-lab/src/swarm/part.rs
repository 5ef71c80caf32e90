//! What a plan is made of: parts that can be left out, and stores.

use super::fault::Fault;
use super::store::Pace;
use forebay_engine::kernel::ReclaimWrites;
use forebay_engine::settings::BackingSettings;
use forebay_store::Geometry;

/// A part of a plan that can be left out, to make a failure smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The loss of power.
    Crash,
    /// All faults of the stores.
    Faults,
    /// Calls whose futures are dropped.
    Abandon,
    /// Readers of a file that another client writes.
    Readers,
    /// Callers of sync of a file that another client writes.
    Syncers,
    /// Holders of guards.
    Pinners,
    /// Anonymous memory and its swap.
    Anonymous,
    /// The file in which each writer has a region.
    Shared,
    /// All stores except the first.
    Stores,
    /// All clients except the first.
    Clients,
    /// Zones and nodes: only one stays.
    Zones,
    /// Knobs and policy: the usual ones stay.
    Knobs,
    /// Jumps of the clock.
    Jumps,
    /// A writer that dirties one page in each of many objects.
    Scatter,
    /// A memory budget that changes.
    Memory,
    /// Memory that is used up repeatedly.
    Squeeze,
    /// A table of objects that is full.
    Table,
    /// Knobs that are turned while everything runs.
    Turns,
    /// A handle with several calls at a time.
    Crowd,
}

impl Part {
    /// Every part, in the order in which to leave them out.
    pub const ALL: [Part; 19] = [
        Part::Clients,
        Part::Faults,
        Part::Crash,
        Part::Abandon,
        Part::Stores,
        Part::Anonymous,
        Part::Shared,
        Part::Readers,
        Part::Syncers,
        Part::Pinners,
        Part::Zones,
        Part::Knobs,
        Part::Jumps,
        Part::Scatter,
        Part::Memory,
        Part::Squeeze,
        Part::Table,
        Part::Turns,
        Part::Crowd,
    ];

    /// Its name on the command line.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The part called `name`.
    pub fn named(name: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// One store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StorePlan {
    pub(super) geometry: Geometry,
    pub(super) pace: Pace,
    pub(super) can_discard: bool,
    /// What its file system answers when reclaim asks for the write of a page.
    pub(super) reclaim_writes: ReclaimWrites,
    pub(super) backing: BackingSettings,
    pub(super) faults: Vec<Fault>,
}
