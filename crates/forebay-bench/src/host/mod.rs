//! What the system says of this machine's memory, and of the part that this process may have.

pub(crate) mod cgroup;
mod fields;

pub use fields::bytes_in;
use std::fs;

/// The memory of the machine, in bytes; none where the system does not say.
pub fn memory_bytes() -> Option<u64> {
    bytes_in(&meminfo()?, "MemTotal:")
}

/// The least limit of the memory cgroups of this process, in bytes; none where there is no limit.
pub fn limit_bytes() -> Option<u64> {
    cgroup::limit_bytes()
}

/// What this process can still have, in bytes, without anything being swapped and within the limits
/// of its cgroups; none where the system does not say.
///
/// # Examples
/// ```
/// use forebay_bench::host;
///
/// if let (Some(available), Some(all)) = (host::available_bytes(), host::memory_bytes()) {
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
