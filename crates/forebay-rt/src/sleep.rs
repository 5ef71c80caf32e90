//! Waiting for a point in time.

use crate::alarm::{self, AlarmId};
use crate::body::Body;
use crate::timer::TimerId;
use crate::wait::site;
use forebay_base::{Instant, Span};
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// Ready at a point in time; made by [`crate::Rt::sleep_until`]. Dropping it cancels the wait.
#[derive(Debug)]
#[must_use = "nobody sleeps unless this is awaited"]
pub struct Sleep {
    body: Body,
    deadline: Instant,
    /// The body's name for the timer, from the first poll that had to wait.
    timer: Option<TimerId>,
    /// What wakes the thread that polled this last, instead of a timer.
    alarm: Option<AlarmId>,
    /// The sleeper; none if the sleep only bounds another wait.
    site: Option<&'static Location<'static>>,
}

impl Sleep {
    pub(crate) fn new(
        body: Body,
        deadline: Instant,
        site: Option<&'static Location<'static>>,
    ) -> Sleep {
        Sleep {
            body,
            deadline,
            timer: None,
            alarm: None,
            site,
        }
    }

    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let polled = match &this.body {
            Body::Real(real) => {
                real.poll_timer(this.deadline, &mut this.timer, &mut this.alarm, context)
            }
            Body::Virtual(simulation) => {
                simulation.poll_timer(this.deadline, &mut this.timer, context)
            }
        };
        if polled.is_ready()
            && let Some(alarm) = this.alarm.take()
        {
            alarm::cancel(alarm);
        }
        if let (Poll::Pending, Some(site)) = (&polled, this.site) {
            site::note(site);
        }
        polled
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm {
            alarm::cancel(alarm);
        }
        if let Some(timer) = self.timer {
            match &self.body {
                Body::Real(real) => real.cancel_timer(timer),
                Body::Virtual(simulation) => simulation.cancel_timer(timer),
            }
        }
    }
}

/// The time was up first; see [`crate::Rt::timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the time was up before the work was done; allow more or look at what it waits for",
        )
    }
}

impl std::error::Error for Elapsed {}

/// See [`crate::Rt::timeout`].
pub(crate) async fn timeout<F: Future>(
    body: Body,
    span: Span,
    future: F,
) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut sleep = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        let sleep = sleep.get_or_insert_with(|| Sleep::new(body.clone(), body.now() + span, None));
        Pin::new(sleep).poll(context).map(|()| Err(Elapsed))
    })
    .await
}
