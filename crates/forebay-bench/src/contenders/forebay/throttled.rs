//! Whether the disk works while writers wait for it.

use crate::contender::Sample;
use forebay::Cache;
use forebay::statistics::BackingStatistics;

/// The metric of [`ThrottledTimes::idle_sample`].
pub(crate) const IDLE_WHILE_THROTTLED: &str = "idle while throttled";

/// The times of all stores of a cache so far, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThrottledTimes {
    throttled_us: u64,
    idle_us: u64,
}

impl ThrottledTimes {
    pub(crate) fn of(cache: &Cache) -> ThrottledTimes {
        let backings = cache.statistics().backings;
        let sum = |of: fn(&BackingStatistics) -> u64| backings.iter().map(of).sum();
        ThrottledTimes {
            throttled_us: sum(|backing| backing.throttled_us),
            idle_us: sum(|backing| backing.idle_while_throttled_us),
        }
    }

    /// The part of the throttled time since `before` in which the store had something to write but
    /// no request to work on; `None` if no writer was throttled.
    pub(crate) fn idle_sample(self, before: ThrottledTimes) -> Option<Sample> {
        let throttled_us = self.throttled_us - before.throttled_us;
        let idle_us = self.idle_us - before.idle_us;
        let percent = 100.0 * idle_us as f64 / throttled_us as f64;
        (throttled_us > 0).then(|| Sample::plain(IDLE_WHILE_THROTTLED, "%", percent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_part_is_of_the_throttled_time_in_between() {
        let at = |throttled_us, idle_us| ThrottledTimes {
            throttled_us,
            idle_us,
        };
        let sample = at(1_500, 130).idle_sample(at(500, 120)).unwrap();
        assert_eq!((sample.value, &*sample.unit), (1.0, "%"));
        assert!(at(500, 120).idle_sample(at(500, 120)).is_none());
    }
}
