//! What shows that a file below is still as it was when the source last had all of it.
//!
//! A program can restore a file with its length and its time of modification; the time of change it
//! cannot set. A change of something other than the bytes is then taken for one of the bytes, which
//! costs a read.

use rustix::fs::{Stat, Timespec};
use rustix::time::ClockId;

/// The state of a file below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    length_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// A later change may have left the same times, so this shows nothing.
    is_young: bool,
}

impl Agreed {
    /// As in `stat`, at this moment.
    pub(crate) fn of(stat: &Stat) -> Agreed {
        Agreed::at(stat, seconds_now())
    }

    fn at(stat: &Stat, now_s: i64) -> Agreed {
        /// The coarsest step of a file system's times, seconds.
        const STEP_S: i64 = 2;
        let changed = (stat.st_ctime, stat.st_ctime_nsec as i64);
        let modified = modified_of(stat);
        // Finer times move with every change that comes after a look at them, or nearly so.
        let is_coarse = changed.1 == 0 && modified.tv_nsec == 0;
        Agreed {
            length_bytes: stat.st_size as u64,
            modified: (modified.tv_sec, modified.tv_nsec),
            changed,
            is_young: is_coarse && now_s <= changed.0.saturating_add(STEP_S),
        }
    }

    /// Whether a file that is as in `stat` may have other bytes than then.
    pub(crate) fn is_broken_by(&self, stat: &Stat) -> bool {
        let is_changed = self.changed != (stat.st_ctime, stat.st_ctime_nsec as i64);
        self.is_young || is_changed || !self.has_bytes_of(stat)
    }

    /// A call of ours has changed something other than the bytes, and left the file as in `stat`.
    pub(crate) fn renew(&mut self, stat: &Stat) {
        if !self.is_young && self.has_bytes_of(stat) {
            *self = Agreed::of(stat);
        }
    }

    fn has_bytes_of(&self, stat: &Stat) -> bool {
        let modified = modified_of(stat);
        let is_long = self.length_bytes == stat.st_size as u64;
        is_long && self.modified == (modified.tv_sec, modified.tv_nsec)
    }
}

pub(crate) fn modified_of(stat: &Stat) -> Timespec {
    Timespec {
        tv_sec: stat.st_mtime,
        tv_nsec: stat.st_mtime_nsec as i64,
    }
}

/// The time by the clock of the file systems.
#[allow(
    clippy::disallowed_methods,
    reason = "compared with times of files, which the system takes from this clock"
)]
fn seconds_now() -> i64 {
    rustix::time::clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(seconds: i64, nanoseconds: i64) -> Stat {
        let mut stat = rustix::fs::stat("/").unwrap();
        (stat.st_size, stat.st_mtime, stat.st_ctime) = (7, 100, seconds);
        (stat.st_mtime_nsec, stat.st_ctime_nsec) = (0, nanoseconds as _);
        stat
    }

    #[test]
    fn a_restored_length_and_time_of_modification_do_not_hide_a_change() {
        let agreed = Agreed::at(&stat(500, 5), 500);
        assert!(!agreed.is_broken_by(&stat(500, 5)));
        assert!(agreed.is_broken_by(&stat(500, 6)));
        assert!(agreed.is_broken_by(&stat(501, 5)));
    }

    #[test]
    fn what_was_agreed_within_a_coarse_step_shows_nothing() {
        assert!(Agreed::at(&stat(500, 0), 500).is_broken_by(&stat(500, 0)));
        assert!(Agreed::at(&stat(500, 0), 502).is_broken_by(&stat(500, 0)));
        assert!(!Agreed::at(&stat(500, 0), 503).is_broken_by(&stat(500, 0)));
    }

    #[test]
    fn a_change_of_ours_other_than_of_bytes_breaks_nothing() {
        let mut agreed = Agreed::at(&stat(500, 5), 600);
        agreed.renew(&stat(501, 6));
        assert!(!agreed.is_broken_by(&stat(501, 6)));
        let mut longer = stat(502, 7);
        longer.st_size = 8;
        agreed.renew(&longer);
        assert!(agreed.is_broken_by(&longer), "another has appended to it");
    }
}
