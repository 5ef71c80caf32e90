//! The only clock and the only waiting.
//!
//! Everything that waits, spawns or asks for the time does so through [`Rt`], a small handle with
//! two bodies: the *real* one runs tasks on threads of its own, the *virtual* one ([`Virtual`])
//! runs them on one thread, in an order drawn from a seed, and jumps its clock to the next event.
//! What waits for an event rather than for a time uses [`wait`], which needs no runtime at all.
//!
//! ```
//! use forebay_base::Span;
//! use forebay_rt::{Rt, block_on};
//!
//! async fn twice(rt: Rt) {
//!     for _ in 0..2 {
//!         rt.sleep(Span::from_millis(1)).await;
//!     }
//! }
//!
//! let rt = Rt::real();
//! block_on(rt.spawn("twice", twice(rt.clone())).join());
//! ```

// If nobody reads the output, they would end a serving thread with a panic.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod alarm;
mod block_on;
mod body;
mod costs;
pub mod driver;
#[cfg(shuttle)]
pub mod explored;
mod fresh;
pub mod machine;
mod own_thread;
mod park;
mod real;
mod rt;
mod say;
mod sleep;
mod task;
pub mod thread;
mod timer;
pub mod virt;
pub mod wait;
mod work;
mod yield_now;

pub use block_on::block_on;
pub use costs::{Work, WorkCosts};
pub use fresh::fresh_number;
pub use real::unix_time_ms;
pub use rt::Rt;
pub use say::say;
pub use sleep::{Elapsed, Sleep};
pub use task::{Task, panic_text};
pub use virt::{Virtual, VirtualSettings};
pub use work::Charge;
pub use yield_now::YieldNow;
