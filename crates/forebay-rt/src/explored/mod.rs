//! Orders drawn by chance of the steps of many threads, over the code that ships.
//!
//! Under `--cfg shuttle` the real body of [`Rt`](crate::Rt) runs on threads that change at each
//! lock, each atomic and each wake-up, in an order that a number draws. Their clock stands still
//! while one of them can go on, and jumps to the next deadline when none can. So a wait whose event
//! came and woke nobody takes time in which everything stands still, which a test sees, or has no
//! end, which the explorer reports.
//!
//! Atomics are in one order for all threads here: what a weaker order than the written one would
//! allow is left to loom.

mod orders;
pub(crate) mod threads;

use forebay_base::Span;
use orders::Orders;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// More steps than any order of a test takes that comes to its end.
const MOST_STEPS: usize = 5_000_000;
/// Frames of a build that is hardly optimized are large.
const STACK_BYTES: usize = 512 << 10;

/// When the clock goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// When no thread can: a call that waits for nothing but other threads takes no time.
    Waits,
    /// At any step it may jump over as much as this, as if the machine were busy with something
    /// else: a timer may fire before, beside and after the event that it bounds.
    Jumps(Span),
}

/// Runs `body` under `orders` orders, each drawn from a number of its own from 0 on. The body is
/// given the number, to draw from it as well.
///
/// `FOREBAY_FIRST_ORDER` is the first number in place of 0, and `FOREBAY_ORDERS` how many are tried
/// in place of `orders`: an order that failed is run again by its number and 1.
///
/// # Panics
/// If `body` panics under an order, or some thread has not ended and nothing can wake it. The
/// number of the order was reported on standard error then.
pub fn explore(orders: u64, clock: Clock, body: impl Fn(u64) + Send + Sync + 'static) {
    let first = number_from("FOREBAY_FIRST_ORDER").unwrap_or(0);
    let orders = number_from("FOREBAY_ORDERS").unwrap_or(orders);
    let mut config = Config::default();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let runner = Runner::new(Orders::new(first..first + orders, clock), config);
    let run = catch_unwind(AssertUnwindSafe(|| {
        runner.run(move || {
            body(threads::order());
            threads::leave();
        })
    }));
    if let Err(panic) = run {
        let order = threads::order();
        crate::say(format_args!(
            "it failed under order {order}; again: FOREBAY_FIRST_ORDER={order} FOREBAY_ORDERS=1"
        ));
        resume_unwind(panic);
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("the variable is a number"))
}
