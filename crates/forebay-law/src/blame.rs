//! Who or what made a caller wait.
//!
//! # Question
//!
//! A caller waited, and it is known for how long and for which causes. Who or what has to change so
//! that it waits less?
//!
//! # Inputs and output
//!
//! | name | unit | range | measured by |
//! |---|---|---|---|
//! | `waited_us` | us, by cause | 0 and up | the ledger |
//! | `elapsed_us` | us | 0 and up | the window of the ledger |
//! | `own_pages`, `dirty_pages` | pages | 0 and up | the heaviest writers; the counters |
//! | `own_pages_per_s`, `fair_pages_per_s` | pages/s | 0 and up | the writer's clock; base rate |
//! | `is_at_hard_limit` | | | the position law |
//! | `is_store_silent`, `is_unmeasured` | | | the store's answers; the bandwidth law |
//! | `failed_pages` | pages | 0 and up | the counters |
//! | `store_pages_per_s` | pages/s | 0: not known | the bandwidth law, now and a minute ago |
//! | `limit_pages` | pages | 0 and up | the limits law, now and a minute ago |
//! | `memory_bytes` | bytes | 0 and up | the budget, now and a minute ago |
//! | [`Verdict`] | a suspect and its us | | output |
//! | [`Savings`] | us | at most what was waited | output |
//!
//! # Formula
//!
//! ```text
//! cause of a pause = failed pages     if they are more than half of the dirty pages
//!                    silent store     if the store has requests and answers none
//!                    unmeasured store if its rate is not known yet
//!                    others' pages    if own < dirty / 4, and at the limit or own rate <= fair
//!                    own rate         otherwise
//!
//! paused   = own rate + others' pages + another call's pause
//! store    = silent store
//!            + paused * (before - now) / before           if the rate is half of before, or less
//! limit    = (paused - store) * (before - now) / before   if the limit is half, or less
//! own, others'   = the rest of paused, in the ratio of the first two causes
//! memory   = waits for frames, and limit, if the memory is half of that before, or less
//! first, second  = the two suspects with the most time
//! is clear = first > 2 * second
//!
//! at once  = max(paused / elapsed, 1)                        calls that pause at the same time
//! saved by twice the memory      = min(paused, at once * limit / store rate) + waits for frames
//! saved by twice the store rate  = min(paused, at once * elapsed / 2)
//! helps    = saved >= waited / 10
//! ```
//!
//! # Conditions
//!
//! 1. The times that all suspects are blamed for add up to the time that was waited.
//! 2. The verdict is clear only if no other suspect has half as much as the first.
//! 3. A store that answers as fast as before, and a limit that is as high, are not suspected.
//! 4. The slower a store became, the more time it is blamed for; the same holds for a limit.
//! 5. Nothing saves more time than was waited.
//! 6. Others' pages are never the cause if the writer has a quarter or more of the dirty pages.
//! 7. A store that is twice as fast saves at least half of the pauses, however many calls pause at
//!    the same time.
//!
//! # Picture
//!
#![doc = include_str!("../../../docs/laws/blame.svg")]
//!
//! The parts of 1000 ms of pauses, as the rate of the store falls from its rate a minute ago: the
//! part of the writer itself, and the part of the store.
//!
//! # Example
//!
//! A client wrote for 60 s and paused for 38.9 s of them. The store takes 7 629 pages a second
//! (29.8 MiB), as it did before, and 12 800 pages (50 MiB) may be dirty. Twice the memory would
//! save 1.7 s, once; a store that is twice as fast would save 30 s.
//!
//! ```
//! use forebay_law::blame::{BlameInputs, Cause, Suspect, blame, savings};
//!
//! let mut inputs = BlameInputs {
//!     elapsed_us: 60_000_000,
//!     store_pages_per_s: 7_629,
//!     store_pages_per_s_before: 7_629,
//!     limit_pages: 12_800,
//!     limit_pages_before: 12_800,
//!     ..BlameInputs::default()
//! };
//! inputs.waited_us[Cause::OwnRate as usize] = 38_900_000;
//! let verdict = blame(&inputs);
//! assert_eq!((verdict.first, verdict.is_clear()), (Suspect::OwnRate, true));
//! let saved = savings(&inputs);
//! assert_eq!(saved.twice_the_memory_us, 1_677_808);
//! assert!(!saved.memory_helps() && saved.store_helps());
//! ```
//!
//! # Why not the simpler one
//!
//! The cause with the most time is not always to blame: every pause looks like the writer's own
//! rate, even if the store has become slow or a limit was turned down. Blame by shares of the dirty
//! pages alone would accuse the writer with the most pages, even if all others write as fast as it
//! does. So the time is divided. The first part is the time that the caller would not have waited
//! with the store and the limit of a minute ago. The rest is divided by the cause that was measured
//! at each pause.
//!
//! # Edges
//!
//! If nothing waited, the verdict has 0 us and is not clear. A store whose rate is not known is not
//! suspected, and the law does not say that more memory would help. A call that waits for the pause
//! of another call of the same writer has the cause of that pause, which the engine notes; one that
//! ends before its writer ever paused has none, and counts as the other pauses do. A store with few
//! samples may look slower than it is, so it is suspected only at half of its rate before, or less.
//! A part is rounded down, and the rest keeps the difference. Waits are summed over the calls of a
//! caller, and calls that run in parallel wait longer in all than the window is long. Their mean
//! number is the least that explains the sum: calls that did not wait are not counted, so a saving
//! may be more than is said and is never more than was waited.
//!
//! # Lineage
//!
//! New here. The kernel's tracepoints have the inputs and leave the verdict to the reader.

