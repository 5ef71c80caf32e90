//! What can fail: a small enum for building and opening, one for budgets, one for access, one for
//! `sync`.

use crate::state::index::LONGEST_BYTES;
use forebay_base::Span;
use forebay_store::{Failure, StoreError};
use thiserror::Error;

/// Why a cache could not be built, a store attached or an object opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The memory budget is too small for its zones.
    #[error(
        "a budget of {given_bytes} bytes is too small for {zone}: it needs at least \
         {needed_bytes} bytes; raise Settings::memory_bytes or declare fewer zones"
    )]
    BudgetTooSmall {
        /// The budget that was given.
        given_bytes: u64,
        /// The smallest one that works.
        needed_bytes: u64,
        /// What does not fit.
        zone: String,
    },
    /// A setting has a value that cannot work.
    #[error("setting {setting} cannot be {given}: {allowed}")]
    BadSetting {
        /// The setting's name.
        setting: &'static str,
        /// The value given.
        given: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A store cannot be written within the promised time: what keeps it busy takes longer.
    #[error("setting drain of store {bdi} cannot be {given}: it can keep {least} at the least")]
    DrainTooShort {
        /// The store.
        bdi: usize,
        /// The promise that was refused.
        given: Span,
        /// The shortest one that it can keep at the rate that it has now.
        least: Span,
    },
    /// Bytes of a store cannot be durable at that age: what keeps it busy takes longer.
    #[error("setting at_risk cannot be {given}: store {bdi} can keep {least} at the least")]
    AtRiskTooShort {
        /// The store.
        bdi: usize,
        /// The limit that was refused.
        given: Span,
        /// The shortest one that it can keep at the rate that it has now.
        least: Span,
    },
    /// The system refused memory for the frames.
    #[error("the system refused {bytes} bytes for the frames (error {errno}); lower the budget")]
    NoMemory {
        /// Bytes asked for.
        bytes: u64,
        /// The system's error number.
        errno: i32,
    },
    /// As many objects are open as the cache was built for, or as half of its budget holds.
    #[error(
        "{limit} objects are open, which is the limit of objects_limit, or all that half of the \
         memory budget holds; close some, or raise objects_limit or the budget"
    )]
    TooManyObjects {
        /// The limit, or how many there are if memory is the limit.
        limit: u32,
    },
    /// The floor of an elastic budget is too small for the zones.
    #[error(
        "a floor of {given_bytes} bytes is too small: it has to be at least {needed_bytes}; raise \
         Elastic::floor_bytes"
    )]
    FloorTooSmall {
        /// The floor that was given.
        given_bytes: u64,
        /// The smallest one that works.
        needed_bytes: u64,
    },
    /// The budget is more than this process can have.
    #[error(
        "a budget of {given_bytes} bytes is more than the {available_bytes} that this process can \
         have, by what is available of the machine's memory and by its memory cgroup; lower \
         Settings::memory_bytes"
    )]
    TooMuchMemory {
        /// The budget that was given.
        given_bytes: u64,
        /// What the process can have.
        available_bytes: u64,
    },
    /// The object is longer than a cache can address.
    #[error("an object of {length_bytes} bytes is too long: at most {limit_bytes} bytes")]
    TooLong {
        /// Length asked for.
        length_bytes: u64,
        /// Longest possible.
        limit_bytes: u64,
    },
    /// Anonymous memory was requested from a cache without a swap store, or with too little room in
    /// swap and memory together.
    #[error("{pages} pages of anonymous memory need a swap store with room; attach a larger one")]
    NoSwap {
        /// Pages asked for.
        pages: u64,
    },
    /// The store has a cache in front of it already, this one or another.
    #[error(
        "the store is attached already; attach each store once, to one cache at a time, and close \
         the cache before another one takes the store"
    )]
    AlreadyAttached,
    /// The store was attached to another cache.
    #[error("store {bdi} was attached to another cache; attach it to this one, or use the other")]
    ForeignStore {
        /// Its number in its own cache.
        bdi: usize,
    },
    /// The object was opened as shorter than it is in its store, which would hide the rest.
    #[error(
        "object {object} cannot be opened with {length_bytes} bytes: its store has \
         {stored_bytes} of it; open it with its length and truncate it if it shall be shorter"
    )]
    WrongLength {
        /// The store's number of the object.
        object: u64,
        /// The length that was given.
        length_bytes: u64,
        /// The length that the store knows.
        stored_bytes: u64,
    },
    /// A memory budget was refused.
    #[error("{0}")]
    Memory(#[from] MemoryError),
    /// The cache was closed.
    #[error("the cache is closed; build another one")]
    Closed,
}

