//! A reader, a call at a time, which may follow what it has read.

use super::bucket::Bucket;
use super::history::{Histories, read};
use forebay_base::Prng;
use forebay_volume::{Access, Opened, Opening, Progress, VolumeFault, Writer};

/// One opening to read, or one look for newer records.
pub(crate) struct Reader {
    opening: Opening,
    is_following: bool,
    /// The record of the last state.
    number: u64,
    /// What was committed when it began.
    newest: (u64, usize),
}

impl Reader {
    pub(crate) fn new(histories: &Histories) -> Reader {
        Reader {
            opening: Opening::new(Access::Read),
            is_following: false,
            number: 0,
            newest: histories.newest(),
        }
    }

    /// Makes one step; true if it has ended.
    pub(crate) fn step(
        &mut self,
        prng: &mut Prng,
        bucket: &mut Bucket,
        histories: &mut Histories,
    ) -> bool {
        match self.opening.answer(bucket.call(self.opening.next())) {
            Ok(Progress::More) => false,
            Ok(Progress::Done(opened)) => {
                self.judge(&opened, bucket, histories);
                if prng.chance(1, 4) {
                    return true;
                }
                self.opening = Opening::following(opened);
                self.is_following = true;
                self.newest = histories.newest();
                false
            }
            // What it needed next may have been removed meanwhile.
            Err(_) if self.is_following => {
                self.opening = Opening::new(Access::Read);
                self.is_following = false;
                self.newest = histories.newest();
                false
            }
            Err(VolumeFault::NotThere) if self.newest == (0, 0) => true,
            Err(fault) => {
                histories.notice(&fault);
                true
            }
        }
    }

    fn judge(&mut self, opened: &Opened, bucket: &Bucket, histories: &mut Histories) {
        assert!(opened.map.number() >= self.number, "it goes back");
        histories.followed += u64::from(opened.map.number() > self.number && self.is_following);
        self.number = opened.map.number();
        match read(bucket, &Writer::new(opened.clone())) {
            Some(state) => histories.judge_reading(self.newest, &state),
            None => histories.notice(&"that an object is gone"),
        }
    }
}
