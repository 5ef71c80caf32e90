//! A writer that made pages dirty, and pays for them.

use crate::state::backing::Backing;
use crate::state::dirtier::Dirtier;
use crate::state::pause_turn::Pause;
use crate::state::waits::Waits;
use std::sync::Arc;

/// Pages that a writer made dirty.
#[derive(Clone, Copy)]
pub struct DirtiedPages<'a> {
    /// Their store.
    pub backing: &'a Backing,
    /// The writer.
    pub dirtier: &'a Dirtier,
    /// How many.
    pub pages: u64,
    /// Whether its call ends with them.
    pub call_ends: bool,
}

/// The call of a writer that is evaluated, and may have to pause.
#[derive(Clone, Copy, Debug)]
pub struct Payer<'a> {
    pub backing: &'a Arc<Backing>,
    pub dirtier: &'a Dirtier,
    pub waits: &'a Waits,
    /// None if another call of the writer has the turn for longer than a pause may last.
    pub(crate) turn: Option<&'a Pause<'a>>,
}
