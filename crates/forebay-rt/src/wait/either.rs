//! Two events, whichever comes first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Ready as soon as one of the two is. The other one is dropped then.
///
/// ```
/// use forebay_rt::wait::{WaitQueue, either};
/// use forebay_rt::block_on;
/// let (asked, ended) = (WaitQueue::new(), WaitQueue::new());
/// let waits = either(asked.listen(), ended.listen());
/// ended.wake_all();
/// block_on(waits);
/// ```
pub async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        // Both are polled, so that both have the waker.
        let first = one.as_mut().poll(context);
        let second = other.as_mut().poll(context);
        if first.is_ready() || second.is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wait::WaitQueue;
    use std::task::{Context, Waker};

    #[test]
    fn whichever_comes_first_ends_the_wait() {
        for comes in 0..2 {
            let queues = [WaitQueue::new(), WaitQueue::new()];
            let mut waits = pin!(either(queues[0].listen(), queues[1].listen()));
            let mut context = Context::from_waker(Waker::noop());
            assert!(waits.as_mut().poll(&mut context).is_pending());
            assert_eq!(queues[comes].wake_all(), 1);
            assert!(waits.as_mut().poll(&mut context).is_ready());
        }
    }
}
