//! A device's own clock, which may run slow or stand still.
//!
//! A drive counts in its own time. If a device degrades, or stalls, its clock runs slow or stands
//! still; what is under way then goes on later where it was.

use forebay_base::{Instant, Span};
use forebay_rt::Rt;
use forebay_rt::wait::Listener;

/// How fast a device is compared with its figures, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    thousandths: u32,
    /// The same moment in the machine's time and in the device's.
    machine: Instant,
    device: Instant,
}

/// The pace of a device that does what its figures say.
pub const FULL_PACE: u32 = 1000;

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            thousandths: FULL_PACE,
            machine: Instant::ZERO,
            device: Instant::ZERO,
        }
    }
}

impl Pace {
    /// The device's time at `now`.
    pub(crate) fn device_time(&self, now: Instant) -> Instant {
        if self.thousandths == FULL_PACE {
            return self.device + (now - self.machine);
        }
        let passed = u128::from((now - self.machine).as_nanos()) * u128::from(self.thousandths);
        self.device + Span::from_nanos((passed / u128::from(FULL_PACE)) as u64)
    }

    /// The first moment of the machine at which the device's time is `then`; never, if it stands.
    pub(crate) fn machine_time(&self, then: Instant) -> Instant {
        let ahead = then - self.device;
        if self.thousandths == FULL_PACE {
            return self.machine + ahead;
        }
        if self.thousandths == 0 {
            return Instant::NEVER;
        }
        let nanos = u128::from(ahead.as_nanos()) * u128::from(FULL_PACE);
        let nanos = nanos.div_ceil(u128::from(self.thousandths));
        self.machine + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// From `now` on the device runs at `thousandths` of its figures.
    pub(crate) fn change(&mut self, now: Instant, thousandths: u32) {
        *self = Pace {
            thousandths,
            machine: now,
            device: self.device_time(now),
        };
    }
}

/// Waits at `now` until `next`, which may have passed and never comes for a device that stands, or
/// until something has changed. Which of the two it was shows in the next round of what serves.
pub(super) async fn wait_until(rt: &Rt, now: Instant, next: Instant, changed: Listener<'_>) {
    if next == Instant::NEVER {
        changed.await;
    } else if next > now {
        let _ = rt.timeout(next - now, changed).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_pace_takes_twice_as_long_and_none_takes_for_ever() {
        let at = |ms| Instant::ZERO + Span::from_millis(ms);
        let mut pace = Pace::default();
        assert_eq!(pace.machine_time(at(10)), at(10));
        pace.change(at(10), 500);
        assert_eq!(pace.device_time(at(30)), at(20));
        assert_eq!(pace.machine_time(at(20)), at(30));
        pace.change(at(30), 0);
        assert_eq!(pace.device_time(at(1_000)), at(20));
        assert_eq!(pace.machine_time(at(21)), Instant::NEVER);
        pace.change(at(1_000), FULL_PACE);
        assert_eq!(pace.machine_time(at(21)), at(1_001));
    }

    #[test]
    fn a_moment_given_by_the_device_has_come_when_the_machine_is_there() {
        for thousandths in [1, 3, 7, 333, 999, 1000, 1700] {
            let mut pace = Pace::default();
            pace.change(Instant::from_nanos(17), thousandths);
            for nanos in [17, 18, 1_000, 123_456_789] {
                let then = Instant::from_nanos(nanos);
                assert!(pace.device_time(pace.machine_time(then)) >= then);
            }
        }
    }
}
