//! What becomes of each page that reclaim took off an inactive list (spec/reclaim.md 3.1, 3.3 h).
//!
//! Nothing here waits. A dirty file page is never written, but for historic policies
//! (`history/writeback.rs`): it is marked, so that it is freed as soon as its flusher has written
//! it, and goes to the active list out of reclaim's way (promise 4). A dirty anonymous page has no
//! flusher: reclaim writes it to swap.

use crate::counters::Counter;
use crate::engine::Engine;
use crate::flow::reclaim::{ScanControl, Tally, Who};
use crate::policy::{ActiveReferences, KswapdBalance, ReclaimWriteback};
use crate::state::frame::{ExclusiveHold, flag};
use crate::state::node::ReclaimFlags;
use crate::state::shadow::Shadow;
use crate::state::zone::{Batch, Zone};
use forebay_base::sync::atomic::Ordering;

/// A judged batch.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Frames that go back to the lists.
    pub(crate) kept: Batch,
    /// Blank frames.
    pub(crate) freed: Batch,
    /// Pages that could be looked at.
    pub(crate) looked_at: u64,
    /// Pages submitted for writing.
    pub(crate) paged_out: u64,
    pub(crate) tally: Tally,
}

/// What becomes of a page.
pub(crate) enum Verdict {
    Free,
    Activate,
    Keep,
    PageOut,
    WriteFile,
}

impl Engine {
    pub(crate) fn judge_batch(
        &self,
        zone: &Zone,
        taken: &Batch,
        control: &mut ScanControl,
        is_file: bool,
    ) -> Judged {
        let flags = self.reclaim_flags(zone);
        let count = taken.len() as u64;
        let tally = Tally {
            taken: count,
            file_taken: if is_file { count } else { 0 },
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
            let Ok(hold) = self
                .memory
                .frames
                .exclude(frame, self.memory.frames.owner(frame), 0)
            else {
                judged.kept.push(frame);
                continue;
            };
            judged.looked_at += 1;
            match self.verdict(flags, &hold, control, &mut judged.tally) {
                Verdict::Free => judged.freed.push(self.evict(zone, hold)),
                Verdict::Activate => {
                    self.activate_judged(zone, hold);
                    judged.tally.activated += 1;
                    judged.kept.push(frame);
                }
                Verdict::Keep => judged.kept.push(frame),
                Verdict::PageOut => {
                    judged.paged_out += 1;
                    judged.tally.paged_out += 1;
                    judged.kept.push(frame);
                    self.page_out(hold, control.who);
                }
                Verdict::WriteFile => {
                    judged.paged_out += 1;
                    judged.kept.push(frame);
                    self.write_file_page(hold, control);
                }
            }
        }
        judged
    }

    /// Fetches what is touched when the clean pages of a batch leave the index for shadows, as most
    /// of them will: their buckets, and then the pages that come first in those.
    fn prefetch_evictions(&self, batch: &Batch) {
        const IN_THE_WAY: u64 = flag::DIRTY | flag::WRITEBACK | flag::UNSTABLE;
        let is_clean = |&&frame: &&u32| self.memory.frames.word(frame) & IN_THE_WAY == 0;
        let clean = || batch.as_slice().iter().filter(is_clean);
        for &frame in clean() {
            let owner = self.memory.frames.owner(frame);
            self.memory.index.prefetch(owner);
            self.memory.shadows.prefetch(owner);
        }
        for &frame in clean() {
            if let Some(first) = self.memory.index.candidate(self.memory.frames.owner(frame)) {
                self.memory.frames.prefetch_frame(first);
            }
        }
    }

