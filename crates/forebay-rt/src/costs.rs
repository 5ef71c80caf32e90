//! What work of a processor there is, and what it costs on a simulated machine.

use forebay_base::Span;

/// Work of a processor that a flow has done or is about to do.
///
/// Each kind has one place that charges for it. The engine charges for what it does on its own
/// account or in the background: `Scan`, `Free`, `Writeback`, `Request`, `ReclaimWrite`, `SwapIn`,
/// `Inode`, `ThrottleCheck`, the locks of LRU lists
/// ([`under_lock`](crate::Charge::under_lock)) and of dirty files
/// ([`stepping_under`](crate::Charge::stepping_under)). The code that simulates a process charges
/// for what its calls cost before they reach the engine: `Call`, `Create`, `Copy`, `Lookup`,
/// `Fault`, `MapPresent`, `MapNew`, `Unmap` and `User`. Task switches are charged by the machine,
/// and by a kswapd that wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Entering the kernel and leaving it.
    Call,
    /// Copying between a frame and a caller's buffer.
    Copy {
        /// Pages copied.
        pages: u64,
    },
    /// Finding pages in a file's index or inserting them, and their accounting.
    Lookup {
        /// Pages looked up.
        pages: u64,
    },
    /// Taking a fault on untouched anonymous memory: a zeroed page.
    Fault {
        /// Pages mapped.
        pages: u64,
    },
    /// Taking a fault on a file mapping whose page is resident.
    MapPresent {
        /// Pages mapped.
        pages: u64,
    },
    /// Taking a fault on a file mapping whose page is not resident.
    MapNew {
        /// Pages mapped.
        pages: u64,
    },
    /// Bringing pages back from swap, beside the request.
    SwapIn {
        /// Pages brought back.
        pages: u64,
    },
    /// Taking pages out of a mapping.
    Unmap {
        /// Pages taken out.
        pages: u64,
    },
    /// Changing from one task to another, where the machine does not see it by itself.
    Switch,
    /// Looking at pages on an LRU list and putting them back.
    Scan {
        /// Pages looked at.
        pages: u64,
    },
    /// Freeing pages that were looked at.
    Free {
        /// Pages freed.
        pages: u64,
    },
    /// Submitting pages to be written and handling the end.
    Writeback {
        /// Pages written.
        pages: u64,
    },
    /// Building requests to a store, queueing and dispatching them, and their interrupts.
    Request {
        /// Requests.
        count: u64,
    },
    /// Writing pages from reclaim, beside the request.
    ReclaimWrite {
        /// Pages written.
        pages: u64,
    },
    /// Making files, beside the call.
    Create {
        /// Files made.
        files: u64,
    },
    /// Writing inodes of files whose pages are written.
    Inode {
        /// Inodes written.
        files: u64,
    },
    /// Checking whether a writer has to pause.
    ThrottleCheck,
    /// Handing a contended lock to another processor.
    LockHandover,
    /// A known length of time, for work that has no name here.
    Spend(Span),
    /// A known length of time in a process's own code.
    User(Span),
}

/// What each kind of [`Work`] costs on a simulated machine, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCosts {
    /// Entering the kernel once.
    pub call_ns: u64,
    /// Copying one page.
    pub copy_page_ns: u64,
    /// Looking up one page.
    pub lookup_page_ns: u64,
    /// Mapping one zeroed page.
    pub fault_page_ns: u64,
    /// Mapping one resident page of a file.
    pub map_present_page_ns: u64,
    /// Mapping one page of a file that was not resident.
    pub map_new_page_ns: u64,
    /// Bringing one page back from swap.
    pub swap_in_page_ns: u64,
    /// Taking one page out of a mapping.
    pub unmap_page_ns: u64,
    /// Changing to another task. Charged for [`Work::Switch`], and whenever a simulated processor
    /// starts work of another task than before.
    pub switch_ns: u64,
    /// Looking at one page on a list.
    pub scan_page_ns: u64,
    /// Freeing one page.
    pub free_page_ns: u64,
    /// Writing one page.
    pub writeback_page_ns: u64,
    /// One request.
    pub request_ns: u64,
    /// Writing one page from reclaim.
    pub reclaim_write_page_ns: u64,
    /// Making one file.
    pub create_ns: u64,
    /// Writing one inode.
    pub inode_ns: u64,
    /// One check whether to pause.
    pub throttle_check_ns: u64,
    /// Handing over one contended lock.
    pub lock_handover_ns: u64,
    /// How long the lock of LRU lists is held for one batch of pages.
    pub lru_lock_ns: u64,
    /// How long the lock of a store's dirty files is held for one step over a file.
    pub file_step_ns: u64,
}

impl WorkCosts {
    /// What `work` costs.
    ///
    /// ```
    /// use forebay_base::Span;
    /// use forebay_rt::{Work, WorkCosts};
    /// let costs = WorkCosts { copy_page_ns: 250, ..WorkCosts::default() };
    /// assert_eq!(costs.cost(Work::Copy { pages: 4 }), Span::from_micros(1));
    /// ```
    pub fn cost(&self, work: Work) -> Span {
        let (each_ns, count) = match work {
            Work::Call => (self.call_ns, 1),
            Work::Copy { pages } => (self.copy_page_ns, pages),
            Work::Lookup { pages } => (self.lookup_page_ns, pages),
            Work::Fault { pages } => (self.fault_page_ns, pages),
            Work::MapPresent { pages } => (self.map_present_page_ns, pages),
            Work::MapNew { pages } => (self.map_new_page_ns, pages),
            Work::SwapIn { pages } => (self.swap_in_page_ns, pages),
            Work::Unmap { pages } => (self.unmap_page_ns, pages),
            Work::Switch => (self.switch_ns, 1),
            Work::Scan { pages } => (self.scan_page_ns, pages),
            Work::Free { pages } => (self.free_page_ns, pages),
            Work::Writeback { pages } => (self.writeback_page_ns, pages),
            Work::Request { count } => (self.request_ns, count),
            Work::ReclaimWrite { pages } => (self.reclaim_write_page_ns, pages),
            Work::Create { files } => (self.create_ns, files),
            Work::Inode { files } => (self.inode_ns, files),
            Work::ThrottleCheck => (self.throttle_check_ns, 1),
            Work::LockHandover => (self.lock_handover_ns, 1),
            Work::Spend(span) | Work::User(span) => return span,
        };
        Span::from_nanos(each_ns).saturating_mul(count)
    }
}

/// What a job is made of, in simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobCost {
    /// All of it except waiting for a lock.
    pub(crate) total: Span,
    /// The part of it that is a process's own code.
    pub(crate) user: Span,
    /// The number of a lock and how long it is held.
    pub(crate) lock: Option<(u32, Span)>,
}

impl JobCost {
    pub(crate) fn add(&mut self, costs: &WorkCosts, work: Work) {
        let cost = costs.cost(work);
        self.total += cost;
        if matches!(work, Work::User(_)) {
            self.user += cost;
        }
    }
}
