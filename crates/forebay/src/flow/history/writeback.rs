//! Before 6.16: file pages that reclaim writes itself, one by one (spec/reclaim.md 3.2 and 3.3).

use crate::counters::Counter;
use crate::engine::Engine;
use crate::flow::judge::Verdict;
use crate::flow::reclaim::{ScanControl, Tally, Who};
use crate::policy::ReclaimWriteback;
use crate::settings::ReclaimWrites;
use crate::state::backing::Backing;
use crate::state::flusher_requests::FlusherWork;
use crate::state::frame::{ExclusiveHold, flag};
use crate::state::index::page_of;
use crate::state::node::ReclaimFlags;
use forebay_base::sync::atomic::Ordering;

/// A pass is in trouble below this priority.
const TROUBLE_PRIORITY: u32 = 10;

/// Pages that a caller has to look at before it asks the flushers for as many.
const ASKS_FLUSHERS_ABOVE: u64 = 48;

impl Engine {
    /// What becomes of a page under writeback: before 3.11 reclaim leaves no mark on it.
    pub(crate) fn leave_in_writeback(&self, tally: &mut Tally) -> Verdict {
        let stage = self.settings.policy.reclaim_writeback;
        tally.writeback += u64::from(stage >= ReclaimWriteback::WritebackCounted);
        Verdict::Keep
    }

    /// Whether a dirty file page is written by the reclaimer that met it.
    pub(crate) fn may_write_file(
        &self,
        flags: &ReclaimFlags,
        hold: &ExclusiveHold<'_>,
        control: &ScanControl,
    ) -> bool {
        let is_kswapd = control.who == Who::Kswapd;
        let is_flagged = || flags.dirty.load(Ordering::Relaxed);
        match self.settings.policy.reclaim_writeback {
            ReclaimWriteback::Anybody => true,
            ReclaimWriteback::Kswapd => is_kswapd,
            ReclaimWriteback::KswapdInTrouble
            | ReclaimWriteback::WritebackCounted
            | ReclaimWriteback::Marked => is_kswapd && control.priority < TROUBLE_PRIORITY,
            ReclaimWriteback::KswapdWhereFlagged => is_kswapd && is_flagged(),
            ReclaimWriteback::KswapdWhereMetTwice | ReclaimWriteback::KswapdAtLast => {
                is_kswapd && is_flagged() && hold.word() & flag::RECLAIM != 0
            }
            ReclaimWriteback::Never => false,
        }
    }

    /// What becomes of a dirty file page while those that are left were only counted.
    pub(crate) fn skip_dirty_file(&self) -> Verdict {
        self.count(Counter::NrVmscanWriteSkip, 1);
        Verdict::Keep
    }

    /// Whether the store of a page is so busy that a caller does not write to it: kswapd does, and
    /// so does a caller that is writing to that store anyway.
    pub(crate) fn is_gate_closed(&self, hold: &ExclusiveHold<'_>, control: &ScanControl) -> bool {
        if control.who == Who::Kswapd || !self.congestion.is_anywhere() {
            return false;
        }
        let backing = self.backing_of(&self.objects.of_page(hold.owner()));
        backing.is_congested() && control.own_store != Some(backing.number)
    }

    /// Asks for the write of a dirty file page; the store's file system may refuse. The request is
    /// counted either way.
    pub(crate) fn write_file_page(&self, hold: ExclusiveHold<'_>, control: &mut ScanControl) {
        let object = self.objects.of_page(hold.owner());
        let backing = self.backing_of(&object);
        let (frame, page) = (hold.frame(), page_of(hold.owner()));
        self.memory.frames.set(frame, flag::RECLAIM);
        drop(hold);
        let accepts = match backing.settings.reclaim_writes {
            ReclaimWrites::Always => true,
            ReclaimWrites::KswapdOnly => control.who == Who::Kswapd,
            ReclaimWrites::Allocated => page < object.stored_pages.load(Ordering::Relaxed),
            ReclaimWrites::Never => false,
        };
        if !accepts || !self.shared().write_page(&backing, &object, page) {
            self.memory.frames.clear(frame, flag::RECLAIM);
        }
        self.note_reclaim_write(frame, control.who == Who::Kswapd, true);
        self.count(Counter::NrVmscanWriteFile, 1);
        if control.who == Who::Direct {
            self.count(Counter::NrVmscanWriteFileDirect, 1);
        }
        if !accepts {
            self.count(Counter::NrVmscanWriteRefused, 1);
        }
        control.wrote_to = Some(backing);
    }

    /// Who wrote waits while the store's queue is full, as it would for a place in it. Whoever
    /// has waited may overbook the queue by half, so that one place is enough for a batch.
    pub(crate) async fn wait_for_queue(&self, backing: &Backing, control: &mut ScanControl) {
        let room = backing.settings.queue_requests;
        let rooms = [room, room.saturating_add(room / 2)];
        self.wait_for_room(backing, rooms, control).await;
    }

    /// A caller that has looked at much in vain asks the flushers for as many pages (3.0 to 4.10).
    pub(crate) fn ask_flushers_after(&self, total_scanned: u64) {
        let stage = self.settings.policy.reclaim_writeback;
        if stage >= ReclaimWriteback::KswapdWhereMetTwice || total_scanned <= ASKS_FLUSHERS_ABOVE {
            return;
        }
        self.stores.ask_flushers(FlusherWork {
            pages: total_scanned,
            ..FlusherWork::default()
        });
    }
}
