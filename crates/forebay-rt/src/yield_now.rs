//! Giving way to the other tasks.

use crate::body::Body;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets others run once; made by [`Rt::yield_now`](crate::Rt::yield_now).
#[derive(Debug)]
#[must_use = "nothing is yielded unless this is awaited"]
pub struct YieldNow {
    pub(crate) body: Body,
    pub(crate) yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        self.body.give_way();
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
