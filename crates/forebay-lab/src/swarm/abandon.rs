//! Abandoned calls: a future that is dropped at one of its waits, at a chosen one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future until it has waited `waits` times, and then drops it.
pub(super) struct Abandoned<F> {
    future: Option<Pin<Box<F>>>,
    waits_left: Option<u32>,
}

/// `future`, dropped at its wait number `waits` (counted from 1), or never.
pub(super) fn abandon_after<F: Future>(future: F, waits: Option<u32>) -> Abandoned<F> {
    Abandoned {
        future: Some(Box::pin(future)),
        waits_left: waits,
    }
}

impl<F: Future> Future for Abandoned<F> {
    /// None if it was dropped.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let future = self
            .future
            .as_mut()
            .expect("it is not polled after its end");
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        match &mut self.waits_left {
            None => Poll::Pending,
            Some(left) if *left > 1 => {
                *left -= 1;
                Poll::Pending
            }
            Some(_) => {
                self.future = None;
                Poll::Ready(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_base::Span;
    use forebay_rt::{Virtual, VirtualSettings};

    #[test]
    fn a_future_is_dropped_at_the_wait_that_was_chosen() {
        let machine = Virtual::new(VirtualSettings::default());
        let rt = machine.rt();
        let naps = |count: u32| {
            let rt = rt.clone();
            async move {
                for _ in 0..count {
                    rt.sleep(Span::from_millis(1)).await;
                }
            }
        };
        assert_eq!(machine.run(abandon_after(naps(3), Some(4))), Some(()));
        assert_eq!(machine.run(abandon_after(naps(3), None)), Some(()));
        assert_eq!(machine.run(abandon_after(naps(3), Some(2))), None);
    }
}