/// What a call waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A pause, because the writer dirties more than its part of the store's rate.
    OwnRate,
    /// A pause, because of pages that others dirtied.
    OthersDirty,
    /// A pause until the rate of a store is known.
    Unmeasured,
    /// A pause, because the store stands still.
    SilentStore,
    /// A pause, because of pages that cannot be written.
    FailedPages,
    /// The pause of another call of the same handle, which pauses for both, if it is not known why
    /// that one pauses: the policies before Linux 3.2 give no reason.
    Along,
    /// A frame, when there is nothing left to try.
    NoFrames,
    /// Pages whose write had to end before reclaim could free them.
    ReclaimWriteback,
    /// Pages that other reclaimers had taken off the lists.
    ReclaimIsolated,
    /// Progress of other reclaimers.
    ReclaimNoProgress,
    /// Dirty pages that were all being written.
    ReclaimCongested,
    /// The work of reclaiming itself.
    DirectReclaim,
    /// Room to note which pages are dirty.
    DirtyBlocks,
    /// A read of a page from the store.
    StoreRead,
    /// A page that a guard or another call holds.
    PageHeld,
    /// Writes that a sync asked for, or a writer of an old policy.
    SyncWrites,
    /// The store's commit.
    Commit,
    /// A cut or a discard of the object.
    Resize,
    /// A budget that became smaller.
    Memory,
}

/// Number of causes.
pub const CAUSES: usize = 19;

