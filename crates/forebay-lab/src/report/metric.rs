//! What the name of a figure determines: its unit, and which direction is good.

use crate::probe::family_of;
use serde::{Deserialize, Serialize};

/// Which direction of a figure is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither is good by itself.
    #[default]
    Neither,
}

/// Parts of names and which direction is good; the first that a name contains counts. Parts about
/// inequality and waste come before those about rates, and rates before times.
const DIRECTIONS: [(&str, Better); 31] = [
    ("coeffvar", Better::Lower),
    // How waits are distributed says nothing about how many there were.
    ("pauses_below", Better::Neither),
    ("stall_share_zero", Better::Neither),
    ("files_per_", Better::Higher),
    ("bytes_per_s", Better::Higher),
    ("throughput", Better::Higher),
    ("efficiency", Better::Higher),
    ("bandwidth", Better::Higher),
    ("elapsed", Better::Lower),
    ("duration", Better::Lower),
    ("latency", Better::Lower),
    ("launch", Better::Lower),
    ("pause", Better::Lower),
    ("stall", Better::Lower),
    ("stood_still", Better::Lower),
    ("await", Better::Lower),
    ("page_writes", Better::Lower),
    ("direct_file_writes", Better::Lower),
    ("seek", Better::Lower),
    ("nr_vmscan_write", Better::Lower),
    ("direct_pages_scanned", Better::Lower),
    ("percentage_direct_scans", Better::Lower),
    ("immediate", Better::Lower),
    ("time_to_kill", Better::Lower),
    ("turns_lost", Better::Lower),
    ("final_sync", Better::Lower),
    ("lock_spinning", Better::Lower),
    ("cpu_percent", Better::Lower),
    ("cpu_system_share", Better::Lower),
    ("system_cpu", Better::Lower),
    ("user_cpu", Better::Lower),
];

/// Parts of names and their units; the first that a name contains counts. A part that begins with
/// `_` is the end of a name.
const UNITS: [(&str, &str); 30] = [
    // A deviation divided by its mean, of any figure.
    ("coeffvar", ""),
    ("files_per_", "files/s"),
    ("bytes_per_s", "bytes/s"),
    ("throughput", "bytes/s"),
    ("task_ratelimit", "bytes/s"),
    ("_io_bytes", "bytes"),
    ("efficiency", "%"),
    ("percent", "%"),
    ("share", "%"),
    ("_point", "%"),
    ("throttle_start", "%"),
    ("velocity", "pages/s"),
    ("msecs", "ms"),
    ("_ms", "ms"),
    ("await", "ms"),
    ("mmap_latency", "ms"),
    // Those of simoop, as its reports have always had them.
    ("latency_p", "us"),
    ("_us", "us"),
    ("_s", "s"),
    ("elapsed", "s"),
    ("duration", "s"),
    ("cpu", "s"),
    ("time_to_kill", "s"),
    ("final_sync", "s"),
    ("lock_spinning", "s"),
    ("pages", "pages"),
    ("page_writes", "pages"),
    ("direct_file_writes", "pages"),
    ("page_ins", "pages"),
    ("page_outs", "pages"),
];

impl Better {
    /// The word in a table; empty for a figure without a good direction.
    pub fn word(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "",
        }
    }

    /// What is known of a figure by its name.
    pub fn of_metric(metric: &str) -> Better {
        let family = family_of(metric);
        let known = DIRECTIONS.iter().find(|(part, _)| family.contains(part));
        known.map_or(Better::Neither, |(_, better)| *better)
    }
}

/// The unit of a figure; empty for a count and for a ratio.
pub(super) fn unit_of(metric: &str) -> &'static str {
    let family = family_of(metric);
    let known = UNITS.iter().find(|(part, _)| match part.strip_prefix('_') {
        Some(_) => family.ends_with(part),
        None => family.contains(part),
    });
    known.map_or("", |(_, unit)| unit)
}

#[cfg(test)]
#[path = "metric_tests.rs"]
mod tests;
