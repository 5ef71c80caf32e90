//! What a scene consists of.

use super::super::client::PAGE;
use forebay_base::Span;
use forebay_engine::Settings;
use forebay_engine::settings::{BackingSettings, PageMemory};
use forebay_kernels::Policy;
use forebay_store::{Durability, Fault, ObjectId, Rate};
use std::fmt;

/// The length of files that grow without end, in pages.
pub(in super::super) const ENDLESS: u64 = u64::MAX >> 16;

/// A cache, its stores, and the crews that work on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    pub(in super::super) name: String,
    pub(in super::super) settings: Settings,
    pub(in super::super) policy: Policy,
    pub(in super::super) sites: Vec<Site>,
    /// Nothing is measured before this has passed.
    pub(in super::super) warm_up: Span,
    /// For how long it is played and measured after that.
    pub(in super::super) window: Span,
    /// The stores get their later rates after this part of the window.
    pub(in super::super) change_after: Span,
    /// The time between two looks.
    pub(in super::super) look: Span,
    /// Its writers ask for less than the stores take, so each page can be followed.
    pub(in super::super) is_light: bool,
    /// Readers rest together for this long in each second.
    pub(in super::super) calm: Span,
}

/// The object of a scene's swap, if it has one. No file of a crew has this number.
pub(in super::super) const SWAP: ObjectId = ObjectId(1 << 40);

/// A store and its crews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Site {
    pub(in super::super) name: &'static str,
    pub(in super::super) rate: Rate,
    pub(in super::super) later_rate: Rate,
    /// When what it has written is durable.
    pub(in super::super) durability: Durability,
    pub(in super::super) backing: BackingSettings,
    /// What goes wrong in it, and when that ends, unless the scene ends first.
    pub(in super::super) faults: Vec<Fault>,
    pub(in super::super) faults_end: Option<Span>,
    pub(in super::super) crews: Vec<Crew>,
}

/// Tasks that do the same, each with a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Crew {
    pub(in super::super) name: &'static str,
    pub(in super::super) tasks: u64,
    pub(in super::super) work: Work,
    /// Pages of each call.
    pub(in super::super) call_pages: u64,
    /// How long a task rests after a call.
    pub(in super::super) rest: Span,
    /// Pages of the file that a task goes through again and again.
    pub(in super::super) file_pages: u64,
    /// A task ends after this many calls.
    pub(in super::super) calls: u64,
    pub(in super::super) syncing: Syncing,
    /// Whether a call may end with an error.
    pub(in super::super) may_fail: bool,
}

/// What the calls of a crew do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Work {
    Write,
    Read,
}

/// When the files of a crew are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Syncing {
    /// Never.
    Never,
    /// By their writer, after each of its calls.
    AfterCalls,
    /// By another task, repeatedly, while their writer goes on.
    Concurrently,
}

impl Scene {
    /// A scene of `sites` that is played for `window`. Its pages have no bytes.
    pub(in super::super) fn of(memory_bytes: u64, sites: Vec<Site>, window: Span) -> Scene {
        Scene {
            name: String::new(),
            policy: Policy::default(),
            settings: Settings {
                memory_bytes,
                page_memory: PageMemory::Phantom,
                ..Settings::default()
            },
            sites,
            warm_up: Span::ZERO,
            window,
            change_after: window,
            look: Span::from_millis(10),
            is_light: false,
            calm: Span::ZERO,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tasks that write.
    pub(in super::super) fn writers(&self) -> u64 {
        self.sites.iter().map(Site::writers).sum()
    }
}

/// The part of a scene that helps to read a finding.
impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        write!(
            f,
            "{} bytes of memory, interval {}, expiry {}, ",
            settings.memory_bytes, settings.writeback_interval, settings.dirty_expire
        )?;
        if let Some(at_risk) = settings.at_risk {
            write!(f, "at risk {at_risk}, ")?;
        }
        write!(f, "{:?}", self.sites)
    }
}

impl Site {
    /// A store of this rate.
    pub(in super::super) fn of(pages_per_s: u64, crews: Vec<Crew>) -> Site {
        let rate = Rate::bytes(pages_per_s * PAGE);
        Site {
            rate,
            later_rate: rate,
            ..Site::unlimited(crews)
        }
    }

    /// A store that answers at once.
    pub(in super::super) fn unlimited(crews: Vec<Crew>) -> Site {
        Site {
            name: "store",
            rate: Rate::UNLIMITED,
            later_rate: Rate::UNLIMITED,
            durability: Durability::OnFinish,
            backing: BackingSettings::default(),
            faults: Vec::new(),
            faults_end: None,
            crews,
        }
    }

    /// The same store, which forgets what is not committed if `is_unstable`.
    pub(in super::super) fn unstable(self, is_unstable: bool) -> Site {
        Site {
            durability: if is_unstable {
                Durability::Unstable
            } else {
                self.durability
            },
            ..self
        }
    }

    /// The same store, which takes this many pages a second later.
    pub(in super::super) fn later(self, pages_per_s: u64) -> Site {
        Site {
            later_rate: Rate::bytes(pages_per_s * PAGE),
            ..self
        }
    }

    pub(in super::super) fn is_unstable(&self) -> bool {
        self.durability == Durability::Unstable
    }

    pub(in super::super) fn writers(&self) -> u64 {
        let write = self.crews.iter().filter(|crew| crew.work == Work::Write);
        write.map(|crew| crew.tasks).sum()
    }

    /// Pages that it takes in a second at first.
    pub(in super::super) fn pages_per_s(&self) -> u64 {
        self.rate.bytes_per_s / PAGE
    }

    /// Pages that it takes in a second when it is slowest.
    pub(in super::super) fn least_pages_per_s(&self) -> u64 {
        self.rate.bytes_per_s.min(self.later_rate.bytes_per_s) / PAGE
    }
}

impl Crew {
    /// Writers that never stop.
    pub(in super::super) fn of(name: &'static str, tasks: u64, call_pages: u64) -> Crew {
        Crew {
            name,
            tasks,
            work: Work::Write,
            call_pages,
            rest: Span::ZERO,
            file_pages: ENDLESS,
            calls: u64::MAX,
            syncing: Syncing::Never,
            may_fail: false,
        }
    }

    /// Readers that go through files of `file_pages` again and again.
    pub(in super::super) fn readers(tasks: u64, call_pages: u64, file_pages: u64) -> Crew {
        Crew {
            work: Work::Read,
            file_pages,
            ..Crew::of("reader", tasks, call_pages)
        }
    }
}
