//! The handle.

use crate::body::Body;
use crate::costs::Work;
use crate::real::Real;
use crate::sleep::{self, Elapsed, Sleep};
use crate::task::{Task, catch};
use crate::virt::ProcessorTimes;
use crate::work::Charge;
use crate::yield_now::YieldNow;
use forebay_base::{Instant, Prng, Span};
use std::fmt;
use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;

/// A runtime. Clones are handles to the same one.
///
/// Code that is written against it runs in either body:
///
/// ```
/// use forebay_base::Span;
/// use forebay_rt::{Rt, Virtual, VirtualSettings, block_on};
///
/// async fn naps(rt: &Rt) -> u64 {
///     let started = rt.now();
///     for _ in 0..3 {
///         rt.sleep(Span::from_millis(1)).await;
///     }
///     (rt.now() - started).as_millis()
/// }
///
/// assert!(block_on(naps(&Rt::real())) >= 3);
/// let machine = Virtual::new(VirtualSettings::default());
/// assert_eq!(machine.run(naps(&machine.rt())), 3);
/// ```
#[derive(Clone)]
pub struct Rt {
    pub(crate) body: Body,
}

impl Rt {
    /// Whether the body had to start its timer thread.
    #[cfg(test)]
    pub(crate) fn has_timer_thread(&self) -> bool {
        match &self.body {
            Body::Real(real) => real.has_timer_thread(),
            Body::Virtual(_) => false,
        }
    }

    /// A runtime in real time. Its threads, at least two and one for each processor, and one more
    /// for timers, start when they are first needed, each with
    /// [`SMALL_STACK_BYTES`](crate::thread::SMALL_STACK_BYTES) of stack. They end when the last
    /// handle is dropped; tasks that still wait then are dropped.
    pub fn real() -> Rt {
        Rt {
            body: Body::Real(Arc::new(Real::new())),
        }
    }

    /// Time since this runtime started. It never goes back.
    pub fn now(&self) -> Instant {
        self.body.now()
    }

    /// Ready at `deadline`, at once if that has passed, never at [`Instant::NEVER`]. Works under
    /// any executor.
    #[track_caller]
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::new(self.body.clone(), deadline, Some(Location::caller()))
    }

    /// Ready `span` from now.
    #[track_caller]
    pub fn sleep(&self, span: Span) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    /// The output of `future`, or [`Elapsed`] if it takes longer than `span` from the first poll at
    /// which it had to wait. A future that is ready at once costs no allocation and no look at the
    /// clock.
    ///
    /// # Errors
    /// [`Elapsed`]; `future` is dropped then.
    ///
    /// ```
    /// use forebay_base::Span;
    /// use forebay_rt::{Elapsed, Virtual, VirtualSettings};
    /// let machine = Virtual::new(VirtualSettings::default());
    /// let rt = machine.rt();
    /// let late = rt.timeout(Span::from_millis(1), std::future::pending::<()>());
    /// assert_eq!(machine.run(late), Err(Elapsed));
    /// ```
    pub fn timeout<F: Future>(
        &self,
        span: Span,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + use<F> {
        sleep::timeout(self.body.clone(), span, future)
    }

    /// Runs `future` as a task of its own. `name` is what reports and panics call it.
    ///
    /// A task that panics is reported on standard error by its name; [`Task::join`] panics in
    /// turn. In virtual time the panic of a task that nobody can join ends the whole run.
    ///
    /// # Panics
    /// In real time, if the system refuses the threads that run tasks.
    ///
    /// ```
    /// use forebay_rt::{Rt, block_on, wait::Slot};
    /// use std::sync::Arc;
    /// let (rt, slot) = (Rt::real(), Arc::new(Slot::new()));
    /// let setter = Arc::clone(&slot);
    /// let task = rt.spawn("setter", async move { setter.set(7) });
    /// block_on(task.join());
    /// assert_eq!(slot.try_take(), Some(7));
    /// ```
    pub fn spawn(
        &self,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        let (task, ending) = Task::new(name);
        match &self.body {
            Body::Real(real) => real.spawn(name, Box::pin(future), ending),
            Body::Virtual(simulation) => simulation.spawn(name, Box::pin(future), ending),
        }
        task
    }

    /// The output of `future`, or none if it panicked: a task that others rely on can then go on
    /// with something else. In virtual time the panic goes on and ends the run, so that a
    /// simulation hides no bug.
    ///
    /// ```
    /// use forebay_rt::{Rt, block_on};
    /// let rt = Rt::real();
    /// assert_eq!(block_on(rt.caught(async { 7 })), Some(7));
    /// let broken = block_on(rt.caught(async { panic!("a bug") }));
    /// assert_eq!(broken, None::<()>);
    /// ```
    pub async fn caught<F: Future>(&self, future: F) -> Option<F::Output> {
        let panic = match catch(future).await {
            Ok(output) => return Some(output),
            Err(panic) => panic,
        };
        if self.is_virtual() {
            resume_unwind(panic);
        }
        None
    }

    /// The stream of chance called `name`: in virtual time given by the seed and the name, in real
    /// time different for each runtime. The same name gives the same stream again.
    ///
    /// ```
    /// let rt = forebay_rt::Rt::real();
    /// assert_eq!(rt.stream("disk").next_u64(), rt.stream("disk").next_u64());
    /// ```
    pub fn stream(&self, name: &str) -> Prng {
        match &self.body {
            Body::Real(real) => real.stream(name),
            Body::Virtual(simulation) => simulation.stream(name),
        }
    }

    /// Spends the processor time of `work`. In real time this does nothing, because the work itself
    /// took the time. In virtual time it takes a place in the run queue of the simulated
    /// processors, for as long as the machine's [`WorkCosts`](crate::WorkCosts) say.
    ///
    /// ```
    /// use forebay_base::Span;
    /// use forebay_rt::{Virtual, VirtualSettings, Work};
    /// let machine = Virtual::new(VirtualSettings::default());
    /// let rt = machine.rt();
    /// machine.run(rt.charge(Work::Spend(Span::from_micros(3))));
    /// assert_eq!(machine.processor_busy(), [Span::from_micros(3)]);
    /// ```
    pub fn charge(&self, work: Work) -> Charge {
        match &self.body {
            Body::Real(_) => Charge::FREE,
            Body::Virtual(_) => Charge::new(self.clone()).and(work),
        }
    }

    /// How simulated processors have spent their time so far; none in real time.
    pub fn processor_times(&self) -> ProcessorTimes {
        match &self.body {
            Body::Real(_) => ProcessorTimes::default(),
            Body::Virtual(simulation) => simulation.processor_times(),
        }
    }

    /// Lets the other tasks that are ready run once.
    pub fn yield_now(&self) -> YieldNow {
        YieldNow {
            body: self.body.clone(),
            yielded: false,
        }
    }

    /// Whether time is simulated.
    pub fn is_virtual(&self) -> bool {
        matches!(self.body, Body::Virtual(_))
    }
}

impl fmt::Debug for Rt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = if self.is_virtual() { "virtual" } else { "real" };
        write!(f, "Rt({body}, {})", Span::from_nanos(self.now().as_nanos()))
    }
}
