//! The historic choices, each a small enum, and the sets of them that have names.

/// Who may write another's dirty file page (spec/reclaim.md 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileWritesFromReclaim {
    /// Nobody who reclaims: the flusher alone writes file pages (preset h, 6.16 and later).
    #[default]
    Never,
}

/// How a writer that dirties too fast is slowed (spec/writeback.md 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirtyThrottle {
    /// It sleeps so long that its rate meets the store's measured bandwidth, a little after each
    /// of its writes.
    #[default]
    Paced,
    /// The same rate by sleeps of 10 ms and more, as Linux does (3.2 and later).
    IoLess,
}

/// Whether zones have dirty limits of their own (spec/reclaim.md 1.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZoneDirtyLimits {
    /// Each zone takes its share of the dirty limit; allocations for writing pass over a zone
    /// that has it (3.3 and later).
    #[default]
    Proportional,
    /// Dirty pages go wherever a frame is free (before 3.3).
    Off,
}

/// For which zones kswapd asks whether it may sleep (spec/reclaim.md 4.6 and 4.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KswapdSleep {
    /// For the highest class that was asked of it, or the last one it worked for (5.3 and later).
    #[default]
    ForRequestedClass,
    /// For class 0 when nobody has asked since (4.8 to 4.11): it falls asleep on the smallest zone.
    ForClassZero,
}

/// What later touches are worth to an active page (spec/reclaim.md 2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActiveReferences {
    /// Up to three after the first are counted, and each takes the page once more around the
    /// active list.
    #[default]
    Counted,
    /// Nothing: it is deactivated all the same, as Linux does with pages that are read by system
    /// calls.
    Ignored,
}

/// How large the inactive list of file pages is kept (spec/reclaim.md 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InactiveShare {
    /// A tenth of the file pages: enough to see a second touch, little to spend on pages that are
    /// read once.
    #[default]
    Tenth,
    /// A part that falls with the square root of the size; a half up to 1 GiB (4.7 and later).
    SquareRoot,
}

/// One value for each choice. [`Policy::default`] is today's best.
///
/// ```
/// use forebay::Policy;
/// assert_eq!(Policy::preset("forebay"), Some(Policy::default()));
/// assert!(Policy::preset("linux-1.0").is_none());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Writing of file pages by reclaimers.
    pub file_writes: FileWritesFromReclaim,
    /// Slowing of writers.
    pub throttle: DirtyThrottle,
    /// Dirty limits of zones.
    pub zone_dirty_limits: ZoneDirtyLimits,
    /// When kswapd sleeps.
    pub kswapd_sleep: KswapdSleep,
    /// What later touches are worth to an active page.
    pub active_references: ActiveReferences,
    /// Size of the inactive list of file pages.
    pub inactive_share: InactiveShare,
}

impl Policy {
    /// The names of the presets.
    pub const PRESETS: [&'static str; 2] = ["forebay", "linux-6.16"];

    /// The set of choices called `name`, if there is one.
    pub fn preset(name: &str) -> Option<Policy> {
        match name {
            "forebay" => Some(Policy::default()),
            "linux-6.16" => Some(Policy {
                active_references: ActiveReferences::Ignored,
                inactive_share: InactiveShare::SquareRoot,
                throttle: DirtyThrottle::IoLess,
                ..Policy::default()
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_preset_exists() {
        for name in Policy::PRESETS {
            assert!(Policy::preset(name).is_some(), "{name}");
        }
    }
}
