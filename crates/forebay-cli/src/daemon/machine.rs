//! Checks how much memory the machine has, before any of it is taken.

use crate::daemon::say::say;
use crate::error::CommandError;
use forebay_base::units::show_bytes;
use forebay_host as host;

/// Beside the memory of `--memory` a process has its code, and the kernel's memory for it: page
/// tables, rings, sockets. A memory cgroup counts both.
const BESIDE_BYTES: u64 = 16 << 20;

/// Refuses a budget that the machine or the memory cgroup of this process can never hold: the
/// process would be killed in the middle of its work. Warns if a cgroup has hardly enough room for
/// it. An elastic budget has to hold with its floor only.
pub(crate) fn check_memory(
    memory_bytes: u64,
    floor_bytes: Option<u64>,
) -> Result<(), CommandError> {
    let limits = Limits {
        machine_bytes: host::memory_bytes(),
        group_bytes: host::limit_bytes(),
    };
    let warning = match floor_bytes {
        None => limits.judge(memory_bytes)?,
        Some(floor_bytes) => limits.judge_range(floor_bytes, memory_bytes)?,
    };
    if let Some(warning) = warning {
        say(warning);
    }
    Ok(())
}

/// The limits that cannot be exceeded, as far as the system shows them.
struct Limits {
    machine_bytes: Option<u64>,
    group_bytes: Option<u64>,
}

impl Limits {
    /// The same for a budget that gives way down to its floor.
    fn judge_range(
        &self,
        floor_bytes: u64,
        most_bytes: u64,
    ) -> Result<Option<String>, CommandError> {
        if let Some(warning) = self.judge(floor_bytes)? {
            return Ok(Some(warning));
        }
        let least = self.machine_bytes.into_iter().chain(self.group_bytes).min();
        let least = least.filter(|&bytes| bytes < most_bytes);
        Ok(least.map(|bytes| {
            format!(
                "--memory allows up to {}, and at most {} can be had here: the cache stays below \
                 that",
                show_bytes(most_bytes),
                show_bytes(bytes),
            )
        }))
    }

    /// An error for what is impossible, a warning for what is close.
    fn judge(&self, memory_bytes: u64) -> Result<Option<String>, CommandError> {
        let least = |limit: Option<u64>| limit.filter(|&bytes| bytes < memory_bytes);
        let refuse = |owner: &str, limit_bytes: u64| {
            let text = format!(
                "--memory {} is more than {owner}, which is {}: give a smaller one",
                show_bytes(memory_bytes),
                show_bytes(limit_bytes),
            );
            Err(CommandError::setting("memory", &text))
        };
        if let Some(bytes) = least(self.machine_bytes) {
            return refuse("the machine has", bytes);
        }
        if let Some(bytes) = least(self.group_bytes) {
            return refuse("the memory cgroup of this process allows", bytes);
        }
        let wanted_bytes = memory_bytes.saturating_add(BESIDE_BYTES);
        let close = self.group_bytes.filter(|&bytes| bytes < wanted_bytes);
        Ok(close.map(|bytes| {
            format!(
                "the memory cgroup of this process allows {}, hardly more than --memory: allow {} \
                 more than that, or this process may be killed",
                show_bytes(bytes),
                show_bytes(BESIDE_BYTES),
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn judged(machine_mib: u64, group_mib: u64, memory_mib: u64) -> Result<Option<String>, String> {
        let limits = Limits {
            machine_bytes: Some(machine_mib * MIB),
            group_bytes: Some(group_mib * MIB),
        };
        limits
            .judge(memory_mib * MIB)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn more_than_there_is_is_refused_and_hardly_enough_is_warned_about() {
        assert_eq!(judged(1024, 200, 184), Ok(None));
        assert!(
            judged(1024, 200, 185)
                .unwrap()
                .unwrap()
                .contains("allow 16 MiB more")
        );
        assert!(
            judged(1024, 200, 201)
                .unwrap_err()
                .contains("cgroup of this process allows")
        );
        assert!(
            judged(1024, 4096, 1025)
                .unwrap_err()
                .contains("the machine has, which is 1 GiB")
        );
        let limits = Limits {
            machine_bytes: Some(4096 * MIB),
            group_bytes: Some(200 * MIB),
        };
        assert!(limits.judge_range(201 * MIB, 300 * MIB).is_err());
        assert_eq!(limits.judge_range(64 * MIB, 190 * MIB).unwrap(), None);
        let over = limits.judge_range(64 * MIB, 300 * MIB).unwrap();
        assert!(over.is_some_and(|text| text.contains("at most 200 MiB can be had here")));
        let unknown = Limits {
            machine_bytes: None,
            group_bytes: None,
        };
        assert!(unknown.judge(u64::MAX).unwrap().is_none());
    }
}
