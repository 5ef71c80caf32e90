//! Anonymous memory: reclaim writes its pages to swap, because no flusher does (spec/reclaim.md 7).

use crate::counters::Counter;
use crate::marks::Mark;
use crate::memory::Swap;
use crate::parts::{Pages, Reclaim, Writeback};
use crate::state::backing::Backing;
use crate::state::frame::{ExclusiveHold, flag};
use crate::state::index::page_of;
use crate::state::object::ObjectState;
use crate::state::outstanding::token;
use crate::state::scan_control::Who;
use forebay_base::PAGE_BYTES;
use forebay_base::sync::{atomic::Ordering, lock};
use forebay_base::units::byte_of;
use forebay_store::{FinishedIo, IoKind, Request};

/// How often a swap store that refuses is asked again while a caller waits for a frame.
const RETRIES_WHILE_WAITING: u64 = 4;

impl Pages {
    /// Finds a swap slot for a dirty anonymous page, if it has none. False if there is none left.
    pub fn gives_slot(&self, hold: &ExclusiveHold<'_>) -> bool {
        let Some(swap) = self.memory.swap.get() else {
            return false;
        };
        let owner = hold.owner();
        let object = self.objects.of_page(owner);
        let slot = object.swap_slot(page_of(owner));
        if slot.load(Ordering::Acquire) != 0 {
            return true;
        }
        let Some(taken) = swap.slots.take() else {
            self.accounts.mark(Mark::SwapFull);
            return false;
        };
        slot.store(taken, Ordering::Release);
        true
    }

    /// Whether a page whose last write to swap failed may be written now. A store that refuses is
    /// asked again with one page at a time: reclaim meets every page that it left behind in each
    /// pass, and would ask for each of them as fast as the store can refuse.
    pub(crate) fn takes_swap_retry(&self) -> bool {
        let now_ms = self.accounts.now_ms();
        let takes = |swap: &Swap| lock(&swap.retry).take_turn(now_ms);
        let may = self.memory.swap.get().is_some_and(takes);
        if !may {
            self.accounts.mark(Mark::SwapPutOff);
        }
        may
    }
}

impl Reclaim {
    /// Submits the write of a dirty anonymous page that has a slot.
    pub(crate) fn page_out(&self, mut hold: ExclusiveHold<'_>, who: Who) {
        let swap = self.memory.swap.get().expect("a page with a slot has swap");
        let owner = hold.owner();
        let object = self.pages.objects.of_page(owner);
        let slot = object.swap_slot(page_of(owner)).load(Ordering::Acquire);
        let frame = hold.frame();
        // The failure of its last write stays known until this write has succeeded.
        hold.unset(flag::DIRTY);
        hold.set(flag::WRITEBACK | flag::RECLAIM | flag::SWAPCACHE);
        self.memory.anonymous_is_clean();
        self.dirty.account_writeback_begins(&swap.backing, frame);
        swap.backing.writes.in_flight.fetch_add(1, Ordering::AcqRel);
        object.in_flight.changes.fetch_add(1, Ordering::AcqRel);
        drop(hold);
        self.dirty
            .note_reclaim_write(frame, who == Who::Kswapd, false);
        self.accounts.count(Counter::Pswpout, 1);
        let mut pages = swap.vectors.take();
        pages.push(self.memory.frames.arena().pointer(frame));
        let request = Request {
            kind: IoKind::Write,
            object: swap.object,
            offset_bytes: byte_of(u64::from(slot)),
            length_bytes: PAGE_BYTES as u64,
        };
        let io = self
            .writeback
            .page_io(&swap.backing, request, pages, token(object.number, 0));
        self.writeback.submit(&swap.backing, io);
        swap.backing.queue_changed();
    }
}

impl Writeback {
    /// Swap refused a page. If it `is_new`, swap had not refused it before: the page and others
    /// like it wait. A caller that waits for a frame gets an error after `answer_timeout`. Swap is
    /// asked a few times before that.
    fn swap_refused(&self, is_new: bool) {
        let longest_ms = self.settings.answer_timeout.as_millis() / RETRIES_WHILE_WAITING;
        let now_ms = self.accounts.now_ms();
        if let Some(swap) = self.memory.swap.get() {
            let mut retry = lock(&swap.retry);
            if is_new {
                retry.add_page();
            }
            retry.put_off(now_ms, longest_ms);
        }
    }

    /// Swap took a page that it had refused: the others need not wait.
    fn swap_takes_again(&self) {
        if let Some(swap) = self.memory.swap.get() {
            lock(&swap.retry).page_is_taken();
        }
    }

    /// A write to swap has ended: the page is clean, or, if it failed, dirty again and kept.
    pub(crate) fn page_out_finished(&self, object: &ObjectState, io: FinishedIo) {
        let backing = self.dirty.backing_of(object);
        self.accounts.note_answer(&backing, &io);
        self.dirty.account_written(&backing, &io.pages);
        for page in &io.pages {
            let frame = self.memory.frames.frame_at(page);
            if io.result.is_ok() {
                self.accounts.count(
                    Counter::Pgrotated,
                    u64::from(self.memory.rotate_reclaimable(frame)),
                );
                if self.memory.frames.clear(frame, flag::FAILED) & flag::FAILED != 0 {
                    self.swap_takes_again();
                }
            } else {
                let before = self.memory.frames.set(frame, flag::DIRTY | flag::FAILED);
                if before & flag::DIRTY == 0 {
                    self.memory.clean_anonymous_is_gone();
                }
                self.swap_refused(before & flag::FAILED == 0);
                self.accounts.mark(Mark::SwapWriteFailed);
                self.accounts.count(Counter::NrWriteFailed, 1);
            }
            self.memory
                .frames
                .clear(frame, flag::WRITEBACK | flag::RECLAIM);
        }
        self.page_out_counted(&backing, io);
    }

    fn page_out_counted(&self, backing: &Backing, io: FinishedIo) {
        let pages = io.pages.len() as u64;
        let is_taken = io.result.is_ok();
        backing.count_written(pages, is_taken);
        self.accounts.count(Counter::NrWritten, pages);
        if is_taken {
            self.accounts.count(Counter::Pgpgout, pages);
        }
        self.memory.note_written(&io.pages);
        let swap = self
            .memory
            .swap
            .get()
            .expect("what was written there has swap");
        swap.vectors.give_back(io.pages);
        backing.write_is_over();
    }
}

impl Pages {
    /// An anonymous page with the flags of `word` is dropped, wherever its content is.
    pub(crate) fn anonymous_is_dropped(&self, word: u64) {
        if word & flag::DIRTY == 0 {
            self.memory.clean_anonymous_is_gone();
        }
        if word & flag::FAILED != 0
            && let Some(swap) = self.memory.swap.get()
        {
            lock(&swap.retry).page_is_dropped();
        }
    }

    /// A clean or fresh anonymous page was written to: its copy in swap is useless now, and its
    /// slot is given back when slots are scarce.
    pub(crate) fn anonymous_dirtied(&self, object: &ObjectState, mut hold: ExclusiveHold<'_>) {
        let was_ahead = hold.word() & flag::READAHEAD != 0;
        hold.unset(flag::SWAPCACHE | flag::READAHEAD);
        let Some(swap) = self.memory.swap.get() else {
            return;
        };
        if was_ahead {
            swap.ahead.hit();
        }
        let in_flight = hold.word() & flag::WRITEBACK != 0;
        if swap.slots.is_tight() && !in_flight {
            self.memory.give_slot_back(object, page_of(hold.owner()));
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "swap_tests.rs"]
mod tests;
