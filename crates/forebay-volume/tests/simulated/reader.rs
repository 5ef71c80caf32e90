//! A reader, a call at a time.

use super::bucket::Bucket;
use super::history::{Histories, read};
use forebay_volume::{Access, Opening, Progress, VolumeFault, Writer};

/// One opening to read.
pub(crate) struct Reader {
    opening: Opening,
    /// What was committed when it began.
    newest: (u64, usize),
}

impl Reader {
    pub(crate) fn new(histories: &Histories) -> Reader {
        Reader {
            opening: Opening::new(Access::Read),
            newest: histories.newest(),
        }
    }

    /// Makes one step; true if it has ended.
    pub(crate) fn step(&mut self, bucket: &mut Bucket, histories: &mut Histories) -> bool {
        match self.opening.answer(bucket.call(self.opening.next())) {
            Ok(Progress::More) => false,
            Ok(Progress::Done(opened)) => {
                let state = read(bucket, &Writer::new(opened));
                match state {
                    Some(state) => histories.judge_reading(self.newest, &state),
                    None => histories.notice(&"that an object is gone"),
                }
                true
            }
            Err(VolumeFault::NotThere) if self.newest == (0, 0) => true,
            Err(fault) => {
                histories.notice(&fault);
                true
            }
        }
    }
}
