//! Charges processor time for work.

use crate::Rt;
use crate::body::Body;
use crate::costs::{JobCost, Work, WorkCosts};
use forebay_base::Span;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Ready when the work is done; made by [`Rt::charge`]. Dropping it gives up the processor.
#[derive(Debug)]
#[must_use = "the work takes no time unless this is awaited"]
pub struct Charge {
    /// None in real time, and when it is done.
    queued: Option<Queued>,
}

#[derive(Debug)]
struct Queued {
    rt: Rt,
    cost: JobCost,
    /// Its place in the run queue, from the first poll on.
    job: Option<u32>,
}

impl Charge {
    pub(crate) const FREE: Charge = Charge { queued: None };

    pub(crate) fn new(rt: Rt) -> Charge {
        let queued = Queued {
            rt,
            cost: JobCost::default(),
            job: None,
        };
        Charge {
            queued: Some(queued),
        }
    }

    /// The same, with `work` added to it.
    ///
    /// ```
    /// use forebay_base::Span;
    /// use forebay_rt::{Virtual, VirtualSettings, Work};
    /// let machine = Virtual::new(VirtualSettings::default());
    /// let (own, call) = (Span::from_micros(3), Span::from_micros(2));
    /// machine.run(machine.rt().charge(Work::User(own)).and(Work::Spend(call)));
    /// assert_eq!(machine.processor_busy(), [Span::from_micros(5)]);
    /// assert_eq!(machine.processor_times().user, own);
    /// ```
    pub fn and(mut self, work: Work) -> Charge {
        if let Some(queued) = &mut self.queued
            && let Body::Virtual(simulation) = &queued.rt.body
        {
            queued.cost.add(simulation.costs(), work);
        }
        self
    }

    /// The same after `batches` batches of pages under the lock of LRU lists number `lock`. While
    /// another holds that lock the processor spins, and that time is charged as well.
    pub fn under_lock(mut self, lock: u32, batches: u64) -> Charge {
        self.holds(lock, |costs| {
            Span::from_nanos(costs.lru_lock_ns).saturating_mul(batches)
        });
        self
    }

    /// The same after `steps` over dirty files under the lock number `lock` of their store.
    pub fn stepping_under(mut self, lock: u32, steps: u64) -> Charge {
        self.holds(lock, |costs| {
            Span::from_nanos(costs.file_step_ns).saturating_mul(steps)
        });
        self
    }

    fn holds(&mut self, lock: u32, held: impl FnOnce(&WorkCosts) -> Span) {
        if let Some(queued) = &mut self.queued
            && let Body::Virtual(simulation) = &queued.rt.body
        {
            let held = held(simulation.costs());
            queued.cost.total += held;
            queued.cost.lock = Some((lock, held));
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
            Body::Virtual(simulation) if queued.cost.total > Span::ZERO => {
                simulation.poll_job(queued.cost, &mut queued.job, context)
            }
            _ => Poll::Ready(()),
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
            && let Body::Virtual(simulation) = &rt.body
        {
            simulation.cancel_job(*job);
        }
    }
}
