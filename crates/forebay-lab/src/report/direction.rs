//! Which way a figure is good.

use serde::{Deserialize, Serialize};

/// Which way a figure is good.
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

impl Better {
    /// As a table says it; empty for a figure that is good in neither way.
    pub fn word(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "",
        }
    }

    /// What is known of a figure by its name.
    pub fn of_metric(metric: &str) -> Better {
        const LOWER: [&str; 12] = [
            "elapsed",
            "duration",
            "latency",
            "pause",
            "stall",
            "await",
            "page_writes",
            "seek",
            "nr_vmscan_write",
            "direct_pages_scanned",
            "immediate",
            "time_to_kill",
        ];
        const HIGHER: [&str; 4] = ["files_per_second", "throughput", "efficiency", "bandwidth"];
        let has = |words: &[&str]| words.iter().any(|word| metric.contains(word));
        if has(&HIGHER) {
            Better::Higher
        } else if has(&LOWER) {
            Better::Lower
        } else {
            Better::Neither
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_which_way_is_good() {
        assert_eq!(Better::of_metric("write_latency_p99"), Better::Lower);
        assert_eq!(Better::of_metric("files_per_second_mean"), Better::Higher);
        assert_eq!(Better::of_metric("kswapd_pages_reclaimed"), Better::Neither);
    }
}
