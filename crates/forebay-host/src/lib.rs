//! The computer that a program of Forebay runs on.
//!
//! Its memory, and the part that this process may use; signals; processes that end with their
//! parent; scratch folders that are removed whatever happens; disks limited to a rate; and where
//! results go. What a program cannot do here is one line for people ([`HostError`]).

mod error;
mod interrupt;
mod kept;
mod loop_disk;
pub mod output;
mod process;
mod room;
mod scratch;
mod step_error;

pub use error::HostError;
pub use forebay_rt::machine::{available_bytes, bytes_in, cgroup, limit_bytes, memory_bytes};
pub use interrupt::Interrupts;
pub use loop_disk::{LoopDisk, SlowDevice};
pub use process::{Process, end_with_parent};
pub use room::{Room, Sight, pressure_file, stalled_us};
pub use scratch::Scratch;
pub use step_error::StepError;
