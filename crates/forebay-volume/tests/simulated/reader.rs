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
    pub(crate) fn step(&mut self, bucket: &mut Bucket, histories: &Histories) -> bool {
        match self.opening.answer(bucket.call(self.opening.next())) {
            Ok(Progress::More) => false,
            Ok(Progress::Done(opened)) => {
                let state = read(bucket, &Writer::new(opened));
                let state = state.expect("what a map names is there");
                histories.judge_reading(self.newest, &state);
                true
            }
            Err(VolumeFault::NotThere) => true,
            Err(fault) => panic!("a reader finds {fault}"),
        }
    }
}
