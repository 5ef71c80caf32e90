//! What is done for no request: maps, pages that are moved out of records, and the removal of
//! objects that nobody needs.

use crate::job::{Job, Removed};
use crate::limits::{Limits, REMOVED_AT_ONCE};
use forebay_volume::{Append, Appended, MAPPED_KEY, PAGE_BYTES, Writer};

/// Pages of records that may be useless if nobody said how many: as many as are needed, or these.
const SPARE_PAGES: u64 = 4096;

/// Whether a map is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mapping {
    No,
    One,
    /// It was not made: not before the next record.
    PutOff,
}

/// Whether objects that nobody needs are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removing {
    No,
    /// Some are.
    Some,
    /// There was no answer: not before the next record.
    PutOff,
    /// The bucket does not let this writer do it.
    Never,
}

/// How far each of them is.
pub(crate) struct Upkeep {
    mapping: Mapping,
    /// A commit has ended since pages were moved last out of records of which little is needed.
    is_move_due: bool,
    removing: Removing,
}

impl Upkeep {
    pub(crate) fn new() -> Upkeep {
        Upkeep {
            mapping: Mapping::No,
            is_move_due: false,
            removing: Removing::No,
        }
    }

    /// A job of an open `writer`. Maps are made until it `is_stopped`.
    pub(crate) fn next_job(
        &mut self,
        writer: &mut Writer,
        limits: &Limits,
        is_stopped: bool,
    ) -> Option<Job> {
        if let Some(job) = self.next_move(writer, limits) {
            return Some(job);
        }
        if !is_stopped && let Some(job) = self.next_map(writer, limits) {
            return Some(job);
        }
        self.next_removal(writer, limits)
    }

    /// The record of a commit is there: what was put off is tried again.
    pub(crate) fn recorded(&mut self) {
        self.is_move_due = true;
        if self.removing == Removing::PutOff {
            self.removing = Removing::No;
        }
        if self.mapping == Mapping::PutOff {
            self.mapping = Mapping::No;
        }
    }

    /// Pages of records of which little is needed are moved to the next record of somebody's
    /// commit.
    fn next_move(&mut self, writer: &Writer, limits: &Limits) -> Option<Job> {
        if !std::mem::take(&mut self.is_move_due) {
            return None;
        }
        let spare_pages = match self.most_dead_bytes(writer, limits) {
            // Half of what may be useless, in both copies.
            Some(most_bytes) => most_bytes / (4 * PAGE_BYTES),
            None => SPARE_PAGES.max(writer.map().inline_pages() as u64),
        };
        let pages = writer.sparse_pages(spare_pages);
        (!pages.is_empty()).then_some(Job::Move(pages))
    }

    fn next_map(&mut self, writer: &mut Writer, limits: &Limits) -> Option<Job> {
        if self.mapping != Mapping::No {
            return None;
        }
        let most_dead_bytes = self.most_dead_bytes(writer, limits).unwrap_or(u64::MAX);
        let append: Append = match limits.map_records {
            Some(records) => writer.map_after(records),
            None => writer.map_to_make(most_dead_bytes),
        }?;
        self.mapping = Mapping::One;
        Some(Job::Map(append))
    }

    /// The job of the map with this key has ended; without a result it was not made. Then more is
    /// read at the next start, and kept until then.
    pub(crate) fn mapped(&mut self, writer: &mut Writer, key: &str, made: Option<Appended>) {
        let is_made = match made {
            Some(Appended::Ours) => true,
            // The mark counts, no matter which writer made it and what its bytes are.
            Some(Appended::Theirs) => key == MAPPED_KEY,
            None => false,
        };
        self.mapping = if is_made {
            Mapping::No
        } else {
            Mapping::PutOff
        };
        if is_made {
            writer.map_made();
        }
    }

    fn next_removal(&mut self, writer: &Writer, limits: &Limits) -> Option<Job> {
        if self.removing != Removing::No {
            return None;
        }
        let keys = writer.removals(REMOVED_AT_ONCE, self.most_dead_bytes(writer, limits)?);
        if keys.is_empty() {
            return None;
        }
        self.removing = Removing::Some;
        Some(Job::Remove(keys))
    }

    /// The bytes of useless objects that stay; none if all do.
    fn most_dead_bytes(&self, writer: &Writer, limits: &Limits) -> Option<u64> {
        if self.removing == Removing::Never {
            return None;
        }
        let percent = u64::from(limits.dead_percent?);
        let least = limits.free_dead_chunks * writer.manifest().whole_object_bytes();
        let most = (writer.live_bytes() / 100).saturating_mul(percent);
        Some(most.max(least))
    }

    /// Whether useless objects become more than may stay, by a quarter, while some are being
    /// removed, or the map is made that lets them be removed: the next record waits for that.
    pub(crate) fn is_behind(&self, writer: &Writer, limits: &Limits) -> bool {
        let is_at_it = self.removing == Removing::Some || self.mapping == Mapping::One;
        let most_bytes = self.most_dead_bytes(writer, limits).unwrap_or(u64::MAX);
        is_at_it && writer.dead_bytes() / 5 > most_bytes / 4
    }

    /// A removal of `count` objects has ended.
    pub(crate) fn removed(&mut self, writer: &mut Writer, count: usize, removed: Removed) {
        if removed == Removed::Done {
            writer.removed(count);
        }
        self.removing = match removed {
            Removed::Done => Removing::No,
            Removed::NotNow => Removing::PutOff,
            Removed::Refused => Removing::Never,
        };
    }
}
