//! The memory of the computer, and the part that this process may use.

pub mod cgroup;
mod fields;

pub use fields::bytes_in;

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
/// use forebay_rt::machine::{available_bytes, memory_bytes};
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
