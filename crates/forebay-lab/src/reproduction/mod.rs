//! The five changes measured again: what their authors published, what a reproduction must show,
//! and whether ours does.
//!
//! [`published`] and [`target`] read the tables in `data/`. [`plan`] says which cells of which
//! experiment are run under which policies; [`question`] says for each of the 89 tests which cells
//! and figures it is about; [`evidence`] holds the outcomes of runs; [`judge`] decides, and
//! [`figures`] sets each published figure beside ours. Nothing here runs anything: the caller that
//! runs the plan adds the outcomes.

pub mod evidence;
pub mod figures;
pub mod judge;
pub mod measure;
pub mod page;
pub mod perturb;
pub mod plan;
pub mod published;
pub mod question;
pub mod table;
pub mod target;

use serde::{Deserialize, Serialize};

/// One of the five changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Reclaim writes no file pages (2011).
    WritebackInReclaim,
    /// Reclaim waits for events (2021).
    ReclaimThrottling,
    /// Dirty limits for each zone (2011).
    PerZoneDirty,
    /// Writers sleep and start no I/O (2011).
    DirtyThrottling,
    /// kswapd stays awake for the zones that are asked for (2017).
    KswapdClasszone,
}

impl Change {
    /// All of them, in the order of the letters of their claims.
    pub const ALL: [Change; 5] = [
        Change::WritebackInReclaim,
        Change::ReclaimThrottling,
        Change::PerZoneDirty,
        Change::DirtyThrottling,
        Change::KswapdClasszone,
    ];

    /// The name that `--only` takes.
    pub fn name(self) -> &'static str {
        match self {
            Change::WritebackInReclaim => "writeback-in-reclaim",
            Change::ReclaimThrottling => "reclaim-throttling",
            Change::PerZoneDirty => "per-zone-dirty",
            Change::DirtyThrottling => "dirty-throttling",
            Change::KswapdClasszone => "kswapd-classzone",
        }
    }

    /// The change called `name`, or the one whose claims begin with that letter.
    ///
    /// ```
    /// use forebay_lab::reproduction::Change;
    /// assert_eq!(Change::named("per-zone-dirty"), Some(Change::PerZoneDirty));
    /// assert_eq!(Change::named("C"), Some(Change::PerZoneDirty));
    /// assert_eq!(Change::named("thp"), None);
    /// ```
    pub fn named(name: &str) -> Option<Change> {
        let same = |change: &Change| change.name() == name || change.letter() == name;
        Change::ALL.into_iter().find(same)
    }

    /// The letter with which its claims begin.
    pub fn letter(self) -> &'static str {
        match self {
            Change::WritebackInReclaim => "A",
            Change::ReclaimThrottling => "B",
            Change::PerZoneDirty => "C",
            Change::DirtyThrottling => "D",
            Change::KswapdClasszone => "E",
        }
    }
}

/// Which of an experiment's policies a run was under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Position {
    /// The kernel before the change.
    Before,
    /// The two preparation patches without the third (2017).
    Between,
    /// With the change.
    After,
    /// With the change and the larger write chunk (2011).
    LargeChunk,
}

impl Position {
    /// As tables say it.
    pub fn word(self) -> &'static str {
        match self {
            Position::Before => "before",
            Position::Between => "between",
            Position::After => "after",
            Position::LargeChunk => "after, larger chunk",
        }
    }
}