impl Cause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Cause; CAUSES] = [
        Cause::OwnRate,
        Cause::OthersDirty,
        Cause::Unmeasured,
        Cause::SilentStore,
        Cause::FailedPages,
        Cause::Along,
        Cause::NoFrames,
        Cause::ReclaimWriteback,
        Cause::ReclaimIsolated,
        Cause::ReclaimNoProgress,
        Cause::ReclaimCongested,
        Cause::DirectReclaim,
        Cause::DirtyBlocks,
        Cause::StoreRead,
        Cause::PageHeld,
        Cause::SyncWrites,
        Cause::Commit,
        Cause::Resize,
        Cause::Memory,
    ];

    /// Its name for people and for programs.
    pub fn name(self) -> &'static str {
        match self {
            Cause::OwnRate => "own rate",
            Cause::OthersDirty => "others' dirty pages",
            Cause::Unmeasured => "unmeasured store",
            Cause::SilentStore => "silent store",
            Cause::FailedPages => "failed pages",
            Cause::Along => "another call's pause",
            Cause::NoFrames => "no frames",
            Cause::ReclaimWriteback => "reclaim: writeback",
            Cause::ReclaimIsolated => "reclaim: isolated",
            Cause::ReclaimNoProgress => "reclaim: no progress",
            Cause::ReclaimCongested => "reclaim: congested",
            Cause::DirectReclaim => "direct reclaim",
            Cause::DirtyBlocks => "dirty blocks",
            Cause::StoreRead => "read from store",
            Cause::PageHeld => "page held",
            Cause::SyncWrites => "sync",
            Cause::Commit => "commit",
            Cause::Resize => "resize",
            Cause::Memory => "memory",
        }
    }

    /// The suspect that it accuses if nothing else is known.
    fn suspect(self) -> Suspect {
        match self {
            Cause::OwnRate => Suspect::OwnRate,
            Cause::OthersDirty => Suspect::OthersDirty,
            Cause::Unmeasured => Suspect::Unmeasured,
            Cause::SilentStore => Suspect::Store,
            Cause::FailedPages => Suspect::FailedPages,
            Cause::Along => Suspect::Along,
            Cause::NoFrames
            | Cause::ReclaimWriteback
            | Cause::ReclaimIsolated
            | Cause::ReclaimNoProgress
            | Cause::ReclaimCongested
            | Cause::DirectReclaim
            | Cause::DirtyBlocks => Suspect::Reclaim,
            Cause::StoreRead => Suspect::StoreRead,
            Cause::PageHeld => Suspect::PageHeld,
            Cause::SyncWrites => Suspect::Sync,
            Cause::Commit => Suspect::Commit,
            Cause::Resize => Suspect::Resize,
            Cause::Memory => Suspect::Memory,
        }
    }
}

/// Who or what is blamed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suspect {
    /// The caller itself: it writes more than its part of what the store takes.
    #[default]
    OwnRate,
    /// Other callers, which have most of the dirty pages.
    OthersDirty,
    /// The store: it stands still, or its rate is half of that of a minute ago, or less.
    Store,
    /// A limit that was turned down.
    Limit,
    /// Memory that was taken away.
    Memory,
    /// A store whose rate is not known yet.
    Unmeasured,
    /// Pages that a store refuses.
    FailedPages,
    /// The pause of another call of the same handle.
    Along,
    /// Reclaim: the memory is too small for its use.
    Reclaim,
    /// Reads that the store had to answer.
    StoreRead,
    /// The guard or call that held a page.
    PageHeld,
    /// Writes that a sync had to wait for.
    Sync,
    /// The store's commit.
    Commit,
    /// A cut or a discard of the object.
    Resize,
}

/// Number of suspects.
pub const SUSPECTS: usize = 14;

impl Suspect {
    /// Every suspect, in the order of their numbers.
    pub const ALL: [Suspect; SUSPECTS] = [
        Suspect::OwnRate,
        Suspect::OthersDirty,
        Suspect::Store,
        Suspect::Limit,
        Suspect::Memory,
        Suspect::Unmeasured,
        Suspect::FailedPages,
        Suspect::Along,
        Suspect::Reclaim,
        Suspect::StoreRead,
        Suspect::PageHeld,
        Suspect::Sync,
        Suspect::Commit,
        Suspect::Resize,
    ];

    /// Its name for people and for programs.
    pub fn name(self) -> &'static str {
        match self {
            Suspect::OwnRate => "its own rate",
            Suspect::OthersDirty => "others' dirty pages",
            Suspect::Store => "slow store",
            Suspect::Limit => "a lower limit",
            Suspect::Memory => "less memory",
            Suspect::Unmeasured => "unmeasured store",
            Suspect::FailedPages => "failed pages",
            Suspect::Along => "another call's pause",
            Suspect::Reclaim => "reclaim",
            Suspect::StoreRead => "read from store",
            Suspect::PageHeld => "page held",
            Suspect::Sync => "sync",
            Suspect::Commit => "commit",
            Suspect::Resize => "resize",
        }
    }
}

