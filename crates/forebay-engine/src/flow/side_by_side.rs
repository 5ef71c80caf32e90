//! Several waits of one kind at a time, up to a limit.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Carries out `calls`, at most `most` at a time, begun in their order. The first failure in that
/// order is returned. The others are carried out all the same.
pub(crate) async fn side_by_side<E>(
    most: usize,
    calls: impl Iterator<Item = impl Future<Output = Result<(), E>>>,
) -> Result<(), E> {
    let mut calls = calls.enumerate();
    let mut under_way: Vec<(usize, Pin<Box<_>>)> = Vec::with_capacity(most);
    let mut first: Option<(usize, E)> = None;
    loop {
        let room = most - under_way.len();
        let begun = calls.by_ref().take(room);
        under_way.extend(begun.map(|(number, call)| (number, Box::pin(call))));
        if under_way.is_empty() {
            return first.map_or(Ok(()), |(_, error)| Err(error));
        }
        // All are polled, whichever was woken: they are few.
        let some_end = poll_fn(|context| {
            let before = under_way.len();
            under_way.retain_mut(|(number, call)| {
                let Poll::Ready(result) = call.as_mut().poll(context) else {
                    return true;
                };
                let is_earlier = first.as_ref().is_none_or(|(at, _)| *number < *at);
                if let (Err(error), true) = (result, is_earlier) {
                    first = Some((*number, error));
                }
                false
            });
            if under_way.len() < before {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        some_end.await;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use forebay_base::Span;
    use forebay_rt::{Virtual, VirtualSettings};
    use std::cell::Cell;

    #[test]
    fn no_more_than_the_limit_are_under_way_and_the_first_failure_counts() {
        let machine = Virtual::new(VirtualSettings::default());
        let rt = machine.rt();
        let (now, most) = (Cell::new(0), Cell::new(0));
        machine.run(async {
            let began = rt.now();
            let call = |number: u64| {
                let (rt, now, most) = (&rt, &now, &most);
                async move {
                    now.set(now.get() + 1);
                    most.set(now.get().max(most.get()));
                    rt.sleep(Span::from_millis(100 - number)).await;
                    now.set(now.get() - 1);
                    if number % 7 == 3 { Err(number) } else { Ok(()) }
                }
            };
            assert_eq!(side_by_side(5, (0..20).map(call)).await, Err(3));
            let took = rt.now().since(began);
            assert!(took < Span::from_millis(500), "side by side: {took:?}");
        });
        assert_eq!((now.get(), most.get()), (0, 5));
    }
}
