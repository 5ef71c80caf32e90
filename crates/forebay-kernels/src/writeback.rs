//! Before 6.16: file pages that reclaim writes itself, one by one (spec/reclaim.md 3.2 and 3.3).

use crate::Older;
use crate::policy::ReclaimWriteback;
use forebay_base::sync::atomic::Ordering;
use forebay_engine::counters::Counter;
use forebay_engine::flow::judge::stays::Fate;
use forebay_engine::kernel::ReclaimWrites;
use forebay_engine::lists::Verdict;
use forebay_engine::state::flusher_requests::FlusherWork;
use forebay_engine::state::frame::{ExclusiveHold, flag};
use forebay_engine::state::index::page_of;
use forebay_engine::state::node::ReclaimFlags;
use forebay_engine::state::scan_control::{ScanControl, Who};
use forebay_engine::state::tally::Tally;
use forebay_engine::state::zone::Zone;

/// A pass is in trouble below this priority.
const TROUBLE_PRIORITY: u32 = 10;

/// A caller that has looked at more pages than this asks the flushers for as many.
const ASKS_FLUSHERS_ABOVE: u64 = 48;

impl Older<'_> {
    /// The fate of a page by any of the older rules.
    pub(crate) fn past_fate(
        &self,
        zone: &Zone,
        hold: &ExclusiveHold<'_>,
        control: &ScanControl<'_>,
        tally: &mut Tally,
    ) -> Fate {
        let stage = self.policy.reclaim_writeback;
        let flags = self.reclaim_flags(zone);
        let word = hold.word();
        let met_before = tally.classify(word, || self.reclaim.meets_congestion(hold));
        let verdict = self.reclaim.memory.lists.verdict(word);
        if let Verdict::Round(touches) = verdict {
            return Fate::Round(touches);
        }
        if word & (flag::WRITEBACK | flag::UNSTABLE) != 0 {
            if stage < ReclaimWriteback::KswapdWhereMetTwice {
                // Before 3.11 reclaim left no mark on it; before 3.2 it was not counted either.
                tally.writeback += u64::from(stage == ReclaimWriteback::Marked);
                return Fate::Keep;
            }
            let met_again = control.who == Who::Kswapd && met_before;
            let met_again = met_again && flags.writeback.load(Ordering::Relaxed);
            return self
                .reclaim
                .pages
                .leave_in_writeback(hold, met_again, tally);
        }
        if verdict == Verdict::Activate {
            return Fate::Activate;
        }
        if word & flag::DIRTY == 0 {
            return Fate::Free;
        }
        let was_touched = self.reclaim.memory.frames.forget_first_touch(hold.frame());
        let is_anon = word & flag::ANON != 0;
        if !is_anon && !self.may_write_file(flags, hold, control) {
            return self.past_dirty_file(stage, hold);
        }
        if was_touched {
            return Fate::Keep;
        }
        if is_anon && !self.reclaim.pages.gives_slot(hold) {
            return Fate::OutOfTheWay;
        }
        tally.dirty_met += 1;
        if self.past.naps.is_some() && self.is_gate_closed(hold, control) {
            tally.gate_closed += 1;
            return Fate::Keep;
        }
        if is_anon {
            self.reclaim.pages.page_out_or_put_off(hold)
        } else {
            Fate::PageOut
        }
    }

    /// The flags that reclaim of `zone` uses: the zone's own where zones are balanced.
    pub(crate) fn reclaim_flags<'a>(&'a self, zone: &'a Zone) -> &'a ReclaimFlags {
        if self.past.balances_zones() {
            &zone.flags
        } else {
            &self.reclaim.memory.nodes[zone.node].flags
        }
    }

    /// Whether a dirty file page is written by the reclaimer that met it.
    fn may_write_file(
        &self,
        flags: &ReclaimFlags,
        hold: &ExclusiveHold<'_>,
        control: &ScanControl<'_>,
    ) -> bool {
        let is_kswapd = control.who == Who::Kswapd;
        let is_flagged = || flags.dirty.load(Ordering::Relaxed);
        match self.policy.reclaim_writeback {
            ReclaimWriteback::Anybody => true,
            ReclaimWriteback::Kswapd => is_kswapd,
            ReclaimWriteback::Marked => is_kswapd && control.priority < TROUBLE_PRIORITY,
            ReclaimWriteback::KswapdWhereMetTwice | ReclaimWriteback::KswapdAtLast => {
                is_kswapd && is_flagged() && hold.word() & flag::RECLAIM != 0
            }
            ReclaimWriteback::Never => false,
        }
    }

    /// The fate of a dirty file page that was not written. Before 3.2 those were only counted.
    fn past_dirty_file(&self, stage: ReclaimWriteback, hold: &ExclusiveHold<'_>) -> Fate {
        if stage < ReclaimWriteback::Marked {
            self.reclaim.accounts.count(Counter::NrVmscanWriteSkip, 1);
            return Fate::Keep;
        }
        let fate = self.reclaim.pages.leave_dirty_file(hold);
        // Before 4.11 it stayed where it was.
        if stage == ReclaimWriteback::Marked {
            Fate::Keep
        } else {
            fate
        }
    }

    /// Whether the store of a page is so busy that a caller does not write to it. Kswapd does
    /// write, and so does a caller that is already writing to that store.
    fn is_gate_closed(&self, hold: &ExclusiveHold<'_>, control: &ScanControl<'_>) -> bool {
        if control.who == Who::Kswapd || !self.reclaim.congestion.is_anywhere() {
            return false;
        }
        let backing = self
            .reclaim
            .dirty
            .backing_of(&self.reclaim.pages.objects.of_page(hold.owner()));
        backing.is_congested() && control.own_store != Some(backing.number)
    }

    /// Asks for the write of a dirty file page. The store's file system may refuse. The request is
    /// counted either way.
    pub(crate) fn write_file_page(&self, hold: ExclusiveHold<'_>, control: &mut ScanControl<'_>) {
        let object = self.reclaim.pages.objects.of_page(hold.owner());
        let backing = self.reclaim.dirty.backing_of(&object);
        let (frame, page) = (hold.frame(), page_of(hold.owner()));
        self.reclaim.memory.frames.set(frame, flag::RECLAIM);
        drop(hold);
        let accepts = match backing.older.reclaim_writes {
            ReclaimWrites::Always => true,
            ReclaimWrites::KswapdOnly => control.who == Who::Kswapd,
            ReclaimWrites::Allocated => page < object.length.stored_pages.load(Ordering::Relaxed),
            ReclaimWrites::Never => false,
        };
        if !accepts
            || !self
                .reclaim
                .writeback
                .shared()
                .write_page(&backing, &object, page)
        {
            self.reclaim.memory.frames.clear(frame, flag::RECLAIM);
        }
        self.reclaim
            .dirty
            .note_reclaim_write(frame, control.who == Who::Kswapd, true);
        self.reclaim.accounts.count(Counter::NrVmscanWriteFile, 1);
        if control.who == Who::Direct {
            self.reclaim
                .accounts
                .count(Counter::NrVmscanWriteFileDirect, 1);
        }
        if !accepts {
            self.reclaim
                .accounts
                .count(Counter::NrVmscanWriteRefused, 1);
        }
        control.wrote_to = Some(backing);
    }

    /// A reclaimer that wrote waits while the store's queue is full, as it would for a place in the
    /// queue. After that wait it may overbook the queue by half, so that one place is enough for a
    /// batch.
    pub(crate) async fn wait_after_writes(&self, control: &mut ScanControl<'_>) {
        let Some(backing) = control.wrote_to.take() else {
            return;
        };
        let room = backing.settings.queue_requests;
        let rooms = [room, room.saturating_add(room / 2)];
        self.reclaim.wait_for_room(&backing, rooms, control).await;
    }

    /// Whether a batch in which all was dirty asks the flushers (4.11 and later).
    pub(crate) fn asked_after_batches(&self) -> bool {
        self.policy.reclaim_writeback >= ReclaimWriteback::KswapdWhereMetTwice
    }

    /// A caller that has looked at many pages in vain asks the flushers for as many (3.0 to 4.10).
    pub(crate) fn ask_flushers_after(&self, total_scanned: u64) {
        if self.asked_after_batches() || total_scanned <= ASKS_FLUSHERS_ABOVE {
            return;
        }
        self.reclaim.dirty.stores.ask_flushers(FlusherWork {
            pages: total_scanned,
            ..FlusherWork::default()
        });
    }
}
