//! `gc`, a call at a time.

use super::bucket::Bucket;
use super::history::Histories;
use forebay_volume::{Collecting, Pins, Progress, VolumeFault};

/// One run of `gc`.
pub(crate) struct Collector(Collecting);

impl Collector {
    pub(crate) fn new(pins: Pins) -> Collector {
        Collector(Collecting::new(pins))
    }

    /// Makes one step; true if it has ended.
    pub(crate) fn step(&mut self, bucket: &mut Bucket, histories: &mut Histories) -> bool {
        match self.0.answer(bucket.call(self.0.next())) {
            Ok(Progress::More) => false,
            Ok(Progress::Done(_)) | Err(VolumeFault::NotThere | VolumeFault::Pinned) => true,
            Err(fault) => {
                histories.notice(&fault);
                true
            }
        }
    }
}
