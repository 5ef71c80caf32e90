//! Gives a record its other copy, if that is missing: its writer has not made it yet, has ended
//! before, or it was lost.

use crate::append::{Append, Appended};
use crate::call::{Call, Progress, Reply};
use crate::name::Twin;
use crate::reading::Found;
use crate::record::Body;
use std::sync::Arc;

/// See above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copying {
    key: String,
    bytes: Arc<Vec<u8>>,
    is_second: bool,
    is_opening: bool,
    /// None while it is asked whether the copy is there.
    append: Option<Append>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Both copies are there.
    Same,
    /// The other copy has other bytes. The second one counts, and that is the one that was read.
    Differs,
    /// It has, and it is the second one: what was read does not count.
    IsOther,
}

impl Copying {
    /// A record of which one copy was found.
    pub(crate) fn new(found: Found) -> Copying {
        Copying {
            key: found.twin.other().key(found.record.number),
            is_second: found.twin == Twin::Second,
            is_opening: matches!(found.record.body, Body::Open { .. }),
            bytes: found.bytes,
            append: None,
        }
    }

    /// Whether it is known which record counts. An opening may meet a commit of the writer before
    /// at its place, and the next record says which of them counts.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_opening
    }

    pub(crate) fn next(&self) -> Call {
        match &self.append {
            Some(append) => append.next(),
            None => Call::Get {
                key: self.key.clone(),
                range: None,
            },
        }
    }

    pub(crate) fn answer(&mut self, reply: Reply) -> Progress<Copied> {
        let appended = match (&mut self.append, reply) {
            (Some(append), reply) => append.answer(reply),
            (None, Reply::Bytes(found)) if found == *self.bytes => Progress::Done(Appended::Ours),
            (None, Reply::Bytes(_)) => Progress::Done(Appended::Theirs),
            (None, Reply::Missing) => {
                let (key, bytes) = (self.key.clone(), self.bytes.clone());
                self.append = Some(Append::of(key, bytes));
                Progress::More
            }
            _ => Progress::More,
        };
        match appended {
            Progress::More => Progress::More,
            Progress::Done(Appended::Ours) => Progress::Done(Copied::Same),
            Progress::Done(Appended::Theirs) if self.is_second => Progress::Done(Copied::Differs),
            Progress::Done(Appended::Theirs) => Progress::Done(Copied::IsOther),
        }
    }
}
