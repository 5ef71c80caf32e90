//! Processor time: what work there is, and what it costs on a simulated machine.

use crate::{Body, Rt};
use forebay_base::Span;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Work of a processor that a flow has done or is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Copying between a frame and a caller's buffer.
    Copy {
        /// Pages copied.
        pages: u64,
    },
    /// Finding pages in a file's index.
    Lookup {
        /// Pages looked up.
        pages: u64,
    },
    /// Taking a page fault.
    Fault {
        /// Pages mapped.
        pages: u64,
    },
    /// Changing from one task to another.
    Switch,
    /// Looking at pages on an LRU list.
    Scan {
        /// Pages looked at.
        pages: u64,
    },
    /// Handing a contended lock to another processor.
    LockHandover,
    /// A known length of time, for work that has no name here.
    Spend(Span),
}

/// What each kind of [`Work`] costs on a simulated machine, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCosts {
    /// Copying one page.
    pub copy_page_ns: u64,
    /// Looking up one page.
    pub lookup_page_ns: u64,
    /// Mapping one page in a fault.
    pub fault_page_ns: u64,
    /// Changing to another task.
    pub switch_ns: u64,
    /// Looking at one page on a list.
    pub scan_page_ns: u64,
    /// Handing over one contended lock.
    pub lock_handover_ns: u64,
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
            Work::Copy { pages } => (self.copy_page_ns, pages),
            Work::Lookup { pages } => (self.lookup_page_ns, pages),
            Work::Fault { pages } => (self.fault_page_ns, pages),
            Work::Switch => (self.switch_ns, 1),
            Work::Scan { pages } => (self.scan_page_ns, pages),
            Work::LockHandover => (self.lock_handover_ns, 1),
            Work::Spend(span) => return span,
        };
        Span::from_nanos(each_ns).saturating_mul(count)
    }
}

/// Ready when the work is done; made by [`Rt::charge`]. Dropping it gives up the processor.
#[derive(Debug)]
#[must_use = "the work takes no time unless this is awaited"]
pub struct Charge {
    /// None where work costs nothing.
    queued: Option<Queued>,
}

#[derive(Debug)]
struct Queued {
    rt: Rt,
    cost: Span,
    /// Its place in the run queue, from the first poll on.
    job: Option<u32>,
}

impl Charge {
    pub(crate) const FREE: Charge = Charge { queued: None };

    pub(crate) fn new(rt: Rt, cost: Span) -> Charge {
        let queued = Queued {
            rt,
            cost,
            job: None,
        };
        Charge {
            queued: Some(queued),
        }
    }
}

impl Future for Charge {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(queued) = &mut self.queued else {
            return Poll::Ready(());
        };
        let polled = match &queued.rt.body {
            Body::Real(_) => Poll::Ready(()),
            Body::Virtual(world) => world.poll_job(queued.cost, &mut queued.job, context),
        };
        if polled.is_ready() {
            self.queued = None;
        }
        polled
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(Queued {
            rt, job: Some(job), ..
        }) = &self.queued
            && let Body::Virtual(world) = &rt.body
        {
            world.cancel_job(*job);
        }
    }
}
