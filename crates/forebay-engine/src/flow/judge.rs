//! What becomes of each page that reclaim took off a list (spec/reclaim.md 3.1, 3.3 h). The lists
//! know what its touches are worth. This file finds what stands in the way of freeing it.
//!
//! Nothing here waits. A dirty file page is never written (before 6.16 it was:
//! `forebay-kernels`). It is marked, so that it is freed as soon as its flusher has written
//! it, and goes to the active list out of reclaim's way (promise 4). A dirty anonymous page has no
//! flusher: reclaim writes it to swap.

pub mod stays;

use crate::flow::judge::stays::Fate;
use crate::flow::reclaim::Steps;
use crate::lists::Verdict;
use crate::memory::Isolated;
use crate::parts::Reclaim;
use crate::state::batch::Batch;
use crate::state::frame::{ExclusiveHold, flag};
use crate::state::scan_control::{ScanControl, Who};
use crate::state::tally::Tally;
use crate::state::zone::Zone;
use forebay_base::sync::atomic::Ordering;

/// A judged batch.
#[derive(Debug)]
pub struct Judged {
    /// Frames that go back to the lists.
    pub kept: Batch,
    /// Blank frames.
    pub freed: Batch,
    /// Pages that could be looked at.
    pub(crate) looked_at: u64,
    /// Pages submitted for writing.
    pub paged_out: u64,
    pub tally: Tally,
}

impl Reclaim {
    pub fn judge_batch(
        &self,
        steps: &impl Steps,
        batch: &Isolated<'_>,
        control: &mut ScanControl<'_>,
    ) -> Judged {
        let (zone, taken) = (batch.zone, &batch.frames);
        let count = taken.len() as u64;
        let tally = Tally {
            taken: count,
            file_taken: if batch.list.is_file() { count } else { 0 },
            ..Tally::default()
        };
        let mut judged = Judged {
            kept: Batch::new(),
            freed: Batch::new(),
            looked_at: 0,
            paged_out: 0,
            tally,
        };
        self.prefetch_evictions(taken);
        for &frame in taken.as_slice() {
            let owner = self.memory.frames.owner(frame);
            let Ok(mut hold) = self.memory.frames.exclude(frame, owner, 0) else {
                judged.kept.push(frame);
                continue;
            };
            judged.looked_at += 1;
            let fate = steps.fate(zone, &hold, control, &mut judged.tally);
            if let Fate::Free = fate {
                judged.freed.push(self.memory.evict(zone, hold));
                continue;
            }
            judged.kept.push(frame);
            match fate {
                Fate::Free | Fate::Keep => {}
                Fate::Activate => {
                    self.memory.lists.activate(zone.number, &mut hold);
                    judged.tally.activated += 1;
                }
                Fate::OutOfTheWay => {
                    self.memory.lists.put_out_of_the_way(zone.number, &mut hold);
                    judged.tally.activated += 1;
                }
                Fate::Round(touches) => hold.unset(touches),
                Fate::PageOut => {
                    judged.paged_out += 1;
                    steps.page_out(hold, control, &mut judged.tally);
                }
            }
        }
        judged
    }

    /// Fetches ahead what is touched when the clean pages of a batch leave the index for shadows,
    /// as most of them will: their buckets, and then the pages that come first in those.
    fn prefetch_evictions(&self, batch: &Batch) {
        const IN_THE_WAY: u64 = flag::DIRTY | flag::WRITEBACK | flag::UNSTABLE;
        let is_clean = |&&frame: &&u32| self.memory.frames.word(frame) & IN_THE_WAY == 0;
        let clean = || batch.as_slice().iter().filter(is_clean);
        for &frame in clean() {
            let owner = self.memory.frames.owner(frame);
            self.memory.index.prefetch(owner);
            self.memory.lists.prefetch_shadow(owner);
        }
        for &frame in clean() {
            if let Some(first) = self.memory.index.candidate(self.memory.frames.owner(frame)) {
                self.memory.frames.prefetch_frame(first);
            }
        }
    }

    pub fn fate(
        &self,
        zone: &Zone,
        hold: &ExclusiveHold<'_>,
        control: &ScanControl<'_>,
        tally: &mut Tally,
    ) -> Fate {
        let word = hold.word();
        let met_before = tally.classify(word, || self.meets_congestion(hold));
        let verdict = self.memory.lists.verdict(word);
        if let Verdict::Round(touches) = verdict {
            return Fate::Round(touches);
        }
        if word & (flag::WRITEBACK | flag::UNSTABLE) != 0 {
            let all_are_like_it = &self.memory.nodes[zone.node].flags.writeback;
            let met_again = control.who == Who::Kswapd && met_before;
            let met_again = met_again && all_are_like_it.load(Ordering::Relaxed);
            return self.pages.leave_in_writeback(hold, met_again, tally);
        }
        if verdict == Verdict::Activate {
            return Fate::Activate;
        }
        if word & flag::DIRTY == 0 {
            return Fate::Free;
        }
        let was_touched = self.memory.frames.forget_first_touch(hold.frame());
        if word & flag::ANON == 0 {
            return self.pages.leave_dirty_file(hold);
        }
        if was_touched {
            return Fate::Keep;
        }
        if !self.pages.gives_slot(hold) {
            return Fate::OutOfTheWay;
        }
        self.pages.page_out_or_put_off(hold)
    }
}