/// Why a memory budget was refused; the one before it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The budget is larger than the memory that was taken at start.
    #[error(
        "a budget of {given_bytes} bytes is more than the {limit_bytes} that were taken at start; \
         build the cache with the largest budget that it shall ever have"
    )]
    TooLarge {
        /// The budget that was given.
        given_bytes: u64,
        /// What was taken at start.
        limit_bytes: u64,
    },
    /// The budget is too small for the zones.
    #[error("a budget of {given_bytes} bytes is too small: it has to be at least {needed_bytes}")]
    TooSmall {
        /// The budget that was given.
        given_bytes: u64,
        /// The smallest one that works.
        needed_bytes: u64,
    },
    /// The cache was closed.
    #[error("the cache is closed; build another one")]
    Closed,
}

/// Why pages could not be read, written, held or dropped. After any of these errors the next call
/// works, and nothing dirty was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The store failed a request that this call needs.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// No frame came free: too many are held by guards, or are dirty and their store takes nothing.
    #[error(
        "no frame came free in {waited}: {held_pages} pages are held and {dirty_pages} wait to be \
         written; drop guards, look at the store, or give the cache more memory"
    )]
    NoFrames {
        /// How long the call tried.
        waited: Span,
        /// Pages held by guards or by requests now.
        held_pages: u64,
        /// Pages dirty or under writeback now.
        dirty_pages: u64,
    },
    /// The store gave no answer in time. The request goes on and keeps its pages until it ends.
    #[error(
        "the store of object {object} gave no answer for page {page_index} in {waited} \
         (answer_timeout); look at the device"
    )]
    NotAnswering {
        /// The store's number of the object.
        object: u64,
        /// The page that was waited for.
        page_index: u64,
        /// How long was waited.
        waited: Span,
    },
    /// The page is held by a guard that was not dropped in time. For a call that only reads the
    /// page: it already has the most guards that it may have, 65 280.
    #[error(
        "page {page_index} of object {object} was held by a guard for {waited} (held_timeout); \
         drop the guard before writing the page or holding it again"
    )]
    Held {
        /// The store's number of the object.
        object: u64,
        /// The page.
        page_index: u64,
        /// How long was waited.
        waited: Span,
    },
    /// Too many writes of this object, or of its store, have failed, and it takes no new ones.
    #[error(
        "{failed_pages} pages of object {object}, of {failed_pages_of_store} of its store, could \
         not be written and are kept, the last because of error {}; repair the store or discard \
         them before writing more",
        failure.errno()
    )]
    TooManyFailed {
        /// The store's number of the object.
        object: u64,
        /// Pages of the object that are kept.
        failed_pages: u64,
        /// Pages of all objects of its store that are kept.
        failed_pages_of_store: u64,
        /// Why the last write to the store failed.
        failure: Failure,
    },
    /// The range ends past what can be addressed, or a page is asked for that begins past the end
    /// of the object.
    #[error("byte {offset_bytes} is past {}", limit_text(*limit_bytes))]
    TooFar {
        /// End of the range, or where the page begins.
        offset_bytes: u64,
        /// Longest possible object, or the end of this one.
        limit_bytes: u64,
    },
    /// The object was opened for reading only.
    #[error("object {object} was opened for reading only; open it for writing")]
    ReadOnly {
        /// The store's number of the object.
        object: u64,
    },
    /// The cache was closed.
    #[error("the cache is closed; build another one")]
    Closed,
}

/// Why bytes may not be durable. What could not be written is kept and tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SyncError {
    /// A write, or the commit, has failed since this handle last asked.
    #[error("not durable: {0}")]
    Store(#[from] StoreError),
    /// The store gave no answer in time.
    #[error(
        "not durable yet: the store of object {object} gave no answer in {waited} \
         (answer_timeout) with {pages_left} pages to go; look at the device and sync again"
    )]
    NotAnswering {
        /// The store's number of the object.
        object: u64,
        /// How long was waited.
        waited: Span,
        /// Pages that were not written yet.
        pages_left: u64,
    },
}

fn limit_text(limit_bytes: u64) -> String {
    match limit_bytes {
        LONGEST_BYTES => format!("the longest object, {limit_bytes} bytes; stay below that"),
        _ => format!("the end of the object, {limit_bytes} bytes; ask for its length first"),
    }
}

impl AccessError {
    /// The `errno` value that says the same to a caller which speaks in those.
    pub fn errno(&self) -> i32 {
        match self {
            AccessError::Store(error) => error.failure.errno(),
            AccessError::NoFrames { .. } => 12,
            AccessError::NotAnswering { .. } => 110,
            AccessError::Held { .. } => 16,
            AccessError::TooManyFailed { failure, .. } => failure.errno(),
            AccessError::TooFar { .. } => 27,
            AccessError::ReadOnly { .. } | AccessError::Closed => 9,
        }
    }
}

impl SyncError {
    /// The `errno` value that says the same to a caller which speaks in those.
    pub fn errno(&self) -> i32 {
        match self {
            SyncError::Store(error) => error.failure.errno(),
            SyncError::NotAnswering { .. } => 110,
        }
    }
}
