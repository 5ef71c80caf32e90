//! The lists of a zone.

use crate::state::frame::flag;

/// The LRU lists of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    InactiveAnon = 0,
    ActiveAnon = 1,
    InactiveFile = 2,
    ActiveFile = 3,
}

impl List {
    pub(crate) const ALL: [List; 4] = [
        List::InactiveAnon,
        List::ActiveAnon,
        List::InactiveFile,
        List::ActiveFile,
    ];

    /// The list on which a frame with the flags of `word` belongs.
    pub(crate) fn of(word: u64) -> List {
        match (word & flag::ANON != 0, word & flag::ACTIVE != 0) {
            (true, false) => List::InactiveAnon,
            (true, true) => List::ActiveAnon,
            (false, false) => List::InactiveFile,
            (false, true) => List::ActiveFile,
        }
    }

    pub(crate) fn is_active(self) -> bool {
        matches!(self, List::ActiveAnon | List::ActiveFile)
    }

    pub fn is_file(self) -> bool {
        matches!(self, List::InactiveFile | List::ActiveFile)
    }
}
