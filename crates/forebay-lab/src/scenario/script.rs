//! What a scenario does, once its text was checked.

use forebay_base::Span;
use forebay_engine::Changes;
use forebay_store::{Fault, Rate};

/// A file that several processes use.
#[derive(Clone, Debug)]
pub(super) struct SharedFile {
    pub(super) name: String,
    pub(super) length_bytes: u64,
    pub(super) file_system: String,
}

/// Processes that do the same.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) count: u64,
    pub(super) start: Span,
    /// When they are killed, the end of the scenario at the latest.
    pub(super) stop: Option<Span>,
    pub(super) node: usize,
    /// Whether its frames come from no other node.
    pub(super) is_bound: bool,
    pub(super) action: Action,
}

/// What a process does until it is killed.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Writes or reads a file.
    Access(Access),
    /// Keeps anonymous memory in use.
    Hog(Hog),
    /// Holds this many bytes of a file's pages.
    Pin { length_bytes: u64, place: FilePlace },
    /// Maps anonymous memory, touches it all, gives it up, and notes how long it took.
    Map { length_bytes: u64, every: Span },
}

impl Action {
    /// The file that it uses, if it uses one.
    pub(super) fn place(&self) -> Option<&FilePlace> {
        match self {
            Action::Access(access) => Some(&access.place),
            Action::Pin { place, .. } => Some(place),
            Action::Hog(_) | Action::Map { .. } => None,
        }
    }
}

/// How a file is used.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) writes: bool,
    pub(super) at_random: bool,
    pub(super) block_bytes: u64,
    /// As fast as it goes without one.
    pub(super) rate: Option<AccessRate>,
    pub(super) place: FilePlace,
    /// A sync follows whenever this many bytes were written.
    pub(super) sync_every_bytes: Option<u64>,
    /// Whether it goes on after a call that fails.
    pub(super) goes_on: bool,
}

impl Access {
    /// Whether turns that are late are lost.
    pub(super) fn loses_late_turns(&self) -> bool {
        self.rate.is_some_and(|rate| rate.loses_late_turns)
    }
}

/// How anonymous memory is kept in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hog {
    pub(super) length_bytes: u64,
    /// As fast as it goes without one.
    pub(super) rate: Option<AccessRate>,
    /// Between two rounds.
    pub(super) rest: Span,
}

/// How fast a file or memory is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessRate {
    pub(super) bytes_per_s: u64,
    /// Whether a turn whose time has passed is left out, instead of made up for.
    pub(super) loses_late_turns: bool,
}

/// Which file.
#[derive(Clone, Debug)]
pub(super) enum FilePlace {
    /// The shared file of that number.
    Shared(usize),
    /// One of its own; one without a length grows for ever.
    Own {
        file_system: String,
        length_bytes: Option<u64>,
    },
}

/// Something that happens at one time.
#[derive(Clone, Debug)]
pub(super) struct Happening {
    pub(super) at: Span,
    pub(super) what: Change,
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// All processes of the group of that number are killed.
    Kill(usize),
    /// A rated device gets another rate.
    Rate { device: String, rate: Rate },
    /// A device runs at this many thousandths of its speed.
    Pace { device: String, thousandths: u32 },
    /// Requests to a file system go wrong.
    Fault { file_system: String, fault: Fault },
    /// They do no longer.
    Mend { file_system: String },
    /// The memory group, or the other programs in it.
    Memory(MemoryChange),
    /// Knobs of the engine are turned.
    Tune(Changes),
}

/// How the memory around an elastic cache changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryChange {
    /// What the group may have from now on.
    pub(super) limit_bytes: Option<u64>,
    /// What other programs have of it when `over` has passed.
    pub(super) others_bytes: Option<u64>,
    pub(super) over: Span,
}

impl Change {
    /// The file system whose requests it strikes, or lets alone again.
    pub(super) fn struck(&self) -> Option<&String> {
        match self {
            Change::Fault { file_system, .. } | Change::Mend { file_system } => Some(file_system),
            _ => None,
        }
    }
}
