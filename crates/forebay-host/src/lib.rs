//! The computer that a program of Forebay runs on.
//!
//! Its memory, and the part that this process may use; signals; processes that end with their
//! parent; scratch folders that are removed whatever happens; disks limited to a rate; and where
//! results go. What a program cannot do here is one line for people ([`HostError`]).

pub mod cgroup;
mod error;
mod fields;
mod interrupt;
mod kept;
mod loop_disk;
pub mod output;
mod process;
mod room;
mod scratch;
mod step_error;

pub use error::HostError;
pub use fields::bytes_in;
pub use interrupt::Interrupts;
pub use loop_disk::{LoopDisk, SlowDevice};
pub use process::{Process, end_with_parent};
pub use room::{Room, Sight, pressure_file, stalled_us};
pub use scratch::Scratch;
pub use step_error::StepError;

use std::fs;

/// The memory of the machine, in bytes; `None` if the system does not report it.
pub fn memory_bytes() -> Option<u64> {
    bytes_in(&meminfo()?, "MemTotal:")
}

/// The least limit of the memory cgroups of this process, in bytes; `None` without a limit.
pub fn limit_bytes() -> Option<u64> {
    cgroup::limit_bytes()
}

/// How much this process can still take, in bytes, without swapping and within the limits of its
/// cgroups; `None` if the system does not report it.
///
/// # Examples
/// ```
/// use forebay_host::{available_bytes, memory_bytes};
///
/// if let (Some(available), Some(all)) = (available_bytes(), memory_bytes()) {
///     assert!(available <= all);
/// }
/// ```
pub fn available_bytes() -> Option<u64> {
    let of_machine = meminfo().and_then(|text| bytes_in(&text, "MemAvailable:"));
    [of_machine, cgroup::available_bytes()]
        .into_iter()
        .flatten()
        .min()
}

fn meminfo() -> Option<String> {
    fs::read_to_string("/proc/meminfo").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        assert!(memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
