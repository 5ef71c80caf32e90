//! A record that is being made: it has two copies, so that the loss of one object loses nothing and
//! is told from the end of the log.
//!
//! - invariant VB15: a record is durable once both of its copies have its bytes. A writer that
//!   finds other bytes in one of them has the volume no more.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::layer::Staged;
use crate::name::Twin;
use std::sync::Arc;

/// See above. The copies may be asked for at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Twins {
    appends: [Append; 2],
    are_ours: [bool; 2],
    /// Its pages, if they are encrypted in it.
    pub(crate) unsealed: Staged,
}

impl Twins {
    /// Makes record `number` with `bytes`, in which the pages `unsealed` are encrypted.
    pub(crate) fn new(number: u64, bytes: Vec<u8>, unsealed: Staged) -> Twins {
        let bytes = Arc::new(bytes);
        Twins {
            appends: Twin::BOTH.map(|twin| Append::of(twin.key(number), bytes.clone())),
            are_ours: [false; 2],
            unsealed,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.appends[0].bytes()
    }

    /// What to ask for this copy; nothing if it is there.
    pub(crate) fn next(&self, twin: Twin) -> Option<Call> {
        let at = twin as usize;
        (!self.are_ours[at]).then(|| self.appends[at].next())
    }

    /// Takes the answer to [`Twins::next`]. It ends well with the second copy that is there.
    pub(crate) fn answer(&mut self, twin: Twin, reply: Reply) -> Progress<Appended> {
        let at = twin as usize;
        if !self.are_ours[at] {
            match self.appends[at].answer(reply) {
                Progress::Done(Appended::Ours) => self.are_ours[at] = true,
                other => return other,
            }
        }
        if self.are_ours == [true; 2] {
            return Progress::Done(Appended::Ours);
        }
        Progress::More
    }
}