/// The facts about a writer that is about to pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseFacts {
    /// Estimate of the pages that the writer has dirtied lately and that are still dirty.
    pub own_pages: u64,
    /// All dirty pages, and those under writeback.
    pub dirty_pages: u64,
    /// The dirty pages whose last write failed.
    pub failed_pages: u64,
    /// Whether the store has requests and answers none.
    pub is_store_silent: bool,
    /// Whether its rate is not known yet.
    pub is_unmeasured: bool,
    /// Whether nothing may be dirtied at all.
    pub is_at_hard_limit: bool,
    /// The rate at which the writer dirties pages, pages/s.
    pub own_pages_per_s: u64,
    /// The base rate of the store for one writer, pages/s.
    pub fair_pages_per_s: u64,
}

/// Others may stop a writer that has less than one part in this many of the dirty pages.
const SMALL_PART: u64 = 4;

/// Why a writer pauses.
pub fn cause_of_pause(facts: &PauseFacts) -> Cause {
    if facts.failed_pages > facts.dirty_pages / 2 {
        return Cause::FailedPages;
    }
    if facts.is_store_silent {
        return Cause::SilentStore;
    }
    if facts.is_unmeasured {
        return Cause::Unmeasured;
    }
    let is_small = facts.own_pages < facts.dirty_pages / SMALL_PART;
    let is_modest = facts.own_pages_per_s <= facts.fair_pages_per_s;
    if is_small && (facts.is_at_hard_limit || is_modest) {
        Cause::OthersDirty
    } else {
        Cause::OwnRate
    }
}

/// The inputs of a verdict on one caller and one store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlameInputs {
    /// How long the caller waited, by the number of the cause, us.
    pub waited_us: [u64; CAUSES],
    /// The window in which it waited, us.
    pub elapsed_us: u64,
    /// The rate of the store, pages/s; 0: not known.
    pub store_pages_per_s: u64,
    /// The same a minute ago.
    pub store_pages_per_s_before: u64,
    /// Pages that may be dirty.
    pub limit_pages: u64,
    /// The same a minute ago.
    pub limit_pages_before: u64,
    /// The budget.
    pub memory_bytes: u64,
    /// The same a minute ago.
    pub memory_bytes_before: u64,
}

impl BlameInputs {
    /// The sum of all waits, us.
    pub fn all_us(&self) -> u64 {
        self.waited_us
            .iter()
            .fold(0, |sum: u64, us| sum.saturating_add(*us))
    }

    fn of(&self, cause: Cause) -> u64 {
        self.waited_us[cause as usize]
    }

    /// The sum of the pauses, us.
    fn paused_us(&self) -> u64 {
        [Cause::OwnRate, Cause::OthersDirty, Cause::Along]
            .iter()
            .fold(0, |sum: u64, cause| sum.saturating_add(self.of(*cause)))
    }

    /// The sum of the waits for frames, us.
    pub fn frames_us(&self) -> u64 {
        let of_reclaim = Cause::ALL
            .iter()
            .filter(|cause| cause.suspect() == Suspect::Reclaim);
        of_reclaim.fold(0, |sum: u64, cause| sum.saturating_add(self.of(*cause)))
    }
}

/// The time that each suspect is blamed for, us, by the number of the suspect.
pub fn shares_us(inputs: &BlameInputs) -> [u64; SUSPECTS] {
    let mut shares = [0_u64; SUSPECTS];
    let mut add = |suspect: Suspect, us: u64| {
        let share = &mut shares[suspect as usize];
        *share = share.saturating_add(us);
    };
    let has_less_memory = is_halved(inputs.memory_bytes, inputs.memory_bytes_before);
    let paused = inputs.paused_us();
    let of_store = lost_part(
        paused,
        inputs.store_pages_per_s,
        inputs.store_pages_per_s_before,
    );
    let of_limit = lost_part(
        paused - of_store,
        inputs.limit_pages,
        inputs.limit_pages_before,
    );
    add(Suspect::Store, of_store);
    let lowered = if has_less_memory {
        Suspect::Memory
    } else {
        Suspect::Limit
    };
    add(lowered, of_limit);
    let left = paused - of_store - of_limit;
    let (own, others) = (inputs.of(Cause::OwnRate), inputs.of(Cause::OthersDirty));
    if own == 0 && others == 0 {
        add(Suspect::Along, left);
    } else {
        let of_others = part(left, others, own.saturating_add(others));
        add(Suspect::OthersDirty, of_others);
        add(Suspect::OwnRate, left - of_others);
    }
    for cause in Cause::ALL {
        match cause.suspect() {
            Suspect::OwnRate | Suspect::OthersDirty | Suspect::Along => {}
            Suspect::Reclaim if has_less_memory => add(Suspect::Memory, inputs.of(cause)),
            suspect => add(suspect, inputs.of(cause)),
        }
    }
    shares
}

