//! The historic choices, each a small enum whose values have names.
//!
//! The values of a choice are in historic order: an older value is less.

use forebay_engine::kernel::{Dirtyable, Estimate, WriteDepth};

/// A historic choice. Most are enums of this file; those that change a value of the engine's state
/// are its own.
pub trait Choice: Copy + PartialEq + Sized + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// Their names, in the same order.
    const NAMES: &'static [&'static str];

    /// The value called `name`, if there is one.
    fn named(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        Self::ALL.get(at).copied()
    }

    /// The name of the value.
    fn name(self) -> &'static str {
        let at = Self::ALL.iter().position(|value| *value == self);
        Self::NAMES[at.expect("ALL has each value")]
    }
}

macro_rules! names {
    ($choice:ident { $($value:ident => $name:literal,)* }) => {
        impl Choice for $choice {
            const ALL: &'static [$choice] = &[$($choice::$value,)*];
            const NAMES: &'static [&'static str] = &[$($name,)*];
        }
    };
}

macro_rules! choices {
    ($($(#[$doc:meta])* $choice:ident {
        $($(#[$value_doc:meta])* $value:ident => $name:literal,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
            #[non_exhaustive]
            pub enum $choice {
                $($(#[$value_doc])* $value,)*
            }

            names!($choice { $($value => $name,)* });
        )*
    };
}

names!(WriteDepth {
    FullQueue => "queue",
    WholeTurns => "turns",
    FifthOfSecond => "fifth",
});

names!(Estimate {
    Learned => "learned",
    Early => "early",
    Steps => "leaping",
});

names!(Dirtyable {
    WithAnonymous => "anonymous",
    WithAnonymousLessReserve => "anonymous-less-reserve",
    Files => "files",
});

choices! {
    /// Which reclaimer writes dirty file pages, and what becomes of those that it does not write
    /// (spec/reclaim.md 3.3). All of them write anonymous pages.
    ReclaimWriteback {
        /// Every reclaimer writes the dirty pages that it meets (a; up to 3.1).
        Anybody => "a",
        /// Only kswapd (b; the first patch of 2011).
        Kswapd => "b",
        /// Only kswapd, and only in trouble: from priority 9 on. Pages that are not written are
        /// marked to be freed when the flusher has written them (e; the whole series, 3.2 to 3.10).
        Marked => "e",
        /// Only kswapd, if a whole batch was dirty and not yet queued by a flusher, and only pages
        /// that it meets for the second time; others go to the active list (f2; 4.11 to 5.15).
        KswapdWhereMetTwice => "f2",
        /// As before, but reclaimers wait for events (g; 5.16 to 6.15).
        KswapdAtLast => "g",
        /// No reclaimer: only the flusher writes file pages (h; 6.16 and later).
        #[default]
        Never => "h",
    }

    /// What a reclaimer without progress waits for (spec/reclaim.md 3.5 and 5).
    ReclaimThrottle {
        /// Naps at the call sites of 3.0, until no store is congested (T0).
        Linux30 => "3.0",
        /// The same, and a nap if much of a batch is under writeback (T1; 3.2 to 3.10).
        Linux32 => "3.2",
        /// A nap of any reclaimer whose batch has pages under writeback that were met before (T3;
        /// 3.16 to 4.14).
        Linux411 => "4.11",
        /// The same, once for each pass over a node (T4; 5.15).
        Linux515 => "5.15",
        /// Events, as posted in September 2021 (v2): they end a wait of 100 ms, whatever its
        /// reason.
        PostedV2 => "v2",
        /// Events, as in the release candidates of 5.16: half a second without progress.
        Linux516Rc => "5.16-rc",
        /// Events, and a tick at most if no other reclaimer's progress would help (T7; 5.16 and
        /// later).
        #[default]
        Events => "events",
    }

    /// How a writer that dirties too fast is slowed (spec/writeback.md 5 and 6).
    DirtyThrottle {
        /// It writes a chunk of its store's pages itself whenever that store is over its part, and
        /// takes ever longer naps (2.6.32).
        ForegroundPerStore => "foreground-2.6.32",
        /// It does so while its own part or the whole limit is exceeded (3.1).
        Foreground => "foreground",
        /// It sleeps long enough for its rate to match the store's measured bandwidth: 10 ms and
        /// more, as in Linux (3.2 and later).
        IoLess => "io-less",
        /// The same rate with short sleeps, a little after each of its writes.
        #[default]
        Paced => "paced",
    }

    /// How much of one file is written before the next has its turn (spec/writeback.md 7.4).
    FlushChunk {
        /// 4 MiB (up to 3.1).
        Fixed => "1024",
        /// Half a second of the store's measured bandwidth, and at least that (3.2 and later).
        #[default]
        HalfSecond => "bandwidth",
    }

    /// How the completed writes that make a store's share are aged (spec/writeback.md 2.5).
    StoreShares {
        /// By periods of completed pages: a share starts at nothing (2.6.24 to 3.5).
        Counted => "counted",
        /// By periods of three seconds (3.6 and later).
        #[default]
        Timed => "timed",
    }

    /// Whether zones have dirty limits of their own (spec/reclaim.md 1.10).
    ZoneDirtyLimits {
        /// Dirty pages go wherever a frame is free (before 3.3).
        Off => "off",
        /// Each zone takes its share of the dirty limit; allocations for writing pass over a zone
        /// that has reached it (3.3 to 4.7).
        #[default]
        Proportional => "zone",
        /// Each node does (4.8 and later).
        ForNodes => "node",
    }

    /// For which zones kswapd asks whether it may sleep (spec/reclaim.md 4.6 and 4.7).
    KswapdSleep {
        /// For every zone (3.0 to 3.16).
        EveryZone => "3.0",
        /// For every zone up to the requested class, which is class 0 if there was no request
        /// since: it goes to sleep when the smallest zone is balanced. Any balanced zone clears the
        /// node's flags (4.11).
        ForClassZero => "vanilla",
        /// The same, but one balanced zone is enough (first preparation patch of 2017).
        AnyZone => "fixcheck",
        /// The same, and only the sleep test clears the flags (both preparation patches).
        Clear => "clear",
        /// For the highest class that was requested or worked for; but when it cannot sleep, it
        /// goes on for class 0 (4.12 to 5.2).
        KeepAwake => "keepawake",
        /// For the highest class that was requested, or the last one it worked for (5.3 and later,
        /// the repair of 2019).
        #[default]
        ForRequestedClass => "requested",
    }

    /// What kswapd balances (spec/reclaim.md 4.3 and 4.4).
    KswapdBalance {
        /// Each zone by itself, until all are above their high marks (3.0 to 4.7).
        Zones => "zones",
        /// The node, until one zone that the requests may use is above its high mark (4.8 and
        /// later).
        #[default]
        Node => "node",
    }

    /// The rule by which pages are evicted. The choices `active_references`, `inactive_share` and
    /// `refaults`, and the rotations of `scan_balance`, apply only to two lists.
    Eviction {
        /// Two lists: a second touch makes a page active (spec/reclaim.md 2.3 to 2.8).
        #[default]
        TwoLists => "two-lists",
        /// S3-FIFO: a small queue, a main one, and the memory of evicted pages.
        S3Fifo => "s3-fifo",
    }

    /// The worth of later touches to an active page (spec/reclaim.md 2.6).
    ActiveReferences {
        /// Nothing: it is deactivated nevertheless, as Linux does with pages that are read by
        /// system calls.
        Ignored => "ignored",
        /// Up to three after the first are counted, and each takes the page around the active list
        /// once more.
        #[default]
        Counted => "counted",
    }

    /// How large the inactive list of file pages is kept (spec/reclaim.md 2.5).
    InactiveShare {
        /// A half (up to 4.6).
        Half => "half",
        /// A part that falls with the square root of the size; a half up to 1 GiB (4.7 to 4.11).
        SquareRoot => "square-root",
        /// The same, and while evicted pages come back too early, the active list gives pages up
        /// whatever its size (4.12 and later).
        SquareRootOrRefaults => "square-root-or-refaults",
        /// A tenth of the file pages: enough to see a second touch, little to spend on pages that
        /// are read once.
        #[default]
        Tenth => "tenth",
    }

    /// Whether a page that comes back soon after its eviction is activated (spec/reclaim.md 2.8).
    Refaults {
        /// No: every page starts anew (before 3.15).
        Ignored => "ignored",
        /// A file page is that comes back to be read, if fewer pages have left since than the
        /// active file list has. Anonymous pages are not remembered (3.15 to 5.7).
        OfFileReads => "of-file-reads",
        /// It is, unless the page comes back to be overwritten (5.8 to 5.x).
        OfReads => "of-reads",
        /// It is.
        #[default]
        Activated => "activated",
    }

    /// How reclaim divides its work between anonymous and file pages (spec/reclaim.md 2.9).
    ScanBalance {
        /// By how many pages of each kind were put back; small lists are always scanned a little
        /// (up to 3.4).
        EarlyRotations => "rotations-3.0",
        /// By how many pages of each kind were put back (up to 5.7).
        Rotations => "rotations",
        /// By what writing and reading back pages of each kind has cost (5.8 to 6.2): dirty file
        /// pages that reclaim meets in vain cost nothing.
        IoCost => "cost-5.8",
        /// By what reclaiming each kind has cost, including pages looked at in vain (6.3 and
        /// later).
        #[default]
        Cost => "cost",
    }

    /// How far a stream reads ahead (spec/writeback.md 9).
    Readahead {
        /// At most as far as the setting says, whatever the store (Linux).
        Fixed => "fixed",
        /// At least as far as that, and as far as its store needs to be kept busy while the reader
        /// waits.
        #[default]
        Measured => "measured",
    }

    /// How many objects a pass asks the caches beside the pages to give up (spec/reclaim.md 2.11).
    ShrinkDemand {
        /// Twice the fraction of the pages that it looked at, in whole batches (up to 3.13).
        ByScan => "scanned",
        /// The same; of a cache smaller than a batch all at once (3.14 to 4.15).
        ByScanToTheLast => "scanned-to-the-last",
        /// A fraction by its priority, whatever became of the pages (4.16 and later).
        #[default]
        ByPriority => "priority",
    }

    /// Whether files that nobody has open are such a cache (spec/reclaim.md 8.1, pginodesteal).
    ClosedFiles {
        /// They are, and a reclaimer waits until the inode of a file that is given up is written
        /// (XFS up to 5.8).
        Awaited => "awaited",
        /// They are: a file that is given up takes all its pages with it (5.9 to 5.15).
        Stripped => "stripped",
        /// Their pages age like any others.
        #[default]
        Kept => "kept",
    }

    /// How far the watermarks lie apart (spec/reclaim.md 1.3).
    WatermarkSpacing {
        /// A quarter of the min mark (up to 4.5).
        Quarter => "quarter",
        /// The same, but at least a part of the zone (4.6 and later).
        #[default]
        Scale => "scale",
    }
}
