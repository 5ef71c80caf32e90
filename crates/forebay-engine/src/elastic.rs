//! A budget that follows the memory of the machine: what a program sees of it, and what comes of
//! that ([`crate::Cache::memory_seen`]).

use forebay_base::Span;
use forebay_base::units::show_bytes;
pub use forebay_law::elastic::{Cause, margin_bytes};
use std::fmt;

/// What is scarce first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scarce {
    /// The memory of the machine.
    #[default]
    Machine,
    /// What a memory group allows.
    Group,
}

impl Scarce {
    /// Its name for people and for programs.
    pub fn name(self) -> &'static str {
        match self {
            Scarce::Machine => "machine",
            Scarce::Group => "group",
        }
    }
}

/// What a program sees of the memory around its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySeen {
    /// What other programs can take before a memory group or the machine is short, bytes: the least
    /// of all. File pages of the kernel count as unused.
    pub headroom_bytes: u64,
    /// The same, with file pages counted as used.
    pub free_bytes: u64,
    /// Whether the kernel reports that programs waited for memory.
    pub is_pressed: bool,
    /// What the headroom is of.
    pub scarce: Scarce,
}

/// A change of an elastic budget. Its text is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStep {
    /// The budget before, bytes.
    pub from_bytes: u64,
    /// The budget after, bytes.
    pub to_bytes: u64,
    /// Why.
    pub cause: Cause,
    /// What was left for others, bytes.
    pub headroom_bytes: u64,
    /// Of what.
    pub scarce: Scarce,
}

impl fmt::Display for MemoryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (show_bytes(self.from_bytes), show_bytes(self.to_bytes));
        let (left, scarce) = (show_bytes(self.headroom_bytes), self.scarce.name());
        write!(f, "{from} -> {to}: ")?;
        match self.cause {
            Cause::Room => write!(f, "{left} were left in the {scarce}"),
            Cause::Pressure => write!(f, "programs waited for memory"),
            Cause::Spare => write!(f, "{left} are left in the {scarce}"),
        }
    }
}

/// What came of a look at the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLook {
    /// The change, if there was one.
    pub step: Option<MemoryStep>,
    /// After this time the program has to look again.
    pub next_look: Span,
}