/// The two suspects that are blamed for the most time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The suspect with the most time.
    pub first: Suspect,
    /// Its time, us.
    pub first_us: u64,
    /// The suspect with the second most time.
    pub second: Suspect,
    /// Its time, us; 0 if there is none.
    pub second_us: u64,
}

impl Verdict {
    /// Whether the first is blamed for more than twice as much time as any other. If not, it is
    /// unclear who is to blame.
    pub fn is_clear(&self) -> bool {
        self.first_us > self.second_us.saturating_mul(2)
    }
}

/// Who or what has to change so that a caller waits less.
pub fn blame(inputs: &BlameInputs) -> Verdict {
    let shares = shares_us(inputs);
    let mut verdict = Verdict::default();
    for suspect in Suspect::ALL {
        let us = shares[suspect as usize];
        if us > verdict.first_us {
            (verdict.second, verdict.second_us) = (verdict.first, verdict.first_us);
            (verdict.first, verdict.first_us) = (suspect, us);
        } else if us > verdict.second_us {
            (verdict.second, verdict.second_us) = (suspect, us);
        }
    }
    verdict
}

/// How much less a caller would have waited if one input were another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// The time that it waited, us.
    pub waited_us: u64,
    /// Saved by twice the memory, us.
    pub twice_the_memory_us: u64,
    /// Saved by a store that is twice as fast, or by half as many writes, us.
    pub twice_the_store_us: u64,
}

/// A change helps if it saves at least one part in this many of the wait.
const HELPING_PART: u64 = 10;

impl Savings {
    /// Whether twice the memory would help.
    pub fn memory_helps(&self) -> bool {
        helps(self.twice_the_memory_us, self.waited_us)
    }

    /// Whether a store that is twice as fast would help.
    pub fn store_helps(&self) -> bool {
        helps(self.twice_the_store_us, self.waited_us)
    }
}

/// How much time each change would have saved.
pub fn savings(inputs: &BlameInputs) -> Savings {
    let paused = inputs.paused_us();
    // The time of the calls that pause at once: a second of the window is a second for each.
    let elapsed = inputs.elapsed_us.max(1);
    let of_calls = paused.max(elapsed);
    // Twice the memory takes that many more pages, once; then it is as full as before.
    let rate = inputs.store_pages_per_s;
    let room_us = (u128::from(inputs.limit_pages) * 1_000_000)
        .checked_div(u128::from(rate))
        .map_or(0, |us| u64::try_from(us).unwrap_or(u64::MAX));
    let room_of_calls_us = part(of_calls, room_us.min(elapsed), elapsed);
    let waited_us = inputs.all_us();
    Savings {
        waited_us,
        twice_the_memory_us: paused
            .min(room_of_calls_us)
            .saturating_add(inputs.frames_us())
            .min(waited_us),
        // The store takes the same pages in half of the time. The caller's own work takes as long
        // as before.
        twice_the_store_us: paused.min(of_calls / 2),
    }
}

fn helps(saved_us: u64, waited_us: u64) -> bool {
    saved_us > 0 && saved_us >= waited_us / HELPING_PART
}

/// Whether `now` is half of `before` or less, both being known.
fn is_halved(now: u64, before: u64) -> bool {
    now > 0 && now <= before / 2
}

/// The part of `us` that the caller would not have waited if `now` were still `before`.
fn lost_part(us: u64, now: u64, before: u64) -> u64 {
    if is_halved(now, before) {
        part(us, before - now, before)
    } else {
        0
    }
}

/// `us * of / whole`, rounded down; `of` is at most `whole`.
fn part(us: u64, of: u64, whole: u64) -> u64 {
    let part = (u128::from(us) * u128::from(of)).checked_div(u128::from(whole));
    part.map_or(0, |us| us as u64)
}

#[cfg(test)]
#[path = "blame_tests.rs"]
mod tests;