    fn verdict(
        &self,
        flags: &ReclaimFlags,
        hold: &ExclusiveHold<'_>,
        control: &ScanControl,
        tally: &mut Tally,
    ) -> Verdict {
        let stage = self.settings.policy.reclaim_writeback;
        let word = hold.word();
        let is_anon = word & flag::ANON != 0;
        let is_dirty = word & flag::DIRTY != 0;
        let in_writeback = word & (flag::WRITEBACK | flag::UNSTABLE) != 0;
        let met_before = tally.classify(word, || self.meets_congestion(hold));
        if in_writeback {
            let is_kswapd = control.who == Who::Kswapd;
            if stage < ReclaimWriteback::KswapdWhereFlagged {
                return self.leave_in_writeback(tally);
            }
            if is_kswapd && met_before && flags.writeback.load(Ordering::Relaxed) {
                tally.immediate += 1;
            } else {
                self.memory.frames.set(hold.frame(), flag::RECLAIM);
                tally.writeback += 1;
            }
            return out_of_the_way(stage);
        }
        if word & flag::PROMOTE != 0 {
            return Verdict::Activate;
        }
        if !is_dirty {
            return Verdict::Free;
        }
        let before = self.memory.frames.clear(hold.frame(), flag::REFERENCED);
        let was_referenced = before & flag::REFERENCED != 0;
        let writes_files = self.settings.policy.reclaimers_write();
        let verdict = match is_anon {
            false if !(writes_files && self.may_write_file(flags, hold, control)) => {
                return self.leave_dirty_file(hold);
            }
            _ if was_referenced => return Verdict::Keep,
            false => Verdict::WriteFile,
            true if self.gives_slot(hold) => Verdict::PageOut,
            true => return Verdict::Activate,
        };
        tally.dirty_met += 1;
        if self.settings.policy.naps() && self.is_gate_closed(hold, control) {
            tally.gate_closed += 1;
            return Verdict::Keep;
        }
        if is_anon && word & flag::FAILED != 0 && !self.takes_swap_retry() {
            return Verdict::Activate;
        }
        verdict
    }

    /// The flags by which reclaim of `zone` goes: its own where zones are balanced.
    pub(crate) fn reclaim_flags<'a>(&'a self, zone: &'a Zone) -> &'a ReclaimFlags {
        match self.settings.policy.kswapd_balance {
            KswapdBalance::Node => &self.memory.nodes[zone.node].flags,
            KswapdBalance::Zones => &zone.flags,
        }
    }

    /// Whether the store of a page is congested.
    fn meets_congestion(&self, hold: &ExclusiveHold<'_>) -> bool {
        let is_congested = || {
            let object = self.objects.of_page(hold.owner());
            self.backing_of(&object).is_congested()
        };
        self.congestion.is_anywhere() && is_congested()
    }

    /// Marks a dirty file page, so that it is freed as soon as its flusher has written it.
    fn leave_dirty_file(&self, hold: &ExclusiveHold<'_>) -> Verdict {
        let stage = self.settings.policy.reclaim_writeback;
        if stage < ReclaimWriteback::Marked {
            return self.skip_dirty_file();
        }
        self.memory.frames.set(hold.frame(), flag::RECLAIM);
        self.count(Counter::NrVmscanImmediateReclaim, 1);
        out_of_the_way(stage)
    }

    /// Frees a clean page: a shadow stays in its place.
    fn evict(&self, zone: &Zone, hold: ExclusiveHold<'_>) -> u32 {
        let owner = hold.owner();
        let workingset = hold.word() & flag::WORKINGSET != 0;
        if hold.word() & flag::ANON != 0 {
            self.memory.clean_anonymous_is_gone();
        }
        self.memory.index.remove(&self.memory.frames, &hold);
        let shadow = Shadow {
            zone: zone.number,
            age: zone.grow_older(),
            workingset,
        };
        self.memory.shadows.remember(owner, shadow);
        hold.blank()
    }

    fn activate_judged(&self, zone: &Zone, mut hold: ExclusiveHold<'_>) {
        hold.unset(match self.settings.policy.active_references {
            ActiveReferences::Counted => flag::TOUCHED_AGAIN,
            ActiveReferences::Ignored => flag::TOUCHED_AGAIN | flag::REFERENCED,
        });
        hold.set(flag::ACTIVE);
        zone.grow_older();
    }
}

/// Where a page goes that cannot be freed before its write ends: to the active list, for reclaim
/// not to meet it again; before 4.11 it stayed.
fn out_of_the_way(stage: ReclaimWriteback) -> Verdict {
    if stage < ReclaimWriteback::KswapdWhereMetTwice {
        Verdict::Keep
    } else {
        Verdict::Activate
    }
}
