//! What is known of a folder's listing: whether the kernel may use the one that it has kept.
//!
//! The kernel asks for a listing with the attributes of all its files, because most programs that
//! list a folder look at its files next. Some look first: `git status` looks at each file that it
//! knows, and lists the folders afterwards. For these the attributes would be found and sent again,
//! which takes longer than everything else.

use forebay_base::sync::{Mutex, lock};
use forebay_base::{Instant, Span};
use rustix::fs::Stat;

/// How long files count as just looked up: as long as the kernel keeps their attributes.
const FRESH: Span = Span::from_secs(1);
/// How long a folder must not have changed. Its times have steps, so a change within the step of
/// the one before would not show.
const SETTLED: Span = Span::from_secs(1);

/// The listing of one folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When the first of `told` was looked up.
    since: Option<Instant>,
    /// Files in it that were looked up since.
    told: u32,
    /// Its entries, as it was read last.
    entries: u32,
    /// Its times as they were seen last, and when they were first seen so.
    times: Option<(Times, Instant)>,
}

/// The times of a folder's last change.
type Times = [(i64, i64); 2];

fn times_of(stat: &Stat) -> Times {
    [
        (stat.st_mtime, stat.st_mtime_nsec as i64),
        (stat.st_ctime, stat.st_ctime_nsec as i64),
    ]
}

impl Listing {
    /// The kernel gets the attributes of a file in the folder.
    pub(crate) fn told(&self, now: Instant) {
        let mut known = lock(&self.known);
        if known.since.is_none_or(|since| now > since + FRESH) {
            (known.since, known.told) = (Some(now), 0);
        }
        known.told = known.told.saturating_add(1);
    }

    /// The folder was read to its end, and had so many entries.
    pub(crate) fn was_read(&self, entries: u32) {
        lock(&self.known).entries = entries;
    }

    /// The folder is opened, and is as in `stat` in the source. Returns whether the kernel may use
    /// the listing that it has kept, or keep the one that it reads: the folder has not changed, and
    /// the kernel was told of at least half of its files just now.
    pub(crate) fn may_be_kept(&self, stat: &Stat, now: Instant) -> bool {
        let mut known = lock(&self.known);
        let times = times_of(stat);
        let seen = known.times.filter(|(before, _)| *before == times);
        let (_, first) = *known.times.insert(seen.unwrap_or((times, now)));
        let is_settled = now >= first + SETTLED;
        let is_fresh = known.since.is_some_and(|since| now <= since + FRESH);
        let is_told = known.entries > 0 && known.told >= known.entries / 2;
        is_settled && is_fresh && is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(changed: i64) -> Stat {
        let mut stat = rustix::fs::stat("/").unwrap();
        stat.st_ctime = changed;
        stat
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_listing_is_kept_while_the_folder_is_as_before_and_its_files_were_just_told() {
        let listing = Listing::default();
        listing.was_read(4);
        assert!(
            !listing.may_be_kept(&stat(7), at(0)),
            "it may have just changed"
        );
        assert!(
            !listing.may_be_kept(&stat(7), at(2_000)),
            "no file was told"
        );
        listing.told(at(2_000));
        assert!(!listing.may_be_kept(&stat(7), at(2_000)), "one of four");
        listing.told(at(2_100));
        assert!(listing.may_be_kept(&stat(7), at(2_200)));
        assert!(!listing.may_be_kept(&stat(7), at(3_100)), "too long ago");
        listing.told(at(3_200));
        assert!(
            !listing.may_be_kept(&stat(7), at(3_200)),
            "those before do not count"
        );
        listing.told(at(3_300));
        assert!(!listing.may_be_kept(&stat(8), at(3_300)), "it has changed");
        assert!(!listing.may_be_kept(&stat(8), at(3_400)), "just now");
        listing.told(at(4_300));
        listing.told(at(4_300));
        assert!(listing.may_be_kept(&stat(8), at(4_300)));
    }

    #[test]
    fn a_listing_that_was_never_read_is_not_kept() {
        let listing = Listing::default();
        assert!(!listing.may_be_kept(&stat(7), at(0)));
        listing.told(at(1_500));
        assert!(!listing.may_be_kept(&stat(7), at(1_500)));
    }
}
